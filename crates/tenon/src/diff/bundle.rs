//! Two bundles: what they were made from and by, and which kernels changed and why.

use std::collections::BTreeSet;

use serde::Serialize;
use tenon_bundle::{Bundle, KernelRecord, ProgramRecord};
use tenon_ir::Session;
use tenon_recipe::Difference;
use tenon_runtime::LaunchPlan;

use super::graph::{ChangeKind, GraphDiff, diff_graphs, rows};
use crate::Failure;
use crate::verify::recipe_of;

/// Two bundles, compared.
#[derive(Debug, Clone, Serialize)]
pub struct BundleDiff {
    /// What they were made from and by: `model`, `compiler`, `targets`, where these differ.
    pub identity: Vec<Difference>,
    /// Clauses of the recipe that differ.
    pub recipe: Vec<Difference>,
    /// The programs of both, and those that only one of them has.
    pub programs: Vec<ProgramDiff>,
}

/// Programs for one target and bucket.
#[derive(Debug, Clone, Serialize)]
pub struct ProgramDiff {
    /// The target.
    pub target: String,
    /// The bucket.
    pub bucket: Option<String>,
    /// `added` or `removed` where only one bundle has it.
    pub only: Option<ChangeKind>,
    /// Launches, copies and fills of a run, before and after.
    pub launches: Option<(usize, usize)>,
    /// Bytes of the arena, before and after.
    pub arena_bytes: Option<(u64, u64)>,
    /// Kernels that are the same in both.
    pub same_kernels: usize,
    /// Kernels that are not.
    pub kernels: Vec<KernelChange>,
    /// Why, where a kernel changed.
    pub because: Vec<String>,
    /// The grouped graphs.
    pub graph: GraphDiff,
}

/// A kernel that only one bundle has, or that computes the same nodes by other code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelChange {
    /// What happened.
    pub kind: ChangeKind,
    /// The entry before.
    pub before: Option<String>,
    /// The entry after.
    pub after: Option<String>,
    /// Nodes of the model that it computes.
    pub nodes: Vec<String>,
    /// What differs: `family`, `code`.
    pub aspects: Vec<String>,
}

impl BundleDiff {
    /// Whether the bundles hold the same.
    pub fn is_empty(&self) -> bool {
        self.identity.is_empty()
            && self.recipe.is_empty()
            && self
                .programs
                .iter()
                .all(|program| program.only.is_none() && program.kernels.is_empty() && program.graph.changes.is_empty())
    }
}

/// Compares two bundles.
///
/// # Errors
/// A part of one is not what it should be.
pub fn diff_bundles(before: &Bundle, after: &Bundle) -> Result<BundleDiff, Failure> {
    let (a, b) = (before.manifest(), after.manifest());
    let targets = |bundle: &Bundle| {
        let list =
            bundle.manifest().targets.iter().map(|t| format!("{} ({}, PTX {})", t.name, t.architecture, t.ptx_version));
        list.collect::<Vec<_>>().join(", ")
    };
    let facts = [
        ("model", format!("{} {}", a.model.name, a.model.sha256), format!("{} {}", b.model.name, b.model.sha256)),
        ("compiler", a.compiler.to_string(), b.compiler.to_string()),
        ("targets", targets(before), targets(after)),
    ];
    let identity = facts
        .into_iter()
        .filter(|(_, before, after)| before != after)
        .map(|(clause, before, after)| Difference { clause: clause.to_owned(), before, after })
        .collect();
    let recipe = recipe_of(before)?.differences(&recipe_of(after)?);
    let mut diff = BundleDiff { identity, recipe, programs: Vec::new() };
    let key = |program: &ProgramRecord| (program.target.clone(), program.bucket.clone());
    for program in &a.programs {
        let other = b.programs.iter().find(|other| key(other) == key(program));
        let compared = match other {
            Some(other) => compare(before, program, after, other, &diff)?,
            None => lonely(program, ChangeKind::Removed),
        };
        diff.programs.push(compared);
    }
    let added = b.programs.iter().filter(|program| !a.programs.iter().any(|other| key(other) == key(program)));
    diff.programs.extend(added.map(|program| lonely(program, ChangeKind::Added)));
    Ok(diff)
}

fn lonely(program: &ProgramRecord, kind: ChangeKind) -> ProgramDiff {
    ProgramDiff {
        target: program.target.clone(),
        bucket: program.label(),
        only: Some(kind),
        launches: None,
        arena_bytes: None,
        same_kernels: 0,
        kernels: Vec::new(),
        because: Vec::new(),
        graph: GraphDiff::default(),
    }
}

fn compare(
    before: &Bundle,
    a: &ProgramRecord,
    after: &Bundle,
    b: &ProgramRecord,
    facts: &BundleDiff,
) -> Result<ProgramDiff, Failure> {
    let plan = |bundle: &Bundle, program: &ProgramRecord| -> Result<LaunchPlan, Failure> {
        Ok(LaunchPlan::from_json(bundle.text(&program.plan)?)?)
    };
    let (plan_a, plan_b) = (plan(before, a)?, plan(after, b)?);
    let session = Session::new();
    let graph = |bundle: &Bundle, program: &ProgramRecord| -> Result<_, Failure> {
        Ok(rows(&session.parse_module(bundle.text(&program.graph)?, &program.graph)?))
    };
    let graph = diff_graphs(&graph(before, a)?, &graph(after, b)?);
    let (kernels, same_kernels) = kernels(&a.kernels, &b.kernels);
    let because = if kernels.is_empty() { Vec::new() } else { reasons(facts, &graph) };
    Ok(ProgramDiff {
        target: a.target.clone(),
        bucket: a.label(),
        only: None,
        launches: Some((plan_a.launch_count(), plan_b.launch_count())),
        arena_bytes: Some((plan_a.arena_bytes, plan_b.arena_bytes)),
        same_kernels,
        kernels,
        because,
        graph,
    })
}

/// Kernels that compute the same nodes are the same kernel; of those left, the ones that share most nodes are.
fn kernels(before: &[KernelRecord], after: &[KernelRecord]) -> (Vec<KernelChange>, usize) {
    let mut left: Vec<&KernelRecord> = after.iter().collect();
    let (mut changes, mut same) = (Vec::new(), 0);
    let mut unmatched = Vec::new();
    for kernel in before {
        let exact =
            left.iter().position(|other| other.entry == kernel.entry && other.source_nodes == kernel.source_nodes);
        match exact.or_else(|| left.iter().position(|other| other.source_nodes == kernel.source_nodes)) {
            Some(place) => {
                let other = left.remove(place);
                if other.entry == kernel.entry { same += 1 } else { changes.push(changed(kernel, other)) }
            }
            None => unmatched.push(kernel),
        }
    }
    for kernel in unmatched {
        let nodes: BTreeSet<_> = kernel.source_nodes.iter().collect();
        let common = |other: &&KernelRecord| other.source_nodes.iter().filter(|node| nodes.contains(node)).count();
        let best = (0..left.len()).max_by_key(|place| (common(&left[*place]), std::cmp::Reverse(*place)));
        match best.filter(|place| common(&left[*place]) > 0) {
            Some(place) => changes.push(changed(kernel, left.remove(place))),
            None => changes.push(KernelChange {
                kind: ChangeKind::Removed,
                before: Some(kernel.entry.clone()),
                after: None,
                nodes: kernel.source_nodes.clone(),
                aspects: Vec::new(),
            }),
        }
    }
    changes.extend(left.into_iter().map(|kernel| KernelChange {
        kind: ChangeKind::Added,
        before: None,
        after: Some(kernel.entry.clone()),
        nodes: kernel.source_nodes.clone(),
        aspects: Vec::new(),
    }));
    (changes, same)
}

fn changed(before: &KernelRecord, after: &KernelRecord) -> KernelChange {
    let mut aspects = Vec::new();
    if before.family != after.family {
        aspects.push(format!("family {} to {}", before.family, after.family));
    }
    let only = |a: &KernelRecord, b: &KernelRecord| {
        a.source_nodes.iter().filter(|node| !b.source_nodes.contains(node)).cloned().collect::<Vec<_>>()
    };
    let (gone, come) = (only(before, after), only(after, before));
    if !come.is_empty() {
        aspects.push(format!("takes in {}", come.join(", ")));
    }
    if !gone.is_empty() {
        aspects.push(format!("leaves out {}", gone.join(", ")));
    }
    aspects.push("code".to_owned());
    KernelChange {
        kind: ChangeKind::Changed,
        before: Some(before.entry.clone()),
        after: Some(after.entry.clone()),
        nodes: after.source_nodes.clone(),
        aspects,
    }
}

/// What of all that differs can have changed kernels, and how it did.
fn reasons(facts: &BundleDiff, graph: &GraphDiff) -> Vec<String> {
    let mut reasons: Vec<String> = facts
        .identity
        .iter()
        .filter(|fact| fact.clause != "targets")
        .map(|fact| format!("the {} is {} and was {}", fact.clause, fact.after, fact.before))
        .collect();
    // Names, metrics and limits decide nothing about a kernel.
    let decides = |clause: &str| {
        ![
            "name",
            "semantic.max_graphs",
            "semantic.numerics.tolerance",
            "hardware.targets",
            "hardware.expect",
            "hardware.activation_budget",
            "feedback",
        ]
        .iter()
        .any(|prefix| clause.starts_with(prefix))
    };
    let clauses = facts.recipe.iter().filter(|difference| decides(&difference.clause));
    reasons
        .extend(clauses.map(|difference| {
            format!("`{}` is {} and was {}", difference.clause, difference.after, difference.before)
        }));
    let count = |aspect: &str| {
        graph.changes.iter().filter(|change| change.aspects.iter().any(|found| found.aspect == aspect)).count()
    };
    let of_kind = |kind| graph.changes.iter().filter(|change| change.kind == kind).count();
    let (added, removed) = (of_kind(ChangeKind::Added), of_kind(ChangeKind::Removed));
    let effects: Vec<_> = [
        (added, "operators came"),
        (removed, "operators went"),
        (count("type"), "operators have other types"),
        (count("kernel"), "operators are in other kernels"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    if effects.is_empty() {
        reasons.push("the grouped graph is the same: only the code of kernels differs".to_owned());
    } else {
        reasons.push(format!("in the grouped graph {}", effects.join(", ")));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_matched_by_their_nodes() {
        let kernel = |entry: &str, nodes: &[&str]| KernelRecord {
            entry: entry.into(),
            part: String::new(),
            family: "map".into(),
            source_nodes: nodes.iter().map(ToString::to_string).collect(),
        };
        let before =
            [kernel("a1", &["Add"]), kernel("b1", &["Mul", "Sub"]), kernel("c", &["Exp"]), kernel("d", &["Log"])];
        let after = [kernel("a2", &["Add"]), kernel("c", &["Exp"]), kernel("b2", &["Mul"]), kernel("e", &["Tan"])];
        let (changes, same) = kernels(&before, &after);
        assert_eq!(same, 1);
        let shown: Vec<_> =
            changes.iter().map(|change| (change.kind, change.before.as_deref(), change.after.as_deref())).collect();
        assert_eq!(
            shown,
            [
                (ChangeKind::Changed, Some("a1"), Some("a2")),
                (ChangeKind::Changed, Some("b1"), Some("b2")),
                (ChangeKind::Removed, Some("d"), None),
                (ChangeKind::Added, None, Some("e")),
            ]
        );
        assert_eq!(changes[1].aspects, ["leaves out Sub", "code"]);
    }
}
