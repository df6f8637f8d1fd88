//! A decomposition gives the bits of the operator it stands for, for random operands, shapes and options.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tenon_decompose_passes::Decompose;
use tenon_graph_dialect::operators::{Attention, Causal, Concat};
use tenon_graph_dialect::{Operator, TensorType};
use tenon_ir::{Builder, Module, Session};
use tenon_pass_manager::{Options, Runner};
use tenon_reference::{Mode, run_function};
use tenon_tensor::{DType, Tensor};

/// A function `main` of one operator.
fn module<'s>(session: &'s Session, operator: &Operator, operands: &[TensorType]) -> Module<'s> {
    let context = session.context();
    let location = context.name_location("node", context.file_location("model.onnx", 1, 0));
    let module = session.new_module(location).unwrap();
    let at = Builder::at_end(module.body()).unwrap().with_location(location);
    let types = |list: &[TensorType]| list.iter().map(|ty| ty.to_type(context).unwrap()).collect::<Vec<_>>();
    let (inputs, results) = (types(operands), types(&operator.infer(operands).unwrap()));
    let function = at
        .op("func.func")
        .attribute("sym_name", context.string("main"))
        .attribute("function_type", context.type_attribute(context.function_type(&inputs, &results)))
        .regions(1)
        .build()
        .unwrap();
    let arguments: Vec<_> = inputs.iter().map(|ty| (*ty, location)).collect();
    let block = function.region(0).unwrap().append_block(&arguments).unwrap();
    let results = operator.build(at.in_block(block), &block.arguments()).unwrap();
    at.in_block(block).op("func.return").operands(&results).build().unwrap();
    module
}

/// Numbers that repeat for a seed; where `holes`, some are -∞.
fn random(ty: &TensorType, seed: u64, holes: bool) -> Tensor {
    let shape: Vec<usize> = ty.known_shape().unwrap().into_iter().map(|size| size as usize).collect();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let values: Vec<f64> = (0..shape.iter().product())
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let unit = (state >> 11) as f64 / (1u64 << 53) as f64;
            match ty.dtype {
                DType::Bool => f64::from(unit < 0.6),
                _ if holes && unit < 0.4 => f64::NEG_INFINITY,
                _ => 6.0 * unit - 3.0,
            }
        })
        .collect();
    Tensor::from_f64s(ty.dtype, shape, &values).unwrap()
}

fn check(operator: &Operator, operands: &[Tensor]) {
    let session = Session::new();
    let types: Vec<_> = operands
        .iter()
        .map(|tensor| {
            TensorType::fixed(tensor.dtype(), &tensor.shape().iter().map(|size| *size as u64).collect::<Vec<_>>())
        })
        .collect();
    let mut module = module(&session, operator, &types);
    let run = |module: &Module<'_>| run_function(module, "main", operands, &|_| None, Mode::Typed).unwrap();
    let before = run(&module);
    Runner::new(Options::default(), &[]).unwrap().run_pass(&Decompose, &mut module).unwrap();
    let is_left = |op: &tenon_ir::Op<'_>| op.is(operator.name()) && op.operands().len() == operands.len();
    assert!(!module.op().walk().iter().any(is_left), "{module}");
    assert!(tenon_graph_dialect::check(&module).is_empty(), "{module}");
    let after = run(&module);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((before.dtype(), before.shape()), (after.dtype(), after.shape()));
        for index in 0..before.element_count() {
            let nan = |tensor: &Tensor| tensor.get_f64(index).is_some_and(f64::is_nan);
            let same = before.get_bits(index) == after.get_bits(index) || (nan(before) && nan(after));
            assert!(same, "{operator:?}, element {index}: {before:?}\n{after:?}\n{module}");
        }
    }
}

/// More operands than a kernel takes, once and twice, of sizes from 0 on.
#[test]
fn concatenations_of_many() {
    for (count, axis) in [(129, 0), (600, 1), (600, -1), (20_000, 0)] {
        let operand = |index: u64| {
            let mut shape = [2, 2];
            shape[usize::from(axis != 0)] = index % 3;
            random(&TensorType::fixed(DType::F32, &shape), index, false)
        };
        let operands: Vec<_> = (0..count).map(operand).collect();
        check(&Concat { axis }.into(), &operands);
    }
}

fn dtype() -> impl Strategy<Value = DType> {
    prop_oneof![Just(DType::F32), Just(DType::F16), Just(DType::BF16), Just(DType::F64)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn attention(
        (dtype, seed) in (dtype(), any::<u64>()),
        (batch, groups, each) in (1..3u64, 1..3u64, 1..4u64),
        (queries, keys, width, values) in (0..5u64, 0..6u64, 1..5u64, 1..4u64),
        softcap in proptest::option::of(Just(1.5)),
        causal in proptest::option::of(prop_oneof![Just(Causal::Start), Just(Causal::End)]),
        plain_softmax in any::<bool>(),
        mask in proptest::option::of((0..3usize, 0..5usize, any::<[bool; 4]>())),
    ) {
        let heads = groups * each;
        let t = |dtype, shape: &[u64]| TensorType::fixed(dtype, shape);
        let mut types = vec![
            t(dtype, &[batch, heads, queries, width]),
            t(dtype, &[batch, groups, keys, width]),
            t(dtype, &[batch, groups, keys, values]),
        ];
        if let Some((kind, rank, ones)) = mask {
            let kind = [DType::Bool, dtype, Attention::compute_type(dtype)][kind];
            let full = [batch, heads, queries, keys];
            let shape: Vec<_> = (4 - rank..4).map(|dim| if ones[dim] { 1 } else { full[dim] }).collect();
            types.push(t(kind, &shape));
        }
        let operands: Vec<_> =
            types.iter().enumerate().map(|(index, ty)| random(ty, seed.wrapping_add(index as u64), index == 3)).collect();
        check(&Attention { scale: 0.4, softcap, causal, plain_softmax }.into(), &operands);
    }
}
