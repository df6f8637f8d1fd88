//! The nearest of a list of names, to propose it for one that is unknown.

/// The name with the least edit distance to `name`, unless even that shares too little with it; one that `name` begins goes first.
pub(crate) fn nearest<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let name: Vec<char> = name.chars().take(64).flat_map(char::to_lowercase).collect();
    let begins =
        |known: &str| name.len() > 2 && known.chars().zip(&name).filter(|(a, b)| a == *b).count() == name.len();
    let distances = names.into_iter().map(|known| (!begins(known), distance(&name, known), known));
    let (other, distance, known) = distances.min()?;
    (!other || distance <= name.len().max(known.len()) / 2).then_some(known)
}

/// Insertions, deletions and replacements that turn `a` into `b`.
fn distance(a: &[char], b: &str) -> usize {
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, cb) in b.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, ca) in a.iter().enumerate() {
            let replaced = diagonal + usize::from(*ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[a.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_and_nearest_names() {
        let chars: Vec<char> = "kitten".chars().collect();
        assert_eq!(distance(&chars, "sitting"), 3);
        assert_eq!(distance(&[], "abc"), 3);
        assert_eq!(nearest("H100", ["h100-pcie", "h200", "t4"]), Some("h100-pcie"));
        assert_eq!(nearest("h20x", ["h100-pcie", "h200", "t4"]), Some("h200"));
        assert_eq!(nearest("sm_90", ["sm_80", "sm_90a"]), Some("sm_90a"));
        assert_eq!(nearest("sm80", ["sm_70", "sm_80"]), Some("sm_80"));
        assert_eq!(nearest("quantum", ["t4", "v100"]), None);
        assert_eq!(nearest("x", []), None);
    }
}
