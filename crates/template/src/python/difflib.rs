//! Unified diffs that match Python's `difflib`: it finds the same equal lines in the same order.

use std::collections::HashMap;

use super::split_lines_with_ends;

/// From this many lines on, a match cannot begin at a line that makes up more than a hundredth of them.
const MANY: usize = 200;

/// Change between two ranges of lines, as half-open ranges of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    equal: bool,
    before: (usize, usize),
    after: (usize, usize),
}

/// Unified diff of two texts with `context` lines around each change; empty if they are equal. A last line without its
/// newline is marked, and differs from one with it.
pub fn unified_diff(before: &str, after: &str, context: usize, names: (&str, &str)) -> String {
    let (before, after) = (marked_lines(before), marked_lines(after));
    let mut out = String::new();
    for group in groups(&steps(&before, &after), context) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        if out.is_empty() {
            out = format!("--- {}\n+++ {}\n", names.0, names.1);
        }
        let old = range(first.before.0, last.before.1);
        let new = range(first.after.0, last.after.1);
        out.push_str(&format!("@@ -{old} +{new} @@\n"));
        let mut add = |sign: char, lines: &[String], (start, end): (usize, usize)| {
            for line in lines.iter().take(end).skip(start) {
                out.push(sign);
                out.push_str(line);
            }
        };
        for step in group {
            if step.equal {
                add(' ', &before, step.before);
            } else {
                add('-', &before, step.before);
                add('+', &after, step.after);
            }
        }
    }
    out
}

fn marked_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = split_lines_with_ends(text).into_iter().map(str::to_owned).collect();
    if let Some(last) = lines.last_mut().filter(|last| !last.ends_with('\n')) {
        last.push_str("\n\\ No newline at end of file\n");
    }
    lines
}

fn range(start: usize, end: usize) -> String {
    match end - start {
        1 => format!("{}", start + 1),
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    }
}

/// Alternating equal and different ranges.
fn steps(before: &[String], after: &[String]) -> Vec<Step> {
    let mut steps = Vec::new();
    let (mut i, mut j) = (0, 0);
    for (start, other, length) in Matcher::new(before, after).blocks() {
        if i < start || j < other {
            steps.push(Step { equal: false, before: (i, start), after: (j, other) });
        }
        (i, j) = (start + length, other + length);
        if length > 0 {
            steps.push(Step { equal: true, before: (start, i), after: (other, j) });
        }
    }
    steps
}

/// Groups steps into hunks. An equal range longer than twice the context separates two hunks.
fn groups(steps: &[Step], context: usize) -> Vec<Vec<Step>> {
    let mut groups = Vec::new();
    let mut group: Vec<Step> = Vec::new();
    let last = steps.len().saturating_sub(1);
    for (index, step) in steps.iter().enumerate() {
        let length = step.before.1 - step.before.0;
        if !step.equal {
            group.push(*step);
            continue;
        }
        let tail = |keep: usize| Step {
            equal: true,
            before: (step.before.1 - keep, step.before.1),
            after: (step.after.1 - keep, step.after.1),
        };
        let head = |keep: usize| Step {
            equal: true,
            before: (step.before.0, step.before.0 + keep),
            after: (step.after.0, step.after.0 + keep),
        };
        let keep = length.min(context);
        if index == 0 {
            group.push(tail(keep));
        } else if index == last {
            group.push(head(keep));
        } else if length > 2 * context {
            group.push(head(keep));
            groups.push(std::mem::take(&mut group));
            group.push(tail(keep));
        } else {
            group.push(*step);
        }
    }
    groups.push(group);
    groups.retain(|group| group.iter().any(|step| !step.equal));
    groups
}

/// Finds equal blocks: the longest first, then those on either side of it.
struct Matcher<'a> {
    before: &'a [String],
    after: &'a [String],
    /// Positions of each line in `after`, without lines that are too frequent.
    places: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Matcher<'a> {
    fn new(before: &'a [String], after: &'a [String]) -> Matcher<'a> {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, line) in after.iter().enumerate() {
            places.entry(line).or_default().push(index);
        }
        if after.len() >= MANY {
            let limit = after.len() / 100 + 1;
            places.retain(|_, indices| indices.len() <= limit);
        }
        Matcher { before, after, places }
    }

    /// Equal blocks in order (start before, start after, length), with neighbours joined and an empty block at the end.
    fn blocks(&self) -> Vec<(usize, usize, usize)> {
        let (before, after) = (self.before.len(), self.after.len());
        let mut found = Vec::new();
        let mut queue = vec![((0, before), (0, after))];
        while let Some((left, right)) = queue.pop() {
            let (i, j, length) = self.longest(left, right);
            if length == 0 {
                continue;
            }
            found.push((i, j, length));
            if left.0 < i && right.0 < j {
                queue.push(((left.0, i), (right.0, j)));
            }
            if i + length < left.1 && j + length < right.1 {
                queue.push(((i + length, left.1), (j + length, right.1)));
            }
        }
        found.sort_unstable();
        let mut blocks: Vec<(usize, usize, usize)> = Vec::new();
        for (i, j, length) in found {
            match blocks.last_mut() {
                Some(last) if last.0 + last.2 == i && last.1 + last.2 == j => last.2 += length,
                _ => blocks.push((i, j, length)),
            }
        }
        blocks.push((before, after, 0));
        blocks
    }

    /// The first of the longest equal blocks within these ranges.
    fn longest(&self, left: (usize, usize), right: (usize, usize)) -> (usize, usize, usize) {
        let (mut start, mut other, mut length) = (left.0, right.0, 0);
        // Lengths of the equal runs that end at the previous line, by their end in `after`.
        let mut ending: HashMap<usize, usize> = HashMap::new();
        for (i, line) in self.before.iter().enumerate().take(left.1).skip(left.0) {
            let mut next = HashMap::new();
            for &j in self.places.get(line.as_str()).into_iter().flatten() {
                if j < right.0 {
                    continue;
                }
                if j >= right.1 {
                    break;
                }
                let so_far = j.checked_sub(1).and_then(|j| ending.get(&j)).map_or(1, |length| length + 1);
                next.insert(j, so_far);
                if so_far > length {
                    (start, other, length) = (i + 1 - so_far, j + 1 - so_far, so_far);
                }
            }
            ending = next;
        }
        // Frequent lines cannot begin a match but may extend it on either end.
        let equal = |i: usize, j: usize| self.before.get(i) == self.after.get(j);
        while start > left.0 && other > right.0 && equal(start - 1, other - 1) {
            (start, other, length) = (start - 1, other - 1, length + 1);
        }
        while start + length < left.1 && other + length < right.1 && equal(start + length, other + length) {
            length += 1;
        }
        (start, other, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(before: &str, after: &str) -> String {
        unified_diff(before, after, 3, ("before", "after"))
    }

    #[test]
    fn equal_texts_yield_empty_diff() {
        assert_eq!(diff("a\nb\n", "a\nb\n"), "");
        assert_eq!(diff("", ""), "");
    }

    #[test]
    fn missing_final_newline_shown_in_diff() {
        let expected = "--- before\n+++ after\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n";
        assert_eq!(diff("a", "a\n"), expected);
        assert_eq!(diff("", "a\n"), "--- before\n+++ after\n@@ -0,0 +1 @@\n+a\n");
    }

    #[test]
    fn empty_lines_matched_like_python() {
        // The longest equal block wins, then the blocks to the left and right of it.
        let (before, after) = ("x\n\n#1\n\n#2\n\ny\n", "x\n\n\ny\n\nz\n");
        let expected = "--- before\n+++ after\n@@ -1,7 +1,6 @@\n x\n \n-#1\n-\n-#2\n \n y\n+\n+z\n";
        assert_eq!(diff(before, after), expected);
    }
}
