//! Buckets in parts: the numbers of the whole, operator by operator, and the operators that mix rows.
#![allow(clippy::unwrap_used)]

use tenon_graph_dialect::operators::*;
use tenon_graph_dialect::{Dim, DimExpr, Operator, TensorType};
use tenon_ir::{Builder, Module, Session, Value};
use tenon_pass_manager::{Options, Pass, Runner};
use tenon_recipe::Recipe;
use tenon_reference::{Mode, run_function};
use tenon_shape_passes::{Bucket, Contract as ContractPass, Rows, split};
use tenon_tensor::{DType, Tensor};

const BATCH: u64 = 4;

fn run(pass: &dyn Pass, module: &mut Module<'_>) {
    Runner::new(Options::default(), &[]).unwrap().run_pass(pass, module).unwrap();
}

/// `-1` stands for `batch`.
fn dims(sizes: &[i64]) -> Vec<DimExpr> {
    let dim = |size: &i64| if *size < 0 { DimExpr::symbol("batch") } else { DimExpr::constant(*size) };
    sizes.iter().map(dim).collect()
}

fn ty(dtype: DType, sizes: &[i64]) -> TensorType {
    TensorType::new(dtype, dims(sizes).into_iter().map(Dim::of).collect())
}

fn f32s(sizes: &[i64]) -> TensorType {
    ty(DType::F32, sizes)
}

/// A contracted module of one operator.
fn module<'s>(session: &'s Session, operator: &Operator, types: &[TensorType]) -> Module<'s> {
    let context = session.context();
    let text = |ty: &TensorType| ty.to_type(context).unwrap().to_string();
    let arguments: Vec<_> = types
        .iter()
        .enumerate()
        .map(|(index, ty)| format!("%{index}: {} {{graph.name = \"x{index}\"}}", text(ty)))
        .collect();
    let source = format!("module {{ func.func @main({}) {{ return }} }}", arguments.join(", "));
    let mut module = session.parse_module(&source, "test").unwrap();
    {
        let function = module.body().ops()[0];
        let block = function.region_block(0).unwrap();
        let end = block.terminator().unwrap();
        let place = Builder::before(end).unwrap();
        let results = operator.build(place, &block.arguments()).unwrap();
        place.op("func.return").operands(&results).build().unwrap();
        end.erase().unwrap();
        let inputs: Vec<_> = block.arguments().into_iter().map(Value::ty).collect();
        let outputs: Vec<_> = results.iter().map(|value| value.ty()).collect();
        let signature = context.type_attribute(context.function_type(&inputs, &outputs));
        function.set_attribute("function_type", signature).unwrap();
    }
    let recipe = Recipe::parse(&format!("recipe = 1\n[semantic.dims]\nbatch = {{ allowed = [{BATCH}] }}\n")).unwrap();
    run(&ContractPass { recipe }, &mut module);
    module
}

fn value(ty: &TensorType, seed: usize) -> Tensor {
    let shape: Vec<usize> =
        ty.dims.iter().map(|dim| dim.extent.as_constant().unwrap_or(BATCH as i64) as usize).collect();
    let count: usize = shape.iter().product();
    let number = |index: usize| ((index * 37 + seed * 11) % 23) as f64;
    let is_float = ty.dtype == DType::F32;
    let values: Vec<_> =
        (0..count).map(|index| if is_float { number(index) / 4.0 - 2.0 } else { number(index) % 2.0 }).collect();
    Tensor::from_f64s(ty.dtype, shape, &values).unwrap()
}

/// What stands in the way of parts, or nothing after the numbers of 2 and 4 parts were found to be those of the whole.
fn in_parts(operator: impl Into<Operator>, types: &[TensorType]) -> Result<(), String> {
    let operator = operator.into();
    let session = Session::new();
    let contracted = module(&session, &operator, types);
    let rows = Rows::of(&contracted, "batch").map_err(|error| error.to_string())?;
    let point = vec![("batch".to_owned(), BATCH)];
    let inputs: Vec<_> = types.iter().enumerate().map(|(seed, ty)| value(ty, seed)).collect();
    let evaluate = |module: &Module<'_>| {
        run_function(module, "main", &inputs, &|_| None, Mode::Typed).map_err(|error| error.to_string())
    };
    let mut whole = contracted.duplicate();
    run(&Bucket { point: point.clone() }, &mut whole);
    let expected = evaluate(&whole).unwrap();
    for parts in [2, BATCH] {
        let mut module = contracted.duplicate();
        run(&Bucket { point: vec![("batch".to_owned(), BATCH / parts)] }, &mut module);
        split(&module, &rows, parts, &point).unwrap();
        module.verify().unwrap();
        let actual = evaluate(&module).unwrap();
        assert!(actual == expected, "{} in {parts} parts: {actual:?} instead of {expected:?}", operator.name());
    }
    Ok(())
}

fn mixes(operator: impl Into<Operator>, types: &[TensorType]) {
    let operator = operator.into();
    let name = operator.name();
    let refused = in_parts(operator, types).unwrap_err();
    assert!(refused.contains("is not known to keep rows along `batch` apart"), "{name}: {refused}");
}

fn convolution() -> Convolution {
    Convolution {
        accumulate: DType::F32,
        dtype: DType::F32,
        strides: vec![1],
        dilations: vec![1],
        pad_begin: vec![1],
        pad_end: vec![1],
        groups: 1,
        transposed: false,
        output_padding: vec![0],
    }
}

fn contract(lhs: &str, rhs: &str, result: &str) -> Contract {
    let [lhs, rhs, result] = [lhs, rhs, result].map(str::to_owned);
    Contract { lhs, rhs, result, accumulate: DType::F32, dtype: DType::F32 }
}

#[test]
fn operators_that_keep_rows_apart_give_the_same_numbers_in_parts() {
    let add = Operator::from(Elementwise { function: Function::Add });
    in_parts(add.clone(), &[f32s(&[-1, 3]), f32s(&[-1, 3])]).unwrap();
    in_parts(add.clone(), &[f32s(&[2, -1, 3]), f32s(&[-1, 1])]).unwrap();
    in_parts(add.clone(), &[f32s(&[1, 3]), f32s(&[-1, 3])]).unwrap();
    in_parts(add, &[f32s(&[3]), f32s(&[-1, 3])]).unwrap();
    in_parts(Softmax { axis: -1, log: false }, &[f32s(&[-1, 5])]).unwrap();
    in_parts(Softmax { axis: 0, log: true }, &[f32s(&[5, -1])]).unwrap();
    in_parts(Scan { kind: ScanKind::Sum, axis: 1, exclusive: false, reverse: true }, &[f32s(&[-1, 5])]).unwrap();
    in_parts(TopK { k: 2, axis: 1, smallest: false }, &[f32s(&[-1, 5, 2])]).unwrap();
    for keep_dims in [false, true] {
        in_parts(ArgReduce { minimum: false, axis: 0, keep_dims, last: false }, &[f32s(&[3, -1, 2])]).unwrap();
        in_parts(Reduce { kind: ReduceKind::Sum, axes: vec![0, 2], keep_dims }, &[f32s(&[3, -1, 2, 2])]).unwrap();
    }
    let layer = Normalize { kind: NormalizeKind::Layer, axes: vec![2], epsilon: 1e-5 };
    in_parts(layer.clone(), &[f32s(&[-1, 2, 4])]).unwrap();
    in_parts(layer, &[f32s(&[-1, 2, 4]), f32s(&[4]), f32s(&[4])]).unwrap();
    in_parts(Transpose { permutation: vec![2, 0, 1] }, &[f32s(&[-1, 2, 3])]).unwrap();
    in_parts(Reshape { shape: dims(&[-1, 2, 3]) }, &[f32s(&[-1, 6])]).unwrap();
    in_parts(Reshape { shape: dims(&[2, 3, -1, 2]) }, &[f32s(&[6, -1, 2])]).unwrap();
    in_parts(Concat { axis: 1 }, &[f32s(&[-1, 2]), f32s(&[-1, 3])]).unwrap();
    in_parts(Slice { starts: dims(&[0, 4]), sizes: dims(&[-1, 2]), steps: vec![1, -2] }, &[f32s(&[-1, 5])]).unwrap();
    let pad = Pad { mode: PadMode::Reflect, low: dims(&[0, 2]), high: dims(&[0, 1]) };
    in_parts(pad, &[f32s(&[-1, 5]), f32s(&[])]).unwrap();
    in_parts(Broadcast { shape: dims(&[2, -1, 3]) }, &[f32s(&[-1, 1])]).unwrap();
    in_parts(convolution(), &[f32s(&[-1, 2, 5]), f32s(&[3, 2, 3])]).unwrap();
    in_parts(contract("mk", "kn", "mn"), &[f32s(&[-1, 3]), f32s(&[3, 2])]).unwrap();
    in_parts(contract("km", "kn", "nm"), &[f32s(&[3, 2]), f32s(&[3, -1])]).unwrap();
    in_parts(contract("bmk", "bnk", "bmn"), &[f32s(&[-1, 2, 3]), f32s(&[-1, 2, 3])]).unwrap();
    let gather = |kind, axis, batch_dims| Gather { kind, axis, batch_dims };
    in_parts(gather(GatherKind::Take, 0, 0), &[f32s(&[3, 2]), ty(DType::I64, &[-1, 2])]).unwrap();
    in_parts(gather(GatherKind::Take, 1, 0), &[f32s(&[-1, 3, 2]), ty(DType::I64, &[2, 2])]).unwrap();
    in_parts(gather(GatherKind::Take, 0, 0), &[f32s(&[3, -1, 2]), ty(DType::I64, &[2, 2])]).unwrap();
    in_parts(gather(GatherKind::Elements, 1, 0), &[f32s(&[-1, 3]), ty(DType::I64, &[-1, 2])]).unwrap();
    in_parts(gather(GatherKind::Nd, 0, 1), &[f32s(&[-1, 3]), ty(DType::I64, &[-1, 2, 1])]).unwrap();
    in_parts(gather(GatherKind::Nd, 0, 0), &[f32s(&[3, 2]), ty(DType::I64, &[-1, 2])]).unwrap();
    let attention = Attention { scale: 0.5, softcap: None, causal: Some(Causal::End), plain_softmax: false };
    let heads = f32s(&[-1, 2, 3, 4]);
    in_parts(attention.clone(), &[heads.clone(), heads.clone(), heads.clone()]).unwrap();
    in_parts(attention, &[heads.clone(), heads.clone(), heads, f32s(&[3, 3])]).unwrap();
}

#[test]
fn operators_that_mix_rows_are_named() {
    mixes(Softmax { axis: 0, log: false }, &[f32s(&[-1, 5])]);
    mixes(Scan { kind: ScanKind::Sum, axis: -2, exclusive: false, reverse: false }, &[f32s(&[-1, 5])]);
    mixes(Reduce { kind: ReduceKind::Max, axes: vec![0], keep_dims: true }, &[f32s(&[-1, 5])]);
    mixes(ArgReduce { minimum: true, axis: 0, keep_dims: false, last: false }, &[f32s(&[-1, 5])]);
    mixes(TopK { k: 1, axis: 0, smallest: true }, &[f32s(&[-1, 5])]);
    mixes(Normalize { kind: NormalizeKind::Layer, axes: vec![0, 1], epsilon: 1e-5 }, &[f32s(&[-1, 5])]);
    mixes(Concat { axis: 0 }, &[f32s(&[-1, 2]), f32s(&[-1, 2])]);
    mixes(Slice { starts: dims(&[1, 0]), sizes: dims(&[2, 5]), steps: vec![1, 1] }, &[f32s(&[-1, 5])]);
    mixes(
        Slice { starts: vec![DimExpr::constant(3), 0.into()], sizes: dims(&[-1, 5]), steps: vec![-1, 1] },
        &[f32s(&[-1, 5])],
    );
    mixes(Pad { mode: PadMode::Constant, low: dims(&[1, 0]), high: dims(&[0, 0]) }, &[f32s(&[-1, 5]), f32s(&[])]);
    // Elements of one row come to stand in another.
    mixes(Reshape { shape: dims(&[2, -1, 3]) }, &[f32s(&[-1, 6])]);
    mixes(Reshape { shape: dims(&[3, -1]) }, &[f32s(&[-1, 3])]);
    mixes(contract("km", "kn", "mn"), &[f32s(&[-1, 2]), f32s(&[-1, 3])]);
    mixes(contract("mk", "nk", "mn"), &[f32s(&[-1, 2]), f32s(&[-1, 2])]);
    mixes(Gather { kind: GatherKind::Take, axis: 0, batch_dims: 0 }, &[f32s(&[-1, 2]), ty(DType::I64, &[3])]);
    mixes(Gather { kind: GatherKind::Take, axis: 1, batch_dims: 0 }, &[f32s(&[-1, 2]), ty(DType::I64, &[-1])]);
    mixes(Elementwise { function: Function::Add }, &[f32s(&[-1, 1]), f32s(&[1, -1])]);
    // The number of rows itself.
    mixes(DimExtent { axis: 0 }, &[f32s(&[-1, 5])]);
}
