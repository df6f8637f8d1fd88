//! The runner with passes made for it.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;

use tenon_ir::{Module, Session};
use tenon_pass_manager::{DumpPoint, Options, Pass, PassContext, PassError, Property, Runner};

const SOURCE: &str = r#"
module {
  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = graph.elementwise exp(%a) : (tensor<4xf32>) -> tensor<4xf32> loc("first")
    return %0 : tensor<4xf32>
  }
}
"#;

/// Sets an attribute.
struct Mark;
impl Pass for Mark {
    fn name(&self) -> &'static str {
        "mark"
    }
    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError> {
        if context.rewrite("marked") {
            module.op().set_attribute("graph.marked", module.context().unit())?;
            context.remark("marked", vec!["first".to_owned()], "it is marked now");
        }
        Ok(())
    }
}

/// Writes a result type that does not follow from the operands.
struct Break;
impl Pass for Break {
    fn name(&self) -> &'static str {
        "break"
    }
    fn is_required(&self) -> bool {
        true
    }
    fn run(&self, module: &mut Module<'_>, _: &PassContext) -> Result<(), PassError> {
        let wrong = module.context().parse_type("tensor<5xf32>")?;
        let op = module.op().walk().into_iter().find(|op| op.is("graph.elementwise")).unwrap();
        op.result(0).unwrap().set_type(wrong);
        let function = module.body().ops()[0];
        let ty =
            module.context().function_type(&[function.region_block(0).unwrap().argument(0).unwrap().ty()], &[wrong]);
        function.set_attribute("function_type", module.context().type_attribute(ty))?;
        Ok(())
    }
}

struct NeedsKernels;
impl Pass for NeedsKernels {
    fn name(&self) -> &'static str {
        "needs-kernels"
    }
    fn needs(&self) -> &'static [Property] {
        &[Property::Kernels]
    }
    fn run(&self, _: &mut Module<'_>, _: &PassContext) -> Result<(), PassError> {
        Ok(())
    }
}

const KNOWN: &[(&str, bool)] = &[("mark", false), ("break", true), ("needs-kernels", false)];

fn options(disable: &[&str]) -> Options {
    Options { disable: disable.iter().map(|name| (*name).to_owned()).collect(), ..Options::default() }
}

#[test]
fn passes_run_in_order_and_report() {
    let session = Session::new();
    let mut module = session.parse_module(SOURCE, "test").unwrap();
    let dumps = RefCell::new(Vec::new());
    let all = Options { dump_before: vec!["*".to_owned()], dump_after: vec!["mark".to_owned()], ..Options::default() };
    let mut runner = Runner::new(all, KNOWN).unwrap().with_dump(|number, name, point, text| {
        dumps.borrow_mut().push((number, name.to_owned(), point, text.contains("graph.marked")));
    });
    runner.run(&[Box::new(Mark)], &mut module).unwrap();
    let report = runner.report();
    assert_eq!(report.counters, [("mark", "marked", 1)]);
    assert_eq!((report.remarks[0].pass.as_str(), report.remarks[0].kind, report.rewrites), ("mark", "marked", 1));
    assert_eq!(report.timings.len(), 1);
    drop(runner);
    assert_eq!(
        dumps.into_inner(),
        [(0, "mark".to_owned(), DumpPoint::Before, false), (0, "mark".to_owned(), DumpPoint::After, true)]
    );
}

#[test]
fn a_disabled_pass_does_not_run_and_a_limit_stops_rewrites() {
    let session = Session::new();
    let mut module = session.parse_module(SOURCE, "test").unwrap();
    Runner::new(options(&["mark"]), KNOWN).unwrap().run_pass(&Mark, &mut module).unwrap();
    assert!(module.op().attribute("graph.marked").is_none());
    let none = Options { stop_after_rewrite: Some(0), ..Options::default() };
    Runner::new(none, KNOWN).unwrap().run_pass(&Mark, &mut module).unwrap();
    assert!(module.op().attribute("graph.marked").is_none());
}

#[test]
fn names_that_no_pass_has_are_refused_with_the_nearest() {
    let refused = |disable: &str| Runner::new(options(&[disable]), KNOWN).err().unwrap();
    let error = refused("makr");
    assert_eq!(error.code(), "E0407");
    assert_eq!(error.help().unwrap(), "did you mean `mark`? Passes are mark, break, needs-kernels");
    assert!(refused("something-else").help().unwrap().starts_with("passes are mark"));
    assert_eq!(refused("break").code(), "E0408");
}

#[test]
fn a_module_that_breaks_a_rule_is_found_after_the_pass() {
    let session = Session::new();
    let mut module = session.parse_module(SOURCE, "test").unwrap();
    let error = Runner::new(Options::default(), KNOWN).unwrap().run_pass(&Break, &mut module).unwrap_err();
    assert_eq!(error.code(), "E0410");
    let text = error.to_string();
    assert!(text.contains("after pass `break`") && text.contains("node `first`") && text.contains("E0305"), "{text}");
}

#[test]
fn a_missing_need_is_named() {
    let session = Session::new();
    let mut module = session.parse_module(SOURCE, "test").unwrap();
    let error = Runner::new(Options::default(), KNOWN).unwrap().run_pass(&NeedsKernels, &mut module).unwrap_err();
    assert_eq!(error.code(), "E0409");
    assert!(error.to_string().contains("`graph.elementwise` of node `first`"), "{error}");
    assert_eq!(error.help().unwrap(), "begin at stage `fuse`");
}
