//! "Did you mean": finds the known name nearest to an unknown one.

use strsim::osa_distance;

/// Names the nearest candidate in a sentence, if it is near enough to be a typo.
pub(crate) fn closest<'a>(wanted: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let limit = match wanted.chars().count() {
        0..=2 => return None,
        3..=5 => 1,
        _ => 2,
    };
    let nearest = candidates
        .filter(|candidate| candidate.len().abs_diff(wanted.len()) <= limit && *candidate != wanted)
        .map(|candidate| (osa_distance(wanted, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()?;
    Some(format!("Did you mean '{}'?", nearest.1))
}
