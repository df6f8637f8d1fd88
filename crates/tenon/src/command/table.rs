//! `tenon table`: one row per operator, then one per branch and loop with where it runs.

use clap::Args;
use serde::Serialize;
use tenon_flow_passes::placements;
use tenon_graph_dialect::{Operator, TensorType};
use tenon_ir::{Module, Op, Session};

use super::arguments::ModelArguments;
use super::output::{Output, aligned};
use crate::stage::Stage;
use crate::{Diagnostic, Failure};

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[arg(long, hide = true)]
    list: bool,
}

/// An operator.
#[derive(Serialize)]
struct Row {
    /// `elementwise add`, `convolution`.
    operator: String,
    /// Nodes of the model that it comes from.
    nodes: Vec<String>,
    operands: Vec<String>,
    results: Vec<String>,
    /// Order of dimensions in memory of each result.
    layout: Vec<String>,
    /// Branches and loops around it.
    control_flow_depth: usize,
    /// The kernel that it went into; absent for what needs none.
    kernel: Option<String>,
    /// Where a branch or loop runs; `ahead` for an operator over weights alone; absent for other operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<String>,
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let session = Session::new();
    let inputs = arguments.model.read_inputs()?;
    let prepared = arguments.model.prepare(&session, &inputs, output, false)?;
    let mut driver = prepared.driver(&session)?.with_progress(|text| output.progress(text));
    let modules = driver.modules(&prepared.source, Stage::Fuse)?;
    let mut machine = Vec::new();
    for (bucket, module) in &modules {
        let rows = rows(module)?;
        if output.json {
            machine.push(serde_json::json!({"bucket": bucket, "operators": rows}));
            continue;
        }
        if let Some(bucket) = bucket.as_ref().filter(|_| modules.len() > 1) {
            output.print(&format!("{bucket}\n"))?;
        }
        let cells: Vec<Vec<String>> = rows
            .into_iter()
            .map(|row| {
                vec![
                    row.operator,
                    row.nodes.join(", "),
                    format!("{} -> {}", row.operands.join(", "), row.results.join(", ")),
                    row.layout.join(", "),
                    row.control_flow_depth.to_string(),
                    row.kernel
                        .or(row.placement.map(|placement| format!("placement {placement}")))
                        .unwrap_or_else(|| "-".to_owned()),
                ]
            })
            .collect();
        output.print(&aligned(&["operator", "node", "types", "layout", "depth", "kernel"], &cells))?;
    }
    if output.json { output.print_json(&machine) } else { Ok(()) }
}

fn rows(module: &Module<'_>) -> Result<Vec<Row>, Failure> {
    let mut rows: Vec<Row> = Vec::new();
    let mut derived: Vec<Row> = Vec::new();
    for op in module.op().walk() {
        let Some(operator) = Operator::read(op) else { continue };
        let operator = operator.map_err(|error| Diagnostic {
            nodes: error.nodes.clone(),
            help: error.help(),
            ..Diagnostic::new(error.code(), error.to_string())
        })?;
        if matches!(operator, Operator::Constant(_)) {
            continue;
        }
        let Around { kernel, control_flow_depth, is_derived } = Around::of(op);
        let types = |values: Vec<tenon_ir::Value<'_>>| -> Vec<TensorType> {
            values.into_iter().filter_map(|value| TensorType::read(value.ty()).ok()).collect()
        };
        let results = types(op.results());
        let rows = if is_derived { &mut derived } else { &mut rows };
        rows.push(Row {
            operator: title(&operator),
            nodes: op.location().names(),
            operands: types(op.operands()).iter().map(ToString::to_string).collect(),
            layout: results.iter().map(layout).collect(),
            results: results.iter().map(ToString::to_string).collect(),
            control_flow_depth,
            kernel,
            placement: is_derived.then(|| "ahead".to_owned()),
        });
    }
    // What is computed once from weights stands behind what runs for every request.
    rows.append(&mut derived);
    // Branches that became selections are no operations any more.
    rows.extend(placements(module).into_iter().map(|placed| Row {
        operator: placed.operation,
        nodes: placed.nodes,
        operands: Vec::new(),
        results: Vec::new(),
        layout: Vec::new(),
        control_flow_depth: usize::try_from(placed.depth).unwrap_or(usize::MAX),
        kernel: None,
        placement: Some(placed.placement),
    }));
    Ok(rows)
}

/// What an operation lies in.
#[derive(Default)]
struct Around {
    kernel: Option<String>,
    /// Branches and loops.
    control_flow_depth: usize,
    /// Whether it makes a parameter from others.
    is_derived: bool,
}

impl Around {
    fn of(op: Op<'_>) -> Around {
        let mut around = Around::default();
        let mut parent = op.parent();
        while let Some(op) = parent {
            if op.is("graph.kernel") {
                around.kernel = op.string("sym_name");
            } else if op.is("graph.derived_parameter") {
                around.is_derived = true;
            } else if matches!(op.name().split_once('.'), Some(("flow" | "scf", _))) {
                around.control_flow_depth += 1;
            }
            parent = op.parent();
        }
        around
    }
}

fn layout(ty: &TensorType) -> String {
    match &ty.order {
        Some(order) => format!("order {order:?}"),
        None => "row-major".to_owned(),
    }
}

fn title(operator: &Operator) -> String {
    let name = operator.name().trim_start_matches("graph.");
    match operator {
        Operator::Elementwise(elementwise) => format!("{name} {}", elementwise.function.name()),
        Operator::Reduce(reduce) => format!("{name} {}", reduce.kind.name()),
        Operator::Window(window) => format!("{name} {}", window.kind.name()),
        _ => name.to_owned(),
    }
}
