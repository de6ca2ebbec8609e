//! `ansible_local`: the files `*.fact` of a host's administrator, as JSON, INI or executables that print one of these.

use std::{io::Read, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use serde_json::Value;

use super::{Facts, probe};
use crate::{
    Host, Map,
    files::way::{self, Link, Place, Purpose},
    process::reason,
};

/// Largest fact file to read, in bytes.
const LONGEST: u64 = 16 << 20;

/// `local`: content of the files `*.fact` in a folder, or output if they are executable.
pub(crate) fn collect(folder: &str, limit: Duration, host: &Host, facts: &mut Facts) {
    let mut local = Map::new();
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.sort();
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || !name.ends_with(".fact") {
            continue;
        }
        let name = name.replace(".fact", "");
        let path = path.as_path();
        let value = match text_of(path, limit).and_then(|text| parse(&text, path)) {
            Ok(value) => value,
            Err(problem) => {
                host.warn(&problem);
                problem.into()
            }
        };
        local.insert(name, value);
    }
    facts.set("local", local);
}

fn text_of(path: &Path, limit: Duration) -> Result<String, String> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).map_err(|error| {
        let number = error.raw_os_error().unwrap_or_default();
        format!("Could not stat fact ({shown}): [Errno {number}] {}: '{shown}'", reason(&error))
    })?;
    if metadata.permissions().mode() & 0o100 == 0 {
        let mut bytes = Vec::new();
        way::open(path)
            .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
            .map_err(|error| format!("error loading facts from {shown}: {}", reason(&error)))?;
        if bytes.len() as u64 > LONGEST {
            return Err(format!("error loading facts from {shown}: it has more than {LONGEST} bytes"));
        }
        // A file that is not text counts as empty.
        return Ok(String::from_utf8(bytes).unwrap_or_default());
    }
    // The program runs as the task's user, possibly root. Nobody else can replace the file at its real path, so the
    // program that was checked is the one that runs. It finds the files beside it by its own name.
    let place = Place::of(path, Link::Follow, Purpose::Run)
        .map_err(|error| format!("error loading fact - {shown} was not run: {}", reason(&error)))?;
    match probe::ask(place.real(), &[], limit) {
        Some(answer) if answer.rc == 0 => Ok(answer.stdout),
        Some(answer) => {
            Err(format!("Failure executing fact script ({shown}), rc: {}, err: {}", answer.rc, answer.stderr))
        }
        None => Err(format!(
            "error loading fact - {shown} could not be run, or did not end within {} seconds",
            limit.as_secs()
        )),
    }
}

fn parse(text: &str, path: &Path) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    let mut sections = ini(text)
        .ok_or_else(|| format!("error loading facts as JSON or ini - please check content: {}", path.display()))?;
    for (section, options) in &mut sections {
        let Some(options) = options.as_object_mut() else { continue };
        let raw = options.clone();
        for (name, value) in options {
            let text = value.as_str().unwrap_or_default();
            let interpolated = interpolate(text, &raw, 0).map_err(|why| {
                let path = path.display();
                format!("error loading facts as ini - please check content: {path} ({why} in {name} of [{section}])")
            })?;
            *value = interpolated.into();
        }
    }
    Ok(sections.into())
}

/// Expands `%(name)s` to other options of the section, and `%%` to a percent sign, as in Python's INI files.
fn interpolate(text: &str, options: &Map, depth: u8) -> Result<String, String> {
    if depth > 10 {
        return Err("options refer to each other in a circle".to_owned());
    }
    let mut done = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        done.push_str(before);
        if let Some(tail) = after.strip_prefix('%') {
            done.push('%');
            rest = tail;
            continue;
        }
        let named = after.strip_prefix('(').and_then(|inner| inner.split_once(")s"));
        let (name, tail) = named.ok_or_else(|| format!("'%' must be followed by '%' or '(', found: '%{after}'"))?;
        let value = options.get(&name.to_lowercase()).and_then(Value::as_str);
        let value = value.ok_or_else(|| format!("there is no option {name}"))?;
        done.push_str(&interpolate(value, options, depth + 1)?);
        rest = tail;
    }
    done.push_str(rest);
    Ok(done)
}

/// Parses an INI file. `[DEFAULT]` applies to all sections, option names become lower case, and duplicates are errors.
fn ini(text: &str) -> Option<Map> {
    let mut sections: Vec<(String, Map)> = Vec::new();
    let mut last: Option<String> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        // An indented line continues the value above.
        if line.starts_with([' ', '\t'])
            && let Some(key) = &last
            && let Some(Value::String(value)) = sections.last_mut().and_then(|(_, section)| section.get_mut(key))
        {
            value.push('\n');
            value.push_str(trimmed);
            continue;
        }
        if let Some((name, _)) = trimmed.strip_prefix('[').and_then(|rest| rest.rsplit_once(']')) {
            if name.is_empty() || sections.iter().any(|(known, _)| known == name) {
                return None;
            }
            sections.push((name.to_owned(), Map::new()));
            last = None;
            continue;
        }
        let (_, section) = sections.last_mut()?;
        let (key, value) = trimmed.split_at(trimmed.find(['=', ':'])?);
        let key = key.trim().to_lowercase();
        if key.is_empty() || section.insert(key.clone(), value.get(1..)?.trim().into()).is_some() {
            return None;
        }
        last = Some(key);
    }
    let (defaults, sections): (Vec<_>, Vec<_>) = sections.into_iter().partition(|(name, _)| name == "DEFAULT");
    let defaults: Map = defaults.into_iter().flat_map(|(_, options)| options).collect();
    let whole = |own: Map| Value::from(defaults.clone().into_iter().chain(own).collect::<Map>());
    Some(sections.into_iter().map(|(name, own)| (name, whole(own))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fact_programs_of_other_users_are_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let (program, ran) = (folder.path().join("run.fact"), folder.path().join("ran"));
        std::fs::write(&program, format!("#!/bin/sh\ntouch {}\necho 1\n", ran.display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o757)).unwrap();
        let collected = || {
            let mut facts = Facts::default();
            let folder = folder.path().to_string_lossy();
            collect(&folder, Duration::from_secs(10), &Host::alone(), &mut facts);
            facts.value("local").unwrap()["run"].clone()
        };
        assert!(collected().as_str().unwrap().contains("has the mode 0757"), "{}", collected());
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&program, Some(61_001), None).unwrap();
            assert!(collected().as_str().unwrap().contains("belongs to 61001"), "{}", collected());
        }
        assert!(!ran.exists());
    }

    #[test]
    fn fact_files_json_ini_and_executable_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("site.fact"), r#"{"rack": 7}"#).unwrap();
        std::fs::write(folder.path().join("old.fact"), "[general]\nColor = blue\nsize: 3\nboth = %(color)s 5%%\n")
            .unwrap();
        std::fs::write(folder.path().join("percent.fact"), "[a]\nb = 5 % c\n").unwrap();
        std::fs::write(folder.path().join("bad.fact"), "no section\n").unwrap();
        std::fs::write(folder.path().join("twice.fact"), "[a]\nb = 1\nb = 2\n").unwrap();
        std::fs::write(folder.path().join("all.fact"), "[DEFAULT]\nb = 1\n[a]\nc = 2\n").unwrap();
        std::fs::write(folder.path().join(".hidden.fact"), "[a]\nb = 1\n").unwrap();
        let program = folder.path().join("run.fact");
        std::fs::write(&program, "#!/bin/sh\necho '[1, 2]'\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut facts = Facts::default();
        let host = Host::alone();
        collect(&folder.path().to_string_lossy(), Duration::from_secs(10), &host, &mut facts);
        let local = facts.value("local").unwrap();
        assert_eq!(local["site"]["rack"], 7);
        assert_eq!(local["old"]["general"]["color"], "blue");
        assert_eq!(local["old"]["general"]["both"], "blue 5%");
        assert!(local["percent"].as_str().unwrap().starts_with("error loading facts as ini"), "{local}");
        assert_eq!(local["run"], serde_json::json!([1, 2]));
        assert_eq!(local["all"], serde_json::json!({"a": {"b": "1", "c": "2"}}));
        assert!(local["twice"].as_str().unwrap().contains("please check content"));
        assert!(local.get(".hidden").is_none(), "{local}");
        assert!(local["bad"].as_str().unwrap().contains("please check content"));
    }
}
