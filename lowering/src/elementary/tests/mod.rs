//! Errors of every function against f64, over all of f32: every 39 989th pattern of bits, and every one near the places where methods
//! change. `TENON_EXHAUSTIVE` sets another step; 1 takes them all.

mod double;

use super::*;

/// Functions in f64, whose own error is far below f32.
fn reference(operation: &str, x: f64, y: f64) -> f64 {
    match operation {
        "arith.remf" => x % y,
        "math.acos" => x.acos(),
        "math.acosh" => acosh(x),
        "math.asin" => x.asin(),
        "math.asinh" => asinh(x),
        "math.atan" => x.atan(),
        "math.atan2" => x.atan2(y),
        "math.atanh" => 0.5 * (2.0 * x / (1.0 - x)).ln_1p(),
        "math.cbrt" => x.cbrt(),
        "math.cos" => x.cos(),
        "math.cosh" => x.cosh(),
        "math.erf" => libm::erf(x),
        "math.exp" => x.exp(),
        "math.exp2" => x.exp2(),
        "math.expm1" => x.exp_m1(),
        "math.log" => x.ln(),
        "math.log10" => x.log10(),
        "math.log1p" => x.ln_1p(),
        "math.log2" => x.log2(),
        "math.powf" => x.powf(y),
        "math.rsqrt" => 1.0 / x.sqrt(),
        "math.sin" => x.sin(),
        "math.sinh" => x.sinh(),
        "math.tan" => x.tan(),
        "math.tanh" => x.tanh(),
        other => panic!("no reference for {other}"),
    }
}

/// Without the cancellation of the textbook formulas.
fn asinh(x: f64) -> f64 {
    let a = x.abs();
    if a.is_infinite() { x } else { (a + a * a / (1.0 + (a * a + 1.0).sqrt())).ln_1p().copysign(x) }
}

fn acosh(x: f64) -> f64 {
    let t = x - 1.0;
    if x < 1.0 { f64::NAN } else { (t + (2.0 * t + t * t).sqrt()).ln_1p() }
}

/// Error in units in the last place of the correctly rounded result; infinite where kinds of numbers differ.
fn ulp(value: f32, exact: f64) -> f64 {
    if exact.is_nan() || value.is_nan() {
        return if exact.is_nan() == value.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let rounded = exact as f32;
    if rounded.is_infinite() || value.is_infinite() {
        // The largest number may stand for what lies half a place beyond it, and infinity too.
        let close = |x: f32| x.is_infinite() || x.abs() >= f32::MAX * (1.0 - f32::EPSILON);
        let alike = value.is_sign_positive() == rounded.is_sign_positive() && close(value) && close(rounded);
        return if value == rounded {
            0.0
        } else if alike {
            1.0
        } else {
            f64::INFINITY
        };
    }
    if exact == 0.0 {
        // Zero has a sign.
        return if value == 0.0 && value.is_sign_positive() == exact.is_sign_positive() { 0.0 } else { f64::INFINITY };
    }
    let exponent = rounded.abs().max(f32::MIN_POSITIVE).to_bits() >> 23;
    let unit = f64::from(exponent).mul_add(1.0, -150.0).exp2();
    (f64::from(value) - exact).abs() / unit
}

const EDGES: [f32; 28] = [
    0.0,
    1e-45,
    1e-40,
    1.175_494_4e-38,
    1e-8,
    6e-8,
    1e-7,
    0.25,
    0.5,
    0.625,
    0.666_666_7,
    std::f32::consts::FRAC_PI_4,
    0.875,
    1.0,
    1.333_333_4,
    std::f32::consts::FRAC_PI_2,
    2.0,
    std::f32::consts::PI,
    4.0,
    8.0,
    88.722_83,
    89.415_98,
    103.972_08,
    128.0,
    65536.0,
    1e30,
    f32::MAX,
    f32::INFINITY,
];

fn arguments() -> impl Iterator<Item = f32> {
    let step = std::env::var("TENON_EXHAUSTIVE").ok().and_then(|step| step.parse().ok()).unwrap_or(39_989);
    let near = EDGES.into_iter().flat_map(|edge| {
        let bits = edge.to_bits();
        (bits.saturating_sub(200)..=bits.saturating_add(200).min(0x7f80_0000)).flat_map(|b| [b, b | 0x8000_0000])
    });
    let all = (0..=u32::MAX).step_by(step);
    all.chain(near).chain([f32::NAN.to_bits()]).map(f32::from_bits)
}

#[test]
fn errors_of_functions_of_one_argument() {
    let mut failures = Vec::new();
    for function in Elementary::all().iter().filter(|function| function.arity == 1) {
        let mut worst = (0.0, 0.0, 0.0);
        function.evaluate_all(arguments(), |x, value| {
            let error = ulp(value, reference(function.operation, f64::from(x), 0.0));
            if error > worst.0 {
                worst = (error, x, value);
            }
        });
        let (error, x, value) = worst;
        println!("{:14} {error:.3} at {x:e}", function.operation);
        if error > function.bounds.f32 {
            failures.push(format!(
                "{}({x:e}) = {value:e}, {:e} is exact: {error} places, at most {} are stated",
                function.operation,
                reference(function.operation, f64::from(x), 0.0),
                function.bounds.f32
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The form of softmax: as exact as `exp` where the result is a normal number, 0 where it is not by far, NaN of NaN.
#[test]
fn powers_of_numbers_that_are_not_above_0() {
    let exp = Elementary::of("math.exp").unwrap();
    let form = exp.of_nonpositive.as_ref().unwrap();
    let mut room = Vec::new();
    let mut value = |x: f32| f32::from_bits(host::evaluate(form, &[u64::from(x.to_bits())], &mut room) as u32);
    let dense = (0x8000_0000u32..=0xc2af_0000).step_by(997).map(f32::from_bits);
    for x in arguments().chain(dense).filter(|x| *x <= 0.0) {
        let (got, exact) = (value(x), f64::from(x).exp());
        if exact >= f64::from(f32::MIN_POSITIVE) {
            assert!(ulp(got, exact) <= exp.bounds.f32, "{x:e}: {got:e}, {exact:e} is exact: {}", ulp(got, exact));
        } else {
            assert!((0.0..=f64::from(f32::MIN_POSITIVE)).contains(&f64::from(got)), "{x:e}: {got:e}");
        }
    }
    assert_eq!([value(0.0), value(-0.0), value(-88.0), value(f32::NEG_INFINITY)], [1.0, 1.0, 0.0, 0.0]);
    assert!(value(f32::NAN).is_nan());
}

#[test]
fn errors_of_functions_of_two_arguments() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        3.0,
        -3.0,
        0.5,
        -0.5,
        1e30,
        -1e30,
        8_388_607.5,
        8_388_609.0,
        16_777_216.0,
        16_777_217.0,
        1e-40,
        -1e-40,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1.000_000_1,
        0.999_999_9,
        -8_388_609.0,
    ];
    let mut pairs: Vec<[f32; 2]> = special.into_iter().flat_map(|x| special.map(|y| [x, y])).collect();
    for _ in 0..400_000 {
        pairs.push([f32::from_bits(random()), f32::from_bits(random())]);
        // Powers within the range: moderate bases, exponents that use the range up.
        let base = f32::from_bits(0x3000_0000 + random() % 0x2000_0000);
        let scale = random() as f32 / 4e9 * 2.0 - 1.0;
        pairs.push([base, scale * 104.0 / (base.ln().abs() + 1e-6)]);
        pairs.push([-base, (random() % 41) as f32 - 20.0]);
        pairs.push([base, f32::from_bits(0x3f00_0000 + random() % 0x0200_0000)]);
    }
    for function in Elementary::all().iter().filter(|function| function.arity == 2) {
        let mut worst = (0.0, [0.0; 2], 0.0);
        for pair in &pairs {
            let value = function.evaluate(pair);
            let error = ulp(value, reference(function.operation, f64::from(pair[0]), f64::from(pair[1])));
            if error > worst.0 {
                worst = (error, *pair, value);
            }
        }
        let (error, pair, value) = worst;
        println!("{:14} {error:.3} at {pair:?}", function.operation);
        let exact = reference(function.operation, f64::from(pair[0]), f64::from(pair[1]));
        assert!(
            error <= function.bounds.f32,
            "{}{pair:?} = {value:e}, {exact:e} is exact: {error}",
            function.operation
        );
    }
}

/// The page's table, and nothing else in it.
#[test]
fn the_page_states_the_bounds() {
    let mut rows: Vec<(String, Bounds)> = Elementary::all()
        .iter()
        .map(|function| {
            let name = match function.operation {
                "arith.remf" => "remainder",
                "math.powf" => "power",
                other => other.trim_start_matches("math."),
            };
            (name.to_owned(), function.bounds)
        })
        .chain(COMPOSED.iter().map(|(name, ..)| ((*name).to_owned(), bounds_of(name).unwrap())))
        .collect();
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows.dedup_by(|a, b| a.0 == b.0);
    let rows: Vec<String> = rows
        .into_iter()
        .map(|(name, b)| format!("| `{name}` | {} | {} | {:.5} | {:.5} |", b.f32, b.f64, b.f16, b.bf16))
        .collect();
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/elementary-functions.md")).unwrap();
    let found: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(found, rows, "docs/elementary-functions.md should have these rows:\n{}", rows.join("\n"));
}
