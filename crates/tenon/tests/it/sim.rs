//! PTX files on the simulator.

use crate::*;

#[test]
fn a_kernel_runs_on_files() {
    let folder = tempfile::tempdir().unwrap();
    let ptx = testdata("command/twice.ptx");
    let values: Vec<f32> = (0..100).map(|value| value as f32 / 8.0).collect();
    let input = format!("in:{}", write_npy(&folder, "a.npy", &Tensor::from_f32(vec![100], &values).unwrap()));
    let output = format!("out:{}:f32:100", file(&folder, "b.npy"));
    let common = ["sim", &ptx, "--entry", "twice", "--grid", "4", "--block", "32", "--arg", &input, "--arg", &output];
    let outcome = tenon(&[&common[..], &["--arg", "u32:100", "--counters", "--seed", "3"]].concat());
    assert!(
        outcome.done().contains("warp instructions") && outcome.stdout.contains("st.global.f32"),
        "{}",
        outcome.stdout
    );
    let result = tenon_tensor::read_npy(file(&folder, "b.npy")).unwrap().to_f32_vec().unwrap();
    assert!(result.iter().zip(&values).all(|(twice, once)| *twice == once + once));
    let json = tenon(&[&common[..], &["--arg", "u32:100", "--counters", "--json"]].concat());
    let counters: serde_json::Value = serde_json::from_str(json.done()).unwrap();
    // Four warps, the last with four lanes that have an element: 100 loads of four bytes in 13 sectors.
    assert_eq!(counters["global_sectors"].as_u64(), Some(26));

    let zeros = Tensor::zeros(tenon_tensor::DType::F32, vec![10, 10]).unwrap();
    let both = format!("inout:{}", write_npy(&folder, "c.npy", &zeros));
    tenon(&["sim", &ptx, "--block", "128", "--arg", &input, "--arg", &both, "--arg", "u32:100"]).done();
    let result = tenon_tensor::read_npy(file(&folder, "c.npy")).unwrap();
    assert_eq!((result.shape(), result.to_f32_vec().unwrap()[99]), (&[10, 10][..], 2.0 * values[99]));

    // One element beyond the buffers.
    let beyond = tenon(&[&common[..], &["--arg", "u32:101"]].concat());
    assert!(beyond.refused("E08").contains("ld.global.f32"), "{}", beyond.stderr);
}

#[test]
fn wrong_use_is_refused() {
    let ptx = testdata("command/twice.ptx");
    assert!(tenon(&["sim", &ptx, "--check"]).done().contains("twice"));
    tenon(&["sim", &ptx, "--entry", "thrice"]).refused("E0803");
    tenon(&["sim", &ptx, "--arg", "i32:1"]).refused("E0804");
    tenon(&["sim", "no-such.ptx"]).refused("E0001");
    assert_eq!(tenon(&["sim", &ptx, "--arg", "i32:x"]).status, 2);
    assert_eq!(tenon(&["sim", &ptx, "--grid", "1,2,3,4"]).status, 2);
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(&ptx).unwrap();
    let unknown = write(&folder, "u.ptx", text.replace("add.f32", "frobnicate.f32"));
    assert!(tenon(&["sim", &unknown, "--check"]).refused("E0802").contains("frobnicate"));
    let truncated = write(&folder, "t.ptx", &text[..text.len() / 2]);
    tenon(&["sim", &truncated, "--check"]).refused("E080");
}
