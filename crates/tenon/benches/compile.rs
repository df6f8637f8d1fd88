//! Speed of the compiler: import, and each stage from the model on, for the model that ships.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::{Criterion, criterion_group, criterion_main};
use tenon::driver::{Driver, Request, Source};
use tenon::stage::Stage;
use tenon_import_onnx::ImportOptions;
use tenon_ir::Session;
use tenon_target::Target;

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/models/ppocrv6_det_tiny/model.onnx")
}

fn options() -> ImportOptions {
    let shapes = BTreeMap::from([("x".to_owned(), vec![1, 3, 96, 160])]);
    ImportOptions { shapes: Some(shapes), ..ImportOptions::default() }
}

fn request() -> Request {
    Request {
        recipe: tenon_recipe::Recipe::default(),
        targets: vec![Target::default_target()],
        targets_are_named: false,
        bucket: Default::default(),
        input_shapes: None,
        passes: Default::default(),
        threads: 2,
    }
}

fn compile(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ppocrv6_det_tiny");
    group.sample_size(10);
    group.bench_function("import", |bencher| {
        bencher.iter(|| {
            let session = Session::new();
            let source =
                Source::model(&session, &model(), &options(), None).unwrap_or_else(|_| panic!("the model imports"));
            black_box(source.weights.len())
        });
    });
    for stage in [Stage::Fuse, Stage::Hw, Stage::Gpu, Stage::Nvvm, Stage::Llvm, Stage::Ptx] {
        group.bench_function(format!("model to {stage}"), |bencher| {
            bencher.iter(|| {
                let session = Session::new();
                let request = request();
                let source =
                    Source::model(&session, &model(), &options(), None).unwrap_or_else(|_| panic!("the model imports"));
                let mut driver = Driver::new(&session, &request).unwrap_or_else(|_| panic!("the request is right"));
                let mut bytes = 0;
                let lowered = driver.lower(&source, &[stage], true, &mut |dump| {
                    bytes += dump.text.len();
                    Ok(())
                });
                assert!(lowered.is_ok());
                black_box(bytes)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, compile);
criterion_main!(benches);
