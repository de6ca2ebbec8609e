//! Names and places of tasks as journals identify them.

/// Splits `'NAME' (FILE:LINE)` into the name and the place, if it has one.
pub(crate) fn split(task: &str) -> (&str, Option<&str>) {
    let quoted = task.strip_prefix('\'').unwrap_or(task);
    match quoted.rsplit_once("' (") {
        Some((name, place)) => (name, place.strip_suffix(')').filter(|place| !place.is_empty())),
        None => (quoted.strip_suffix('\'').unwrap_or(quoted), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_place_split_whatever_the_name_holds() {
        assert_eq!(split("'a' (b)' (/p/x.yml:3)"), ("a' (b)", Some("/p/x.yml:3")));
        assert_eq!(split("'Gathering Facts'"), ("Gathering Facts", None));
        assert_eq!(split("hostile"), ("hostile", None));
    }
}
