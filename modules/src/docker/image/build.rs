//! Building an image.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};

use super::super::{
    Task,
    container::bytes,
    engine::{Patience, Request},
    login, plain_text, texts,
};
use super::{Image, context, lines_of};
use crate::{Failure, Host, Map, foreign::python_repr};

/// Builds the image and returns it; `None` in check mode.
pub(super) fn build(task: &mut Task, image: &Image, host: &Host) -> Result<Option<Value>, Failure> {
    let options = task.args.value("build").cloned().unwrap_or_default();
    let path = options["path"].as_str().unwrap_or_default().to_owned();
    if !Path::new(&path).is_dir() {
        return Err(Failure::new(format!("Requested build path {path} could not be found or you do not have access.")));
    }
    let parameters = parameters(&options, host)?;
    task.act(format!("Built image {} from {path}", image.full()));
    if task.check {
        return Ok(None);
    }
    let mut context = context::pack(Path::new(&path), options["dockerfile"].as_str())?;
    let patience = options["http_timeout"].as_u64().map(Duration::from_secs);
    let mut request = Request::post("/build").query("t", image.full()).patience(match patience {
        Some(limit) => Patience::Longer(limit),
        None => Patience::Endless,
    });
    for (name, value) in parameters {
        request = request.query(name, value);
    }
    if let Some(dockerfile) = &context.dockerfile {
        request = request.query("dockerfile", dockerfile);
    }
    if let Some(logins) = login::for_all(host)? {
        request = request.header("X-Registry-Config", logins);
    }
    let mut lines = Vec::new();
    let request = request.stream(&mut context.file, "application/tar");
    for message in task.engine.progress(request)? {
        host.check_cancelled()?;
        let message = message?;
        lines_of(&message, &mut lines);
        if let Some(error) = message.get("error") {
            let logs = python_repr(&lines.into());
            return Err(Failure::new(match message.get("errorDetail") {
                Some(detail) => format!(
                    "Error building {} - code: {}, message: {}, logs: {logs}",
                    image.name,
                    plain_text(&detail["code"]),
                    plain_text(&detail["message"])
                ),
                None => format!("Error building {} - message: {}, logs: {logs}", image.name, plain_text(error)),
            }));
        }
    }
    task.data.insert("stdout".into(), lines.join("\n").into());
    Ok(Some(image.find(task)?.unwrap_or_default()))
}

/// Query parameters of the build request.
fn parameters(options: &Value, host: &Host) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut all = vec![("q", "False".to_owned())];
    let switch = |name: &str| python_repr(&(options[name] == true).into());
    all.extend([
        ("nocache", switch("nocache")),
        ("rm", switch("rm")),
        ("forcerm", switch("rm")),
        ("pull", switch("pull")),
    ]);
    let size = |value: &Value, option: &str, unlimited: Option<i64>| -> Result<Option<String>, Failure> {
        if value.is_null() {
            return Ok(None);
        }
        let size = bytes(value, unlimited, &format!("build.{option}"))?;
        Ok(Some(size.to_string()))
    };
    let limits = &options["container_limits"];
    all.extend(size(&limits["memory"], "container_limits.memory", None)?.map(|size| ("memory", size)));
    all.extend(size(&limits["memswap"], "container_limits.memswap", Some(-1))?.map(|size| ("memswap", size)));
    all.extend(size(&options["shm_size"], "shm_size", None)?.map(|size| ("shmsize", size)));
    let mut add = |name: &'static str, value: &Value| {
        if !value.is_null() {
            all.push((name, plain_text(value)));
        }
    };
    add("cpushares", &limits["cpushares"]);
    add("cpusetcpus", &limits["cpusetcpus"]);
    add("target", &options["target"]);
    add("networkmode", &options["network"]);
    add("platform", &options["platform"]);
    let mut arguments: Map = if options["use_config_proxy"] == true { login::proxies(host) } else { Map::new() };
    for (name, value) in options["args"].as_object().into_iter().flatten() {
        arguments.insert(name.clone(), plain_text(value).into());
    }
    if !arguments.is_empty() {
        add("buildargs", &json!(arguments));
    }
    if let Some(images) = options["cache_from"].as_array().filter(|images| !images.is_empty()) {
        add("cachefrom", &json!(images));
    }
    if let Some(labels) = options["labels"].as_object().filter(|labels| !labels.is_empty()) {
        add("labels", &json!(texts(labels)));
    }
    let mut hosts: Vec<String> = options["etc_hosts"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, address)| format!("{name}:{}", plain_text(address)))
        .collect();
    hosts.sort();
    for host in hosts {
        add("extrahosts", &host.into());
    }
    Ok(all)
}
