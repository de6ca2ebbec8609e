//! Ranges in host names: `web[01:20:2]`, `db-[a:f]`.

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Maximum number of hosts from one pattern; more are surely a mistake.
const MOST: usize = 1_000_000;

/// Reason why a pattern is invalid.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) reason: String,
    /// The pattern has a range with invalid bounds. In a host list, Ansible takes such a text as a name.
    pub(crate) is_bounds: bool,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl Wrong {
    fn text(reason: impl Into<String>) -> Wrong {
        Wrong { reason: reason.into(), is_bounds: false }
    }

    fn bounds(reason: impl Into<String>) -> Wrong {
        Wrong { reason: reason.into(), is_bounds: true }
    }
}

/// Expands the ranges in a pattern; a pattern without ranges is returned unchanged.
pub(crate) fn expand(pattern: &str) -> Result<Vec<String>, Wrong> {
    let mut names = vec![String::new()];
    let mut rest = pattern;
    while let Some((head, tail)) = rest.split_once('[') {
        let (range, tail) = tail.split_once(']').ok_or_else(|| Wrong::text("has a `[` without its `]`"))?;
        let members = members(range)?;
        if names.len().saturating_mul(members.len()) > MOST {
            return Err(Wrong::text(format!("stands for more than {MOST} hosts")));
        }
        names =
            names.iter().flat_map(|name| members.iter().map(move |member| format!("{name}{head}{member}"))).collect();
        rest = tail;
    }
    for name in &mut names {
        name.push_str(rest);
    }
    Ok(names)
}

fn members(range: &str) -> Result<Vec<String>, Wrong> {
    let bounds: Vec<&str> = range.split(':').collect();
    let (begin, end, step) = match bounds.as_slice() {
        [begin, end] => (*begin, *end, 1),
        [begin, end, step] => {
            let step = step.parse::<usize>().ok().filter(|step| *step > 0);
            (*begin, *end, step.ok_or_else(|| Wrong::text("has a range whose step is not a number from 1 up"))?)
        }
        _ => return Err(Wrong::bounds("has a range that is not [begin:end] or [begin:end:step]")),
    };
    let begin = if begin.is_empty() { "0" } else { begin };
    if end.is_empty() {
        return Err(Wrong::bounds("has a range without an end: host range must specify end value"));
    }
    let width = if begin.starts_with('0') && begin.len() > 1 { begin.len() } else { 0 };
    if width > 0 && end.len() != width {
        let message = format!("has a range whose begin {begin} and end {end} are not of equal length");
        return Err(Wrong::bounds(message));
    }
    let letter = |text: &str| if text.is_empty() { None } else { LETTERS.find(text) };
    if let (Some(first), Some(last)) = (letter(begin), letter(end)) {
        if first > last {
            return Err(Wrong::bounds("has a range whose begin is after its end"));
        }
        return Ok(LETTERS.chars().take(last + 1).skip(first).step_by(step).map(String::from).collect());
    }
    let number = |text: &str| {
        text.parse::<u64>().map_err(|_| Wrong::text(format!("has a range whose bound `{text}` is not a number")))
    };
    let (first, last) = (number(begin)?, number(end)?);
    if last.saturating_sub(first) / step as u64 > MOST as u64 {
        return Err(Wrong::text(format!("stands for more than {MOST} hosts")));
    }
    Ok((first..=last).step_by(step).map(|number| format!("{number:0width$}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_expand() {
        assert_eq!(expand("web[1:3]").unwrap(), ["web1", "web2", "web3"]);
        assert_eq!(expand("web[08:10]x").unwrap(), ["web08x", "web09x", "web10x"]);
        assert_eq!(expand("db[a:e:2]").unwrap(), ["dba", "dbc", "dbe"]);
        assert_eq!(expand("r[1:2]n[a:b]").unwrap(), ["r1na", "r1nb", "r2na", "r2nb"]);
        assert_eq!(expand("h[:1]").unwrap(), ["h0", "h1"]);
        assert_eq!(expand("plain").unwrap(), ["plain"]);
    }

    #[test]
    fn broken_range_refused_with_reason() {
        for pattern in ["a[1:", "a[1]", "a[1:]", "a[01:100]", "a[c:a]", "a[1:9:0]", "a[x1:y]", "a[1:9999999999]"] {
            assert!(expand(pattern).is_err(), "{pattern}");
        }
    }
}
