//! `tenon build`, and bundles that run, or are refused by name.

use std::process::Stdio;

use crate::run::{PADDED, expected};
use crate::*;

/// Builds the small classifier under a recipe; gives the file.
fn build(folder: &tempfile::TempDir, recipe: &str, out: &str, more: &[&str]) -> PathBuf {
    let recipe = write(folder, "recipe.toml", recipe);
    let (model, weights, out) = (testdata("command/mlp.mlir"), mlp_weights(folder), file(folder, out));
    let arguments = ["build", &model, "--recipe", &recipe, "--weights", &weights, "-o", &out, "--json"];
    let outcome = tenon(&[&arguments, more].concat());
    let value: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    PathBuf::from(value["file"].as_str().unwrap())
}

#[test]
fn a_bundle_runs_without_its_model() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = build(&folder, PADDED, "out", &["--target", "a100-sxm4-80gb", "--target", "t4"]);
    let name = bundle.file_name().unwrap().to_str().unwrap();
    let recipe = tenon(&["recipe", "hash", &file(&folder, "recipe.toml")]).done().trim().to_owned();
    assert_eq!(name, format!("mlp_{recipe}_{}.tenon", env!("CARGO_PKG_VERSION")));
    let bundle = bundle.to_str().unwrap();
    for (rows, bucket) in [(1, 4), (4, 4), (5, 16), (16, 16)] {
        let x: Vec<f32> = (0..3 * rows).map(|value| (value as f32 - 7.0) / 4.0).collect();
        let given = format!("x={}", write_npy(&folder, "x.npy", &Tensor::from_f32(vec![rows, 3], &x).unwrap()));
        for target in ["sm_80", "t4"] {
            let out = file(&folder, "results");
            let outcome = tenon(&["run", bundle, "--target", target, "--input", &given, "-o", &out]);
            assert!(outcome.done().contains(&format!("bucket batch={bucket}")), "{}", outcome.stdout);
            let result = tenon_tensor::read_npy(file(&folder, "results/probabilities.npy")).unwrap();
            for (actual, expected) in result.to_f64_vec().unwrap().iter().zip(expected(&x)) {
                assert!((actual - expected).abs() < 1e-6, "{rows}: {actual} instead of {expected}");
            }
        }
    }
    let zeros = |rows: usize| Tensor::zeros(tenon_tensor::DType::F32, vec![rows, 3]).unwrap();
    let large = format!("x={}", write_npy(&folder, "x.npy", &zeros(17)));
    let refused = tenon(&["run", bundle, "--target", "sm_80", "--input", &large]);
    assert!(refused.refused("E0723").contains("batch=4; batch=16"), "{}", refused.stderr);
    let one = format!("x={}", write_npy(&folder, "x.npy", &zeros(1)));
    let other = tenon(&["run", bundle, "--target", "h100-sxm5", "--input", &one]);
    assert!(other.refused("E0050").contains("a100-sxm4-80gb (sm_80), t4 (sm_75)"), "{}", other.stderr);
    let verified = tenon(&["verify", bundle, "--target", "h100-sxm5"]);
    assert!(verified.refused("E0050").contains("a100-sxm4-80gb (sm_80), t4 (sm_75)"), "{}", verified.stderr);
    let recipe = write(&folder, "other.toml", PADDED.replace("16", "32"));
    let other = tenon(&["run", bundle, "--target", "sm_80", "--input", &one, "--recipe", &recipe]);
    assert!(other.refused("E0049").contains("the recipe differs"), "{}", other.stderr);
    let x = ["--target", "sm_80", "--input", &one];
    let compiles: [&[&str]; 5] = [
        &["--bucket", "batch=4"],
        &["--weights", "weights.safetensors"],
        &["--shapes-from-inputs"],
        &["--disable", "fusion"],
        &["--stop-after-rewrite", "3"],
    ];
    for options in compiles {
        tenon(&[&["run", bundle][..], &x, options].concat()).refused("E0051");
        tenon(&[&["verify", bundle][..], options].concat()).refused("E0051");
    }
    let elsewhere = build(&folder, PADDED, "elsewhere", &["--target", "t4", "--target", "h100-sxm5"]);
    let unnamed = tenon(&["run", elsewhere.to_str().unwrap(), "--input", &one]);
    assert!(unnamed.refused("E0036").contains("the bundle is for t4, h100-sxm5"), "{}", unnamed.stderr);
    let model = testdata("command/mlp.mlir");
    tenon(&[&["run", model.as_str(), "--recipe-hash", "00"][..], &x].concat()).refused("E0051");
    // What the recipe does not say would not be in the bundle's name.
    let out = file(&folder, "refused");
    for option in [["--disable", "fusion"], ["--stop-after-rewrite", "3"]] {
        let refused = tenon(&[&["build", model.as_str(), "-o", &out][..], &option].concat());
        assert!(refused.refused("E0051").contains("compile.fusion.disable"), "{}", refused.stderr);
    }
    assert!(!std::path::Path::new(&out).exists());
}

/// Whatever the buckets are, a request outside of them is refused by one code, with the dimension and what the buckets take.
#[test]
fn a_request_outside_of_the_buckets_is_refused_by_its_dimension() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = |sizes: &str, between: &str| {
        format!("recipe = 1\n[semantic.dims]\nbatch = {{ allowed = {sizes}, between = '{between}' }}\n")
    };
    let run = |bundle: &Path, shape: &[usize]| {
        let zeros = Tensor::zeros(tenon_tensor::DType::F32, shape.to_vec()).unwrap();
        let given = format!("x={}", write_npy(&folder, "x.npy", &zeros));
        tenon(&["run", bundle.to_str().unwrap(), "--input", &given])
    };
    for (allowed, between, rows, said) in [
        ("[4]", "reject", 5, "dimension 0 of input `x` (`batch`) is 5, and the only bucket takes 4"),
        ("[4]", "pad", 5, "dimension 0 of input `x` (`batch`) is 5, and no bucket takes more than 4"),
        ("[1, 4]", "reject", 2, "dimension 0 of input `x` (`batch`) is 2, and the buckets take 1, 4"),
        ("[4, 16]", "pad", 17, "dimension 0 of input `x` (`batch`) is 17, and no bucket takes more than 16"),
    ] {
        let bundle = build(&folder, &sizes(allowed, between), "space", &[]);
        let outcome = run(&bundle, &[rows, 3]);
        let text = outcome.refused("E0723");
        assert!(text.contains(said) && text.contains("batch=4"), "{allowed} {between}: {text}");
        // What the model itself fixes is another fault, and so is another rank or a missing input.
        let outcome = run(&bundle, &[4, 5]);
        assert!(outcome.refused("E0715").contains("dimension 1 of input `x` must be 3"), "{}", outcome.stderr);
        // The bundle takes no `--shapes-from-inputs` itself.
        assert!(outcome.stderr.contains("`tenon run MODEL --shapes-from-inputs`"), "{}", outcome.stderr);
        run(&bundle, &[4]).refused("E0714");
        tenon(&["run", bundle.to_str().unwrap()]).refused("E0710");
    }
    // Sizes that belong together: each is in a bucket, and none has both.
    let model = write(
        &folder,
        "two.mlir",
        r#"
module attributes {graph.model = "two"} {
  func.func @main(%x: tensor<?x?xf32, {dims = ["n", "m"]}> {graph.name = "x"}) -> (tensor<?x?xf32, {dims = ["n", "m"]}> {graph.name = "y"}) {
    %0 = graph.elementwise add(%x, %x) : (tensor<?x?xf32, {dims = ["n", "m"]}>, tensor<?x?xf32, {dims = ["n", "m"]}>) -> tensor<?x?xf32, {dims = ["n", "m"]}> loc("Add_0")
    return %0 : tensor<?x?xf32, {dims = ["n", "m"]}>
  }
}
"#,
    );
    let zip = "recipe = 1\n[semantic]\ncombine = 'zip'\n[semantic.dims]\nn = { allowed = [2, 40] }\nm = { allowed = [80, 7] }\n";
    let (recipe, out) = (write(&folder, "zip.toml", zip), file(&folder, "zip"));
    let outcome = tenon(&["build", &model, "--recipe", &recipe, "-o", &out, "--json"]);
    let value: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    let bundle = PathBuf::from(value["file"].as_str().unwrap());
    for (shape, said) in [
        ([40, 40], "dimension 1 of input `x` (`m`) is 40, and the buckets take 7, 80"),
        ([3, 7], "dimension 0 of input `x` (`n`) is 3, and the buckets take 2, 40"),
    ] {
        let outcome = run(&bundle, &shape);
        assert!(outcome.refused("E0723").contains(said), "{}", outcome.stderr);
    }
    // From n=40 it is 38 away, from m=80 73.
    let outcome = run(&bundle, &[2, 7]);
    let text = outcome.refused("E0723");
    let said = "none has them together: in the nearest, m=7,n=40, dimension 0 of input `x` (`n`) is 2, which takes 40";
    assert!(text.contains(said) && text.contains("m=80,n=2; m=7,n=40"), "{text}");
}

#[test]
fn bundles_are_the_same_bytes_wherever_and_however_they_are_built() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let targets = ["--target", "sm_80", "--target", "sm_90a"];
    let a = build(&one, PADDED, "a", &[&targets[..], &["--threads", "1"]].concat());
    let b = build(
        &two,
        &format!("# A comment.\n{PADDED}"),
        "some/where/else",
        &[&targets[..], &["--threads", "7"]].concat(),
    );
    assert_eq!(a.file_name(), b.file_name());
    assert!(std::fs::read(&a).unwrap() == std::fs::read(&b).unwrap(), "{} and {} differ", a.display(), b.display());
}

/// The parts of a bundle with the ranges that they take in the file.
fn places(bytes: &[u8]) -> Vec<(String, usize, usize)> {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let end = 64 + number(16);
    let start = end.next_multiple_of(64);
    let manifest: serde_json::Value = serde_json::from_slice(&bytes[64..end]).unwrap();
    let mut places = vec![("the manifest".to_owned(), 64, end)];
    for part in manifest["parts"].as_array().unwrap() {
        let offset = start + part["offset"].as_u64().unwrap() as usize;
        let name = format!("part `{}`", part["name"].as_str().unwrap());
        places.push((name, offset, offset + part["bytes"].as_u64().unwrap() as usize));
    }
    places
}

#[test]
fn every_changed_byte_is_refused_by_the_part_that_it_is_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = build(&folder, "recipe = 1\n[semantic.dims]\nbatch = { allowed = [1, 2] }\n", "out", &[]);
    let good = std::fs::read(&path).unwrap();
    let places = places(&good);
    tenon_bundle::Bundle::open(&path).unwrap();
    let damaged = folder.path().join("damaged.tenon");
    let mut refused = 0;
    for place in 0..good.len() {
        // Each byte of header and manifest and of the space between parts; of the parts themselves every seventh.
        let part = places.iter().find(|(_, from, to)| (*from..*to).contains(&place));
        if part.is_some_and(|(name, ..)| name != "the manifest") && place % 7 != 0 {
            continue;
        }
        let mut bytes = good.clone();
        bytes[place] ^= 1 << (place % 8);
        std::fs::write(&damaged, &bytes).unwrap();
        let error = tenon_bundle::Bundle::open(&damaged).unwrap_err().to_string();
        if let Some((name, ..)) = part {
            assert!(error.contains(name.as_str()), "byte {place}, in {name}: {error}");
        }
        refused += 1;
    }
    assert!(refused > 2000, "{refused}");
    for length in (0..good.len()).step_by(97).chain([good.len() - 1]) {
        std::fs::write(&damaged, &good[..length]).unwrap();
        tenon_bundle::Bundle::open(&damaged).unwrap_err();
    }
    std::fs::write(&damaged, [&good[..], &[0; 64]].concat()).unwrap();
    assert_eq!(tenon_bundle::Bundle::open(&damaged).unwrap_err().code(), "E0046");
}

#[test]
fn a_thousand_random_corruptions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = build(&folder, "recipe = 1\n[semantic.dims]\nbatch = { allowed = [1, 2] }\n", "out", &[]);
    let good = std::fs::read(&path).unwrap();
    let damaged = folder.path().join("damaged.tenon");
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % below.max(1)
    };
    for round in 0..1000 {
        let mut bytes = good.clone();
        match next(5) {
            0 => bytes.truncate(next(good.len())),
            1 => {
                for _ in 0..=next(16) {
                    let place = next(good.len());
                    bytes[place] = next(256) as u8;
                }
            }
            2 => {
                // Two ranges change places.
                let length = 1 + next(200);
                let (a, b) = (next(good.len() - length), next(good.len() - length));
                let (first, second) = (good[a..a + length].to_vec(), good[b..b + length].to_vec());
                bytes[a..a + length].copy_from_slice(&second);
                bytes[b..b + length].copy_from_slice(&first);
            }
            3 => {
                let place = next(good.len());
                let noise: Vec<u8> = (0..=next(64)).map(|_| next(256) as u8).collect();
                bytes.splice(place..place, noise);
            }
            _ => {
                let from = next(good.len());
                let to = from + next(good.len() - from);
                bytes[from..to].fill(0);
            }
        }
        if bytes == good {
            continue;
        }
        std::fs::write(&damaged, &bytes).unwrap();
        assert!(tenon_bundle::Bundle::open(&damaged).is_err(), "round {round} was taken");
    }
    // What a user sees of one.
    let mut bytes = good.clone();
    let (name, from, _) = places(&good).pop().unwrap();
    bytes[from + 9] ^= 1;
    let path = write(&folder, "damaged.tenon", &bytes);
    let x = write_npy(&folder, "x.npy", &Tensor::zeros(tenon_tensor::DType::F32, vec![1, 3]).unwrap());
    let outcome = tenon(&["run", &path, "--input", &format!("x={x}")]);
    assert!(outcome.refused("E0047").contains(&name), "{}", outcome.stderr);
}

#[test]
fn swapped_parts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let one = "recipe = 1\n[semantic.dims]\nbatch = { allowed = [1] }\n";
    let a = std::fs::read(build(&folder, one, "a", &[])).unwrap();
    let b = std::fs::read(build(&folder, &one.replace("[1]", "[2]"), "b", &[])).unwrap();
    let damaged = folder.path().join("damaged.tenon");
    // A part of another bundle in the place of this one's, as far as it fills it.
    for ((name, from, to), (other, start, end)) in places(&a).into_iter().zip(places(&b)).skip(1) {
        let mut bytes = a.clone();
        let length = (to - from).min(end - start);
        bytes[from..from + length].copy_from_slice(&b[start..start + length]);
        if bytes == a {
            assert!(name.contains("weights") || name.contains("ptx"), "{name} and {other} are the same");
            continue;
        }
        std::fs::write(&damaged, &bytes).unwrap();
        let error = tenon_bundle::Bundle::open(&damaged).unwrap_err();
        assert!(error.to_string().contains(&name), "{name}: {error}");
    }
}

#[test]
fn a_cache_gives_what_compiling_would_and_says_why_it_has_not() {
    let folder = tempfile::tempdir().unwrap();
    let cache = file(&folder, "cache");
    let plain = std::fs::read(build(&folder, PADDED, "plain", &[])).unwrap();
    let run = |recipe: &str, more: &[&str]| {
        let recipe = write(&folder, "recipe.toml", recipe);
        let (model, weights, out) = (testdata("command/mlp.mlir"), mlp_weights(&folder), file(&folder, "out"));
        let base = ["build", &model, "--recipe", &recipe, "--weights", &weights, "-o", &out, "--cache", &cache, "-v"];
        let outcome = tenon(&[&base[..], more].concat());
        outcome.done();
        outcome
    };
    let first = run(PADDED, &[]);
    assert!(first.stdout.contains("0 of 2 from the cache"), "{}", first.stdout);
    assert!(first.stderr.contains("no kernel of this content was compiled before"), "{}", first.stderr);
    let entries = || -> Vec<PathBuf> {
        let below =
            |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        below(Path::new(&cache)).iter().flat_map(|a| below(a)).flat_map(|b| below(&b)).collect()
    };
    let built = |folder: &tempfile::TempDir| {
        let names = names_in(&folder.path().join("out"));
        std::fs::read(folder.path().join("out").join(&names[0])).unwrap()
    };
    assert!(built(&folder) == plain);
    let second = run(PADDED, &[]);
    assert!(
        second.stderr.contains("taken from the cache") && !second.stderr.contains("compiled:"),
        "{}",
        second.stderr
    );
    assert!(built(&folder) == plain);
    let other = run(PADDED, &["--target", "t4"]);
    // A tile program names its target, so that the one for another is other content.
    assert!(other.stderr.contains("no kernel of this content was compiled before"), "{}", other.stderr);
    // A damaged entry is compiled anew, and an entry of another compiler is not taken.
    let entry = entries().into_iter().next().unwrap();
    let mut bytes = std::fs::read(&entry).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&entry, &bytes).unwrap();
    let third = run(PADDED, &["--target", "t4", "--target", "a100-sxm4-80gb"]);
    assert!(third.stderr.contains("its entry is damaged"), "{}", third.stderr);
    for entry in entries() {
        std::fs::rename(&entry, entry.with_file_name(format!("{}.json", "0".repeat(64)))).unwrap();
    }
    let fourth = run(PADDED, &[]);
    assert!(fourth.stderr.contains("another build of the compiler"), "{}", fourth.stderr);
    let model = testdata("command/mlp.mlir");
    let (recipe, weights, blocked) = (file(&folder, "recipe.toml"), mlp_weights(&folder), write(&folder, "file", ""));
    tenon(&["build", &model, "--recipe", &recipe, "--weights", &weights, "-o", &blocked, "--cache", &cache])
        .refused("E0044");
    let out = file(&folder, "out");
    tenon(&["build", &model, "--recipe", &recipe, "--weights", &weights, "-o", &out, "--cache", &blocked])
        .refused("E0053");
    // What a URL names needs a store for its kind, whatever this was built with.
    let out = file(&folder, "out");
    tenon(&["build", &model, "--recipe", &recipe, "--weights", &weights, "-o", &out, "--cache", "ftp://host/cache"])
        .refused("E0053");
}

/// Two processes that write the same bundle at once, killed at random: what stands under its name is always whole.
#[test]
fn killed_builds_leave_nothing_half_written() {
    let rounds = std::env::var("TENON_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(8);
    let folder = tempfile::tempdir().unwrap();
    let recipe = "recipe = 1\n[semantic.dims]\nbatch = { allowed = [1, 2] }\n";
    let start = std::time::Instant::now();
    let path = build(&folder, recipe, "out", &[]);
    let whole = start.elapsed();
    let good = std::fs::read(&path).unwrap();
    let (model, weights, out) = (testdata("command/mlp.mlir"), mlp_weights(&folder), file(&folder, "out"));
    let (recipe, cache) = (file(&folder, "recipe.toml"), file(&folder, "cache"));
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let (mut killed, mut finished) = (0, 0);
    for round in 0..rounds {
        if round % 2 == 0 {
            let _ = std::fs::remove_file(&path);
        }
        if round % 4 == 0 {
            let _ = std::fs::remove_dir_all(&cache);
        }
        let spawn = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tenon"));
            command.args(["build", &model, "--recipe", &recipe, "--weights", &weights, "-o", &out, "--cache", &cache]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let mut children = [spawn(), spawn()];
        for child in &mut children {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            std::thread::sleep(whole.mul_f64((state >> 11) as f64 / (1u64 << 53) as f64));
            let _ = child.kill();
            if child.wait().unwrap().success() { finished += 1 } else { killed += 1 }
        }
        match std::fs::read(&path) {
            Ok(bytes) => assert!(bytes == good, "round {round}: the file is another"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
        }
    }
    println!("{killed} builds killed, {finished} finished");
    // And what the cache was left with is whole: a build from it gives the same bytes.
    let last =
        build(&folder, "recipe = 1\n[semantic.dims]\nbatch = { allowed = [1, 2] }\n", "last", &["--cache", &cache]);
    assert!(std::fs::read(last).unwrap() == good);
    assert!(killed > 0);
}

/// A cache under a URL gives what compiling would; without the feature it is refused with what to build.
#[test]
fn a_remote_cache_is_named_by_a_url() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", file(&folder, "shared"));
    let (model, weights) = (testdata("command/mlp.mlir"), mlp_weights(&folder));
    let recipe = write(&folder, "remote.toml", PADDED);
    let run = |out: &str| {
        let out = file(&folder, out);
        tenon(&["build", &model, "--recipe", &recipe, "--weights", &weights, "-o", &out, "--cache", &url])
    };
    if cfg!(not(feature = "remote-store")) {
        let said = run("first");
        assert!(said.refused("E0053").contains("`--features remote-store`"), "{}", said.stderr);
        return;
    }
    assert!(run("first").done().contains("0 of 2 from the cache"));
    assert!(run("second").done().contains("2 of 2 from the cache"));
    let built = |out: &str| {
        let out = folder.path().join(out);
        std::fs::read(out.join(&names_in(&out)[0])).unwrap()
    };
    let plain = std::fs::read(build(&folder, PADDED, "plain", &[])).unwrap();
    assert!(built("first") == plain && built("second") == plain);
}
