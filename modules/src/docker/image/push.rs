//! Pushing an image to its registry.

use serde_json::{Value, json};

use super::super::{
    Task,
    engine::{Patience, Request, in_path},
    image_names::split_registry,
    login, lookup,
};
use super::Image;
use crate::{Failure, Host};

/// Pushes the image. Only the result shows whether anything changed.
pub(super) fn push(task: &mut Task, image: &Image, host: &Host) -> Result<(), Failure> {
    if image.is_id() {
        return Err(Failure::new(format!("Cannot push an image ID: {}", image.name)));
    }
    let (registry, path) = split_registry(&image.name)?;
    let target = format!("{registry}/{path}:{}", image.tag);
    task.act(format!("Pushed image {} to {target}", task.args.required("name").map(own_name)?));
    if task.check {
        return Ok(());
    }
    // Engines since 28.3.3 expect empty credentials instead of none.
    let header = login::for_registry(registry, host)?.unwrap_or_else(|| "e30=".to_owned());
    let nothing = Value::Null;
    let request = Request::post(format!("/images/{}/push", in_path(&image.name)))
        .query("tag", &image.tag)
        .header("X-Registry-Auth", header)
        .json(&nothing)
        .patience(Patience::Endless);
    let (mut status, mut changed) = (Value::Null, false);
    for message in task.engine.progress(request).map_err(|error| refused(image, &target, &error.to_string()))? {
        host.check_cancelled()?;
        let message = message.map_err(|error| refused(image, &target, &error.to_string()))?;
        if let Some(error) = message["errorDetail"]["message"].as_str() {
            return Err(refused(image, &target, error));
        }
        status = message["status"].clone();
        changed |= status == "Pushing" || status == "Pushed";
    }
    task.changed = changed;
    let mut now = lookup::image(&task.engine, &image.name, &image.tag)?.unwrap_or_else(|| json!({}));
    now["push_status"] = status;
    task.data.insert("image".into(), now);
    Ok(())
}

/// The name without its tag.
fn own_name(name: &str) -> &str {
    super::split_tag(name).0
}

fn refused(image: &Image, target: &str, said: &str) -> Failure {
    if said.contains("unauthorized") {
        let why = if said.contains("authentication required") {
            "Try logging in first with docker login on the host"
        } else {
            "Does the repository exist?"
        };
        return Failure::new(format!("Error pushing image {target} - {said}. {why}."));
    }
    Failure::new(format!("Error pushing image {}: {said}", image.name))
}
