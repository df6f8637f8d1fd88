//! `tenon bisect`: the first rewrite after which the numeric check fails.

use clap::Args;
use tenon_ir::Session;

use super::arguments::ModelArguments;
use super::output::Output;
use crate::Failure;
use crate::bisect::{Bisection, Subject};

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// How many seeds inputs that are not given are taken from
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    #[arg(long, hide = true)]
    list: bool,
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let session = Session::new();
    let inputs = arguments.model.read_inputs()?;
    let prepared = arguments.model.prepare(&session, &inputs, output, !inputs.is_empty())?;
    let (request, source) = (&prepared.request, &prepared.source);
    let seeds: Vec<u64> = (0..arguments.seeds).collect();
    let subject = Subject { session: &session, source, request, rules: &[], inputs: &inputs, seeds: &seeds };
    let found = subject.bisect(&|text| output.progress(text))?;
    output.end_progress();
    if output.json { output.print_json(&found) } else { output.print(&text(&found)) }
}

fn text(found: &Bisection) -> String {
    let Some(first) = &found.first else {
        return format!("the numeric check passes after all {} rewrites\n", found.rewrites);
    };
    let mut text = match (&first.pass, first.rule) {
        (None, _) => "the numeric check fails before any rewrite\n".to_owned(),
        (Some(pass), rule) => {
            let what = match rule {
                Some(rule) => format!("rule `{rule}` of pass `{pass}`"),
                None => format!("pass `{pass}`, {}", first.counter.unwrap_or_default()),
            };
            let nodes = if first.nodes.is_empty() { String::new() } else { format!(", at {}", first.nodes.join(", ")) };
            format!("rewrite {} of {} is the first to fail: {what}{nodes}\n", first.rewrite, found.rewrites)
        }
    };
    let bucket = first.bucket.as_ref().map(|bucket| format!(" of bucket {bucket}")).unwrap_or_default();
    let output = &first.output;
    text.push_str(&format!(
        "output `{}`{bucket} is {:e} from the reference, {:.1} times what the recipe allows (seed {})\n",
        output.name, output.largest, output.of_tolerance, first.seed
    ));
    for rule in &first.suspects {
        text.push_str(&format!("without rule `{rule}` the check passes\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bisect::FirstFailure;
    use crate::verify::Errors;

    #[test]
    fn what_was_found_is_said_in_words() {
        let none = Bisection { rewrites: 12, checks: 1, first: None };
        assert_eq!(text(&none), "the numeric check passes after all 12 rewrites\n");
        let output = Errors {
            name: "y".to_owned(),
            elements: 1,
            largest: 0.5,
            mean: 0.5,
            median: 0.5,
            percentile_99: 0.5,
            of_tolerance: 5000.0,
        };
        let first = FirstFailure {
            rewrite: 7,
            pass: Some("rewrite-graph".to_owned()),
            counter: Some("equalities found"),
            rule: Some("softmax"),
            nodes: vec!["Div_3".to_owned()],
            output,
            bucket: Some("batch=4".to_owned()),
            seed: 0,
            suspects: vec!["softmax"],
        };
        let found = Bisection { first: Some(first), ..none };
        assert_eq!(
            text(&found),
            "rewrite 7 of 12 is the first to fail: rule `softmax` of pass `rewrite-graph`, at Div_3\n\
             output `y` of bucket batch=4 is 5e-1 from the reference, 5000.0 times what the recipe allows (seed 0)\n\
             without rule `softmax` the check passes\n"
        );
    }
}
