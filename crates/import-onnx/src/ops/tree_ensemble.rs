//! TreeEnsemble of `ai.onnx.ml`: decision trees, walked down one level at a time, all trees and rows at once.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Gather, GatherKind, Iota, Reduce, ReduceKind, Softmax};
use tenon_tensor::{DType, Tensor};

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// Most levels of a tree, each of which is written out.
const MAX_DEPTH: usize = 256;

/// Most elements of the table of members.
const MAX_MEMBERS: usize = 1 << 22;

/// The trees as lists by place: inner nodes first, then leaves, which lead to themselves.
struct Trees {
    inner: usize,
    roots: Vec<i64>,
    features: Vec<i64>,
    modes: Vec<u8>,
    splits: Vec<f64>,
    missing_true: Vec<bool>,
    on_true: Vec<i64>,
    on_false: Vec<i64>,
    weights: Vec<f64>,
    targets: Vec<i64>,
    /// The members of each inner node of that mode; others have none.
    members: Vec<Vec<f64>>,
    depth: usize,
}

impl Trees {
    fn read(op: &OpImport<'_, '_, '_>) -> Result<Trees, ImportError> {
        let ints = |name: &str| op.node.required(name, op.node.ints(name)?).map(<[i64]>::to_vec);
        let floats = |name: &str, tensor: &Tensor| {
            tensor.to_f64_vec().map_err(|error| op.node.attribute_error(name, "numbers", error.to_string()))
        };
        let required = |name: &str| op.node.required(name, op.node.tensor(name)?);
        let wrong =
            |name: &str| op.node.attribute_error(name, "one entry a node, or leaf, that there is", "does not fit");
        let features = ints("nodes_featureids")?;
        let inner = features.len();
        let modes = floats("nodes_modes", required("nodes_modes")?)?;
        let splits = floats("nodes_splits", required("nodes_splits")?)?;
        let weights = floats("leaf_weights", required("leaf_weights")?)?;
        let targets = ints("leaf_targetids")?;
        // How often a node was reached in training.
        op.node.tensor("nodes_hitrates")?;
        let missing = op.node.ints("nodes_missing_value_tracks_true")?.map_or_else(|| vec![0; inner], <[i64]>::to_vec);
        let branch = |ids: &str, leafs: &str| -> Result<Vec<i64>, ImportError> {
            let (ids_of, leafs_of) = (ints(ids)?, ints(leafs)?);
            if ids_of.len() != inner || leafs_of.len() != inner {
                return Err(wrong(ids));
            }
            let place = |(id, leaf): (&i64, &i64)| {
                let (limit, base) = if *leaf == 0 { (inner, 0) } else { (weights.len(), inner) };
                usize::try_from(*id).ok().filter(|id| *id < limit).map(|id| (id + base) as i64)
            };
            ids_of.iter().zip(&leafs_of).map(place).collect::<Option<_>>().ok_or_else(|| wrong(ids))
        };
        let on_true = branch("nodes_truenodeids", "nodes_trueleafs")?;
        let on_false = branch("nodes_falsenodeids", "nodes_falseleafs")?;
        let roots = ints("tree_roots")?;
        if modes.len() != inner || splits.len() != inner || missing.len() != inner || targets.len() != weights.len() {
            return Err(wrong("nodes_modes"));
        }
        if modes.iter().any(|mode| !(0.0..=6.0).contains(mode)) || features.iter().any(|feature| *feature < 0) {
            return Err(op.node.attribute_error("nodes_modes", "0 to 6", "is out of range"));
        }
        let in_range = |root: &i64| usize::try_from(*root).is_ok_and(|root| root < inner);
        if inner == 0 || roots.is_empty() || !roots.iter().all(in_range) {
            return Err(wrong("tree_roots"));
        }
        let mut sets = Vec::new();
        if let Some(members) = op.node.tensor("membership_values")? {
            let mut set = Vec::new();
            for value in floats("membership_values", members)? {
                if value.is_nan() { sets.push(std::mem::take(&mut set)) } else { set.push(value) }
            }
            if !set.is_empty() {
                sets.push(set);
            }
        }
        let mut sets = sets.into_iter();
        let mut members = Vec::new();
        for mode in &modes {
            members.push(match *mode == 6.0 {
                true => sets.next().ok_or_else(|| wrong("membership_values"))?,
                false => Vec::new(),
            });
        }
        let mut trees = Trees {
            inner,
            roots,
            features,
            modes: modes.into_iter().map(|mode| mode as u8).collect(),
            splits,
            missing_true: missing.iter().map(|flag| *flag != 0).collect(),
            on_true,
            on_false,
            weights,
            targets,
            members,
            depth: 0,
        };
        trees.depth =
            trees.levels().ok_or_else(|| op.unsupported(format!("a tree of more than {MAX_DEPTH} levels")))?;
        Ok(trees)
    }

    /// Levels until every walk is at a leaf; `None`: too many, or a circle.
    fn levels(&self) -> Option<usize> {
        let mut reached: Vec<i64> = self.roots.clone();
        for level in 0..=MAX_DEPTH {
            reached.sort_unstable();
            reached.dedup();
            reached.retain(|place| (*place as usize) < self.inner);
            if reached.is_empty() {
                return Some(level);
            }
            let next = reached.iter().flat_map(|place| [self.on_true[*place as usize], self.on_false[*place as usize]]);
            reached = next.collect();
        }
        None
    }
}

/// TreeEnsemble: `[N, features]` to `[N, targets]`.
pub(super) fn tree_ensemble(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let dtype = op.dtype(x);
    if op.rank(x) != 2 || !dtype.is_float() {
        return Err(op.invalid(format!("the input must be a matrix of floats, not {}", op.ty(x))));
    }
    let aggregate = op.node.int_or("aggregate_function", 1)?;
    let transform = op.node.int_or("post_transform", 0)?;
    let outputs = op.node.required("n_targets", op.node.int("n_targets")?)?;
    let trees = Trees::read(op)?;
    if !(1..=1 << 20).contains(&outputs) || trees.targets.iter().any(|target| !(0..outputs).contains(target)) {
        return Err(op.node.attribute_error("n_targets", "more than every target", format!("is {outputs}")));
    }
    if !(0..=3).contains(&aggregate) {
        return Err(op.node.attribute_error("aggregate_function", "0 to 3", format!("is {aggregate}")));
    }
    let leaf = walk(op, x, &trees)?;

    // [N, trees, targets]: what each tree adds to each target.
    let weights: Vec<f64> = vec![0.0; trees.inner].into_iter().chain(trees.weights.iter().copied()).collect();
    let targets: Vec<i64> = vec![0; trees.inner].into_iter().chain(trees.targets.iter().copied()).collect();
    let weights = op.literal(dtype, &[weights.len()], &weights)?;
    let weight = take(op, weights, leaf)?;
    let targets = op.integers(&targets)?;
    let target = take(op, targets, leaf)?;
    let mut each = op.extents(leaf);
    each.push(DimExpr::constant(1));
    let (weight, target) = (op.reshape(weight, each.clone())?, op.reshape(target, each)?);
    let shape = vec![1.into(), 1.into(), DimExpr::constant(outputs)];
    let places = op.emit(Iota { dtype: DType::I64, shape, axis: 2 }, &[])?;
    let hit = op.apply(Function::Equal, &[target, places])?;
    let zero = op.scalar(0.0, dtype)?;
    let (kind, neutral) = match aggregate {
        2 => (ReduceKind::Min, f64::INFINITY),
        3 => (ReduceKind::Max, f64::NEG_INFINITY),
        _ => (ReduceKind::Sum, 0.0),
    };
    let nothing = op.scalar(neutral, dtype)?;
    let parts = op.apply(Function::Select, &[hit, weight, nothing])?;
    let mut result = op.reduce(kind, parts, &[1], false)?;
    if aggregate == 0 {
        let count = op.scalar(trees.roots.len() as f64, dtype)?;
        result = op.apply(Function::Divide, &[result, count])?;
    }
    if aggregate >= 2 {
        // A target that no tree reached is 0.
        let reached = op.emit(Reduce { kind: ReduceKind::Any, axes: vec![1], keep_dims: false }, &[hit])?;
        result = op.apply(Function::Select, &[reached, result, zero])?;
    }
    Ok(vec![match transform {
        0 => result,
        1 => op.emit(Softmax { axis: 1, log: false }, &[result])?,
        2 => op.apply(Function::Sigmoid, &[result])?,
        other => return Err(op.unsupported(format!("`post_transform` = {other}"))),
    }])
}

fn take(op: &mut OpImport<'_, '_, '_>, table: Handle, places: Handle) -> Result<Handle, ImportError> {
    op.emit(Gather { kind: GatherKind::Take, axis: 0, batch_dims: 0 }, &[table, places])
}

/// The leaf that each row reaches in each tree: `[N, trees]`, as places in the lists.
fn walk(op: &mut OpImport<'_, '_, '_>, x: Handle, trees: &Trees) -> Result<Handle, ImportError> {
    let dtype = op.dtype(x);
    let leaves = trees.weights.len();
    let all = trees.inner + leaves;
    let whole = |list: &[i64]| -> Vec<i64> { list.iter().copied().chain(vec![0; leaves]).collect() };
    let to_itself = |list: &[i64]| -> Vec<i64> {
        list.iter().copied().chain((trees.inner..all).map(|place| place as i64)).collect()
    };
    let features = op.integers(&whole(&trees.features))?;
    let (on_true, on_false) = (op.integers(&to_itself(&trees.on_true))?, op.integers(&to_itself(&trees.on_false))?);
    let splits: Vec<f64> = trees.splits.iter().copied().chain(vec![0.0; leaves]).collect();
    let splits = op.literal(dtype, &[all], &splits)?;
    let kinds: Vec<i64> = trees.modes.iter().map(|mode| i64::from(*mode)).collect();
    let kinds = op.integers(&whole(&kinds))?;
    let missing: Vec<f64> =
        trees.missing_true.iter().map(|flag| f64::from(u8::from(*flag))).chain(vec![0.0; leaves]).collect();
    let tracks_missing = trees.missing_true.contains(&true);
    let missing = op.literal(DType::Bool, &[all], &missing)?;
    let members = members(op, trees, all, dtype)?;

    let count = op.dim(x, 0).extent.clone();
    let roots = op.integers(&trees.roots)?;
    let mut place = op.broadcast(roots, vec![count, DimExpr::constant(trees.roots.len() as i64)])?;
    for _ in 0..trees.depth {
        let feature = take(op, features, place)?;
        let value = op.emit(Gather { kind: GatherKind::Elements, axis: 1, batch_dims: 0 }, &[x, feature])?;
        let split = take(op, splits, place)?;
        let kind = take(op, kinds, place)?;
        let mut goes = None;
        for mode in 0..=6u8 {
            if !trees.modes.contains(&mode) {
                continue;
            }
            let holds = match (mode, members) {
                (0, _) => op.apply(Function::LessEqual, &[value, split])?,
                (1, _) => op.apply(Function::Less, &[value, split])?,
                (2, _) => op.apply(Function::GreaterEqual, &[value, split])?,
                (3, _) => op.apply(Function::Greater, &[value, split])?,
                (4, _) => op.apply(Function::Equal, &[value, split])?,
                (5, _) => op.apply(Function::NotEqual, &[value, split])?,
                (_, Some(members)) => {
                    let set = take(op, members, place)?;
                    let mut each = op.extents(value);
                    each.push(DimExpr::constant(1));
                    let value = op.reshape(value, each)?;
                    let equal = op.apply(Function::Equal, &[value, set])?;
                    op.emit(Reduce { kind: ReduceKind::Any, axes: vec![2], keep_dims: false }, &[equal])?
                }
                (_, None) => continue,
            };
            goes = Some(match goes {
                None => holds,
                Some(others) => {
                    let mode = op.scalar(f64::from(mode), DType::I64)?;
                    let own = op.apply(Function::Equal, &[kind, mode])?;
                    op.apply(Function::Select, &[own, holds, others])?
                }
            });
        }
        let mut goes = goes.ok_or_else(|| op.invalid("a tree without comparisons"))?;
        if tracks_missing {
            let unknown = op.apply(Function::IsNan, &[value])?;
            let tracks = take(op, missing, place)?;
            let tracked = op.apply(Function::And, &[unknown, tracks])?;
            goes = op.apply(Function::Or, &[goes, tracked])?;
        }
        let (yes, no) = (take(op, on_true, place)?, take(op, on_false, place)?);
        place = op.apply(Function::Select, &[goes, yes, no])?;
    }
    Ok(place)
}

/// The members of each place's set `[places, largest set]`, NaN behind the last, which equals nothing.
fn members(
    op: &mut OpImport<'_, '_, '_>,
    trees: &Trees,
    all: usize,
    dtype: DType,
) -> Result<Option<Handle>, ImportError> {
    if !trees.modes.contains(&6) {
        return Ok(None);
    }
    let width = trees.members.iter().map(Vec::len).max().unwrap_or(0).max(1);
    if all.checked_mul(width).is_none_or(|count| count > MAX_MEMBERS) {
        return Err(op.unsupported("sets of members this large"));
    }
    let mut table = vec![f64::NAN; all * width];
    for (row, members) in trees.members.iter().enumerate() {
        table[row * width..row * width + members.len()].copy_from_slice(members);
    }
    op.literal(dtype, &[all, width], &table).map(Some)
}
