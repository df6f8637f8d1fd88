//! Errors of the f64 functions against numbers of 256 bits and more.
//!
//! astro-float rounds correctly at any precision; the error function, which it lacks, is summed here by its series.

use astro_float::{BigFloat, Consts, RoundingMode, Sign};

use super::*;

const ROUNDING: RoundingMode = RoundingMode::ToEven;

/// An f64, exactly. Subnormal numbers are scaled: astro-float 0.9 reads another number from them.
fn number(x: f64, bits: usize) -> BigFloat {
    let scaled = BigFloat::from_f64(x * 2f64.powi(600), bits);
    if x.abs() < f64::MIN_POSITIVE {
        scaled.mul(&BigFloat::from_f64(2f64.powi(-600), bits), bits, ROUNDING)
    } else {
        BigFloat::from_f64(x, bits)
    }
}

/// Numbers of a precision.
struct Exact {
    bits: usize,
    constants: Consts,
}

impl Exact {
    fn number(&self, x: f64) -> BigFloat {
        number(x, self.bits)
    }

    /// The function's value, where argument and value are finite and not zero.
    fn value(&mut self, operation: &str, x: f64, y: f64) -> BigFloat {
        let p = self.bits;
        let (a, b) = (self.number(x), self.number(y));
        let c = &mut self.constants;
        match operation {
            "math.acos" => a.acos(p, ROUNDING, c),
            "math.acosh" => a.acosh(p, ROUNDING, c),
            "math.asin" => a.asin(p, ROUNDING, c),
            "math.asinh" => a.asinh(p, ROUNDING, c),
            "math.atan" => a.atan(p, ROUNDING, c),
            "math.atan2" => {
                let angle = a.abs().div(&b.abs(), p, ROUNDING).atan(p, ROUNDING, c);
                let angle = if x_is_left(y) { c.pi(p, ROUNDING).sub(&angle, p, ROUNDING) } else { angle };
                if x < 0.0 { angle.neg() } else { angle }
            }
            "math.atanh" => a.atanh(p, ROUNDING, c),
            "math.cbrt" => a.cbrt(p, ROUNDING),
            "math.cos" => a.cos(p, ROUNDING, c),
            "math.cosh" => a.cosh(p, ROUNDING, c),
            "math.erf" => self.erf(&a),
            "math.exp" => a.exp(p, ROUNDING, c),
            "math.exp2" => self.number(2.0).pow(&a, p, ROUNDING, &mut self.constants),
            "math.expm1" => {
                // The difference keeps its digits: 128 more than the exponent of a small argument takes.
                let wide = p + 2100;
                a.exp(wide, ROUNDING, c).sub(&BigFloat::from_f64(1.0, wide), p, ROUNDING)
            }
            "math.log" => a.ln(p, ROUNDING, c),
            "math.log10" => a.log10(p, ROUNDING, c),
            "math.log1p" => {
                let wide = p + 2100;
                BigFloat::from_f64(1.0, wide).add(&a, wide, ROUNDING).ln(p, ROUNDING, c)
            }
            "math.log2" => a.log2(p, ROUNDING, c),
            "math.powf" => {
                let power = a.abs().pow(&b, p, ROUNDING, c);
                if x < 0.0 && (y / 2.0).fract() != 0.0 { power.neg() } else { power }
            }
            "math.rsqrt" => a.sqrt(p, ROUNDING).reciprocal(p, ROUNDING),
            "math.sin" => a.sin(p, ROUNDING, c),
            "math.sinh" => a.sinh(p, ROUNDING, c),
            "math.tan" => a.tan(p, ROUNDING, c),
            "math.tanh" => a.tanh(p, ROUNDING, c),
            other => panic!("no exact value of {other}"),
        }
    }

    /// `2/√π Σ (−1)^n x^(2n+1) / (n! (2n+1))`, for `|x| ≤ 6.5`, whose terms are below 2^61.
    fn erf(&mut self, x: &BigFloat) -> BigFloat {
        let p = self.bits + 128;
        let whole = |x: f64| BigFloat::from_f64(x, p);
        let square = x.mul(x, p, ROUNDING).neg();
        let (mut power, mut sum) = (x.clone(), x.clone());
        for n in 1..400 {
            power = power.mul(&square, p, ROUNDING).div(&whole(f64::from(n)), p, ROUNDING);
            sum = sum.add(&power.div(&whole(f64::from(2 * n + 1)), p, ROUNDING), p, ROUNDING);
        }
        let root = self.constants.pi(p, ROUNDING).sqrt(p, ROUNDING);
        sum.add(&sum, p, ROUNDING).div(&root, p, ROUNDING)
    }
}

fn x_is_left(x: f64) -> bool {
    x < 0.0
}

/// The nearest f64 of a small precision's worth: for differences, of which a few digits matter.
fn approximate(value: &BigFloat) -> f64 {
    let Some((words, _, sign, exponent, _)) = value.as_raw_parts() else { return f64::NAN };
    let top = *words.last().unwrap() as f64 / 2f64.powi(64);
    let half = exponent / 2;
    let size = top * 2f64.powi(half) * 2f64.powi(exponent - half);
    if sign == Sign::Neg { -size } else { size }
}

/// Units in the last place between a value and the exact one.
fn error(value: f64, exact: &BigFloat, exact_bits: usize) -> f64 {
    let near = approximate(exact);
    if value.is_infinite() {
        // Beyond the greatest number by half of its last place, infinity is right.
        return if near.abs() >= f64::MAX && (near > 0.0) == (value > 0.0) { 0.0 } else { f64::INFINITY };
    }
    if near.is_infinite() {
        return if value.abs() == f64::MAX && (near > 0.0) == (value > 0.0) { 1.0 } else { f64::INFINITY };
    }
    let exponent = ((near.abs().to_bits() >> 52) as i32).max(1) - 1075;
    // In units of the last place, which may be the smallest number there is.
    let difference = number(value, exact_bits).sub(exact, exact_bits, ROUNDING);
    let scale = |x: BigFloat, power: i32| x.mul(&BigFloat::from_f64(2f64.powi(power), 64), exact_bits, ROUNDING);
    approximate(&scale(scale(difference, -exponent / 2), -exponent - -exponent / 2)).abs()
}

/// Every magnitude, both signs, and the neighbourhood of the places where methods change.
fn arguments(random: &mut impl FnMut() -> u64) -> Vec<f64> {
    let edges = [5e-324, 1e-310, f64::MIN_POSITIVE, 1e-17, 1e-8, 0.292_9, 0.414_2, 0.4375, 0.5, 0.6875, 0.875];
    let more = [std::f64::consts::FRAC_1_SQRT_2, 1.0, 1.1875, std::f64::consts::SQRT_2, 2.0, 2.4375, 6.0, 22.0, 30.0];
    let far = [709.782_7, 710.475_8, 745.133_2, 1024.0, 1_048_576.0, 268_435_456.0, 1e22, 1e300, f64::MAX];
    // The number of all f64 that comes closest to a multiple of π/2.
    let closest = 6_381_956_970_095_103.0 * 2f64.powi(797);
    let near = edges.into_iter().chain(more).chain(far).chain([closest]).flat_map(|edge: f64| {
        let bits = edge.to_bits();
        (bits - 1..=(bits + 1).min(f64::MAX.to_bits())).flat_map(|b| [b, b | 1 << 63])
    });
    let mut all: Vec<f64> = near.map(f64::from_bits).collect();
    for _ in 0..60 {
        let unit = (random() >> 11) as f64 / (1u64 << 53) as f64;
        let pattern = f64::from_bits(random());
        all.extend([
            pattern,
            unit * 2.0 - 1.0,
            unit * 1500.0 - 750.0,
            unit * 12.0 - 6.0,
            1.0 + unit * 1e-3,
            unit * 1e7,
        ]);
    }
    all.into_iter().filter(|x| x.is_finite() && *x != 0.0).collect()
}

/// What the exact value cannot be asked for: outside of the domain, or beyond all numbers.
fn known(operation: &str, x: f64) -> Option<f64> {
    let a = x.abs();
    match operation {
        "math.acos" | "math.asin" | "math.atanh" if a > 1.0 => Some(f64::NAN),
        "math.acos" if x == 1.0 => Some(0.0),
        "math.acosh" if x < 1.0 => Some(f64::NAN),
        "math.acosh" | "math.log" | "math.log2" | "math.log10" if x == 1.0 => Some(0.0),
        "math.log" | "math.log2" | "math.log10" | "math.rsqrt" if x < 0.0 => Some(f64::NAN),
        "math.log1p" if x < -1.0 => Some(f64::NAN),
        "math.log1p" if x == -1.0 => Some(f64::NEG_INFINITY),
        "math.atanh" if a == 1.0 => Some(f64::INFINITY.copysign(x)),
        "math.exp" | "math.expm1" | "math.exp2" | "math.cosh" if x > 1100.0 => Some(f64::INFINITY),
        "math.exp" | "math.exp2" if x < -1100.0 => Some(0.0),
        "math.expm1" if x < -1100.0 => Some(-1.0),
        "math.cosh" if x < -1100.0 => Some(f64::INFINITY),
        "math.sinh" if a > 1100.0 => Some(f64::INFINITY.copysign(x)),
        "math.tanh" if a > 1100.0 => Some(1f64.copysign(x)),
        "math.erf" if a > 6.5 => Some(1f64.copysign(x)),
        // Odd functions whose cubic term is below all digits.
        "math.sinh" | "math.tanh" | "math.sin" | "math.tan" | "math.asin" | "math.atan" if a < 1e-100 => Some(x),
        "math.asinh" | "math.atanh" | "math.expm1" | "math.log1p" if a < 1e-100 => Some(x),
        "math.cos" | "math.cosh" | "math.exp" | "math.exp2" if a < 1e-100 => Some(1.0),
        _ => None,
    }
}

fn random() -> impl FnMut() -> u64 {
    let mut state = 3u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ (state >> 32)
    }
}

fn precision(operation: &str, x: f64) -> usize {
    // Large angles lose as many digits as they have before the point.
    let circular = matches!(operation, "math.sin" | "math.cos" | "math.tan");
    if circular && x.abs() > 1.0 { 1344 } else { 320 }
}

#[test]
fn errors_of_functions_of_one_argument_of_f64() {
    let arguments = arguments(&mut random());
    let mut failures = Vec::new();
    let mut exact = Exact { bits: 320, constants: Consts::new().unwrap() };
    for function in Elementary::all().iter().filter(|function| function.arity == 1) {
        let mut worst = (0.0, 0.0);
        for x in &arguments {
            let value = function.evaluate_f64(&[*x]);
            exact.bits = precision(function.operation, *x);
            let error = match known(function.operation, *x) {
                Some(known) if known.is_nan() && value.is_nan() || known == value => 0.0,
                Some(_) => f64::INFINITY,
                None => error(value, &exact.value(function.operation, *x, 0.0), exact.bits),
            };
            if error > worst.0 {
                worst = (error, *x);
            }
        }
        let (error, x) = worst;
        println!("{:14} {error:.3} at {x:e}", function.operation);
        if error > function.bounds.f64 {
            let value = function.evaluate_f64(&[x]);
            failures.push(format!("{}({x:e}) = {value:e}: {error} places", function.operation));
        }
        for x in [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let (value, host) = (function.evaluate_f64(&[x]), reference(function.operation, x, 0.0));
            let alike =
                value.is_nan() && host.is_nan() || value == host && value.is_sign_positive() == host.is_sign_positive();
            if !alike {
                failures.push(format!("{}({x}) = {value}, not {host}", function.operation));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn errors_of_functions_of_two_arguments_of_f64() {
    let mut random = random();
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
        1e300,
        4_503_599_627_370_495.5,
        4_503_599_627_370_497.0,
        9_007_199_254_740_992.0,
        -4_503_599_627_370_497.0,
        5e-324,
        -5e-324,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let mut pairs: Vec<[f64; 2]> = special.into_iter().flat_map(|x| special.map(|y| [x, y])).collect();
    for _ in 0..300 {
        pairs.push([f64::from_bits(random()), f64::from_bits(random())]);
        let unit = |bits: u64| (bits >> 11) as f64 / (1u64 << 53) as f64;
        let base = (unit(random()) * 80.0 - 40.0).exp2();
        pairs.push([base, (unit(random()) * 1450.0 - 740.0) / base.ln()]);
        pairs.push([-base, (random() % 41) as f64 - 20.0]);
        pairs.push([1.0 + unit(random()) * 1e-3, unit(random()) * 1e6 - 5e5]);
    }
    let mut exact = Exact { bits: 320, constants: Consts::new().unwrap() };
    for function in Elementary::all().iter().filter(|function| function.arity == 2) {
        let mut worst = (0.0, [0.0; 2]);
        for pair in &pairs {
            let value = function.evaluate_f64(pair);
            let host = reference(function.operation, pair[0], pair[1]);
            // The host's remainder is exact, as are the special cases of the others.
            let special = pair.iter().any(|x| !x.is_finite() || *x == 0.0);
            let ordinary = host.is_finite() && host != 0.0 && !special && function.operation != "arith.remf";
            let error = if ordinary {
                error(value, &exact.value(function.operation, pair[0], pair[1]), exact.bits)
            } else if value.is_nan() && host.is_nan() || value.to_bits() == host.to_bits() {
                0.0
            } else {
                ulp_near_host(value, host)
            };
            if error > worst.0 {
                worst = (error, *pair);
            }
        }
        let (error, pair) = worst;
        println!("{:14} {error:.3} at {pair:?}", function.operation);
        let value = function.evaluate_f64(&pair);
        assert!(error <= function.bounds.f64, "{}{pair:?} = {value:e}: {error} places", function.operation);
    }
}

/// One place where the values are neighbours: angles of axes, which the host rounds on its own, and numbers next to overflow or zero.
fn ulp_near_host(value: f64, host: f64) -> f64 {
    let neighbours = value.to_bits().abs_diff(host.to_bits()) == 1;
    if neighbours { 1.0 } else { f64::INFINITY }
}
