//! Parses mount tables of several systems, and the output of their `mount` programs.

use regex::Regex;
use serde_json::{Value, json};

use super::storage::unescape;
use crate::Map;

/// A line, and the mount parsed from it.
pub(super) type Told = (String, Map);

/// Parses a table of any known format. A format applies if it fits all lines.
pub(super) fn of_file(text: &str) -> Vec<Told> {
    let kinds: [fn(&str) -> Option<Vec<Told>>; 4] = [vfstab, mnttab, fstab, filesystems];
    kinds.iter().find_map(|kind| kind(text)).unwrap_or_default()
}

fn entry(line: &str, fields: &[(&str, Value)]) -> Told {
    (line.to_owned(), fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim().is_empty() && !line.trim().starts_with('#'))
}

/// Solaris' table of configured mounts, with seven columns.
fn vfstab(text: &str) -> Option<Vec<Told>> {
    let one = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [device, to_check, mount, fstype, pass, at_boot, options, ..] = words.as_slice() else { return None };
        let pass = pass.parse::<i64>().map_or_else(|_| Value::from(*pass), Value::from);
        Some(entry(
            line,
            &[
                ("device", json!(device)),
                ("device_to_fsck", json!(to_check)),
                ("mount", json!(mount)),
                ("fstype", json!(fstype)),
                ("passno", pass),
                ("mount_at_boot", json!(at_boot)),
                ("options", json!(options)),
            ],
        ))
    };
    lines(text).map(one).collect()
}

/// Solaris' table of current mounts; the fifth column is the time of the mount.
fn mnttab(text: &str) -> Option<Vec<Told>> {
    let one = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [device, mount, fstype, options, time, ..] = words.as_slice() else { return None };
        let fields = [
            ("device", json!(device)),
            ("mount", json!(mount)),
            ("fstype", json!(fstype)),
            ("options", json!(options)),
            ("time", time.parse::<i64>().ok()?.into()),
        ];
        Some((time.len() == 10, entry(line, &fields)))
    };
    let all: Vec<_> = text.lines().map(one).collect::<Option<_>>()?;
    all.iter().any(|(is_moment, _)| *is_moment).then(|| all.into_iter().map(|(_, told)| told).collect())
}

/// Linux' table, with four to six columns.
fn fstab(text: &str) -> Option<Vec<Told>> {
    let one = |line: &str| {
        let line = line.trim();
        let words: Vec<String> = line.split_whitespace().map(unescape).collect();
        let [device, mount, fstype, options, numbers @ ..] = words.as_slice() else { return None };
        let mut fields = vec![
            ("device", json!(device)),
            ("mount", json!(mount)),
            ("fstype", json!(fstype)),
            ("options", json!(options)),
        ];
        for (key, number) in ["dump", "passno"].into_iter().zip(numbers) {
            fields.push((key, number.parse::<i64>().ok()?.into()));
        }
        Some(entry(line, &fields))
    };
    lines(text).map(one).collect()
}

/// AIX' stanzas: `/mount/point:`, followed by attributes.
fn filesystems(text: &str) -> Option<Vec<Told>> {
    let mut stanzas: Vec<Vec<&str>> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('*') && !line.trim().is_empty()) {
        if line.trim_end().ends_with(':') {
            stanzas.push(vec![line]);
        } else {
            line.find('=')?;
            stanzas.last_mut()?.push(line);
        }
    }
    let one = |stanza: Vec<&str>| {
        let (name, rest) = stanza.split_first()?;
        let pairs = rest.iter().filter_map(|line| line.split_once('='));
        let attributes: Map = pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().into())).collect();
        let attribute = |key: &str| attributes.get(key).and_then(Value::as_str).filter(|value| !value.is_empty());
        let device: Vec<&str> = [attribute("nodename"), attribute("dev")].into_iter().flatten().collect();
        let device = if device.is_empty() { "unknown".to_owned() } else { device.join(":") };
        let fields = [
            ("mount", json!(name.strip_suffix(':').unwrap_or(name))),
            ("device", json!(device)),
            ("fstype", json!(attribute("vfs").unwrap_or("unknown"))),
            ("attributes", json!(attributes)),
        ];
        Some(entry(&stanza.join("\n"), &fields))
    };
    stanzas.into_iter().map(one).collect()
}

/// Parses the output of `mount` on Linux, BSD or AIX.
pub(super) fn of_program(text: &str) -> Vec<Told> {
    const PATTERNS: [&str; 3] = [
        r"^(?<device>\S+) on (?<mount>\S+) type (?<fstype>\S+) \((?<options>.+)\)$",
        r"^(?<device>\S+) on (?<mount>\S+) \((?<fstype>[^,]+?)(\s*,\s*(?<options>.+))?\)$",
        r"^(?<node>\S*)\s+(?<mounted>\S+)\s+(?<mount>\S+)\s+(?<fstype>\S+)\s+(?<time>\S+\s+\d+\s+\d+:\d+)\s+(?<options>.*)$",
    ];
    let all: Vec<&str> = text.lines().collect();
    let without_maps: Vec<&str> = all.iter().copied().filter(|line| !line.starts_with("map ")).collect();
    // AIX prints two header lines.
    let below_titles = all.get(2..).unwrap_or_default();
    let kinds = PATTERNS.into_iter().zip([all.as_slice(), without_maps.as_slice(), below_titles]);
    let mut kinds = kinds.filter_map(|(pattern, lines)| Some((Regex::new(pattern).ok()?, lines)));
    let fitting = kinds.find(|(pattern, lines)| lines.iter().all(|line| pattern.is_match(line)));
    let Some((pattern, lines)) = fitting else { return Vec::new() };
    let found = lines.iter().filter_map(|line| Some((*line, pattern.captures(line)?)));
    let one = |(line, found): (&str, regex::Captures<'_>)| {
        let mut fields: Vec<(&str, Value)> = ["device", "mount", "fstype", "options", "time"]
            .into_iter()
            .filter_map(|key| Some((key, json!(found.name(key)?.as_str()))))
            .collect();
        if let (Some(node), Some(mounted)) = (found.name("node"), found.name("mounted")) {
            let node = if node.is_empty() { String::new() } else { format!("{}:", node.as_str()) };
            fields.push(("device", json!(format!("{node}{}", mounted.as_str()))));
        }
        entry(line, &fields)
    };
    found.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_tables_of_all_systems_parsed() {
        let found = of_file("# all\nUUID=1-2 / ext4 errors=remount-ro 0 1\ntmpfs /tmp\\040x tmpfs size=1G\n");
        assert_eq!(
            Value::from(found[0].1.clone()),
            json!({"device": "UUID=1-2", "mount": "/", "fstype": "ext4", "options": "errors=remount-ro", "dump": 0, "passno": 1})
        );
        assert_eq!(found[1].1["mount"], "/tmp x");
        assert!(found[1].1.get("dump").is_none());
        assert_eq!(of_file("a b /c ufs - yes rw\n")[0].1["mount_at_boot"], "yes");
        assert_eq!(of_file("a /c zfs rw 1600000000\n")[0].1["time"], 1_600_000_000);
        assert_eq!(of_file("/c:\n\tdev = /dev/hd4\n\tvfs = jfs2\n")[0].1["fstype"], "jfs2");
        assert!(of_file("ext4\nnodev proc\n").is_empty());
    }

    #[test]
    fn mount_output_of_all_systems_parsed() {
        assert_eq!(of_program("/dev/a on / type ext4 (rw,x)\n")[0].1["options"], "rw,x");
        let bsd = of_program("/dev/a on / (ufs, local, noatime)\nmap x on /y (autofs)\n");
        assert_eq!((bsd.len(), &bsd[0].1["options"]), (1, &json!("local, noatime")));
        assert!(of_program("nonsense\n").is_empty());
    }
}
