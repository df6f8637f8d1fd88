//! Proofs by instances: both sides of a rule, evaluated by the reference interpreter as typed programs.

use std::collections::BTreeMap;
use std::fmt;

use egg::Id;
use tenon_graph_dialect::{Operator, TensorType};
use tenon_recipe::NumericClass;
use tenon_reference::{Mode, evaluate};
use tenon_tensor::{DType, Tensor};

use crate::graph::{Graph, Origin};
use crate::language::{Node, Symbol};
use crate::rule::Rule;
use crate::saturate::saturate;

/// Random numbers that repeat for a seed.
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Of a seed.
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 };
        dice.next();
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// A number from `low` to `high`, both included.
    pub fn number(&mut self, low: u64, high: u64) -> u64 {
        low + (self.next() >> 20) % (high - low + 1)
    }

    /// One of several.
    pub fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.number(0, list.len() as u64 - 1) as usize].clone()
    }

    /// Sizes of dimensions, each from 1 to 4.
    pub fn shape(&mut self, rank: usize) -> Vec<u64> {
        (0..rank).map(|_| self.number(1, 4)).collect()
    }

    /// An order of this many dimensions.
    pub fn permutation(&mut self, rank: usize) -> Vec<i64> {
        let mut list: Vec<i64> = (0..rank as i64).collect();
        for place in (1..rank).rev() {
            list.swap(place, self.number(0, place as u64) as usize);
        }
        list
    }

    /// A type that products and sums are taken in.
    pub fn float(&mut self) -> DType {
        self.pick(&[DType::F32, DType::F32, DType::F16, DType::BF16, DType::F64])
    }

    fn tensor(&mut self, ty: &TensorType) -> Option<Tensor> {
        let shape: Vec<usize> = ty.known_shape()?.into_iter().map(|size| size as usize).collect();
        let values: Vec<f64> = (0..shape.iter().product())
            .map(|_| {
                let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
                // Away from zero, so that a quotient is no matter of luck.
                let sign = if self.next() >> 63 == 0 { 1.0 } else { -1.0 };
                match ty.dtype {
                    DType::I8 => (unit * 256.0).floor() - 128.0,
                    DType::U8 => (unit * 256.0).floor(),
                    dtype if dtype.is_float() => sign * (0.25 + 1.5 * unit),
                    _ => (unit * 2.0).floor(),
                }
            })
            .collect();
        Tensor::from_f64s(ty.dtype, shape, &values).ok()
    }
}

/// A left side of a rule, with whatever stands around it.
#[derive(Default)]
pub struct Instance {
    graph: Graph,
    leaves: Vec<(Id, TensorType)>,
}

impl Instance {
    /// Without values.
    pub fn new() -> Self {
        Instance::default()
    }

    /// A value of any kind.
    pub fn input(&mut self, dtype: DType, shape: &[u64]) -> Id {
        let ty = TensorType::fixed(dtype, shape);
        let id = self.graph.input(self.leaves.len() as u32, ty.clone());
        self.leaves.push((id, ty));
        id
    }

    /// A weight.
    pub fn parameter(&mut self, dtype: DType, shape: &[u64]) -> Id {
        let ty = TensorType::fixed(dtype, shape);
        let id = self.graph.parameter(&format!("parameter{}", self.leaves.len()), ty.clone());
        self.leaves.push((id, ty));
        id
    }

    /// An operator. An instance whose operands do not fit is without it, and so does not match.
    pub fn op(&mut self, operator: impl Into<Operator>, operands: &[Option<Id>]) -> Option<Id> {
        let operator = operator.into();
        let operands: Vec<Id> = operands.iter().copied().collect::<Option<_>>()?;
        let types: Vec<_> = operands.iter().map(|id| self.graph.ty(*id).cloned()).collect::<Option<_>>()?;
        let results = operator.infer(&types).ok()?;
        Some(self.graph.add_as(operator, results, &operands, Origin::default()))
    }

    /// A scalar literal.
    pub fn scalar(&mut self, value: f64, dtype: DType) -> Option<Id> {
        self.graph.scalar(value, dtype)
    }
}

/// Why a rule is not proved.
#[derive(Debug, Clone, PartialEq)]
pub enum ProofError {
    /// It matched none of its instances.
    NeverApplied,
    /// What it declared equal is not.
    Differs {
        /// The instance.
        seed: u64,
        /// Which node of a class, and how far.
        detail: String,
    },
    /// A side of it cannot be evaluated.
    Undefined {
        /// The instance.
        seed: u64,
        /// Why.
        detail: String,
    },
}

impl fmt::Display for ProofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProofError::NeverApplied => f.write_str("the rule matches none of its instances"),
            ProofError::Differs { seed, detail } => write!(f, "instance {seed}: {detail}"),
            ProofError::Undefined { seed, detail } => write!(f, "instance {seed} cannot be evaluated: {detail}"),
        }
    }
}

/// Applies a rule to `count` random instances of its own, and compares all nodes of each class. How often it found something.
///
/// # Errors
/// It found nothing, or what it declared equal is not: of class `exact`, not the same bits; else further apart than rounding explains.
pub fn prove(rule: &Rule, count: u64) -> Result<usize, ProofError> {
    let mut found = 0;
    for seed in 0..count {
        let mut dice = Dice::new(seed + 1);
        let mut instance = (rule.instance)(&mut dice);
        instance.graph.rebuild();
        saturate(&mut instance.graph, &[rule], None);
        found += usize::from(instance.graph.unions > 0);
        check(rule.class, instance, &mut dice, seed)?;
    }
    if found == 0 { Err(ProofError::NeverApplied) } else { Ok(found) }
}

/// Evaluates every node of every class and compares it with the first of its class.
fn check(class: NumericClass, instance: Instance, dice: &mut Dice, seed: u64) -> Result<(), ProofError> {
    let graph = &instance.graph;
    let mut values: BTreeMap<Id, Tensor> = BTreeMap::new();
    for (id, ty) in &instance.leaves {
        let tensor = dice
            .tensor(ty)
            .ok_or_else(|| ProofError::Undefined { seed, detail: "a leaf has no fixed shape".to_owned() })?;
        values.insert(graph.find(*id), tensor);
    }
    let classes = graph.classes();
    // The first value of a class that can be computed is what its users read.
    loop {
        let mut progress = false;
        for id in classes.iter().filter(|id| !matches!(graph.nodes(**id).first(), None)) {
            if values.contains_key(id) {
                continue;
            }
            let mut own: Vec<Node> = graph.nodes(*id);
            own.sort_by_key(|node| graph.origin(node).rules.len());
            let value = own.iter().find_map(|node| compute(node, graph, &values));
            if let Some(value) = value {
                values.insert(*id, value.map_err(|detail| ProofError::Undefined { seed, detail })?);
                progress = true;
            }
        }
        if !progress {
            break;
        }
    }
    for id in &classes {
        for node in graph.nodes(*id) {
            let (Some(expected), Some(found)) = (values.get(id), compute(&node, graph, &values)) else { continue };
            let found = found.map_err(|detail| ProofError::Undefined { seed, detail })?;
            if let Some(detail) = difference(class, expected, &found) {
                let detail = format!("{node:?} gives {found:?}, its class is {expected:?}: {detail}");
                return Err(ProofError::Differs { seed, detail });
            }
        }
    }
    Ok(())
}

fn compute(node: &Node, graph: &Graph, values: &BTreeMap<Id, Tensor>) -> Option<Result<Tensor, String>> {
    let Symbol::Operator(operation) = &node.symbol else { return None };
    let operands: Vec<Tensor> =
        node.children.iter().map(|id| values.get(&graph.find(*id)).cloned()).collect::<Option<_>>()?;
    let result = evaluate(&operation.operator, &operands, &operation.results, Mode::Typed);
    Some(
        result
            .map_err(|error| error.to_string())
            .and_then(|list| list.into_iter().next().ok_or_else(|| "no result".to_owned())),
    )
}

/// How two values differ, where they do more than a class allows.
fn difference(class: NumericClass, expected: &Tensor, found: &Tensor) -> Option<String> {
    if (expected.dtype(), expected.shape()) != (found.dtype(), found.shape()) {
        return Some("the types differ".to_owned());
    }
    let unit = match expected.dtype() {
        DType::F64 => 2f64.powi(-52),
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => 2f64.powi(-23),
    };
    let pairs = || (0..expected.element_count()).map(|index| (expected.get_f64(index), found.get_f64(index)));
    // Sums cancel: errors are relative to the largest element, not to each.
    let largest = pairs().filter_map(|(value, _)| value).fold(1.0, |most: f64, value| most.max(value.abs()));
    let allowed = match class {
        NumericClass::Exact => 0.0,
        NumericClass::Reassociates => 32.0 * unit * largest,
        NumericClass::Approximates => 1e-3 * largest,
    };
    for (index, (expected, found)) in pairs().enumerate() {
        let (Some(expected), Some(found)) = (expected, found) else { continue };
        let same = expected.to_bits() == found.to_bits() || (expected.is_nan() && found.is_nan());
        if !same && (class == NumericClass::Exact || (expected - found).abs() > allowed) {
            return Some(format!("element {index} is {found} for {expected}"));
        }
    }
    None
}
