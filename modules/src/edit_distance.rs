//! Edit distance, which finds the closest match of a misspelt word.

/// Number of edits between two words. A swap of adjacent letters counts as one.
pub fn edit_distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=right.len()).collect();
    for (row, l) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, r) in right.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX / 2);
            let mut best = (at(&previous, column) + usize::from(l != r))
                .min(at(&previous, column + 1) + 1)
                .min(at(&current, column) + 1);
            let swapped = row > 0 && column > 0 && left.get(row - 1) == Some(r) && right.get(column - 1) == Some(l);
            if swapped {
                best = best.min(at(&before, column - 1) + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut previous, current);
    }
    previous.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_and_swaps_count_one() {
        assert_eq!(edit_distance("deletgate_to", "delegate_to"), 1);
        assert_eq!(edit_distance("kube_verison", "kube_version"), 1);
        assert_eq!(edit_distance("bridge", ""), 6);
        assert_eq!(edit_distance("same", "same"), 0);
    }
}
