//! Kernels of the graph dialect through PTX on the simulator, against the reference interpreter.

use tenon_graph_dialect::operators::*;
use tenon_graph_dialect::{DimExpr, Operator, TensorType};
use tenon_ir::{Builder, Module, PrintOptions, Session, Value};
use tenon_lowering::schedule::{KernelTensorMap, KernelWorkspace, lower_kernel};
use tenon_ptx_sim::{
    Argument, Counters, Device, DevicePointer, LaunchConfig, TensorElement, TensorFill, TensorMap, TensorMapConfig,
    TensorSwizzle,
};
use tenon_reference::{Mode, run_function};
use tenon_target::Target;
use tenon_tensor::{DType, Tensor};

use crate::support::{compile_for, on};

/// A kernel to try: its inputs, and its body.
pub struct Case {
    pub family: &'static str,
    pub inputs: Vec<TensorType>,
    /// What its schedule may do to numbers; `exact` where it says nothing.
    pub numeric_class: Option<&'static str>,
    /// Largest difference allowed, relative to the larger of 1 and the reference.
    pub tolerance: f64,
}

pub type Body<'x> = dyn for<'m> Fn(Builder<'m>, &[Value<'m>]) -> Vec<Value<'m>> + 'x;

pub fn t(dtype: DType, shape: &[u64]) -> TensorType {
    TensorType::fixed(dtype, shape)
}

/// Values that are spread over the type's ordinary range; indices stay small.
pub fn random(ty: &TensorType, seed: u64) -> Tensor {
    let shape: Vec<usize> = ty.known_shape().unwrap().into_iter().map(|size| size as usize).collect();
    let count: usize = shape.iter().product();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let values: Vec<f64> = (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let unit = (state >> 11) as f64 / (1u64 << 53) as f64;
            if ty.dtype.is_float() {
                4.0 * unit - 2.0
            } else if ty.dtype == DType::Bool {
                f64::from(unit < 0.5)
            } else if ty.dtype.is_signed() {
                (unit * 9.0).floor() - 4.0
            } else {
                (unit * 9.0).floor()
            }
        })
        .collect();
    Tensor::from_f64s(ty.dtype, shape, &values).unwrap()
}

pub fn graph_module<'s>(session: &'s Session, case: &Case, body: &Body<'_>) -> Module<'s> {
    let context = session.context();
    let module = session.new_module(context.unknown_location()).unwrap();
    let location = context.name_location("node", context.file_location("model.onnx", 1, 0));
    let at = Builder::at_end(module.body()).unwrap().with_location(location);
    let types: Vec<_> = case.inputs.iter().map(|ty| ty.to_type(context).unwrap()).collect();
    let arguments: Vec<_> = types.iter().map(|ty| (*ty, location)).collect();
    // The kernel's result types are known once its body is built; the body is built in the function first, then moved.
    let function = at.op("func.func").attribute("sym_name", context.string("main"));
    let scratch = session.new_module(location).unwrap();
    let results: Vec<_> = {
        let at = Builder::at_end(scratch.body()).unwrap();
        let holder =
            at.op("graph.kernel").attribute("sym_name", context.string("k")).attribute("family", context.string("map"));
        let holder = holder.regions(1).build().unwrap();
        let block = holder.region(0).unwrap().append_block(&arguments).unwrap();
        body(at.in_block(block), &block.arguments()).iter().map(|v| TensorType::read(v.ty()).unwrap()).collect()
    };
    let result_types: Vec<_> = results.iter().map(|ty| ty.to_type(context).unwrap()).collect();
    let function = function
        .attribute("function_type", context.type_attribute(context.function_type(&types, &result_types)))
        .regions(1)
        .build()
        .unwrap();
    let block = function.region(0).unwrap().append_block(&arguments).unwrap();
    let inner = at.in_block(block);
    let kernel = inner
        .op("graph.kernel")
        .attribute("sym_name", context.string("k"))
        .attribute("family", context.string(case.family))
        .optional_attribute("numeric_class", case.numeric_class.map(|class| context.string(class)))
        .operands(&block.arguments())
        .results(&result_types)
        .regions(1)
        .build()
        .unwrap();
    let kernel_block = kernel.region(0).unwrap().append_block(&arguments).unwrap();
    let in_kernel = inner.in_block(kernel_block);
    let yielded = body(in_kernel, &kernel_block.arguments());
    in_kernel.op("graph.yield").operands(&yielded).build().unwrap();
    inner.op("func.return").operands(&kernel.results()).build().unwrap();
    module.verify().unwrap();
    let errors = tenon_graph_dialect::check(&module);
    assert!(errors.is_empty(), "{errors:?}");
    module
}

/// Lowers the case for sm_80, runs it under several seeds, and compares with the reference.
pub fn check(case: Case, body: &Body<'_>) {
    let inputs: Vec<_> = case.inputs.iter().enumerate().map(|(index, ty)| random(ty, index as u64 + 1)).collect();
    check_on(case, &inputs, body);
}

/// [`check`] on inputs of one's own.
pub fn check_on(case: Case, inputs: &[Tensor], body: &Body<'_>) {
    check_for("sm_80", case, inputs, body);
}

/// [`check_on`] for any target; gives the PTX.
pub fn check_for(target: &str, case: Case, inputs: &[Tensor], body: &Body<'_>) -> String {
    check_target(Target::find(target).unwrap(), case, inputs, body)
}

/// A GPU of one multiprocessor, whose time is that of all tiles together: the largest tile is the best.
pub fn one_multiprocessor(architecture: &str) -> Target {
    multiprocessors(architecture, 1)
}

/// A GPU of so many multiprocessors.
pub fn multiprocessors(architecture: &str, count: u32) -> Target {
    let target = Target::find(architecture).unwrap();
    let mut gpu = target.gpu.clone();
    gpu.sms = count;
    Target { gpu: Box::leak(Box::new(gpu)), architecture: target.architecture }
}

/// The same for a target that is in no table.
pub fn check_target(target: &Target, case: Case, inputs: &[Tensor], body: &Body<'_>) -> String {
    check_counted(target, case, inputs, body).0
}

/// Text of the `hw` and of the `gpu` stage, without locations.
pub fn texts(target: &Target, case: &Case, body: &Body<'_>) -> [String; 2] {
    let session = Session::new();
    let lowered = lower(target, &graph_module(&session, case, body));
    [lowered.hw, lowered.compiled.gpu]
}

/// [`check_target`], with what the simulator counted.
pub fn check_counted(target: &Target, case: Case, inputs: &[Tensor], body: &Body<'_>) -> (String, Counters) {
    let session = Session::new();
    let module = graph_module(&session, &case, body);
    let expected = run_function(&module, "main", inputs, &|_| None, Mode::Typed).unwrap();
    let lowered = lower(target, &module);
    let mut counters = Counters::default();
    for seed in [0, 1, 2] {
        let (outputs, counted) = lowered.run(inputs, &expected, seed);
        counters = counted;
        for (got, tensor) in outputs.iter().zip(&expected) {
            compare(got, tensor, case.tolerance, &module);
        }
    }
    (lowered.compiled.ptx, counters)
}

/// What the kernel gives on the simulator for sm_80, without comparison: tensors of the types of `like`.
pub fn outputs(case: &Case, inputs: &[Tensor], like: &[Tensor], body: &Body<'_>) -> Vec<Tensor> {
    let session = Session::new();
    lower(Target::find("sm_80").unwrap(), &graph_module(&session, case, body)).run(inputs, like, 0).0
}

/// What a launch gave and did.
pub struct Launched {
    pub outputs: Vec<Tensor>,
    pub ptx: String,
    pub counters: Counters,
}

/// What the kernel gives on the simulator for a target, alike under so many schedules, without comparison: tensors of the types of `like`.
pub fn launch_for(
    target: &str,
    case: &Case,
    inputs: &[Tensor],
    like: &[Tensor],
    schedules: u64,
    body: &Body<'_>,
) -> Launched {
    let session = Session::new();
    let lowered = lower(Target::find(target).unwrap(), &graph_module(&session, case, body));
    let (outputs, counters) = lowered.run(inputs, like, 0);
    for seed in 1..schedules {
        let (again, _) = lowered.run(inputs, like, seed);
        for (one, other) in outputs.iter().zip(&again) {
            assert!(one.bytes() == other.bytes(), "{target}: the result depends on the schedule");
        }
    }
    Launched { outputs, ptx: lowered.compiled.ptx, counters }
}

/// A kernel that is ready to be launched.
struct Lowered {
    grid: [u32; 3],
    threads: u32,
    /// Memory that it gets besides.
    workspaces: Vec<KernelWorkspace>,
    /// Tensor maps that it takes after its pointers.
    maps: Vec<KernelTensorMap>,
    /// Numbers that it takes after these.
    numbers: Vec<i64>,
    /// Text of the tile program, without locations.
    hw: String,
    compiled: crate::support::Compiled,
    ptx: tenon_ptx_sim::Module,
}

fn lower(target: &Target, module: &Module<'_>) -> Lowered {
    let session = Session::new();
    let text = module.print(PrintOptions { locations: true, generic: false });
    let module = session.parse_module(&text, "graph").unwrap();
    let function = module.body().ops()[0];
    let kernel = function.region_block(0).unwrap().ops()[0];
    let hw = session.new_module(session.context().unknown_location()).unwrap();
    let at = Builder::at_end(hw.body()).unwrap().with_location(kernel.location());
    let scheduled =
        lower_kernel(kernel, at, "k", target).unwrap_or_else(|error| panic!("{}: {error}\n{module}", error.code()));
    hw.verify()
        .unwrap_or_else(|error| panic!("{error}\n{}", hw.print(PrintOptions { locations: false, generic: true })));
    let text = hw.print(PrintOptions { locations: true, generic: false });
    if std::env::var_os("SHOW").is_some() {
        println!("{hw}");
    }
    let (mut info, nvptx) = on(&target.architecture.llvm.processor);
    if !scheduled.workspaces.is_empty() {
        // As many blocks share a tile as leave no multiprocessor without work, and no more.
        info.sms = target.gpu.sms;
    }
    let compiled = compile_for(&text, &info, &nvptx);
    if std::env::var_os("SHOW").is_some() {
        println!("{}", compiled.ptx);
    }
    crate::support::assemble("k", &compiled.ptx, &nvptx.processor);
    let ptx = tenon_ptx_sim::Module::parse(&compiled.ptx).unwrap_or_else(|error| panic!("{error}\n{}", compiled.ptx));
    assert!(compiled.info.shared_bytes <= info.shared_bytes);
    let grid = scheduled.shape.grid.clone().map(|size| size.as_constant().unwrap() as u32);
    // Sizes are numbers here: what is passed besides are starts of slices.
    let numbers = scheduled.extents.iter().map(|extent| extent.as_constant().unwrap()).collect();
    assert_eq!(compiled.info.threads, scheduled.shape.threads());
    Lowered {
        grid,
        threads: scheduled.shape.threads(),
        workspaces: scheduled.workspaces,
        maps: scheduled.tensor_maps,
        numbers,
        hw: hw.to_string(),
        compiled,
        ptx,
    }
}

/// A tensor map for values of the extents.
pub fn encode(map: &KernelTensorMap, address: u64, extents: &dyn Fn(&str) -> Option<i64>) -> TensorMap {
    // No map has a dimension without elements, or a stride of nothing.
    let number = |size: &DimExpr| size.evaluate(extents).unwrap();
    let config = TensorMapConfig {
        element: if map.element == DType::F16 { TensorElement::F16 } else { TensorElement::Bf16 },
        address,
        sizes: map.sizes.iter().map(|size| number(size).max(1) as u32).collect(),
        strides: map.strides.iter().map(|stride| number(stride).max(16) as u64).collect(),
        box_sizes: map.tile.clone(),
        element_strides: vec![1; map.tile.len()],
        swizzle: TensorSwizzle::Bytes128,
        fill: TensorFill::Zero,
    };
    assert_eq!(map.swizzle, 128);
    TensorMap::encode(&config).unwrap()
}

/// Memory of a launch behind its results; what of it holds zeros.
pub fn add_workspaces(
    device: &mut Device,
    workspaces: &[KernelWorkspace],
    arguments: &mut Vec<Argument>,
) -> Vec<(DevicePointer, u64)> {
    let mut zeroed = Vec::new();
    for workspace in workspaces {
        let bytes = workspace.elements * workspace.element.size() as u64;
        let pointer = device.allocate(bytes).unwrap();
        if workspace.zeroed {
            device.write(pointer, 0, &vec![0; bytes as usize]).unwrap();
            zeroed.push((pointer, bytes));
        }
        arguments.push(Argument::Pointer(pointer.address()));
    }
    zeroed
}

/// What held zeros before a launch holds them again.
pub fn check_counters(device: &Device, counters: &[(DevicePointer, u64)]) {
    for (pointer, bytes) in counters {
        assert!(device.read(*pointer, 0, *bytes).unwrap().iter().all(|byte| *byte == 0), "a counter is not back at 0");
    }
}

impl Lowered {
    /// One launch; nothing happens without a block.
    fn run(&self, inputs: &[Tensor], like: &[Tensor], seed: u64) -> (Vec<Tensor>, Counters) {
        let mut device = Device::new();
        let mut arguments = Vec::new();
        for input in inputs {
            let pointer = device.allocate(input.bytes().len().max(1) as u64).unwrap();
            device.write(pointer, 0, input.bytes()).unwrap();
            arguments.push(Argument::Pointer(pointer.address()));
        }
        let mut outputs = Vec::new();
        for tensor in like {
            let pointer = device.allocate(tensor.bytes().len().max(1) as u64).unwrap();
            arguments.push(Argument::Pointer(pointer.address()));
            outputs.push(pointer);
        }
        let zeroed = add_workspaces(&mut device, &self.workspaces, &mut arguments);
        for map in &self.maps {
            let Argument::Pointer(address) = arguments[map.buffer] else { panic!("a tensor map of no pointer") };
            arguments.push(encode(map, address, &|_| None).into());
        }
        arguments.extend(self.numbers.iter().map(|number| Argument::I64(*number)));
        let config = LaunchConfig {
            grid: self.grid,
            block: [self.threads, 1, 1],
            dynamic_shared_bytes: self.compiled.info.shared_bytes as u32,
            seed,
            ..LaunchConfig::default()
        };
        if config.grid.contains(&0) {
            return (like.to_vec(), Counters::default());
        }
        let counters = device
            .launch(&self.ptx, "k", &config, &arguments)
            .unwrap_or_else(|error| panic!("{error}\n{}", self.compiled.ptx));
        check_counters(&device, &zeroed);
        let read = |(tensor, pointer): (&Tensor, &tenon_ptx_sim::DevicePointer)| {
            let bytes = device.read(*pointer, 0, tensor.bytes().len() as u64).unwrap();
            Tensor::new(tensor.dtype(), tensor.shape().to_vec(), bytes).unwrap()
        };
        (like.iter().zip(&outputs).map(read).collect(), counters)
    }
}

pub fn compare(got: &Tensor, expected: &Tensor, tolerance: f64, module: &Module<'_>) {
    for index in 0..expected.element_count() {
        if expected.dtype().is_float() {
            let (a, b) = (got.get_f64(index).unwrap(), expected.get_f64(index).unwrap());
            let close = (a - b).abs() <= tolerance * b.abs().max(1.0) || a == b || (a.is_nan() && b.is_nan());
            assert!(close, "element {index}: {a}, expected {b}\n{module}");
        } else {
            assert_eq!(got.get_bits(index), expected.get_bits(index), "element {index}\n{module}");
        }
    }
}

pub fn op<'m>(at: Builder<'m>, operator: impl Into<Operator>, operands: &[Value<'m>]) -> Value<'m> {
    operator.into().build(at, operands).unwrap()[0]
}

pub fn ew<'m>(at: Builder<'m>, function: Function, operands: &[Value<'m>]) -> Value<'m> {
    op(at, Elementwise { function }, operands)
}

pub fn case(family: &'static str, inputs: &[TensorType], tolerance: f64) -> Case {
    Case { family, inputs: inputs.to_vec(), numeric_class: None, tolerance }
}

pub const F32: DType = DType::F32;
pub const F16: DType = DType::F16;

#[test]
fn pointwise() {
    for shape in [&[][..], &[1], &[7], &[1024], &[3, 5, 129], &[2, 3, 4, 5, 6, 7]] {
        check(case("map", &[t(F32, shape), t(F32, shape)], 0.0), &|at, v| {
            let sum = ew(at, Function::Add, v);
            vec![ew(at, Function::Multiply, &[sum, v[0]])]
        });
    }
    check(case("map", &[t(F16, &[33, 64]), t(F16, &[64])], 0.0), &|at, v| vec![ew(at, Function::Subtract, v)]);
    check(case("map", &[t(F32, &[4, 1, 6]), t(F32, &[5, 1])], 0.0), &|at, v| vec![ew(at, Function::Max, v)]);
    check(case("map", &[t(DType::I64, &[100]), t(DType::I64, &[100])], 0.0), &|at, v| {
        vec![ew(at, Function::Divide, v), ew(at, Function::Modulo, v), ew(at, Function::Remainder, v)]
    });
    check(case("map", &[t(DType::U8, &[100]), t(DType::U8, &[100])], 0.0), &|at, v| {
        vec![ew(at, Function::Subtract, v), ew(at, Function::Divide, v)]
    });
    for dtype in [DType::I8, DType::I32, DType::I64, DType::U8, DType::U64] {
        check(case("map", &[t(dtype, &[100]), t(dtype, &[100])], 0.0), &|at, v| vec![ew(at, Function::Power, v)]);
    }
    // The sign of a zero remainder, which the reciprocal shows.
    check(case("map", &[t(F32, &[50]), t(F32, &[50])], 0.0), &|at, v| {
        let zero = ew(at, Function::Subtract, &[v[0], v[0]]);
        let zero = ew(at, Function::Multiply, &[zero, v[0]]);
        let remainders = [ew(at, Function::Modulo, &[zero, v[1]]), ew(at, Function::Remainder, &[zero, v[1]])];
        remainders.map(|remainder| ew(at, Function::Reciprocal, &[remainder])).to_vec()
    });
    check(case("map", &[t(F32, &[50]), t(F32, &[50]), t(F32, &[50])], 0.0), &|at, v| {
        let less = ew(at, Function::Less, &v[..2]);
        vec![ew(at, Function::Select, &[less, v[2], v[0]]), less]
    });
    check(case("map", &[t(F32, &[200])], 0.0), &|at, v| {
        let half = op(at, Cast { dtype: F16, saturate: false }, v);
        vec![half, op(at, Cast { dtype: DType::I32, saturate: false }, &[half])]
    });
}

#[test]
fn shared_operands_are_computed_once() {
    // Without sharing, forty doublings are 2^40 additions.
    check(case("map", &[t(F32, &[70])], 0.0), &|at, v| {
        let mut sum = v[0];
        for _ in 0..40 {
            sum = ew(at, Function::Add, &[sum, sum]);
        }
        vec![sum]
    });
}

#[test]
fn movement() {
    check(case("map", &[t(F32, &[3, 4, 5])], 0.0), &|at, v| vec![op(at, Transpose { permutation: vec![2, 0, 1] }, v)]);
    check(case("map", &[t(F32, &[6, 7])], 0.0), &|at, v| {
        let starts = vec![DimExpr::constant(5), DimExpr::constant(1)];
        let sizes = vec![DimExpr::constant(3), DimExpr::constant(3)];
        vec![op(at, Slice { starts, sizes, steps: vec![-2, 2] }, v)]
    });
    for mode in [PadMode::Constant, PadMode::Edge, PadMode::Reflect, PadMode::Wrap] {
        check(case("map", &[t(F32, &[5, 6]), t(F32, &[])], 0.0), &|at, v| {
            let low = vec![DimExpr::constant(2), DimExpr::constant(-1)];
            let high = vec![DimExpr::constant(3), DimExpr::constant(4)];
            vec![op(at, Pad { mode, low, high }, v)]
        });
    }
    check(case("map", &[t(F32, &[2, 3]), t(F32, &[2, 5]), t(F32, &[2, 0])], 0.0), &|at, v| {
        vec![op(at, Concat { axis: 1 }, v)]
    });
    check(case("map", &[t(F32, &[5, 6]), t(DType::I64, &[2, 3])], 0.0), &|at, v| {
        let take = op(at, Gather { kind: GatherKind::Take, axis: 0, batch_dims: 0 }, v);
        vec![op(at, Transpose { permutation: vec![2, 1, 0] }, &[take])]
    });
    check(case("map", &[t(F32, &[7, 6]), t(DType::I64, &[4, 6])], 0.0), &|at, v| {
        vec![op(at, Gather { kind: GatherKind::Elements, axis: 0, batch_dims: 0 }, v)]
    });
    check(case("map", &[t(F32, &[7, 6, 3]), t(DType::I64, &[4, 2])], 0.0), &|at, v| {
        vec![op(at, Gather { kind: GatherKind::Nd, axis: 0, batch_dims: 0 }, v)]
    });
}

#[test]
fn windows_and_resize() {
    for kind in [WindowKind::Max, WindowKind::Average, WindowKind::L2] {
        for count_include_pad in [false, true] {
            check(case("map", &[t(F32, &[2, 3, 9, 8])], 1e-6), &|at, v| {
                vec![op(
                    at,
                    Window {
                        kind,
                        kernel: vec![3, 2],
                        strides: vec![2, 1],
                        dilations: vec![1, 2],
                        pad_begin: vec![1, 0],
                        pad_end: vec![1, 1],
                        ceil: true,
                        count_include_pad,
                    },
                    v,
                )]
            });
        }
    }
    for (mode, coordinates) in [
        (ResizeMode::Nearest, CoordinateMode::Asymmetric),
        (ResizeMode::Nearest, CoordinateMode::HalfPixel),
        (ResizeMode::Linear, CoordinateMode::HalfPixel),
        (ResizeMode::Linear, CoordinateMode::AlignCorners),
    ] {
        for size in [14, 5, 1] {
            check(case("map", &[t(F32, &[1, 2, 7, 6])], 1e-5), &|at, v| {
                let sizes = [1, 2, size, 9].map(DimExpr::constant).to_vec();
                vec![op(
                    at,
                    Resize {
                        mode,
                        coordinates,
                        rounding: ResizeRounding::RoundPreferFloor,
                        sizes,
                        scales: None,
                        cubic_coefficient: -0.75,
                        exclude_outside: false,
                        region: None,
                        extrapolation_value: 0.0,
                    },
                    v,
                )]
            });
        }
    }
}

#[test]
fn reductions() {
    for kind in [ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max, ReduceKind::Product] {
        for (shape, axes) in [
            (&[4, 7][..], &[1][..]),
            (&[3, 5, 6], &[0, 2]),
            (&[1, 300], &[1]),
            (&[2, 5000], &[1]),
            (&[130, 3], &[0]),
            (&[5, 1], &[1]),
            (&[6], &[0]),
            (&[0, 5], &[0]),
            (&[3, 0], &[1]),
        ] {
            check(case("reduce", &[t(F32, shape)], 1e-4), &|at, v| {
                vec![op(at, Reduce { kind, axes: axes.to_vec(), keep_dims: false }, v)]
            });
        }
    }
    check(case("reduce", &[t(F16, &[20, 64])], 2e-3), &|at, v| {
        vec![op(at, Reduce { kind: ReduceKind::Mean, axes: vec![-1], keep_dims: true }, v)]
    });
    check(case("reduce", &[t(DType::I64, &[20, 9])], 0.0), &|at, v| {
        vec![op(at, Reduce { kind: ReduceKind::Min, axes: vec![1], keep_dims: true }, v)]
    });
    check(case("reduce", &[t(DType::Bool, &[20, 9])], 0.0), &|at, v| {
        vec![op(at, Reduce { kind: ReduceKind::Any, axes: vec![1], keep_dims: true }, v)]
    });
    for last in [false, true] {
        check(case("reduce", &[t(DType::I32, &[20, 50])], 0.0), &|at, v| {
            vec![op(at, ArgReduce { minimum: false, axis: 1, keep_dims: false, last }, v)]
        });
    }
    check(case("reduce", &[t(F32, &[3, 6000])], 0.0), &|at, v| {
        vec![op(at, ArgReduce { minimum: true, axis: 1, keep_dims: false, last: false }, v)]
    });
}

#[test]
fn softmax_and_normalize() {
    for (shape, axis) in [(&[5, 33][..], 1), (&[2, 8, 128], -1), (&[3, 7, 2], 1), (&[2, 5000], 1), (&[4, 1], 1)] {
        for log in [false, true] {
            check(case("reduce", &[t(F32, shape)], 1e-5), &|at, v| vec![op(at, Softmax { axis, log }, v)]);
        }
    }
    check(case("reduce", &[t(F16, &[5, 64])], 1e-3), &|at, v| vec![op(at, Softmax { axis: 1, log: false }, v)]);
    for kind in [NormalizeKind::Layer, NormalizeKind::Rms] {
        for size in [64, 100, 5000] {
            check(case("reduce", &[t(F32, &[3, 4, size]), t(F32, &[size]), t(F32, &[size])], 1e-4), &|at, v| {
                vec![op(at, Normalize { kind, axes: vec![-1], epsilon: 1e-5 }, v)]
            });
        }
    }
    check(case("reduce", &[t(F16, &[6, 128]), t(F16, &[128]), t(F16, &[128])], 5e-3), &|at, v| {
        vec![op(at, Normalize { kind: NormalizeKind::Layer, axes: vec![1], epsilon: 1e-5 }, v)]
    });
}

pub fn contract(lhs: &str, rhs: &str, result: &str, dtype: DType) -> Contract {
    let accumulate = if matches!(dtype, F16 | DType::BF16) {
        F32
    } else if dtype == DType::I8 {
        DType::I32
    } else {
        dtype
    };
    let dtype = if dtype == DType::I8 { DType::I32 } else { dtype };
    Contract { lhs: lhs.into(), rhs: rhs.into(), result: result.into(), accumulate, dtype }
}

#[test]
fn products() {
    for (dtype, tolerance) in [(F32, 1e-5), (F16, 5e-3), (DType::I8, 0.0)] {
        for (m, n, k) in [(64, 64, 32), (65, 33, 17), (1, 100, 50), (128, 7, 64), (5, 1, 3), (200, 130, 70)] {
            check(case("contract", &[t(dtype, &[m, k]), t(dtype, &[k, n])], tolerance), &|at, v| {
                vec![op(at, contract("mk", "kn", "mn", dtype), v)]
            });
        }
        check(case("contract", &[t(dtype, &[40, 48]), t(dtype, &[56, 48])], tolerance), &|at, v| {
            vec![op(at, contract("mk", "nk", "mn", dtype), v)]
        });
        check(case("contract", &[t(dtype, &[2, 3, 16, 24]), t(dtype, &[2, 3, 24, 40])], tolerance), &|at, v| {
            vec![op(at, contract("abmk", "abkn", "abmn", dtype), v)]
        });
        check(case("contract", &[t(dtype, &[4, 32, 3, 16]), t(dtype, &[4, 24, 3, 16])], tolerance), &|at, v| {
            vec![op(at, contract("bthd", "bshd", "bhts", dtype), v)]
        });
        check(case("contract", &[t(dtype, &[30, 20]), t(dtype, &[20, 44])], tolerance), &|at, v| {
            vec![op(at, contract("mk", "kn", "nm", dtype), v)]
        });
    }
}

#[test]
fn products_with_epilogues() {
    for (dtype, tolerance) in [(F32, 1e-5), (F16, 1e-2)] {
        check(
            case(
                "contract",
                &[t(dtype, &[2, 33, 40]), t(dtype, &[40, 48]), t(dtype, &[48]), t(dtype, &[2, 33, 48])],
                tolerance,
            ),
            &|at, v| {
                let product = op(at, contract("bmk", "kn", "bmn", dtype), &v[..2]);
                let biased = ew(at, Function::Add, &[product, v[2]]);
                let active = ew(at, Function::Tanh, &[biased]);
                vec![ew(at, Function::Add, &[active, v[3]])]
            },
        );
    }
}

fn conv(dtype: DType, stride: i64, pad: i64, groups: i64, transposed: bool) -> Convolution {
    Convolution {
        accumulate: F32,
        dtype,
        strides: vec![stride; 2],
        dilations: vec![1; 2],
        pad_begin: vec![pad; 2],
        pad_end: vec![pad; 2],
        groups,
        transposed,
        output_padding: vec![0; 2],
    }
}

#[test]
fn convolutions() {
    for (dtype, tolerance) in [(F32, 1e-5), (F16, 5e-3)] {
        for (input, weight, stride, pad, groups, transposed) in [
            ([1, 3, 14, 15], [16, 3, 3, 3], 1, 1, 1, false),
            ([2, 16, 9, 9], [20, 16, 1, 1], 1, 0, 1, false),
            ([1, 8, 12, 12], [24, 8, 5, 5], 2, 2, 1, false),
            ([1, 8, 10, 10], [8, 1, 3, 3], 1, 1, 8, false),
            ([1, 32, 6, 6], [32, 16, 3, 3], 1, 1, 2, false),
            ([1, 6, 5, 7], [6, 10, 2, 2], 2, 0, 1, true),
            ([1, 4, 5, 5], [4, 3, 3, 3], 2, 1, 1, true),
            ([1, 4, 5, 5], [4, 1, 3, 3], 2, 1, 4, true),
        ] {
            check(case("convolution", &[t(dtype, &input), t(dtype, &weight)], tolerance), &|at, v| {
                vec![op(at, conv(dtype, stride, pad, groups, transposed), v)]
            });
        }
        check(
            case("convolution", &[t(dtype, &[2, 8, 7, 7]), t(dtype, &[12, 8, 3, 3]), t(dtype, &[12, 1, 1])], tolerance),
            &|at, v| {
                let result = op(at, conv(dtype, 1, 1, 1, false), &v[..2]);
                let biased = ew(at, Function::Add, &[result, v[2]]);
                vec![ew(at, Function::Abs, &[biased])]
            },
        );
    }
}
