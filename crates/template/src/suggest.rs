//! "Did you mean": finds the known name nearest to an unknown one.

/// Names the nearest candidate in a sentence, if it is near enough to be a typo.
pub(crate) fn closest<'a>(wanted: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let limit = match wanted.chars().count() {
        0..=2 => return None,
        3..=5 => 1,
        _ => 2,
    };
    let nearest = candidates
        .filter(|candidate| candidate.len().abs_diff(wanted.len()) <= limit && *candidate != wanted)
        .map(|candidate| (distance(wanted, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()?;
    Some(format!("Did you mean '{}'?", nearest.1))
}

/// Number of characters to insert, remove, replace or swap with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (row, one) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in right.iter().enumerate() {
            let mut cost =
                (last[column] + usize::from(one != other)).min(last[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *one == right[column - 1] && left[row - 1] == *other {
                cost = cost.min(before[column - 1] + 1);
            }
            current.push(cost);
        }
        before = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or_default()
}
