//! Whatever a plan and its inputs are: what passes validation runs on a device that checks every call, and touches nothing that is not its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use tenon_runtime::device::{
    AllocationTable, Counters, DevicePointer, KernelArgument, KernelHandle, KernelLaunch, ModuleHandle, Stream,
};
use tenon_runtime::plan::{
    Argument, Buffer, Copy, EventMark, Expr, Launch, MemoryKind, Memset, Operation, Place, Step, TensorSlot,
};
use tenon_runtime::*;
use tenon_tensor::{DType, Tensor};

/// A device that keeps nothing but its allocations and checks each call against them. Its kernels are those named `k`.
struct Checker {
    placement: Placement,
    allocations: Mutex<AllocationTable<()>>,
    next: Mutex<u64>,
    launches: AtomicUsize,
}

impl Checker {
    fn new(placement: Placement) -> Checker {
        Checker { placement, allocations: Mutex::default(), next: Mutex::new(1 << 20), launches: AtomicUsize::new(0) }
    }

    fn check<T>(&self, what: &str, found: Result<T, impl std::fmt::Display>) -> Result<(), DeviceError> {
        let wrong = |error| DeviceError::Access { device: self.name(), message: format!("{what}: {error}") };
        found.map(drop).map_err(wrong)
    }

    fn range(&self, what: &str, pointer: DevicePointer, bytes: u64) -> Result<(), DeviceError> {
        self.check(what, self.allocations.lock().unwrap().find(pointer.0, bytes))
    }
}

impl Device for Checker {
    fn name(&self) -> String {
        "checker".to_owned()
    }

    fn placement(&self) -> Placement {
        self.placement
    }

    fn load_module(&self, _ptx: &str) -> Result<ModuleHandle, DeviceError> {
        Ok(ModuleHandle(0))
    }

    fn kernel(&self, module: ModuleHandle, entry: &str) -> Result<Option<KernelHandle>, DeviceError> {
        Ok((entry == "k").then_some(KernelHandle { module, entry: 0 }))
    }

    fn unload_module(&self, _module: ModuleHandle) -> Result<(), DeviceError> {
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePointer, DeviceError> {
        let mut next = self.next.lock().unwrap();
        let address = *next;
        let Some(end) = address.checked_add(bytes).and_then(|end| end.checked_add(512)) else {
            let device = self.name();
            return Err(DeviceError::OutOfMemory { device, wanted: bytes, in_use: address, capacity: u64::MAX });
        };
        *next = end & !255;
        self.allocations.lock().unwrap().insert(address, bytes, ());
        Ok(DevicePointer(address))
    }

    fn free(&self, pointer: DevicePointer) -> Result<(), DeviceError> {
        self.check("free", self.allocations.lock().unwrap().remove(pointer.0))
    }

    fn upload(&self, target: DevicePointer, data: &[u8], _stream: Stream) -> Result<(), DeviceError> {
        self.range("upload", target, data.len() as u64)
    }

    fn download(&self, source: DevicePointer, target: &mut [u8], _stream: Stream) -> Result<(), DeviceError> {
        self.range("download", source, target.len() as u64)
    }

    fn copy(&self, from: DevicePointer, to: DevicePointer, bytes: u64, _stream: Stream) -> Result<(), DeviceError> {
        self.check("copy", self.allocations.lock().unwrap().find_copy(from.0, to.0, bytes))
    }

    fn memset(&self, target: DevicePointer, _byte: u8, bytes: u64, _stream: Stream) -> Result<(), DeviceError> {
        self.range("memset", target, bytes)
    }

    fn discard(&self, target: DevicePointer, bytes: u64) -> Result<(), DeviceError> {
        self.range("discard", target, bytes)
    }

    fn record_event(&self, _event: u32, _stream: Stream) -> Result<(), DeviceError> {
        Ok(())
    }

    fn wait_event(&self, _event: u32, _stream: Stream) -> Result<(), DeviceError> {
        Ok(())
    }

    fn launch(&self, launch: &KernelLaunch<'_>, _stream: Stream) -> Result<Option<Counters>, DeviceError> {
        self.launches.fetch_add(1, Ordering::Relaxed);
        let blocks = launch.grid.iter().zip([i32::MAX as u32, 65_535, 65_535]);
        let threads: u32 = launch.block.iter().product();
        if !blocks.into_iter().all(|(size, most)| (1..=most).contains(size)) || !(1..=1024).contains(&threads) {
            let wrong = Err::<(), _>(format!("grid {:?}, block {:?}", launch.grid, launch.block));
            return self.check("launch", wrong).map(|()| None);
        }
        for argument in launch.arguments {
            if let KernelArgument::Pointer(pointer) = argument {
                self.range("argument", *pointer, 0)?;
            }
        }
        Ok(None)
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// Choices from a list of numbers, the last of them again and again.
struct Choices<'a> {
    numbers: &'a [u32],
    at: usize,
}

impl Choices<'_> {
    fn number(&mut self, below: usize) -> usize {
        let number = self.numbers.get(self.at).or(self.numbers.last()).copied().unwrap_or(0);
        self.at += 1;
        number as usize % below.max(1)
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.number(from.len())].clone()
    }

    fn often(&mut self) -> bool {
        self.number(8) != 0
    }
}

/// Expressions that sizes are made of; most are ones that fit capacities of 6 and 4.
const SIZES: &[&str] = &[
    "a",
    "b",
    "a",
    "b",
    "floordiv(a+1,2)",
    "min(a,b)",
    "max(a-b,0)",
    "2*a-6",
    "6-a",
    "(6-a)*(6-a)",
    "a*b",
    "b-a",
    "max(6-a,0)*4000000000000000000",
    "c",
    "a+",
];

fn size(choices: &mut Choices<'_>, capacity: u64) -> Expr {
    match choices.number(3) {
        0 => Expr::Number(capacity),
        _ => {
            let sizes = if choices.number(3) > 0 { &SIZES[..4] } else { SIZES };
            Expr::Text(choices.pick(sizes).to_owned())
        }
    }
}

fn slot(choices: &mut Choices<'_>, name: &str) -> TensorSlot {
    let rank = choices.number(3);
    let shape: Vec<u64> = (0..rank).map(|_| choices.pick(&[6, 4, 0, 1, 36, 8])).collect();
    let dtype = choices.pick(&[DType::F32, DType::I64, DType::Bool, DType::I4, DType::F16]);
    let extents = choices.often().then(|| shape.iter().map(|capacity| size(choices, *capacity)).collect());
    TensorSlot { extents, ..TensorSlot::new(name, dtype, &shape) }
}

fn place(choices: &mut Choices<'_>, plan: &LaunchPlan) -> Place {
    let any = |choices: &mut Choices<'_>, count: usize| {
        // Now and then one too many.
        let count = count + usize::from(!choices.often());
        choices.number(count) as u32
    };
    match choices.number(4) {
        0 => Place::Input(any(choices, plan.inputs.len())),
        1 => Place::Buffer(any(choices, plan.buffers.len())),
        2 => Place::Parameter(any(choices, plan.parameters.len())),
        _ => Place::Output(any(choices, plan.outputs.len())),
    }
}

/// A plan that is mostly right.
fn random_plan(choices: &mut Choices<'_>) -> LaunchPlan {
    let mut plan = LaunchPlan::new("random");
    plan.extents = vec!["a".into(), "b".into()];
    let names = TensorSlot::new("names", DType::F32, &[6, 4]);
    plan.inputs.push(TensorSlot { extents: Some(vec![Expr::Text("a".into()), Expr::Text("b".into())]), ..names });
    if choices.number(2) == 0 {
        plan.inputs.push(slot(choices, "x"));
    }
    plan.parameters.push(TensorSlot::new("w", DType::F32, &[3]));
    for name in ["y", "z"].into_iter().take(1 + choices.number(2)) {
        plan.outputs.push(slot(choices, name));
    }
    let count = 1 + choices.number(4);
    plan.arena_bytes = 512;
    for index in 0..choices.number(4) {
        let first = choices.number(count) as u32;
        let last = if choices.often() { count as u32 - 1 } else { first + choices.number(3) as u32 };
        plan.buffers.push(Buffer {
            name: format!("buffer{index}"),
            dtype: DType::F32,
            shape: vec![choices.pick(&[6, 24, 0])],
            offset: 128 * (if choices.often() { index } else { choices.number(5) }) as u64,
            bytes: choices.pick(&[96, 96, 128, 24, 0]),
            alignment: 128,
            first: if choices.often() { 0 } else { first },
            last,
            memory: MemoryKind::Device,
            zeroed: false,
        });
    }
    for index in 0..count {
        let step = random_step(choices, &plan, index);
        plan.steps.push(step);
    }
    // Every output is written by something.
    let outputs = (0..plan.outputs.len() as u32).map(Argument::Output).collect();
    plan.steps.push(launch([1.into(), 1.into(), 1.into()], outputs));
    plan
}

fn launch(grid: [Expr; 3], arguments: Vec<Argument>) -> Step {
    let entry = "k".to_owned();
    Step::new(Operation::Launch(Launch {
        entry,
        grid,
        block: [32, 1, 1],
        dynamic_shared_bytes: 0,
        cluster: None,
        arguments,
    }))
}

fn random_step(choices: &mut Choices<'_>, plan: &LaunchPlan, index: usize) -> Step {
    match choices.number(5) {
        0 | 1 => {
            let grid = [size(choices, 2), size(choices, 1), size(choices, 1)];
            let count = choices.number(4);
            let argument = |choices: &mut Choices<'_>| match choices.number(3) {
                0 => Argument::Extent(size(choices, 7)),
                _ => Argument::from(place(choices, plan)),
            };
            launch(grid, (0..count).map(|_| argument(choices)).collect())
        }
        2 => {
            let (source, target) = (place(choices, plan), place(choices, plan));
            let whole = plan.place_bytes(target).unwrap_or(0);
            let bytes = if choices.number(2) == 0 {
                whole.into()
            } else {
                Expr::Text(choices.pick(&["4*a", "40*(6-a)", "96-a", "a*b"]).into())
            };
            Step::new(Operation::Copy(Copy { source, target, bytes }))
        }
        3 => {
            let target = place(choices, plan);
            let whole = plan.place_bytes(target).unwrap_or(0);
            let bytes = if choices.number(2) == 0 {
                whole.into()
            } else {
                Expr::Text(choices.pick(&["4*a", "b", "30*(6-a)"]).into())
            };
            Step::new(Operation::Memset(Memset { target, byte: 1, bytes }))
        }
        _ => Step::new(Operation::Event(EventMark { event: index as u32 })),
    }
}

/// What happened to a plan and its inputs.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// Refused as it is.
    Invalid,
    /// Refused for these inputs.
    Refused,
    Ran,
}

fn fate(numbers: &[u32], placement: Placement) -> Result<Fate, TestCaseError> {
    let choices = &mut Choices { numbers, at: 0 };
    let plan = random_plan(choices);
    let weight = ("w".to_owned(), Tensor::zeros(DType::F32, vec![3]).unwrap());
    let executable = match Executable::new(plan.clone(), vec![String::new()], [weight]) {
        Ok(executable) => Arc::new(executable),
        Err(error) => {
            prop_assert!(["E0703", "E0704"].contains(&error.code()), "{} {error}", error.code());
            return Ok(Fate::Invalid);
        }
    };
    // A valid plan survives being stored.
    prop_assert_eq!(&LaunchPlan::from_json(&plan.to_json().unwrap()).unwrap(), &plan);
    let checker = Arc::new(Checker::new(placement));
    let mut instance = Instance::new(checker.clone(), executable).unwrap();
    let mut fate = Fate::Refused;
    for _ in 0..2 {
        let (a, b) = (choices.number(8), choices.number(5));
        let extent = |expression: &Expr| {
            expression.parse()?.evaluate(&|name| {
                [("a", a), ("b", b)].iter().find(|(known, _)| *known == name).map(|(_, value)| *value as i64)
            })
        };
        let mut inputs = Vec::new();
        for slot in &plan.inputs {
            let size = |dimension| match choices.number(20) {
                0 => choices.number(9),
                _ => extent(&slot.extent(dimension)).and_then(|size| usize::try_from(size).ok()).unwrap_or(0).min(64),
            };
            let shape = (0..slot.shape.len()).map(size).collect();
            inputs.push((slot.name.clone(), Tensor::zeros(slot.dtype, shape).unwrap()));
        }
        let before = checker.launches.load(Ordering::Relaxed);
        match instance.run(&inputs) {
            Ok(result) => {
                fate = Fate::Ran;
                for ((name, tensor), slot) in result.outputs.iter().zip(&plan.outputs) {
                    prop_assert_eq!((name, tensor.dtype()), (&slot.name, slot.dtype));
                    for (dimension, size) in tensor.shape().iter().enumerate() {
                        let lookup = |name: &str| result.extents.get(name).copied();
                        let expected = slot.extent(dimension).parse().unwrap().evaluate(&lookup);
                        prop_assert_eq!(Some(*size as i64), expected);
                        prop_assert!(*size as u64 <= slot.shape[dimension]);
                    }
                }
            }
            Err(error) => {
                let expected = ["E0715", "E0717", "E0718", "E0719"];
                prop_assert!(expected.contains(&error.code()), "{} {error}", error.code());
                prop_assert_eq!(checker.launches.load(Ordering::Relaxed), before, "nothing may run");
            }
        }
    }
    drop(instance);
    prop_assert_eq!(checker.allocations.lock().unwrap().addresses().count(), 0);
    Ok(fate)
}

#[test]
fn a_valid_plan_touches_nothing_that_is_not_its_own() {
    let counts = [AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0)];
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20_000) };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let strategy = (proptest::collection::vec(any::<u32>(), 1..120), any::<bool>());
    let test = |(numbers, arena): (Vec<u32>, bool)| {
        let placement = if arena { Placement::Arena } else { Placement::Separate };
        counts[fate(&numbers, placement)? as usize].fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    if let Err(error) = runner.run(&strategy, test) {
        panic!("{error}");
    }
    // The plans are of all kinds, or the test shows little.
    let counts = counts.map(|count| count.load(Ordering::Relaxed));
    assert!(counts.iter().all(|count| *count > 500), "invalid, refused, ran: {counts:?}");
}
