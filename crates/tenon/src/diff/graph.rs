//! Operators of two graphs, matched.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use tenon_graph_dialect::{Operator, TensorType};
use tenon_ir::{Module, Op};

/// An operator of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GraphRow {
    /// Nodes of the model that it comes from.
    pub nodes: Vec<String>,
    /// `graph.contract`.
    pub operator: String,
    /// Attributes by name, without the layout.
    pub attributes: BTreeMap<String, String>,
    /// Types of operands.
    pub operands: Vec<String>,
    /// Types of results.
    pub results: Vec<String>,
    /// Order of dimensions in memory, where it is not row-major.
    pub layout: String,
    /// The kernel that it is in, and its family.
    pub kernel: Option<String>,
    /// Bytes of operands and results at their capacities, where these are known.
    pub bytes: Option<u64>,
    /// Places of the operators whose results it reads.
    #[serde(skip)]
    producers: Vec<usize>,
}

/// What happened to an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Only the second graph has it.
    Added,
    /// Only the first graph has it.
    Removed,
    /// Both have it, differently.
    Changed,
}

/// Something of an operator that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Aspect {
    /// `attribute axes`, `type`, `layout`, `kernel`, `cost`, `operands`.
    pub aspect: String,
    /// In the first graph.
    pub before: String,
    /// In the second graph.
    pub after: String,
}

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// The operator with its nodes.
    pub operator: String,
    /// Its place in the first graph.
    pub before: Option<usize>,
    /// Its place in the second graph.
    pub after: Option<usize>,
    /// What differs, of a changed one.
    pub aspects: Vec<Aspect>,
}

/// Two graphs, compared.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct GraphDiff {
    /// Operators that are in both and the same.
    pub same: usize,
    /// Differences, in the order of the graphs.
    pub changes: Vec<Change>,
}

impl GraphRow {
    /// `graph.contract MatMul_0`.
    pub fn title(&self) -> String {
        let name = self.operator.trim_start_matches("graph.");
        if self.nodes.is_empty() { name.to_owned() } else { format!("{name} {}", self.nodes.join(", ")) }
    }
}

/// The operators of a module of a stage up to `fuse`, in order.
pub fn rows(module: &Module<'_>) -> Vec<GraphRow> {
    let mut rows = Vec::new();
    let mut places: HashMap<usize, usize> = HashMap::new();
    for op in module.op().walk() {
        let Some(Ok(operator)) = Operator::read(op) else { continue };
        let types = |values: Vec<tenon_ir::Value<'_>>| -> Vec<TensorType> {
            values.into_iter().filter_map(|value| TensorType::read(value.ty()).ok()).collect()
        };
        let (operands, results) = (types(op.operands()), types(op.results()));
        let orders: Vec<_> =
            results.iter().filter_map(|ty| ty.order.as_ref().map(|order| format!("{order:?}"))).collect();
        let attributes = op.attributes().into_iter().map(|(name, value)| (name, value.to_string())).collect();
        let bytes = operands.iter().chain(&results).map(bytes_of).sum::<Option<u64>>();
        let producers =
            op.operands().into_iter().filter_map(|value| places.get(&value.defining_op()?.0.key()).copied()).collect();
        places.insert(op.key(), rows.len());
        rows.push(GraphRow {
            nodes: op.location().names(),
            operator: operator.name().to_owned(),
            attributes,
            operands: operands.iter().map(ToString::to_string).collect(),
            results: results.iter().map(ToString::to_string).collect(),
            layout: orders.join(", "),
            kernel: kernel_around(op),
            bytes,
            producers,
        });
    }
    rows
}

fn kernel_around(op: Op<'_>) -> Option<String> {
    let mut parent = op.parent();
    while let Some(op) = parent {
        if op.is("graph.kernel") {
            return Some(format!(
                "{} ({})",
                op.string("sym_name").unwrap_or_default(),
                op.string("family").unwrap_or_default()
            ));
        }
        parent = op.parent();
    }
    None
}

fn bytes_of(ty: &TensorType) -> Option<u64> {
    let elements = ty.capacities()?.into_iter().try_fold(1u64, u64::checked_mul)?;
    Some(elements.checked_mul(u64::from(ty.dtype.bits()))?.div_ceil(8))
}

/// Compares two graphs.
pub fn diff_graphs(before: &[GraphRow], after: &[GraphRow]) -> GraphDiff {
    let pairs = matched(before, after);
    let partner: HashMap<usize, usize> = pairs.iter().copied().collect();
    let mut diff = GraphDiff::default();
    let change =
        |kind, row: &GraphRow, before, after, aspects| Change { kind, operator: row.title(), before, after, aspects };
    let mut next = 0;
    let taken: HashSet<usize> = partner.values().copied().collect();
    // In the order of the second graph, removed ones where they stood in the first.
    for (place, row) in before.iter().enumerate() {
        match partner.get(&place) {
            None => diff.changes.push(change(ChangeKind::Removed, row, Some(place), None, Vec::new())),
            Some(&other) => {
                while next <= other {
                    if !taken.contains(&next) {
                        diff.changes.push(change(ChangeKind::Added, &after[next], None, Some(next), Vec::new()));
                    }
                    next += 1;
                }
                let aspects = aspects(row, &after[other], &partner);
                if aspects.is_empty() {
                    diff.same += 1;
                } else {
                    diff.changes.push(change(ChangeKind::Changed, row, Some(place), Some(other), aspects));
                }
            }
        }
    }
    for (place, row) in after.iter().enumerate().skip(next).filter(|(place, _)| !taken.contains(place)) {
        diff.changes.push(change(ChangeKind::Added, row, None, Some(place), Vec::new()));
    }
    diff
}

fn aspects(before: &GraphRow, after: &GraphRow, partner: &HashMap<usize, usize>) -> Vec<Aspect> {
    let mut aspects = Vec::new();
    let mut add = |aspect: &str, before: String, after: String| {
        if before != after {
            aspects.push(Aspect { aspect: aspect.to_owned(), before, after });
        }
    };
    add("operator", before.operator.clone(), after.operator.clone());
    let names: std::collections::BTreeSet<_> = before.attributes.keys().chain(after.attributes.keys()).collect();
    for name in names {
        let value = |row: &GraphRow| row.attributes.get(name).cloned().unwrap_or_else(|| "none".to_owned());
        add(&format!("attribute {name}"), value(before), value(after));
    }
    let types = |row: &GraphRow| format!("{} -> {}", row.operands.join(", "), row.results.join(", "));
    add("type", types(before), types(after));
    add("layout", before.layout.clone(), after.layout.clone());
    let kernel = |row: &GraphRow| row.kernel.clone().unwrap_or_else(|| "none".to_owned());
    add("kernel", kernel(before), kernel(after));
    let cost = |row: &GraphRow| row.bytes.map_or("unknown".to_owned(), |bytes| format!("{bytes} bytes"));
    add("cost", cost(before), cost(after));
    let moved: Vec<Option<usize>> = before.producers.iter().map(|producer| partner.get(producer).copied()).collect();
    if moved.len() != after.producers.len() || moved.iter().zip(&after.producers).any(|(a, b)| *a != Some(*b)) {
        add("operands", format!("{:?}", before.producers), format!("{:?}, by other operators", after.producers));
    }
    aspects
}

/// Which operators are the same ones, as places in both.
fn matched(before: &[GraphRow], after: &[GraphRow]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let mut free = (vec![true; before.len()], vec![true; after.len()]);
    // By the nodes that they come from, then by what surrounds them, each key in order where it comes up more than once.
    let by_node =
        |row: &GraphRow| (!row.nodes.is_empty()).then(|| format!("{}\n{}", row.operator, row.nodes.join("\n")));
    let keys = |rows: &[GraphRow]| rows.iter().map(by_node).collect::<Vec<_>>();
    pair(&keys(before), &keys(after), &mut free, &mut pairs);
    for depth in [3, 1] {
        let keys = |rows: &[GraphRow]| neighbourhoods(rows, depth).into_iter().map(Some).collect::<Vec<_>>();
        pair(&keys(before), &keys(after), &mut free, &mut pairs);
    }
    // What is left keeps its order: an operator of the same name between the same neighbours.
    let (left, right) = (left_over(&free.0), left_over(&free.1));
    let mut start = 0;
    for place in left {
        let lower = pairs.iter().filter(|(a, _)| *a < place).map(|(_, b)| *b).max();
        let upper = pairs.iter().filter(|(a, _)| *a > place).map(|(_, b)| *b).min();
        let fits = |other: usize| {
            free.1[other]
                && after[other].operator == before[place].operator
                && lower.is_none_or(|lower| other > lower)
                && upper.is_none_or(|upper| other < upper)
        };
        if let Some(found) = right[start.min(right.len())..].iter().position(|other| fits(*other)) {
            let other = right[start + found];
            start += found + 1;
            free.1[other] = false;
            pairs.push((place, other));
        }
    }
    pairs
}

fn left_over(free: &[bool]) -> Vec<usize> {
    (0..free.len()).filter(|place| free[*place]).collect()
}

fn pair<K: std::hash::Hash + Eq>(
    before: &[Option<K>],
    after: &[Option<K>],
    free: &mut (Vec<bool>, Vec<bool>),
    pairs: &mut Vec<(usize, usize)>,
) {
    let mut places: HashMap<&K, Vec<usize>> = HashMap::new();
    for (place, key) in after.iter().enumerate().rev().filter(|(place, _)| free.1[*place]) {
        if let Some(key) = key {
            places.entry(key).or_default().push(place);
        }
    }
    for (place, key) in before.iter().enumerate() {
        if !free.0[place] {
            continue;
        }
        if let Some(other) = key.as_ref().and_then(|key| places.get_mut(key)).and_then(Vec::pop) {
            (free.0[place], free.1[other]) = (false, false);
            pairs.push((place, other));
        }
    }
}

/// What each operator is with what it reads, so many operators far.
fn neighbourhoods(rows: &[GraphRow], depth: usize) -> Vec<String> {
    let own = |row: &GraphRow| {
        let attributes: Vec<_> = row.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{} {} {}", row.operator, attributes.join(" "), row.results.join(","))
    };
    let mut keys: Vec<String> = rows.iter().map(|row| tenon_bundle::sha256(own(row))).collect();
    for _ in 1..depth {
        keys = rows
            .iter()
            .zip(&keys)
            .map(|(row, key)| {
                let read: Vec<_> = row.producers.iter().map(|producer| keys[*producer].as_str()).collect();
                tenon_bundle::sha256(format!("{key}({})", read.join(",")))
            })
            .collect();
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(node: &str, operator: &str, axes: &str, producers: &[usize]) -> GraphRow {
        GraphRow {
            nodes: if node.is_empty() { Vec::new() } else { vec![node.to_owned()] },
            operator: operator.to_owned(),
            attributes: [("axes".to_owned(), axes.to_owned())].into(),
            operands: vec!["f32[2]".to_owned(); producers.len()],
            results: vec!["f32[2]".to_owned()],
            layout: String::new(),
            kernel: None,
            bytes: Some(8),
            producers: producers.to_vec(),
        }
    }

    #[test]
    fn a_graph_is_the_same_as_itself() {
        let graph =
            [row("a", "graph.reduce", "0", &[]), row("", "graph.cast", "", &[0]), row("", "graph.cast", "", &[1])];
        let diff = diff_graphs(&graph, &graph);
        assert_eq!((diff.same, diff.changes.len()), (3, 0));
    }

    #[test]
    fn operators_are_found_by_node_by_surroundings_and_by_place() {
        let before = [
            row("a", "graph.reduce", "0", &[]),
            row("", "graph.cast", "", &[0]),
            row("", "graph.scan", "1", &[1]),
            row("z", "graph.concat", "", &[2]),
        ];
        let after = [
            row("a", "graph.reduce", "1", &[]),
            row("new", "graph.transpose", "", &[0]),
            row("", "graph.cast", "", &[1]),
            row("", "graph.scan", "2", &[2]),
        ];
        let diff = diff_graphs(&before, &after);
        let shown: Vec<_> = diff.changes.iter().map(|change| (change.kind, change.operator.as_str())).collect();
        assert_eq!(
            shown,
            [
                (ChangeKind::Changed, "reduce a"),
                (ChangeKind::Added, "transpose new"),
                (ChangeKind::Changed, "cast"),
                (ChangeKind::Changed, "scan"),
                (ChangeKind::Removed, "concat z"),
            ]
        );
        assert_eq!(
            diff.changes[0].aspects[0],
            Aspect { aspect: "attribute axes".into(), before: "0".into(), after: "1".into() }
        );
        assert_eq!(diff.changes[2].aspects[0].aspect, "operands");
    }
}
