//! Source patterns: what `compile.fusion` may name, matched on the graph before anything is decomposed.
//!
//! An importer makes one or several operators of a node of the model, all of which carry the node's name; a pattern looks at the operators of
//! one node. GELU and normalisations are found in several nodes too (`spelled`), which then are one for a sequence. [`MatchFusion`] finds the sequences that the recipe requires and forbids, each node reading a result of the one before, and writes
//! the nodes of every place where they occur into the module: `graph.fusion_require` and `graph.fusion_forbid`, which `group-kernels` obeys.

use std::collections::{BTreeMap, BTreeSet};

use tenon_graph_dialect::operators::{Function, NormalizeKind};
use tenon_graph_dialect::{Operator, TensorType};
use tenon_ir::{Attribute, Module, Op};
use tenon_pass_manager::{Pass, PassContext, PassError, Refusal, nearest};
use tenon_recipe::Recipe;

use crate::spelled::{self, Spelled};

/// Most places where one sequence may occur.
const MAX_PLACES: usize = 100_000;

/// A pattern of one node of the model.
pub struct Pattern {
    /// Its name in recipes.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Whether a node, by what it computes, is one.
    matches: fn(&Node<'_>) -> bool,
}

const GELU: &str = "gelu";
const LAYER_NORM: &str = "layer_norm";
const RMS_NORM: &str = "rms_norm";

/// All patterns: one is added by its line.
pub const PATTERNS: &[Pattern] = &[
    pattern("conv", "a convolution", |node| node.has(|op| matches!(op, Operator::Convolution(_)))),
    pattern("matmul", "a product of matrices, with or without bias", |node| {
        node.has(|op| matches!(op, Operator::Contract(_)))
    }),
    // What follows from constant statistics alone may be gone: the root of the variance, the whole scale.
    pattern("batch_norm", "batch normalisation with given statistics", |node| {
        node.chain(&[Function::Subtract, Function::Divide, Function::Multiply, Function::Add])
            && !node.has(|op| matches!(op, Operator::Reduce(_) | Operator::Normalize(_)))
    }),
    pattern(LAYER_NORM, "layer, instance or group normalisation, in one node or written out", |node| {
        node.spelled == Some(LAYER_NORM)
            || node.has(|op| matches!(op, Operator::Normalize(normalize) if normalize.kind == NormalizeKind::Layer))
    }),
    pattern(RMS_NORM, "normalisation by the root of the mean square, in one node or written out", |node| {
        node.spelled == Some(RMS_NORM)
            || node.has(|op| matches!(op, Operator::Normalize(normalize) if normalize.kind == NormalizeKind::Rms))
    }),
    pattern("softmax", "softmax", |node| node.has(|op| matches!(op, Operator::Softmax(_)))),
    pattern("attention", "scaled dot-product attention in one node", |node| {
        node.has(|op| matches!(op, Operator::Attention(_)))
    }),
    pattern("relu", "max(x, 0)", |node| node.only(Function::Max) && node.reads_zero()),
    pattern(GELU, "GELU by erf or tanh, in one node or written out", |node| {
        node.spelled == Some(GELU)
            || node.functions([Function::Multiply, Function::Add])
                && (node.functions([Function::Erf]) || node.functions([Function::Tanh]))
    }),
    pattern("tanh", "tanh", |node| node.only(Function::Tanh)),
    pattern("exp", "the exponential", |node| node.only(Function::Exp)),
    pattern("add", "addition", |node| node.only(Function::Add)),
    pattern("sub", "subtraction", |node| node.only(Function::Subtract)),
    pattern("mul", "multiplication", |node| node.only(Function::Multiply)),
    pattern("div", "division", |node| node.only(Function::Divide)),
    pattern("reduce", "a reduction", |node| node.has(|op| matches!(op, Operator::Reduce(_)))),
    pattern("pool", "pooling", |node| node.has(|op| matches!(op, Operator::Window(_)))),
    pattern("transpose", "dimensions in another order", |node| node.has(|op| matches!(op, Operator::Transpose(_)))),
    pattern("concat", "concatenation", |node| node.has(|op| matches!(op, Operator::Concat(_)))),
    pattern("gather", "reading by index", |node| node.has(|op| matches!(op, Operator::Gather(_)))),
    pattern("resize", "interpolation", |node| node.has(|op| matches!(op, Operator::Resize(_)))),
    pattern("quantize", "float to quantised integer", |node| node.has(|op| matches!(op, Operator::Quantize(_)))),
    pattern("dequantize", "quantised integer to float", |node| node.has(|op| matches!(op, Operator::Dequantize(_)))),
];

const fn pattern(name: &'static str, about: &'static str, matches: fn(&Node<'_>) -> bool) -> Pattern {
    Pattern { name, about, matches }
}

/// A node of the model: the operators that carry its name. Or several that are one pattern together, by their names alone.
struct Node<'m> {
    names: Vec<String>,
    ops: Vec<(Op<'m>, Operator)>,
    spelled: Option<&'static str>,
}

impl Node<'_> {
    fn has(&self, is: impl Fn(&Operator) -> bool) -> bool {
        self.ops.iter().any(|(_, operator)| is(operator))
    }

    /// Whether each of these functions is among its operators.
    fn functions<const N: usize>(&self, functions: [Function; N]) -> bool {
        let of = |function: Function| move |op: &Operator| matches!(op, Operator::Elementwise(own) if own.function == function);
        functions.into_iter().all(|function| self.has(of(function)))
    }

    /// Whether operators of it are these functions, each of what the one before gives.
    fn chain(&self, functions: &[Function]) -> bool {
        let of = |op: Op<'_>, wanted: Function| {
            self.ops.iter().any(|(own, operator)| {
                *own == op && matches!(operator, Operator::Elementwise(elementwise) if elementwise.function == wanted)
            })
        };
        let mut reached: Vec<Op<'_>> = self.ops.iter().map(|(op, _)| *op).collect();
        for (place, function) in functions.iter().enumerate() {
            if place > 0 {
                reached = reached
                    .iter()
                    .flat_map(|op| op.results())
                    .flat_map(|value| value.users())
                    .map(|(user, _)| user)
                    .collect();
            }
            reached.retain(|op| of(*op, *function));
        }
        !reached.is_empty()
    }

    /// Whether this function is all that it computes; conversions, literals and movement aside.
    fn only(&self, function: Function) -> bool {
        let mut computing = self.ops.iter().filter(|(_, operator)| {
            !matches!(
                operator,
                Operator::Constant(_) | Operator::Cast(_) | Operator::Reshape(_) | Operator::Broadcast(_)
            )
        });
        matches!(
            (computing.next(), computing.next()),
            (Some((_, Operator::Elementwise(own))), None) if own.function == function
        )
    }

    /// Whether an operator of it reads the literal 0.
    fn reads_zero(&self) -> bool {
        let is_zero = |op: Op<'_>| match Operator::read(op) {
            Some(Ok(Operator::Constant(constant))) => {
                constant.value.element_count() == 1 && constant.value.get_f64(0) == Some(0.0)
            }
            _ => false,
        };
        self.ops
            .iter()
            .flat_map(|(op, _)| op.operands())
            .any(|value| value.defining_op().is_some_and(|(op, _)| is_zero(op)))
    }
}

/// Writes into the module where the sequences of `compile.fusion` occur.
pub struct MatchFusion {
    /// The recipe.
    pub recipe: Recipe,
}

/// Attribute with the nodes of every place where a required sequence occurs.
pub(crate) const REQUIRE: &str = "graph.fusion_require";
/// Attribute with the nodes of every place where a forbidden sequence occurs.
pub(crate) const FORBID: &str = "graph.fusion_forbid";

impl Pass for MatchFusion {
    fn name(&self) -> &'static str {
        "match-fusion"
    }

    fn is_required(&self) -> bool {
        true
    }

    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError> {
        let compile = &self.recipe.compile;
        if compile.require.is_empty() && compile.forbid.is_empty() {
            return Ok(());
        }
        for (clause, attribute, sequences) in
            [("compile.fusion.require", REQUIRE, &compile.require), ("compile.fusion.forbid", FORBID, &compile.forbid)]
        {
            let found = {
                let graph = Graph::of(module);
                let mut found: Vec<Vec<String>> = Vec::new();
                for sequence in sequences {
                    let places = graph.places(sequence, clause)?;
                    context.count("places of fusion clauses", places.len() as u64);
                    for place in places {
                        // A kernel that holds a part of each of two patterns has fused them.
                        match attribute {
                            FORBID if place.len() > 1 => found.extend(choices(&place)),
                            _ => found.push(place.concat()),
                        }
                        if found.len() > MAX_PLACES {
                            return Err(too_many(clause).into());
                        }
                    }
                }
                found
            };
            if !found.is_empty() {
                let ir = module.context();
                let lists: Vec<_> = found
                    .iter()
                    .map(|nodes| ir.array(&nodes.iter().map(|node| ir.string(node)).collect::<Vec<_>>()))
                    .collect();
                module.op().set_attribute(attribute, ir.array(&lists))?;
            }
        }
        Ok(())
    }
}

/// All lists with one name of each of several lists.
fn choices(lists: &[Vec<String>]) -> Vec<Vec<String>> {
    lists.iter().fold(vec![Vec::new()], |found, list| {
        let with = |before: &Vec<String>| -> Vec<Vec<String>> {
            list.iter().map(|name| [&before[..], std::slice::from_ref(name)].concat()).collect()
        };
        found.iter().flat_map(with).take(MAX_PLACES + 1).collect()
    })
}

fn too_many(clause: &str) -> Refusal {
    let message = format!("a sequence of `{clause}` occurs at more than {MAX_PLACES} places");
    Refusal::new("E0232", message, "name a longer sequence")
}

/// Looks for what an operator gives as several.
type Find = for<'m> fn(Op<'m>) -> Option<Spelled<'m>>;

/// The nodes of a module, and which reads results of which.
struct Graph<'m> {
    nodes: Vec<Node<'m>>,
    readers: Vec<BTreeSet<usize>>,
}

impl<'m> Graph<'m> {
    fn of(module: &'m Module<'_>) -> Graph<'m> {
        let mut nodes: Vec<Node<'m>> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        let mut makers: BTreeMap<usize, usize> = BTreeMap::new();
        for op in module.op().walk() {
            let Some(Ok(operator)) = Operator::read(op) else { continue };
            let Some(name) = op.location().names().into_iter().next() else { continue };
            let place = *places.entry(name.clone()).or_insert_with(|| {
                nodes.push(Node { names: vec![name], ops: Vec::new(), spelled: None });
                nodes.len() - 1
            });
            makers.insert(op.key(), place);
            nodes[place].ops.push((op, operator));
        }
        let mut readers = vec![BTreeSet::new(); nodes.len()];
        for (place, node) in nodes.iter().enumerate() {
            for value in node.ops.iter().flat_map(|(op, _)| op.operands()) {
                let maker = value.defining_op().and_then(|(op, _)| makers.get(&op.key()).copied());
                if let Some(maker) = maker.filter(|maker| *maker != place && TensorType::read(value.ty()).is_ok()) {
                    readers[maker].insert(place);
                }
            }
        }
        let mut graph = Graph { nodes, readers };
        graph.add_spelled(module, &makers);
        graph
    }

    /// Nodes that are a pattern together, each such set as a node of its own.
    fn add_spelled(&mut self, module: &'m Module<'_>, makers: &BTreeMap<usize, usize>) {
        let first = self.nodes.len();
        let mut members: Vec<BTreeSet<usize>> = Vec::new();
        for op in module.op().walk() {
            let all = [
                (GELU, spelled::gelu as Find),
                (LAYER_NORM, spelled::layer_norm as Find),
                (RMS_NORM, spelled::rms_norm as Find),
            ];
            for (pattern, find) in all {
                let Some(found) = find(op) else { continue };
                let own: BTreeSet<usize> =
                    found.operators.iter().filter_map(|op| makers.get(&op.key()).copied()).collect();
                let (Some(last), true) = (makers.get(&found.last.key()), own.len() > 1) else { continue };
                let names = own.iter().flat_map(|place| self.nodes[*place].names.clone()).collect();
                self.nodes.push(Node { names, ops: Vec::new(), spelled: Some(pattern) });
                self.readers.push(self.readers[*last].difference(&own).copied().collect());
                members.push(own);
            }
        }
        // Whoever is read by a part is read by the whole.
        for (index, own) in members.iter().enumerate() {
            for place in 0..self.nodes.len() {
                let is_part = own.contains(&place) || place >= first && !members[place - first].is_disjoint(own);
                if !is_part && !self.readers[place].is_disjoint(own) {
                    self.readers[place].insert(first + index);
                }
            }
        }
    }

    /// The nodes of every place where a sequence of patterns occurs, those of each pattern.
    fn places(&self, sequence: &[String], clause: &str) -> Result<Vec<Vec<Vec<String>>>, PassError> {
        let mut patterns = Vec::new();
        for name in sequence {
            let Some(pattern) = PATTERNS.iter().find(|pattern| pattern.name == name) else {
                let names: Vec<_> = PATTERNS.iter().map(|pattern| pattern.name).collect();
                let help = match nearest(name, names.iter().copied()) {
                    Some(nearest) => format!("did you mean `{nearest}`?"),
                    None => format!("patterns are {}", names.join(", ")),
                };
                return Err(Refusal::new(
                    "E0231",
                    format!("`{clause}` names the pattern `{name}`, which does not exist"),
                    help,
                )
                .into());
            };
            patterns.push(pattern);
        }
        let mut found = Vec::new();
        let matching = |place: usize, at: usize| (patterns[at].matches)(&self.nodes[place]);
        let mut open: Vec<Vec<usize>> = if patterns.is_empty() {
            Vec::new()
        } else {
            (0..self.nodes.len()).rev().filter(|place| matching(*place, 0)).map(|place| vec![place]).collect()
        };
        while let Some(path) = open.pop() {
            if path.len() == patterns.len() {
                found.push(path.iter().map(|place| self.nodes[*place].names.clone()).collect());
                if found.len() > MAX_PLACES {
                    return Err(too_many(clause).into());
                }
                continue;
            }
            let readers = path.last().map(|place| &self.readers[*place]);
            for reader in readers.into_iter().flatten().rev().filter(|reader| matching(**reader, path.len())) {
                open.push([&path[..], &[*reader]].concat());
            }
        }
        if found.is_empty() {
            let message = format!("a sequence of `{clause}`, {}, occurs nowhere in the model", sequence.join(" then "));
            let help = "remove it; `tenon recipe patterns` says what each name means";
            return Err(Refusal::new("E0232", message, help).into());
        }
        Ok(found)
    }
}

/// The lists of nodes that an attribute of the module holds.
pub(crate) fn places(module: &Module<'_>, attribute: &str) -> Vec<Vec<String>> {
    let lists = module.op().attribute(attribute).and_then(Attribute::as_array).unwrap_or_default();
    let names =
        |list: Attribute<'_>| list.as_array().map(|names| names.into_iter().filter_map(Attribute::as_string).collect());
    lists.into_iter().filter_map(names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_each_pattern_is_enough_to_be_forbidden() {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let found = choices(&[names(&["a"]), names(&["b", "c"])]);
        assert_eq!(found, [names(&["a", "b"]), names(&["a", "c"])]);
    }

    #[test]
    fn names_are_plain_and_different() {
        for (index, pattern) in PATTERNS.iter().enumerate() {
            assert!(
                pattern.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') && !pattern.about.is_empty()
            );
            assert!(PATTERNS[..index].iter().all(|other| other.name != pattern.name));
        }
    }
}
