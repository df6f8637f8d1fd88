//! Conditions on extents that no request can fulfil, found before anything is compiled for them.

use std::collections::BTreeSet;

use tenon_graph_dialect::{DimExpr, Relation, Requirement};

use crate::substitute::Capacity;

/// Most combinations of sizes that are tried for one set of names.
const MAX_COMBINATIONS: u64 = 1 << 16;

/// The first condition that no sizes up to the capacities fulfil, alone or together with the others on the same names, and whether it is alone.
///
/// Sizes are tried one by one where there are few, so that parities and products are decided too; where there are many, by intervals.
pub(crate) fn unsatisfiable<'r>(
    requirements: &'r [Requirement],
    capacity: Capacity<'_>,
) -> Option<(&'r Requirement, bool)> {
    let mut seen = BTreeSet::new();
    for requirement in requirements {
        let names = requirement.condition.symbols();
        let of_these = |other: &&Requirement| other.condition.symbols().is_subset(&names);
        // A name without a capacity is not known to the bucket.
        let Some(most) = names.iter().map(|name| capacity(name)).collect::<Option<Vec<i64>>>() else { continue };
        let combinations = most.iter().try_fold(1u64, |count, most| count.checked_mul(most.unsigned_abs() + 1));
        if combinations.is_none_or(|count| count > MAX_COMBINATIONS) {
            if never(requirement, capacity) {
                return Some((requirement, true));
            }
        } else if seen.insert(names.clone()) {
            let group: Vec<&Requirement> = requirements.iter().filter(of_these).collect();
            if let Some(first) = first_broken(&group, &names, &most) {
                let alone = first_broken(&group[first..=first], &names, &most).is_some();
                return Some((group[first], alone));
            }
        }
    }
    None
}

/// Whether intervals show that a condition never holds.
fn never(requirement: &Requirement, capacity: Capacity<'_>) -> bool {
    let condition = &requirement.condition;
    let most = |a: &DimExpr, b: &DimExpr| a.sub(b).and_then(|difference| difference.upper_bound(capacity));
    // The left side less the right one is at most `above`, and at least the opposite of `below`.
    let (above, below) = (most(&condition.left, &condition.right), most(&condition.right, &condition.left));
    let at_most = |bound: Option<i64>, value: i64| bound.is_some_and(|bound| bound <= value);
    match condition.relation {
        Relation::Equal => at_most(above, -1) || at_most(below, -1),
        Relation::NotEqual => at_most(above, 0) && at_most(below, 0),
        Relation::AtMost => at_most(below, -1),
        Relation::AtLeast => at_most(above, -1),
        Relation::Less => at_most(below, 0),
        Relation::Greater => at_most(above, 0),
    }
}

/// Of a list of conditions, the one up to which sizes fulfil them, and not further; `None`: there are sizes that fulfil all.
fn first_broken(group: &[&Requirement], names: &BTreeSet<String>, most: &[i64]) -> Option<usize> {
    let mut furthest = 0;
    // Capacities first: most conditions hold there.
    let mut sizes = most.to_vec();
    loop {
        let lookup = |name: &str| names.iter().position(|known| known == name).map(|at| sizes[at]);
        let is_broken = |requirement: &&Requirement| {
            // What leaves 64 bits is not decided here.
            let sides = requirement.condition.evaluate(&lookup);
            sides.is_some_and(|(left, right)| !requirement.condition.relation.holds(left.cmp(&right)))
        };
        furthest = furthest.max(group.iter().position(is_broken)?);
        let place = (0..sizes.len()).rev().find(|place| sizes[*place] > 0);
        let Some(place) = place else { return Some(furthest) };
        sizes[place] -= 1;
        sizes[place + 1..].copy_from_slice(&most[place + 1..]);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use tenon_graph_dialect::Condition;

    /// The condition that is found, and whether alone.
    fn found(conditions: &[&str], most: i64) -> Option<(String, bool)> {
        let requirement = |text: &&str| Requirement {
            condition: Condition::parse(text).unwrap(),
            reason: "r".to_owned(),
            source: Vec::new(),
        };
        let list: Vec<_> = conditions.iter().map(requirement).collect();
        let capacity = |name: &str| (name != "unknown").then_some(most);
        unsatisfiable(&list, &capacity).map(|(found, alone)| (found.condition.to_string(), alone))
    }

    #[test]
    fn what_no_size_fulfils_is_found() {
        let alone = |text: &str| Some((text.to_owned(), true));
        for most in [8, 1 << 40] {
            for (text, holds) in [
                ("6*n == 40", most > 8),
                ("n >= 3", true),
                ("n == m", true),
                ("n+1 > 0", true),
                ("m+n >= 17", most > 8),
                ("-n > 0", false),
                ("n != n", false),
                ("unknown == 9", true),
            ] {
                assert_eq!(found(&[text], most), if holds { None } else { alone(text) }, "{text} up to {most}");
            }
        }
        // Not decided by intervals, and by trying all sizes.
        assert_eq!(found(&["n-2*floordiv(n,2) == 2"], 8), alone("n-2*floordiv(n,2) == 2"));
        assert_eq!(found(&["n*n == 48"], 8), alone("n*n == 48"));
        assert_eq!(found(&["n*n == 49"], 8), None);
    }

    #[test]
    fn conditions_that_exclude_each_other_are_found() {
        assert_eq!(found(&["n >= 5", "m == 1", "n <= 4"], 8), Some(("n <= 4".to_owned(), false)));
        assert_eq!(found(&["n >= 5", "n <= 5"], 8), None);
        assert_eq!(found(&["m+n == 12", "n <= 3"], 8), Some(("n <= 3".to_owned(), false)));
    }
}
