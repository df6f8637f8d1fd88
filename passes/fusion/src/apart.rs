//! What stood in the way of a fusion: read off the kernels of a module that is grouped.

use std::collections::{BTreeMap, BTreeSet};

use tenon_graph_dialect::{Operator, TensorType, destination};
use tenon_ir::{Attribute, Module, Op, Value};

use crate::family::{Family, is_pointwise};
use crate::patterns::{FORBID, places};
use crate::plan::{MAX_MEMBERS, MAX_ROW};

/// Most names in a message.
const MAX_NAMES: usize = 4;

/// The kernels of a module.
pub struct Kernels<'m> {
    kernels: Vec<Kernel<'m>>,
    /// Place of a kernel by its operation.
    places: BTreeMap<usize, usize>,
    /// Nodes of what is no kernel's: views, and parameters that are computed ahead.
    views: Vec<String>,
    derived: Vec<String>,
    forbidden: Vec<Vec<String>>,
}

struct Kernel<'m> {
    op: Op<'m>,
    name: String,
    family: Option<Family>,
    nodes: Vec<String>,
}

/// How two nodes of a model lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relation {
    /// In one kernel.
    Together {
        /// Its name.
        kernel: String,
    },
    /// In no common kernel.
    Apart {
        /// Kernels of the first node.
        first: Vec<String>,
        /// Kernels of the second.
        second: Vec<String>,
        /// What stood in the way, as a clause of a sentence.
        reason: String,
    },
}

fn shown(names: &[String]) -> String {
    let list: Vec<_> = names.iter().take(MAX_NAMES).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > MAX_NAMES { format!(" and {} more", names.len() - MAX_NAMES) } else { String::new() };
    format!("{}{more}", list.join(", "))
}

fn types(op: Op<'_>) -> String {
    let types = op.results().into_iter().filter_map(|value| TensorType::read(value.ty()).ok());
    types.map(|ty| ty.to_string()).collect::<Vec<_>>().join(", ")
}

/// Whether an operation outside kernels gives other dimensions to the same elements, or is the whole that kernels write parts of.
fn is_view(op: Op<'_>) -> bool {
    let is_whole = || op.is("graph.concat") && op.parent().is_some_and(|parent| !parent.is("graph.kernel"));
    op.is("graph.reshape") || op.is("graph.set_dimension_size") || is_whole()
}

/// Operations that read a value, through views.
fn readers<'m>(value: Value<'m>) -> Vec<Op<'m>> {
    let mut found: Vec<Op<'m>> = Vec::new();
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        for (user, _) in value.users() {
            if is_view(user) {
                pending.extend(user.results());
            } else if !found.contains(&user) {
                found.push(user);
            }
        }
    }
    found
}

impl<'m> Kernels<'m> {
    /// Reads a module behind `group-kernels`.
    pub fn of(module: &'m Module<'_>) -> Self {
        let (mut kernels, mut places_of) = (Vec::new(), BTreeMap::new());
        let (mut views, mut derived) = (Vec::new(), Vec::new());
        for op in module.op().walk() {
            if op.is("graph.kernel") {
                places_of.insert(op.key(), kernels.len());
                let family = op.string("family").and_then(|name| Family::by_name(&name));
                let name = op.string("sym_name").unwrap_or_default();
                kernels.push(Kernel { op, name, family, nodes: op.location().names() });
            } else if op.is("graph.derived_parameter") {
                derived.extend(op.location().names());
                derived.extend(op.walk().into_iter().flat_map(|inner| inner.location().names()));
            } else if is_view(op) && op.parent().is_some_and(|parent| !parent.is("graph.kernel")) {
                views.extend(op.location().names());
            }
        }
        Kernels { kernels, places: places_of, views, derived, forbidden: places(module, FORBID) }
    }

    /// Whether one kernel computes all of these nodes.
    pub fn any_holds(&self, nodes: &[String]) -> bool {
        self.kernels.iter().any(|kernel| nodes.iter().all(|node| kernel.nodes.contains(node)))
    }

    /// Names of the kernels that compute a part of a node.
    pub fn of_node(&self, node: &str) -> Vec<String> {
        self.holding(node).into_iter().map(|place| self.kernels[place].name.clone()).collect()
    }

    /// The rules of `rewrite-graph` by which kernels that compute a part of these nodes came to be.
    pub fn rules_of(&self, nodes: &[String]) -> Vec<String> {
        let places: BTreeSet<usize> = nodes.iter().flat_map(|node| self.holding(node)).collect();
        let lists = places.into_iter().filter(|place| self.kernels[*place].family != Some(Family::Attention));
        let lists = lists.filter_map(|place| self.kernels[place].op.attribute("rules")?.as_array());
        let names: BTreeSet<String> = lists.flatten().filter_map(Attribute::as_string).collect();
        names.into_iter().collect()
    }

    fn holding(&self, node: &str) -> Vec<usize> {
        let holds = |place: &usize| self.kernels[*place].nodes.iter().any(|own| own == node);
        (0..self.kernels.len()).filter(holds).collect()
    }

    /// How two nodes lie, and if apart, why.
    pub fn relation(&self, first: &str, second: &str) -> Relation {
        let (a, b) = (self.holding(first), self.holding(second));
        if let Some(common) = a.iter().find(|place| b.contains(place)) {
            return Relation::Together { kernel: self.kernels[*common].name.clone() };
        }
        let names = |list: &[usize]| list.iter().map(|place| self.kernels[*place].name.clone()).collect();
        let reason = match [(first, &a), (second, &b)].into_iter().find(|(_, list)| list.is_empty()) {
            Some((node, _)) => self.nothing_left(node),
            None => self.reason(&a, &b),
        };
        Relation::Apart { first: names(&a), second: names(&b), reason }
    }

    fn nothing_left(&self, node: &str) -> String {
        let has = |list: &[String]| list.iter().any(|own| own == node);
        if has(&self.views) {
            format!("{node} is a view: it gives other dimensions to elements that are there")
        } else if has(&self.derived) {
            format!("{node} follows from weights alone and is computed ahead")
        } else {
            format!("nothing of {node} is left to compute")
        }
    }

    fn reason(&self, a: &[usize], b: &[usize]) -> String {
        for (before, after) in [(a, b), (b, a)] {
            for producer in before {
                let direct = self.consumers(*producer).into_iter().find(|(consumer, _)| after.contains(consumer));
                if let Some((consumer, value)) = direct {
                    return self.between(*producer, consumer, value);
                }
            }
        }
        for (before, after) in [(a, b), (b, a)] {
            if let Some(path) = before.iter().find_map(|producer| self.path(*producer, after)) {
                let names: Vec<String> = path.iter().map(|place| self.kernels[*place].name.clone()).collect();
                return format!("what one gives reaches the other through {}", shown(&names));
            }
        }
        "neither reads what the other gives".to_owned()
    }

    /// Kernels that read results of one, each with the result.
    fn consumers(&self, producer: usize) -> Vec<(usize, Value<'m>)> {
        let results = self.kernels[producer].op.results().into_iter();
        results
            .flat_map(|value| readers(value).into_iter().map(move |reader| (reader, value)))
            .filter_map(|(reader, value)| Some((*self.places.get(&reader.key())?, value)))
            .collect()
    }

    /// The kernels on a shortest way from one to any of others, without the ends.
    fn path(&self, from: usize, to: &[usize]) -> Option<Vec<usize>> {
        let mut before: BTreeMap<usize, usize> = BTreeMap::new();
        let mut queue = std::collections::VecDeque::from([from]);
        while let Some(place) = queue.pop_front() {
            for (next, _) in self.consumers(place) {
                if next == from || before.contains_key(&next) {
                    continue;
                }
                before.insert(next, place);
                if to.contains(&next) {
                    let mut path = vec![next];
                    while let Some(place) = path.last().and_then(|last| before.get(last)) {
                        path.push(*place);
                    }
                    path.reverse();
                    return Some(path[1..path.len() - 1].to_vec());
                }
                queue.push_back(next);
            }
        }
        None
    }

    /// Why a kernel does not go on with one that reads its result.
    fn between(&self, producer: usize, consumer: usize, value: Value<'m>) -> String {
        let (from, to) = (&self.kernels[producer], &self.kernels[consumer]);
        let holds = |node: &String| from.nodes.contains(node) || to.nodes.contains(node);
        if let Some(list) = self.forbidden.iter().find(|list| list.iter().all(holds)) {
            return format!("`compile.fusion.forbid` keeps {} apart", shown(list));
        }
        if destination(value).is_some() {
            return format!("`{}` writes a part of a concatenation, and other kernels write the others", from.name);
        }
        let others: Vec<Op<'m>> = readers(value).into_iter().filter(|reader| *reader != to.op).collect();
        if !others.is_empty() {
            let names: Vec<String> = others
                .iter()
                .map(|other| match self.places.get(&other.key()) {
                    Some(place) => self.kernels[*place].name.clone(),
                    None => other.name(),
                })
                .collect();
            let name = &from.name;
            return format!("what `{name}` gives is read by {} too, so that it must be in memory", shown(&names));
        }
        let (Some(before), Some(after)) = (from.family, to.family) else {
            return "one of them is a kernel of no known family".to_owned();
        };
        let reader = self.reader(to, value);
        let operator = reader.and_then(|reader| Operator::read(reader)?.ok());
        let reads = operator.as_ref().map_or("an operator", Operator::name);
        match after {
            Family::Map if before == Family::Map || before.takes_epilogue() => {
                let size = |kernel: &Kernel<'m>| kernel.op.region_block(0).map_or(0, |block| block.ops().len());
                let result = reader.map(types).unwrap_or_default();
                let given = TensorType::read(value.ty()).map(|ty| ty.to_string()).unwrap_or_default();
                if !operator.as_ref().is_some_and(is_pointwise) {
                    match before {
                        Family::Map => format!(
                            "`{reads}` may read an element of {given} several times, and each time it would be computed anew"
                        ),
                        _ => format!(
                            "a kernel of family `{}` goes on with scalar functions of its result, and `{reads}` reads other places",
                            before.name()
                        ),
                    }
                } else if !same_dims(reader, value) {
                    format!("`{}` gives {given}, and `{reads}` of `{}` computes {result}", from.name, to.name)
                } else if size(from) + size(to) > MAX_MEMBERS {
                    format!("together they have more than {MAX_MEMBERS} operators")
                } else {
                    format!("`{}` needs other values that are not there where `{}` ends", to.name, from.name)
                }
            }
            Family::Map => format!("a kernel of family `{}` ends with its own result", before.name()),
            Family::Reduce if before == Family::Map => match self.row(to) {
                Some(row) if row > MAX_ROW => format!(
                    "a row of `{}` has {row} elements, more than the {MAX_ROW} that a block keeps: what is before it would be computed on each pass",
                    to.name
                ),
                _ => format!("`{}` computes ahead only what its first operand alone needs", to.name),
            },
            Family::Reduce => format!(
                "`{}` needs whole rows, and the tiles of family `{}` hold parts of them",
                to.name,
                before.name()
            ),
            _ => format!("a kernel of family `{}` reads its operands whole from memory", after.name()),
        }
    }

    /// The operator inside a kernel that reads a value from outside.
    fn reader(&self, kernel: &Kernel<'m>, value: Value<'m>) -> Option<Op<'m>> {
        let block = kernel.op.region_block(0)?;
        let through = |operand: &Value<'m>| {
            let mut at = *operand;
            while at != value {
                let Some((op, _)) = at.defining_op() else { return false };
                match op.operand(0) {
                    Some(inner) if is_view(op) => at = inner,
                    _ => return false,
                }
            }
            true
        };
        let place = kernel.op.operands().iter().position(through)?;
        let argument = *block.arguments().get(place)?;
        argument.users().first().map(|(op, _)| *op)
    }

    /// Elements of a row of a kernel's reduction.
    fn row(&self, kernel: &Kernel<'m>) -> Option<u64> {
        let ops = kernel.op.region_block(0)?.ops();
        ops.into_iter().find_map(|op| {
            let axes = match Operator::read(op)?.ok()? {
                Operator::Softmax(softmax) => vec![softmax.axis],
                Operator::Normalize(normalize) => normalize.axes,
                Operator::ArgReduce(reduce) => vec![reduce.axis],
                Operator::Reduce(reduce) => reduce.axes,
                _ => return None,
            };
            let ty = TensorType::read(op.operand(0)?.ty()).ok()?;
            axes.into_iter().try_fold(1u64, |row, axis| {
                let axis = if axis < 0 { axis + ty.rank() as i64 } else { axis };
                row.checked_mul(ty.dims.get(usize::try_from(axis).ok()?)?.capacity?)
            })
        })
    }
}

/// Whether an operation's result has the dimensions of a value.
fn same_dims(op: Option<Op<'_>>, value: Value<'_>) -> bool {
    let dims = |value: Value<'_>| TensorType::read(value.ty()).ok().map(|ty| ty.dims);
    op.and_then(|op| op.result(0)).and_then(dims) == dims(value)
}
