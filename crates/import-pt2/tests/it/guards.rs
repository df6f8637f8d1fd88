//! Guards and assertions: decided at import where they can be, else recorded with the module for every run.

use tenon_graph_dialect::Requirement;
use tenon_import_pt2::{ImportOptions, Program, Pt2Error, import_program};
use tenon_ir::{PrintOptions, Session};

use crate::refusals::{TENSOR, add_node, archive, config, node, program, refused};

/// The size `s0`.
const SYMBOL: &str = r#"{"as_expr":{"expr_str":"Symbol('s0', positive=True, integer=True)"}}"#;

/// A program whose input `x` is [s0, 3], with these nodes.
fn free(nodes: &str, values: &str) -> String {
    let model = program(nodes, values).replacen("{\"as_int\":2}", SYMBOL, 1);
    model.replacen(
        "\"graph_module\"",
        "\"range_constraints\":{\"s0\":{\"min_val\":2,\"max_val\":8}},\"graph_module\"",
        1,
    )
}

/// x + 1
fn plus_one(model: &str) -> String {
    let one = "\"other\",\"arg\":{\"as_float\":1.0}";
    model.replace("\"other\",\"arg\":{\"as_tensor\":{\"name\":\"w\"}}", one)
}

fn requirements(model: &str) -> Result<Vec<Requirement>, Pt2Error> {
    let program = Program::decode(archive(model, &config("", TENSOR)).into())?;
    let session = Session::new();
    let imported = import_program(&session, &program, "m.pt2", &ImportOptions::default())?;
    let text = imported.module.print(PrintOptions { locations: true, generic: false });
    let again = session.parse_module(&text, "dump").unwrap();
    assert_eq!(again.print(PrintOptions { locations: true, generic: false }), text);
    let found = Requirement::read_all(imported.module.op()).unwrap();
    assert_eq!(Requirement::read_all(again.op()).unwrap(), found);
    Ok(found)
}

#[track_caller]
fn one(model: &str) -> Requirement {
    let list = requirements(model).unwrap();
    assert_eq!(list.len(), 1, "{list:?}");
    list.into_iter().next().unwrap()
}

#[test]
fn guards_on_inputs_are_kept_for_runs() {
    let guarded = |guard: &str| {
        let model = plus_one(&free(&add_node(), ""));
        model.replacen("\"graph_module\"", &format!("\"guards_code\":[\"{guard}\"],\"graph_module\""), 1)
    };
    let found = one(&guarded("L['x'].size()[0] % 2 == 0"));
    assert_eq!(found.condition.to_string(), "s0-2*floordiv(s0,2) == 0");
    assert!(found.reason.contains("% 2 == 0"), "{}", found.reason);
    assert_eq!(requirements(&guarded("L['x'].size()[1] == 3")).unwrap(), []);
    assert_eq!(requirements(&guarded("L['x'].size()[1] == 4")).unwrap_err().code(), "E0182");
    let message = refused(archive(&guarded("L['x'].dtype == 4"), &config("", TENSOR)), "E0178");
    assert!(message.contains("L['x'].dtype"), "{message}");
}

/// An assertion on a truth value over sizes, at a line of the model.
fn asserted(expression: &str) -> String {
    let call = r#"{"target":"torch.ops.aten._assert_scalar.default","inputs":[
        {"name":"self","arg":{"as_sym_bool":{"as_name":"holds"}},"kind":1},
        {"name":"assert_msg","arg":{"as_string":"rows come in pairs"},"kind":1}],"outputs":[],
        "metadata":{"stack_trace":"File \"/home/me/net/model.py\", line 12, in forward\n    torch._check(x)"},"name":"_assert_scalar"}"#;
    let model = plus_one(&free(&format!("{call},{}", add_node()), ""));
    let value = format!(r#"{{"as_expr":{{"expr_str":"{expression}"}}}}"#);
    model.replacen("\"sym_int_values\"", &format!("\"sym_bool_values\":{{\"holds\":{value}}},\"sym_int_values\""), 1)
}

#[test]
fn assertions_on_sizes_name_their_line() {
    let s0 = "Symbol('s0', positive=True, integer=True)";
    let found = one(&asserted(&format!("Eq(Mod({s0}, Integer(2)), Integer(0))")));
    assert_eq!(found.condition.to_string(), "s0-2*floordiv(s0,2) == 0");
    assert!(found.reason.contains("rows come in pairs"), "{}", found.reason);
    assert!(found.source.iter().any(|name| name == "_assert_scalar"), "{:?}", found.source);
    assert!(found.source.iter().any(|name| name.contains("net/model.py:12")), "{:?}", found.source);
    let both = requirements(&asserted(&format!("And(Ge({s0}, Integer(3)), Le({s0}, Integer(7)))"))).unwrap();
    let both: Vec<_> = both.iter().map(|found| found.condition.to_string()).collect();
    assert_eq!(both, ["s0 >= 3", "s0 <= 7"]);
    assert_eq!(requirements(&asserted(&format!("Ge({s0}, Integer(0))"))).unwrap(), []);
    let never = asserted(&format!("Lt({s0}, Integer(0))"));
    assert!(refused(archive(&never, &config("", TENSOR)), "E0182").contains("rows come in pairs"));
}

#[test]
fn bounds_of_sizes_are_kept() {
    let call = r#"{"target":"torch.ops.aten.sym_constrain_range.default","inputs":[
        {"name":"size","arg":{"as_sym_int":{"as_name":"n"}},"kind":1},
        {"name":"min","arg":{"as_int":3},"kind":2},{"name":"max","arg":{"as_int":7},"kind":2}],"outputs":[],"metadata":{},"name":"bound"}"#;
    let model = plus_one(&free(&format!("{call},{}", add_node()), ""));
    let model = model.replacen("\"sym_int_values\":{}", &format!("\"sym_int_values\":{{\"n\":{SYMBOL}}}"), 1);
    let list: Vec<_> = requirements(&model).unwrap().iter().map(|found| found.condition.to_string()).collect();
    assert_eq!(list, ["s0 >= 3", "s0 <= 7"]);
}

/// All of x must not be 0, or the values decide.
#[test]
fn assertions_on_values_are_read_while_the_program_runs() {
    let all = node("torch.ops.aten.all.default", &[("self", "x")], "", "p");
    let message = r#"{"name":"assert_msg","arg":{"as_string":"no zeros, please"},"kind":1}"#;
    let call = node("torch.ops.aten._assert_async.msg", &[("self", "p")], message, "a");
    let call = call.replace(r#""outputs":[{"as_tensor":{"name":"a"}}]"#, r#""outputs":[]"#);
    let found = one(&program(&format!("{all},{call},{}", add_node()), ""));
    assert_eq!(found.condition.to_string(), "assertion_0 == 1");
    assert!(found.reason.contains("no zeros, please"), "{}", found.reason);
}
