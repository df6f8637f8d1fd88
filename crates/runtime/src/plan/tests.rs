//! Plans that must be refused, each by its code, and damaged text.

use proptest::prelude::*;
use tenon_tensor::DType;

use super::*;

/// `y = relu(x + w)` by two kernels with a buffer between them.
fn sample() -> LaunchPlan {
    let mut plan = LaunchPlan::new("main");
    plan.arena_bytes = 512;
    plan.inputs.push(TensorSlot::new("x", DType::F32, &[4, 8]));
    plan.parameters.push(TensorSlot::new("w", DType::F32, &[8]));
    plan.outputs.push(TensorSlot::new("y", DType::F32, &[4, 8]));
    plan.buffers.push(buffer(0, 0, 0, 1));
    let launch = |entry: &str, arguments: Vec<Argument>| {
        Step::new(Operation::Launch(Launch {
            entry: entry.to_owned(),
            grid: [Expr::Number(1), Expr::Number(1), Expr::Number(1)],
            block: [32, 1, 1],
            dynamic_shared_bytes: 0,
            cluster: None,
            arguments,
        }))
    };
    plan.steps.push(launch("add", vec![Argument::Input(0), Argument::Parameter(0), Argument::Buffer(0)]));
    plan.steps.push(launch("relu", vec![Argument::Buffer(0), Argument::Output(0)]));
    plan
}

fn buffer(offset: u64, alignment: u64, first: u32, last: u32) -> Buffer {
    Buffer {
        name: "sum".into(),
        dtype: DType::F32,
        shape: vec![4, 8],
        offset,
        bytes: 128,
        alignment: alignment.max(1),
        first,
        last,
        memory: MemoryKind::Device,
        zeroed: false,
    }
}

fn code(change: impl FnOnce(&mut LaunchPlan)) -> &'static str {
    let mut plan = sample();
    change(&mut plan);
    plan.validate().unwrap_err().code()
}

fn launch_of(plan: &mut LaunchPlan, index: usize) -> &mut Launch {
    match &mut plan.steps[index].operation {
        Operation::Launch(launch) => launch,
        _ => panic!("the sample's steps are launches"),
    }
}

#[test]
fn the_stored_form_round_trips() {
    let plan = sample();
    plan.check_supported().unwrap();
    let text = plan.to_json().unwrap();
    assert_eq!(LaunchPlan::from_json(&text).unwrap(), plan);
    assert!(
        text.contains(r#""grid":[1,1,1]"#) && text.contains(r#"{"buffer":0}"#) && text.contains(r#""dtype":"f32""#),
        "{text}"
    );
}

#[test]
fn buffers_that_hold_zeros_are_alive_in_all_steps() {
    let zeroed = |plan: &mut LaunchPlan| plan.buffers.push(Buffer { zeroed: true, ..buffer(256, 256, 0, 1) });
    let mut plan = sample();
    plan.arena_bytes = 384;
    zeroed(&mut plan);
    plan.validate().unwrap();
    let text = plan.to_json().unwrap();
    assert_eq!(text.matches(r#""zeroed":true"#).count(), 1, "{text}");
    assert_eq!(LaunchPlan::from_json(&text).unwrap(), plan);
    let broken = |change: &dyn Fn(&mut LaunchPlan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        plan.validate().unwrap_err().to_string()
    };
    for change in [
        |plan: &mut LaunchPlan| plan.buffers[1].first = 1,
        |plan: &mut LaunchPlan| plan.buffers[1].last = 0,
        |plan: &mut LaunchPlan| {
            plan.pinned_arena_bytes = 384;
            plan.buffers[1].memory = MemoryKind::Pinned;
        },
    ] {
        let message = broken(&change);
        assert!(message.contains("holds zeros between runs"), "{message}");
    }
    // Nothing lies there at any time, and only kernels use it.
    let message = broken(&|plan| plan.buffers[1].offset = 0);
    assert!(message.contains("shares memory with buffer 0"), "{message}");
    let message = broken(&|plan| {
        let fill = Memset { target: Place::Buffer(1), byte: 1, bytes: 128.into() };
        plan.steps[0] = Step::new(Operation::Memset(fill));
    });
    assert!(message.contains("only kernels"), "{message}");
}

#[test]
fn every_operation_round_trips() {
    let mut plan = sample();
    let (source, target) = (Place::Input(0), Place::Output(0));
    plan.extents.push("batch".into());
    plan.inputs
        .push(TensorSlot { extents: Some(vec![Expr::Text("batch".into())]), ..TensorSlot::new("b", DType::F32, &[4]) });
    plan.states.push(TensorSlot::new("cache", DType::F32, &[4, 8]));
    let copy = Operation::Copy(Copy { source, target, bytes: 128.into() });
    let event = || EventMark { event: 3 };
    let body = vec![Step::new(Operation::Memset(Memset { target, byte: 0, bytes: 128.into() }))];
    for operation in [
        copy,
        Operation::Event(event()),
        Operation::Wait(event()),
        Operation::If(Conditional { predicate: source, host: false, then: body.clone(), otherwise: body.clone() }),
        Operation::While(Loop { predicate: source, host: false, body, limit: Some(9) }),
        Operation::HostCall(HostCall { callee: "f".into(), reads: vec![source], writes: vec![target] }),
        Operation::StateRead(StateTransfer { state: 0, place: target }),
        Operation::StateWrite(StateTransfer { state: 0, place: source }),
    ] {
        plan.steps.push(Step::new(operation));
    }
    launch_of(&mut plan, 1).grid[0] = Expr::Text("floordiv(batch+3,4)".into());
    launch_of(&mut plan, 1).cluster = Some([2, 1, 1]);
    launch_of(&mut plan, 1).arguments.push(Argument::Extent(Expr::Text("batch".into())));
    launch_of(&mut plan, 1).arguments.push(Argument::TensorMap(TensorMap {
        place: source,
        dtype: DType::F32,
        sizes: vec![8.into(), 4.into()],
        strides: vec![32.into()],
        tile: vec![8, 4],
        swizzle: 32,
    }));
    assert_eq!(LaunchPlan::from_json(&plan.to_json().unwrap()).unwrap(), plan);
}

#[test]
fn tensor_maps_that_do_not_fit_are_refused() {
    // x has f32[4, 8].
    let right = TensorMap {
        place: Place::Input(0),
        dtype: DType::F32,
        sizes: vec![8.into(), 4.into()],
        strides: vec![32.into()],
        tile: vec![8, 4],
        swizzle: 32,
    };
    let check = |change: &dyn Fn(&mut TensorMap)| {
        let (mut plan, mut map) = (sample(), right.clone());
        change(&mut map);
        launch_of(&mut plan, 1).arguments.push(Argument::TensorMap(map));
        plan.validate().map_err(|error| (error.code(), error.to_string()))
    };
    check(&|_| ()).unwrap();
    check(&|map| map.swizzle = 0).unwrap();
    check(&|map| map.sizes[1] = 0.into()).unwrap();
    let wrong: [(&dyn Fn(&mut TensorMap), &str); 11] = [
        (&|map| map.strides.clear(), "lists do not fit"),
        (&|map| map.sizes = vec![1.into(); 6], "lists do not fit"),
        (&|map| map.tile[1] = 257, "lists do not fit"),
        (&|map| map.tile[1] = 0, "lists do not fit"),
        (&|map| map.tile[0] = 6, "rows of 24 bytes"),
        (&|map| map.swizzle = 64, "swizzle of 64 bytes"),
        (&|map| map.swizzle = 16, "swizzle of 16 bytes"),
        (&|map| map.strides[0] = 24.into(), "multiple of 16 bytes"),
        (&|map| map.strides[0] = 48.into(), "176 bytes at a place of 128 bytes"),
        (&|map| map.sizes[1] = (1 << 32).into(), "a size of 2^32"),
        (&|map| map.place = Place::Input(9), "at a place of 0 bytes"),
    ];
    for (change, expected) in wrong {
        let (code, message) = check(change).unwrap_err();
        assert!(code == "E0703" && message.contains(expected), "{code} {message}");
    }
}

#[test]
fn text_and_version_are_refused_by_code() {
    let text = sample().to_json().unwrap();
    let code = |text: &str| LaunchPlan::from_json(text).unwrap_err().code();
    assert_eq!(code("{"), "E0701");
    assert_eq!(code("[]"), "E0701");
    assert_eq!(code(&text.replace("\"steps\"", "\"stops\"")), "E0701");
    assert_eq!(code(&text.replace("\"launch\"", "\"lunch\"")), "E0701");
    assert_eq!(code(&format!("{}{}", r#"{"version":1,"a":"#, "[".repeat(100_000))), "E0701");
    assert_eq!(code(&text.replace("\"version\":1", "\"version\":2")), "E0702");
}

#[test]
fn wrong_structure_is_refused() {
    assert_eq!(code(|plan| plan.inputs.push(plan.inputs[0].clone())), "E0703");
    assert_eq!(code(|plan| plan.inputs[0].shape = vec![1 << 40, 1 << 40]), "E0703");
    assert_eq!(code(|plan| plan.outputs.push(TensorSlot::new("z", DType::F32, &[1]))), "E0703");
    assert_eq!(code(|plan| plan.outputs[0].extents = Some(vec![])), "E0703");
    assert_eq!(code(|plan| plan.outputs[0].extents = Some(vec![5.into(), 8.into()])), "E0703");
    assert_eq!(code(|plan| launch_of(plan, 0).arguments.push(Argument::Input(1))), "E0703");
    assert_eq!(code(|plan| launch_of(plan, 0).arguments.push(Argument::Extent(u64::MAX.into()))), "E0703");
    assert_eq!(code(|plan| launch_of(plan, 0).entry.clear()), "E0703");
    assert_eq!(code(|plan| launch_of(plan, 0).grid[0] = 0.into()), "E0703");
    assert_eq!(code(|plan| launch_of(plan, 0).grid[1] = 65_536.into()), "E0703");
    assert_eq!(code(|plan| launch_of(plan, 0).grid[2] = Expr::Text(String::new())), "E0703");
    assert_eq!(code(|plan| launch_of(plan, 0).block = [1024, 2, 1]), "E0703");
    assert_eq!(code(|plan| launch_of(plan, 0).block = [0, 1, 1]), "E0703");
    assert_eq!(code(|plan| launch_of(plan, 0).dynamic_shared_bytes = 1 << 20), "E0703");
    assert_eq!(code(|plan| launch_of(plan, 0).cluster = Some([4, 4, 4])), "E0703");
    let step = |operation| move |plan: &mut LaunchPlan| plan.steps.push(Step::new(operation));
    let (input, output) = (Place::Input(0), Place::Output(0));
    assert_eq!(code(step(Operation::Copy(Copy { source: input, target: output, bytes: 4.into() }))), "E0703");
    assert_eq!(code(step(Operation::Copy(Copy { source: output, target: input, bytes: 128.into() }))), "E0703");
    assert_eq!(code(step(Operation::Copy(Copy { source: output, target: output, bytes: 128.into() }))), "E0703");
    assert_eq!(
        code(step(Operation::Memset(Memset { target: Place::Parameter(0), byte: 0, bytes: 32.into() }))),
        "E0703"
    );
    assert_eq!(code(step(Operation::Memset(Memset { target: output, byte: 0, bytes: 129.into() }))), "E0703");
    assert_eq!(code(step(Operation::Wait(EventMark { event: 0 }))), "E0703");
    assert_eq!(code(step(Operation::StateRead(StateTransfer { state: 0, place: output }))), "E0703");
    let nested = (0..40).fold(Vec::new(), |then, _| {
        vec![Step::new(Operation::If(Conditional { predicate: input, host: false, then, otherwise: Vec::new() }))]
    });
    assert_eq!(code(|plan| plan.steps.extend(nested)), "E0703");
}

#[test]
fn wrong_expressions_are_refused() {
    let text = |text: &str| Expr::Text(text.to_owned());
    // `n` is the extent of the input's rows, 4 at most.
    let message = |change: &dyn Fn(&mut LaunchPlan)| {
        let mut plan = sample();
        plan.extents.push("n".into());
        plan.inputs[0].extents = Some(vec![text("n"), 8.into()]);
        plan.validate().unwrap();
        change(&mut plan);
        let error = plan.validate().unwrap_err();
        assert_eq!(error.code(), "E0703");
        error.to_string()
    };
    let grid = |expression: &str| message(&|plan| launch_of(plan, 0).grid[1] = text(expression));
    assert!(grid("n+").contains("`n+` is no expression"));
    assert!(grid("n+m").contains("`m` in `n+m` is no extent of the plan"));
    assert!(grid("n-5").contains("a grid of n-5 blocks along axis 1"));
    assert!(grid("n*65536").contains("a grid of n*65536 blocks along axis 1"));
    assert!(grid("n*9000000000000000000").contains("leaves the range of i64"));
    assert!(grid(&format!("n{}", "+n".repeat(3000))).contains("an expression of 6001 bytes"));
    let extent = |expression: &str| message(&|plan| plan.outputs[0].extents = Some(vec![text(expression), 8.into()]));
    assert!(extent("n+1").contains("extent `n+1`, which reaches 5, is outside the capacity 4"));
    assert!(extent("n-5").contains("outside the capacity"));
    assert!(message(&|plan| plan.extents.push("m".into())).contains("extent `m`"));
    let input = |plan: &mut LaunchPlan| plan.inputs[0].extents = Some(vec![text("n"), text("n+5")]);
    assert!(message(&input).contains("input `x` of the launch plan: extent `n+5`, which reaches 9,"));
    let copy = |bytes: &str| {
        let bytes = text(bytes);
        message(&|plan| {
            let (source, target) = (Place::Input(0), Place::Output(0));
            plan.steps.push(Step::new(Operation::Copy(Copy { source, target, bytes: bytes.clone() })));
        })
    };
    assert!(copy("32*n+1").contains("a copy of 32*n+1 bytes from 128 bytes to 128 bytes"));
    assert!(copy("32*n-129").contains("a copy of"));
}

#[test]
fn wrong_memory_is_refused() {
    assert_eq!(code(|plan| plan.arena_bytes = 127), "E0704");
    assert_eq!(code(|plan| plan.buffers[0].offset = u64::MAX), "E0704");
    assert_eq!(code(|plan| plan.buffers[0].bytes = 127), "E0704");
    assert_eq!(code(|plan| plan.buffers[0].alignment = 0), "E0704");
    assert_eq!(code(|plan| plan.buffers[0].alignment = 3), "E0704");
    assert_eq!(code(|plan| plan.buffers[0] = buffer(64, 256, 0, 1)), "E0704");
    assert_eq!(code(|plan| plan.buffers[0].last = 2), "E0704");
    assert_eq!(code(|plan| plan.buffers[0].first = 2), "E0704");
    // Used at step 1, alive at step 0 only.
    assert_eq!(code(|plan| plan.buffers[0].last = 0), "E0704");
    assert_eq!(code(|plan| plan.buffers.push(buffer(96, 32, 1, 1))), "E0704");
    let mut apart = sample();
    apart.buffers.push(buffer(128, 32, 1, 1));
    apart.validate().unwrap();
}

#[test]
fn what_the_executor_lacks_is_refused_by_name() {
    let refused = |change: &dyn Fn(&mut LaunchPlan)| {
        let mut plan = sample();
        change(&mut plan);
        plan.validate().unwrap();
        let error = plan.check_supported().unwrap_err();
        assert_eq!(error.code(), "E0705");
        error.to_string()
    };
    let place = Place::Input(0);
    let push = |operation: Operation| refused(&move |plan| plan.steps.push(Step::new(operation.clone())));
    let call = Operation::HostCall(HostCall { callee: "f".into(), reads: vec![], writes: vec![] });
    assert!(push(call.clone()).contains("`host_call`"));
    let body = || vec![Step::new(call.clone())];
    let choice = Conditional { predicate: place, host: false, then: vec![], otherwise: body() };
    assert!(push(Operation::If(choice)).contains("`host_call`"));
    assert!(
        push(Operation::While(Loop { predicate: place, host: false, body: body(), limit: None }))
            .contains("`host_call`")
    );
    assert!(refused(&|plan| plan.states.push(TensorSlot::new("s", DType::F32, &[1]))).contains("`states`"));
    let on_stream = |stream: u32| Step { stream, ..Step::new(Operation::Event(EventMark { event: 1 })) };
    let choice = Conditional { predicate: place, host: false, then: vec![on_stream(1)], otherwise: vec![] };
    assert!(push(Operation::If(choice.clone())).contains("`event` on stream 1"));
    let conditional = Step { stream: 2, ..Step::new(Operation::If(Conditional { then: vec![], ..choice })) };
    assert!(refused(&|plan| plan.steps.push(conditional.clone())).contains("`if` on stream 2"));
    assert!(refused(&|plan| launch_of(plan, 0).cluster = Some([2, 1, 1])).contains("`cluster`"));
    assert!(refused(&|plan| plan.parameters[0].extents = Some(vec![1.into()])).contains("`extents`"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    /// Whatever happens to the text, the answer is a plan that holds its invariants or a coded error.
    #[test]
    fn damaged_text_never_panics(edits in proptest::collection::vec((any::<u16>(), any::<u8>(), 0u8..4), 1..6)) {
        let mut bytes = sample().to_json().unwrap().into_bytes();
        for (at, byte, kind) in edits {
            let at = at as usize % bytes.len().max(1);
            match kind {
                0 => bytes[at] = byte,
                1 => bytes[at] = b'0' + byte % 10,
                2 => { bytes.remove(at); }
                _ => bytes.insert(at, b'0' + byte % 10),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        match LaunchPlan::from_json(&text) {
            Ok(plan) => { let _ = plan.check_supported(); }
            Err(error) => prop_assert!(error.code().starts_with("E07") && error.help().is_some()),
        }
    }

    /// Every number of the plan replaced by any other.
    #[test]
    fn changed_numbers_never_panic(which in any::<usize>(), value in prop_oneof![Just(u64::MAX), Just(1 << 63), any::<u64>(), 0u64..600]) {
        let text = sample().to_json().unwrap();
        let numbers: Vec<(usize, usize)> = digit_runs(&text);
        let (start, end) = numbers[which % numbers.len()];
        let changed = format!("{}{value}{}", &text[..start], &text[end..]);
        if let Ok(plan) = LaunchPlan::from_json(&changed) {
            // What passes keeps every buffer inside the arena.
            for buffer in &plan.buffers {
                prop_assert!(buffer.offset + buffer.bytes <= plan.arena_bytes);
            }
        }
    }
}

fn digit_runs(text: &str) -> Vec<(usize, usize)> {
    let mut runs = Vec::new();
    let mut start = None;
    for (index, character) in text.char_indices() {
        match (character.is_ascii_digit(), start) {
            (true, None) => start = Some(index),
            (false, Some(begin)) => {
                runs.push((begin, index));
                start = None;
            }
            _ => {}
        }
    }
    runs
}
