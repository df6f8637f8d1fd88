//! Kernels whose sizes are known at launch: compiled once for the capacities, run for several extents, against the reference on exactly those
//! shapes. Memory beyond the extents is never written, so that whatever depended on it would be caught as a read of uninitialised memory.

use tenon_graph_dialect::operators::*;
use tenon_graph_dialect::{Dim, DimExpr, TensorType};
use tenon_ir::{Builder, Session, Value};
use tenon_lowering::schedule::lower_kernel;
use tenon_ptx_sim::{Argument, Device, LaunchConfig};
use tenon_reference::{Mode, run_function};
use tenon_target::Target;
use tenon_tensor::{DType, Tensor};

use crate::graph_kernels::{
    Case, add_workspaces, case, check_counters, compare, encode, ew, graph_module, one_multiprocessor, op, random,
};
use crate::support::{compile, compile_for, on};

const F32: DType = DType::F32;
const F16: DType = DType::F16;

/// Capacities of the names that the cases use.
const CAPACITIES: &[(&str, i64)] = &[("b", 4), ("s", 40), ("t", 70), ("long", 5000), ("one", 1)];

fn capacity(name: &str) -> Option<i64> {
    CAPACITIES.iter().find(|(known, _)| *known == name).map(|(_, size)| *size)
}

/// Replaces names in an expression.
type Names<'n> = &'n dyn Fn(&str) -> DimExpr;

type NamedBody<'x> = dyn for<'m> Fn(Builder<'m>, &[Value<'m>], Names<'_>) -> Vec<Value<'m>> + 'x;

fn parse(text: &str) -> DimExpr {
    DimExpr::parse(text).unwrap()
}

/// A type of named dimensions at the capacities.
fn named(dtype: DType, dims: &[&str]) -> TensorType {
    let dim = |text: &&str| {
        let extent = parse(text);
        let bound = extent.upper_bound(&capacity).unwrap() as u64;
        Dim { capacity: Some(bound), extent }
    };
    TensorType::new(dtype, dims.iter().map(dim).collect())
}

fn fixed(ty: &TensorType, point: &[(&str, i64)]) -> TensorType {
    let size = |name: &str| point.iter().find(|(known, _)| *known == name).map(|(_, size)| *size);
    let shape: Vec<u64> = ty.dims.iter().map(|dim| dim.extent.evaluate(&size).unwrap() as u64).collect();
    TensorType::fixed(ty.dtype, &shape)
}

fn check(family: &'static str, inputs: &[TensorType], tolerance: f64, points: &[&[(&str, i64)]], body: &NamedBody<'_>) {
    check_for(Target::find("sm_80").unwrap(), &case(family, inputs, tolerance), points, body);
}

/// [`check`] of a case for any target; gives the PTX.
fn check_for(target: &Target, own: &Case, points: &[&[(&str, i64)]], body: &NamedBody<'_>) -> String {
    let (family, inputs, tolerance) = (own.family, &own.inputs, own.tolerance);
    let session = Session::new();
    let module = graph_module(&session, own, &|at, v| body(at, v, &parse));
    let kernel = module.body().ops()[0].region_block(0).unwrap().ops()[0];
    let hw = session.new_module(session.context().unknown_location()).unwrap();
    let at = Builder::at_end(hw.body()).unwrap().with_location(kernel.location());
    let scheduled = lower_kernel(kernel, at, "k", target).unwrap_or_else(|e| panic!("{}: {e}\n{module}", e.code()));
    hw.verify().unwrap_or_else(|error| panic!("{error}\n{hw}"));
    assert!(!scheduled.extents.is_empty(), "nothing is known at launch only\n{hw}");
    let (info, nvptx) = on(&target.architecture.llvm.processor);
    let text = hw.print(tenon_ir::PrintOptions { locations: true, generic: false });
    let compiled = compile_for(&text, &info, &nvptx);
    crate::support::assemble("k", &compiled.ptx, &nvptx.processor);
    let ptx = tenon_ptx_sim::Module::parse(&compiled.ptx).unwrap();
    for point in points {
        let size = |name: &str| point.iter().find(|(known, _)| *known == name).map(|(_, size)| *size);
        let numbers = |text: &str| parse(text).substitute(&|name| size(name).map(DimExpr::constant)).unwrap();
        let types: Vec<_> = inputs.iter().map(|ty| fixed(ty, point)).collect();
        let exact = case(family, &types, tolerance);
        let reference = graph_module(&session, &exact, &|at, v| body(at, v, &numbers));
        let values: Vec<_> = exact.inputs.iter().enumerate().map(|(i, ty)| random(ty, i as u64 + 1)).collect();
        let expected = run_function(&reference, "main", &values, &|_| None, Mode::Typed).unwrap();
        for seed in [0, 1] {
            let mut device = Device::new();
            let mut arguments = Vec::new();
            let bytes = |ty: &TensorType| {
                let count: u64 = ty.capacities().unwrap().iter().product();
                (count * ty.dtype.size() as u64).max(1)
            };
            for (ty, tensor) in inputs.iter().zip(&values) {
                let pointer = device.allocate(bytes(ty)).unwrap();
                device.write(pointer, 0, tensor.bytes()).unwrap();
                arguments.push(Argument::Pointer(pointer.address()));
            }
            let mut outputs = Vec::new();
            for value in kernel.results() {
                let pointer = device.allocate(bytes(&TensorType::read(value.ty()).unwrap())).unwrap();
                arguments.push(Argument::Pointer(pointer.address()));
                outputs.push(pointer);
            }
            let zeroed = add_workspaces(&mut device, &scheduled.workspaces, &mut arguments);
            for map in &scheduled.tensor_maps {
                let Argument::Pointer(address) = arguments[map.buffer] else { panic!("a tensor map of no pointer") };
                arguments.push(encode(map, address, &size).into());
            }
            for extent in &scheduled.extents {
                arguments.push(Argument::I64(extent.evaluate(&size).unwrap()));
            }
            let config = LaunchConfig {
                grid: scheduled.shape.grid.clone().map(|blocks| blocks.evaluate(&size).unwrap() as u32),
                block: [scheduled.shape.threads(), 1, 1],
                dynamic_shared_bytes: compiled.info.shared_bytes as u32,
                seed,
                ..LaunchConfig::default()
            };
            if config.grid.contains(&0) {
                continue;
            }
            device
                .launch(&ptx, "k", &config, &arguments)
                .unwrap_or_else(|error| panic!("{point:?}: {error}\n{hw}\n{}", compiled.ptx));
            check_counters(&device, &zeroed);
            for (tensor, pointer) in expected.iter().zip(&outputs) {
                let bytes = device.read(*pointer, 0, tensor.bytes().len() as u64).unwrap();
                let got = Tensor::new(tensor.dtype(), tensor.shape().to_vec(), bytes).unwrap();
                compare(&got, tensor, tolerance, &reference);
            }
        }
    }
    compiled.ptx
}

const SMALL: &[&[(&str, i64)]] = &[
    &[("b", 4), ("s", 40), ("t", 70)],
    &[("b", 1), ("s", 1), ("t", 1)],
    &[("b", 3), ("s", 17), ("t", 33)],
    &[("b", 2), ("s", 32), ("t", 64)],
];

/// At most 200 terms of about 1 are within 0.4 by one pass. Rows, columns and batches known at launch do not change which instruction multiplies f32; a length of the sum does, since its bound needs it.
#[test]
fn products_of_f32_as_tf32() {
    let contract =
        |rhs: &str| Contract { lhs: "bmk".into(), rhs: rhs.into(), result: "bmn".into(), accumulate: F32, dtype: F32 };
    let points: &[&[(&str, i64)]] =
        &[&[("b", 4), ("s", 40), ("t", 70)], &[("b", 3), ("s", 33), ("t", 64)], &[("b", 1), ("s", 1), ("t", 1)]];
    for (class, tolerance) in [("reassociates", 1e-4), ("approximates", 0.4)] {
        let own = |types: &[TensorType]| Case { numeric_class: Some(class), ..case("contract", types, tolerance) };
        let types = [named(F32, &["b", "s", "128"]), named(F32, &["b", "128", "t"])];
        let ptx = check_for(Target::find("sm_80").unwrap(), &own(&types), points, &|at, v, _| {
            vec![op(at, contract("bkn"), v)]
        });
        assert!(ptx.contains("mma.sync.aligned.m16n8k8.row.col.f32.tf32"), "{class}");
        let types = [named(F32, &["b", "s", "long"]), named(F32, &["b", "24", "long"])];
        let points: &[&[(&str, i64)]] = &[&[("b", 2), ("s", 20), ("long", 200)], &[("b", 1), ("s", 9), ("long", 3)]];
        let ptx = check_for(Target::find("sm_80").unwrap(), &own(&types), points, &|at, v, _| {
            vec![op(at, contract("bnk"), v)]
        });
        assert_eq!(ptx.contains("mma.sync"), class == "approximates");
    }
}

/// Rows known at launch share the counters of the most; a sum of unknown length is not split.
#[test]
fn split_products() {
    let points: &[&[(&str, i64)]] = &[&[("b", 2), ("s", 40)], &[("b", 1), ("s", 33)], &[("b", 2), ("s", 1)]];
    for (architecture, dtype) in [("sm_80", F16), ("sm_80", F32), ("sm_90a", F16)] {
        let own = |types: &[TensorType]| Case { numeric_class: Some("reassociates"), ..case("contract", types, 2e-2) };
        let types = [named(dtype, &["b", "s", "1984"]), named(dtype, &["1984", "40"])];
        let product =
            |lhs: &str| Contract { lhs: lhs.into(), rhs: "kn".into(), result: "bmn".into(), accumulate: F32, dtype };
        let ptx = check_for(Target::find(architecture).unwrap(), &own(&types), points, &|at, v, _| {
            vec![op(at, product("bmk"), v)]
        });
        assert!(ptx.contains("atom.acq_rel.gpu"), "{ptx}");
        let types = [named(dtype, &["b", "40", "long"]), named(dtype, &["long", "40"])];
        let points: &[&[(&str, i64)]] = &[&[("b", 2), ("long", 200)]];
        let ptx = check_for(Target::find(architecture).unwrap(), &own(&types), points, &|at, v, _| {
            vec![op(at, product("bmk"), v)]
        });
        assert!(!ptx.contains("atom."), "{ptx}");
    }
}

#[test]
fn pointwise_and_movement() {
    check("map", &[named(F32, &["b", "s", "12"]), named(F32, &["12"])], 0.0, SMALL, &|at, v, _| {
        vec![ew(at, Function::Add, v)]
    });
    check("map", &[named(F32, &["b", "1", "s"]), named(F32, &["7", "1"])], 0.0, SMALL, &|at, v, _| {
        vec![ew(at, Function::Multiply, v)]
    });
    check("map", &[named(F16, &["b", "s", "4", "8"])], 0.0, SMALL, &|at, v, _| {
        vec![op(at, Transpose { permutation: vec![0, 2, 1, 3] }, v)]
    });
    check("map", &[named(F32, &["b", "s", "6"])], 0.0, SMALL, &|at, v, dim| {
        let flat = op(at, Reshape { shape: vec![dim("b*s"), dim("6")] }, v);
        vec![op(at, Transpose { permutation: vec![1, 0] }, &[flat])]
    });
    // Parts of a concatenation lie one behind the other by their extents.
    check("map", &[named(F32, &["b", "s", "5"]), named(F32, &["b", "t", "5"])], 0.0, SMALL, &|at, v, _| {
        vec![op(at, Concat { axis: 1 }, v)]
    });
    check("map", &[named(F32, &["b", "s", "3"])], 0.0, SMALL, &|at, v, dim| {
        // The last row of each batch, whose place follows from the extent.
        let starts = vec![dim("0"), dim("s-1"), dim("0")];
        let sizes = vec![dim("b"), dim("1"), dim("3")];
        vec![op(at, Slice { starts, sizes, steps: vec![1, 1, 1] }, v)]
    });
    for mode in [PadMode::Constant, PadMode::Edge, PadMode::Wrap] {
        check("map", &[named(F32, &["b", "s"]), named(F32, &[])], 0.0, SMALL, &|at, v, dim| {
            let pad = Pad { mode, low: vec![dim("0"), dim("2")], high: vec![dim("0"), dim("40-s")] };
            vec![op(at, pad, v)]
        });
    }
    check("map", &[named(F32, &["s", "6"]), named(DType::I64, &["b", "t"])], 0.0, &SMALL[..1], &|at, v, _| {
        vec![op(at, Gather { kind: GatherKind::Take, axis: 0, batch_dims: 0 }, v)]
    });
    check("map", &[named(F32, &["b", "s"])], 0.0, SMALL, &|at, v, _| vec![op(at, DimExtent { axis: 1 }, v)]);
}

#[test]
fn reductions() {
    let long: &[&[(&str, i64)]] = &[&[("b", 4), ("long", 5000)], &[("b", 3), ("long", 4097)], &[("b", 2), ("long", 5)]];
    for kind in [ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max] {
        check("reduce", &[named(F32, &["b", "s", "6"])], 1e-5, SMALL, &|at, v, _| {
            vec![op(at, Reduce { kind, axes: vec![1], keep_dims: false }, v)]
        });
        check("reduce", &[named(F32, &["b", "long"])], 1e-5, long, &|at, v, _| {
            vec![op(at, Reduce { kind, axes: vec![1], keep_dims: true }, v)]
        });
    }
    check("reduce", &[named(F32, &["b", "8", "s"])], 1e-5, SMALL, &|at, v, _| {
        vec![op(at, Softmax { axis: -1, log: false }, v)]
    });
    check("reduce", &[named(F32, &["b", "long"])], 1e-5, long, &|at, v, _| {
        vec![op(at, Softmax { axis: 1, log: true }, v)]
    });
    for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
        check("scan", &[named(F32, &["b", "s", "3"])], 1e-5, SMALL, &|at, v, _| {
            vec![op(at, Scan { kind: ScanKind::Sum, axis: 1, exclusive, reverse }, v)]
        });
        check("scan", &[named(F32, &["b", "long"])], 1e-4, long, &|at, v, _| {
            vec![op(at, Scan { kind: ScanKind::Sum, axis: 1, exclusive, reverse }, v)]
        });
    }
    // Of one element at most, and of none.
    let few: &[&[(&str, i64)]] = &[&[("b", 3), ("one", 1)], &[("b", 3), ("one", 0)]];
    for kind in [ReduceKind::Sum, ReduceKind::Product, ReduceKind::Max] {
        check("reduce", &[named(F32, &["b", "one"])], 0.0, few, &|at, v, _| {
            vec![op(at, Reduce { kind, axes: vec![1], keep_dims: false }, v)]
        });
    }
    check("reduce", &[named(F32, &["b", "one"])], 0.0, few, &|at, v, _| {
        vec![op(at, Softmax { axis: 1, log: false }, v)]
    });
    check("scan", &[named(F32, &["b", "one"])], 0.0, few, &|at, v, _| {
        vec![op(at, Scan { kind: ScanKind::Sum, axis: 1, exclusive: false, reverse: false }, v)]
    });
    check("reduce", &[named(F32, &["b", "s"])], 0.0, SMALL, &|at, v, _| {
        vec![op(at, ArgReduce { minimum: false, axis: 1, keep_dims: false, last: false }, v)]
    });
}

#[test]
fn products() {
    for dtype in [F32, F16] {
        let contract = |lhs: &str, rhs: &str, result: &str| Contract {
            lhs: lhs.into(),
            rhs: rhs.into(),
            result: result.into(),
            accumulate: F32,
            dtype,
        };
        let tolerance = if dtype == F32 { 1e-5 } else { 2e-3 };
        // Rows, columns and terms that are known at launch.
        check(
            "contract",
            &[named(dtype, &["b", "s", "24"]), named(dtype, &["24", "32"])],
            tolerance,
            SMALL,
            &|at, v, _| vec![op(at, contract("bmk", "kn", "bmn"), v)],
        );
        check(
            "contract",
            &[named(dtype, &["b", "s", "16"]), named(dtype, &["b", "t", "16"])],
            tolerance,
            SMALL,
            &|at, v, _| vec![op(at, contract("bmk", "bnk", "bmn"), v)],
        );
        check(
            "contract",
            &[named(dtype, &["b", "8", "t"]), named(dtype, &["b", "t", "16"])],
            tolerance,
            SMALL,
            &|at, v, _| vec![op(at, contract("bmk", "bkn", "bmn"), v)],
        );
    }
}

#[test]
fn windows() {
    let image = |dims: &[&str]| named(F32, dims);
    check("map", &[image(&["b", "3", "s", "t"])], 1e-5, SMALL, &|at, v, _| {
        let window = Window {
            kind: WindowKind::Average,
            kernel: vec![3, 3],
            strides: vec![2, 1],
            dilations: vec![1, 1],
            pad_begin: vec![1, 1],
            pad_end: vec![1, 1],
            ceil: false,
            count_include_pad: false,
        };
        vec![op(at, window, v)]
    });
    let convolution = |groups| Convolution {
        strides: vec![2, 1],
        dilations: vec![1, 1],
        pad_begin: vec![1, 1],
        pad_end: vec![1, 1],
        output_padding: vec![0, 0],
        groups,
        transposed: false,
        accumulate: F32,
        dtype: F32,
    };
    check("convolution", &[image(&["b", "8", "s", "t"]), image(&["16", "8", "3", "3"])], 1e-4, SMALL, &|at, v, _| {
        vec![op(at, convolution(1), v)]
    });
    check("convolution", &[image(&["b", "8", "s", "t"]), image(&["8", "1", "3", "3"])], 1e-4, SMALL, &|at, v, _| {
        vec![op(at, convolution(8), v)]
    });
}

/// Rows of a tensor of 2.8 thousand million bytes, the last ones beyond what 32 bits can count. Only the rows that are read are written, so that
/// the host need not hold the others.
#[test]
fn offsets_beyond_32_bits() {
    const ROWS: u64 = 70_000;
    const COLUMNS: u64 = 40_000;
    let session = Session::new();
    let inputs = vec![TensorType::fixed(DType::U8, &[ROWS, COLUMNS]), TensorType::fixed(DType::I64, &[3])];
    let picked = [69_999i64, 53_688, -1];
    let row = |number: u64| -> Vec<u8> { (0..COLUMNS).map(|column| (number * 31 + column * 7) as u8).collect() };
    let bodies: [(&'static str, &crate::graph_kernels::Body<'_>); 2] = [
        ("map", &|at, v| vec![op(at, Gather { kind: GatherKind::Take, axis: 0, batch_dims: 0 }, v)]),
        ("reduce", &|at, v| {
            let starts = vec![parse("69990"), parse("5")];
            let part = op(at, Slice { starts, sizes: vec![parse("2"), parse("100")], steps: vec![9, 1] }, &v[..1]);
            vec![op(at, Reduce { kind: ReduceKind::Max, axes: vec![1], keep_dims: false }, &[part])]
        }),
    ];
    for (family, body) in bodies {
        let module = graph_module(&session, &case(family, &inputs, 0.0), body);
        let kernel = module.body().ops()[0].region_block(0).unwrap().ops()[0];
        let hw = session.new_module(session.context().unknown_location()).unwrap();
        let at = Builder::at_end(hw.body()).unwrap().with_location(kernel.location());
        let scheduled = lower_kernel(kernel, at, "k", Target::find("sm_80").unwrap()).unwrap();
        let compiled = compile(&hw.print(tenon_ir::PrintOptions { locations: true, generic: false }));
        let ptx = tenon_ptx_sim::Module::parse(&compiled.ptx).unwrap();
        let mut device = Device::new();
        let data = device.allocate(ROWS * COLUMNS).unwrap();
        for number in [69_999, 53_688, 69_990] {
            device.write(data, number * COLUMNS, &row(number)).unwrap();
        }
        let indices = device.allocate(24).unwrap();
        device.write(indices, 0, &picked.iter().flat_map(|index| index.to_le_bytes()).collect::<Vec<_>>()).unwrap();
        let output = device.allocate(3 * COLUMNS).unwrap();
        let arguments = [data, indices, output].map(|pointer| Argument::Pointer(pointer.address()));
        let config = LaunchConfig {
            grid: scheduled.shape.grid.clone().map(|blocks| blocks.as_constant().unwrap() as u32),
            block: [scheduled.shape.threads(), 1, 1],
            dynamic_shared_bytes: compiled.info.shared_bytes as u32,
            ..LaunchConfig::default()
        };
        device.launch(&ptx, "k", &config, &arguments).unwrap_or_else(|error| panic!("{error}\n{hw}"));
        if family == "map" {
            let expected = [row(69_999), row(53_688), row(69_999)].concat();
            assert_eq!(device.read(output, 0, 3 * COLUMNS).unwrap(), expected);
        } else {
            let largest = |number: u64| *row(number)[5..105].iter().max().unwrap();
            assert_eq!(device.read(output, 0, 2).unwrap(), [largest(69_990), largest(69_999)]);
        }
    }
}

#[test]
fn scans_scatters_and_selections() {
    for (dims, axis) in [(["b", "long"], 1), (["s", "b"], 0)] {
        let points: &[&[(&str, i64)]] = &[&[("b", 4), ("s", 40), ("long", 5000)], &[("b", 1), ("s", 1), ("long", 1)]];
        for (exclusive, reverse) in [(false, false), (true, true)] {
            check("scan", &[named(DType::I32, &dims)], 0.0, points, &|at, v, _| {
                vec![op(at, Scan { kind: ScanKind::Sum, axis, exclusive, reverse }, v)]
            });
        }
    }
    for combine in [Combine::Set, Combine::Add] {
        let elements = [named(F32, &["8", "s"]), named(DType::I64, &["t", "s"]), named(F32, &["t", "s"])];
        check("scatter", &elements, 0.0, SMALL, &|at, v, _| {
            vec![op(at, Scatter { kind: ScatterKind::Elements, combine, axis: 0 }, v)]
        });
        let tuples = [named(F32, &["8", "b", "s"]), named(DType::I32, &["t", "1"]), named(F32, &["t", "b", "s"])];
        check("scatter", &tuples, 0.0, SMALL, &|at, v, _| {
            vec![op(at, Scatter { kind: ScatterKind::Nd, combine, axis: 0 }, v)]
        });
    }
    for (dims, axis) in [(["b", "s+3"], 1), (["t+3", "s"], 0)] {
        check("top_k", &[named(F32, &dims)], 0.0, SMALL, &|at, v, _| {
            tenon_graph_dialect::Operator::from(TopK { k: 3, axis, smallest: false }).build(at, v).unwrap()
        });
    }
}

#[test]
fn interpolation() {
    for (mode, coordinates) in [
        (ResizeMode::Nearest, CoordinateMode::Asymmetric),
        (ResizeMode::Nearest, CoordinateMode::HalfPixel),
        (ResizeMode::Linear, CoordinateMode::HalfPixel),
        (ResizeMode::Linear, CoordinateMode::AlignCorners),
        (ResizeMode::Cubic, CoordinateMode::PytorchHalfPixel),
    ] {
        for (size, scale) in [("2*s", 2.0), ("3*s+1", 1.0)] {
            check("map", &[named(F32, &["b", "s"])], 2e-6, SMALL, &|at, v, dim| {
                let resize = Resize {
                    mode,
                    coordinates,
                    rounding: ResizeRounding::Floor,
                    sizes: vec![dim("b"), dim(size)],
                    scales: (scale != 1.0).then(|| vec![1.0, scale]),
                    cubic_coefficient: -0.75,
                    exclude_outside: false,
                    region: None,
                    extrapolation_value: 0.0,
                };
                vec![op(at, resize, v)]
            });
        }
    }
}

/// Lengths of queries and keys that are known at launch, without and with an order of times.
#[test]
fn attention() {
    for dtype in [F16, F32] {
        let tolerance = if dtype == F16 { 2e-3 } else { 5e-6 };
        for causal in [None, Some(Causal::Start), Some(Causal::End)] {
            let inputs = [
                named(dtype, &["b", "2", "s", "16"]),
                named(dtype, &["b", "2", "t", "16"]),
                named(dtype, &["b", "2", "t", "16"]),
            ];
            check("attention", &inputs, tolerance, SMALL, &|at, v, _| {
                vec![op(at, Attention { scale: 0.25, softcap: None, causal, plain_softmax: false }, v)]
            });
        }
        let masked = [
            named(dtype, &["b", "2", "s", "16"]),
            named(dtype, &["b", "1", "t", "16"]),
            named(dtype, &["b", "1", "t", "16"]),
            named(DType::Bool, &["b", "1", "1", "t"]),
        ];
        for plain_softmax in [false, true] {
            check("attention", &masked, tolerance, SMALL, &|at, v, _| {
                vec![op(at, Attention { scale: 0.25, softcap: None, causal: None, plain_softmax }, v)]
            });
        }
    }
}

/// Tensor maps get their sizes and strides at launch. Rows and terms may be any number; what is consecutive has a stride of whole 16 bytes.
#[test]
fn products_by_tensor_maps() {
    let contract = |lhs: &str, rhs: &str, result: &str| Contract {
        lhs: lhs.into(),
        rhs: rhs.into(),
        result: result.into(),
        accumulate: F32,
        dtype: F16,
    };
    let points: &[&[(&str, i64)]] = &[
        &[("b", 4), ("s", 40), ("t", 70)],
        &[("b", 1), ("s", 1), ("t", 1)],
        &[("b", 3), ("s", 17), ("t", 33)],
        &[("b", 2), ("s", 0), ("t", 5)],
        &[("b", 2), ("s", 9), ("t", 0)],
    ];
    let uses = |ptx: String| assert!(ptx.contains("wgmma.mma_async") && ptx.contains("cp.async.bulk.tensor"), "{ptx}");
    // Rows, and terms, of extents.
    let inputs = [named(F16, &["b", "s", "72"]), named(F16, &["72", "136"]), named(F16, &["136"])];
    uses(check_for(&one_multiprocessor("sm_90a"), &case("contract", &inputs, 5e-3), points, &|at, v, _| {
        let product = op(at, contract("bsk", "kn", "bsn"), &v[..2]);
        vec![ew(at, Function::Add, &[product, v[2]])]
    }));
    // Terms that the loop counts at launch.
    let inputs = [named(F16, &["b", "8*t", "64"]), named(F16, &["b", "8*t", "128"])];
    uses(check_for(&one_multiprocessor("sm_90a"), &case("contract", &inputs, 5e-3), points, &|at, v, _| {
        vec![op(at, contract("bkm", "bkn", "bmn"), v)]
    }));
    // Strides that are extents.
    let inputs = [named(F16, &["64", "8*t"]), named(F16, &["8*s", "8*t"])];
    uses(check_for(&one_multiprocessor("sm_90a"), &case("contract", &inputs, 5e-3), points, &|at, v, _| {
        vec![op(at, contract("mk", "nk", "mn"), v)]
    }));
}

/// Queries and keys of attention by warpgroups are counted at launch; there may be none of either.
#[test]
fn attention_by_tensor_maps() {
    let points: &[&[(&str, i64)]] = &[
        &[("b", 4), ("s", 40), ("t", 70)],
        &[("b", 1), ("s", 1), ("t", 1)],
        &[("b", 3), ("s", 17), ("t", 33)],
        &[("b", 2), ("s", 32), ("t", 64)],
        &[("b", 2), ("s", 0), ("t", 5)],
        &[("b", 2), ("s", 9), ("t", 0)],
    ];
    for dtype in [F16, DType::BF16] {
        let tolerance = if dtype == F16 { 2e-3 } else { 1.6e-2 };
        let run = |inputs: &[TensorType], attention: &Attention| {
            let own = case("attention", inputs, tolerance);
            let ptx =
                check_for(&one_multiprocessor("sm_90a"), &own, points, &|at, v, _| vec![op(at, attention.clone(), v)]);
            assert!(ptx.contains("wgmma.mma_async") && ptx.contains("cp.async.bulk.tensor"), "{ptx}");
        };
        let operands = |keys: &str| {
            [
                named(dtype, &["b", "2", "4*s", "64"]),
                named(dtype, &["b", "1", keys, "64"]),
                named(dtype, &["b", "1", keys, "64"]),
            ]
        };
        for causal in [None, Some(Causal::Start), Some(Causal::End)] {
            run(&operands("3*t"), &Attention { scale: 0.25, softcap: None, causal, plain_softmax: false });
        }
        for plain_softmax in [false, true] {
            let mask = named(DType::Bool, &["b", "1", "1", "3*t"]);
            let inputs = [&operands("3*t")[..], &[mask]].concat();
            run(&inputs, &Attention { scale: 0.25, softcap: None, causal: None, plain_softmax });
        }
    }
}
