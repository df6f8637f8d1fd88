//! Placement of control flow.
//!
//! One pass: [`PlaceControlFlow`]. A module without control flow passes unchanged; an operation of control flow is refused by node, since
//! no placement exists yet.

use tenon_ir::Module;
use tenon_pass_manager::{Pass, PassContext, PassError, Property, Refusal};

/// Decides where each operation of control flow runs; refuses every one of them in this version.
pub struct PlaceControlFlow;

impl Pass for PlaceControlFlow {
    fn name(&self) -> &'static str {
        "place-control-flow"
    }

    fn needs(&self) -> &'static [Property] {
        &[Property::StaticShapes]
    }

    fn is_required(&self) -> bool {
        true
    }

    fn run(&self, module: &mut Module<'_>, _: &PassContext) -> Result<(), PassError> {
        for op in module.op().walk() {
            let name = op.name();
            if matches!(name.split_once('.'), Some(("flow" | "scf" | "cf", _))) {
                let refusal = Refusal::new(
                    "E0411",
                    format!("control flow is not supported in this version: `{name}`"),
                    "export the model without the branch or loop, or with it unrolled",
                );
                return Err(refusal.at(op).into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use tenon_ir::Session;
    use tenon_pass_manager::{Options, Runner};

    #[test]
    fn control_flow_is_refused_by_node() {
        let session = Session::new();
        let run = |body: &str| {
            let text = format!("module {{ func.func @main(%c: i1, %a: tensor<4xf32>) -> tensor<4xf32> {{ {body} }} }}");
            let mut module = session.parse_module(&text, "test").unwrap();
            Runner::new(Options::default(), &[]).unwrap().run_pass(&PlaceControlFlow, &mut module)
        };
        run("return %a : tensor<4xf32>").unwrap();
        let error = run(
            "%0 = scf.if %c -> (tensor<4xf32>) { scf.yield %a : tensor<4xf32> } else { scf.yield %a : tensor<4xf32> } loc(\"If_3\")\n return %0 : tensor<4xf32>",
        )
        .unwrap_err();
        assert_eq!((error.code(), error.nodes()), ("E0411", ["If_3".to_owned()].as_slice()));
        assert!(error.to_string().contains("`scf.if`"), "{error}");
    }
}
