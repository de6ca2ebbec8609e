//! Loading images from a tar file.

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;

use super::super::{
    Task,
    engine::{Patience, Request},
};
use super::{Image, lines_of};
use crate::{Failure, Host, files::way, process::reason};

/// Loads the file and returns the expected image; `None` in check mode.
pub(super) fn load(task: &mut Task, image: &Image, host: &Host) -> Result<Option<Value>, Failure> {
    let path = task.args.required("load_path")?.to_owned();
    if !Path::new(&path).is_file() {
        return Err(Failure::new(format!("Error loading image {}. Specified path {path} does not exist.", image.name)));
    }
    task.act(format!("Loaded image {} from {path}", image.full()));
    if task.check {
        return Ok(None);
    }
    let mut file = way::open(Path::new(&path))
        .map_err(|error| Failure::new(format!("Error opening image {path} - {}", reason(&error))))?;
    let mut lines = Vec::new();
    let failed = |error: String, lines: &[String]| {
        Failure::new(format!("Error loading image {} - {error}", image.name)).with("stdout", lines.join("\n"))
    };
    let request = Request::post("/images/load").stream(&mut file, "application/x-tar").patience(Patience::Endless);
    for message in task.engine.progress(request).map_err(|error| failed(error.to_string(), &[]))? {
        host.check_cancelled()?;
        let message = message.map_err(|error| failed(error.to_string(), &lines))?;
        if let Some(error) = message["error"].as_str() {
            return Err(failed(error.to_owned(), &lines));
        }
        lines_of(&message, &mut lines);
    }
    let after = |start: &str| -> BTreeSet<String> {
        lines.iter().filter_map(|line| Some(line.strip_prefix(start)?.trim().to_owned())).collect()
    };
    let (mut names, ids) = (after("Loaded image:"), after("Loaded image ID:"));
    if names.is_empty() && ids.is_empty() {
        return Err(
            Failure::new("Detected no loaded images. Archive potentially corrupt?").with("stdout", lines.join("\n"))
        );
    }
    let expected = if image.is_id() { image.name.to_lowercase() } else { image.full() };
    let found = if image.is_id() { ids.contains(&expected) } else { names.remove(&expected) };
    let quoted = || {
        let mut all: Vec<String> = names.iter().map(|name| format!("'{name}'")).chain(ids.iter().cloned()).collect();
        all.sort();
        all.join(", ")
    };
    if !found {
        return Err(Failure::new(format!(
            "The archive did not contain image '{expected}'. Instead, found {}.",
            quoted()
        ))
        .with("stdout", lines.join("\n")));
    }
    if !names.is_empty() {
        task.warnings.push(format!("The archive contained more images than specified: {}", quoted()));
    }
    image.find(task)
}
