//! Calls of the engine that change containers; check mode only records them.

use std::{io::Read, thread, time::Duration};

use serde_json::{Value, json};

use super::super::{
    Task,
    engine::{ApiError, Patience, Request, encoded},
    lookup,
};
use super::{Container, networks};
use crate::{Failure, Host, Map};

/// Creates the container. Returns it, except in check mode.
pub(super) fn create(
    task: &mut Task,
    name: &str,
    parameters: Map,
    wanted: Option<&[Map]>,
) -> Result<Option<Container>, Failure> {
    let compatible = task.args.bool("networks_cli_compatible");
    let several = task.engine.version() >= lookup::SEVERAL_NETWORKS;
    let named = |network: &Map| network.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let joined: Vec<&Map> =
        wanted.into_iter().flatten().filter(|_| compatible).take(if several { usize::MAX } else { 1 }).collect();
    let shown: Map = joined.iter().map(|network| (named(network), networks::parameters(network).into())).collect();
    task.act(json!({ "created": "Created container", "create_parameters": parameters, "networks": shown }));
    if task.check {
        return Ok(None);
    }
    let mut body = parameters;
    let mut request = Request::post("/containers/create").query("name", name);
    if let Some(platform) = body.remove("platform") {
        request = request.query("platform", platform.as_str().unwrap_or_default());
    }
    let endpoints: Map = joined.iter().map(|network| (named(network), networks::endpoint(network))).collect();
    body.insert("NetworkingConfig".into(), json!({ "EndpointsConfig": endpoints }));
    let body = body.into();
    let answer = task
        .engine
        .call(request.json(&body).patience(Patience::Endless))
        .map_err(|error| Failure::new(format!("Error creating container: {error}")))?;
    task.warn_of(&answer["Warnings"]);
    Container::find(&task.engine, answer["Id"].as_str().unwrap_or_default()).map(Some)
}

/// Starts the container. With `detach: false`, waits for its end and collects its output.
pub(super) fn start(task: &mut Task, id: &str) -> Result<Container, Failure> {
    task.act(json!({ "started": id }));
    if !task.check {
        task.engine
            .call(Request::post(format!("/containers/{}/start", encoded(id))))
            .map_err(|error| Failure::new(format!("Error starting container {id}: {error}")))?;
        if task.args.maybe_bool("detach") == Some(false) {
            return wait_for_end(task, id);
        }
    }
    Container::find(&task.engine, id)
}

fn wait_for_end(task: &mut Task, id: &str) -> Result<Container, Failure> {
    let request = Request::post(format!("/containers/{}/wait", encoded(id))).patience(Patience::Endless);
    let status = task.engine.call(request)?["StatusCode"].clone();
    task.data.insert("status".into(), status.clone());
    let output = if task.args.bool("auto_remove") {
        if task.args.bool("output_logs") {
            task.warnings.push("Cannot output_logs if auto_remove is enabled!".to_owned());
        }
        "Cannot retrieve result as auto_remove is enabled".to_owned()
    } else {
        output(task, id)?
    };
    if task.args.bool("cleanup") {
        remove(task, id, Removes::Running)?;
    }
    let mut container = Container::find(&task.engine, id)?;
    if container.raw.is_null() {
        container.raw = json!({});
    }
    container.raw["Output"] = output.as_str().into();
    if status != 0 {
        task.data.insert("failed".into(), true.into());
        task.data.insert("msg".into(), output.into());
    }
    Ok(container)
}

fn output(task: &Task, id: &str) -> Result<String, Failure> {
    let container = Container::find(&task.engine, id)?.raw;
    let driver = container["HostConfig"]["LogConfig"]["Type"].as_str().unwrap_or_default();
    if !matches!(driver, "json-file" | "journald" | "local") {
        return Ok(format!("Result logged using `{driver}` driver"));
    }
    // Following the log waits until the daemon has written its end, possibly after the container has ended.
    let request = Request::get(format!("/containers/{}/logs", encoded(id)))
        .query("stderr", 1)
        .query("stdout", 1)
        .query("timestamps", 0)
        .query("follow", 1)
        .query("tail", "all");
    let mut bytes = Vec::new();
    task.engine
        .open(request)?
        .take(crate::process::KEEP as u64)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::new(format!("The output of container {id} could not be read: {error}.")))?;
    let bytes = if container["Config"]["Tty"] == true { bytes } else { without_frames(&bytes) };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Strips frames. Without a terminal, each piece of output has a header of eight bytes with stream and length.
fn without_frames(mut bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
        let [_, _, _, _, a, b, c, d] = *head;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let (piece, rest) = rest.split_at(length.min(rest.len()));
        plain.extend_from_slice(piece);
        bytes = rest;
    }
    plain
}

/// Stops the container, or kills it with `force_kill`.
pub(super) fn stop(task: &mut Task, id: &str) -> Result<(), Failure> {
    if task.args.bool("force_kill") {
        return kill(task, id);
    }
    let seconds = task.args.int("stop_timeout");
    task.act(json!({ "stopped": id, "timeout": seconds }));
    if task.check {
        return Ok(());
    }
    let given = seconds.filter(|seconds| *seconds != 0);
    let longer = Patience::Longer(Duration::from_secs(given.unwrap_or(10).unsigned_abs()));
    let failed = |error: String| Failure::new(format!("Error stopping container {id}: {error}"));
    call_unpausing(task, id, || {
        let mut request = Request::post(format!("/containers/{}/stop", encoded(id))).patience(longer);
        if let Some(seconds) = given {
            request = request.query("t", seconds);
        }
        request
    })
    .map_err(|error| failed(error.to_string()))
}

fn kill(task: &mut Task, id: &str) -> Result<(), Failure> {
    let signal = task.args.str("kill_signal").map(str::to_owned);
    task.act(json!({ "killed": id, "signal": signal }));
    if task.check {
        return Ok(());
    }
    let mut request = Request::post(format!("/containers/{}/kill", encoded(id)));
    if let Some(signal) = &signal {
        request = request.query("signal", signal);
    }
    let answer = task.engine.call(request);
    answer.map(drop).map_err(|error| Failure::new(format!("Error killing container {id}: {error}")))
}

/// Containers that may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removes {
    /// Only a stopped container.
    Stopped,
    /// A running container too.
    Running,
}

/// Removes the container, and its anonymous volumes unless `keep_volumes` is set.
pub(super) fn remove(task: &mut Task, id: &str, removes: Removes) -> Result<(), Failure> {
    let force = removes == Removes::Running;
    let volumes = !task.args.bool("keep_volumes");
    task.act(json!({ "removed": id, "volume_state": volumes, "link": false, "force": force }));
    if task.check {
        return Ok(());
    }
    let removed = call_unpausing(task, id, || {
        Request::delete(format!("/containers/{}", encoded(id)))
            .query("v", volumes)
            .query("link", false)
            .query("force", force)
    });
    match removed {
        Err(error) if error.is_missing() => Ok(()),
        Err(error) if error.explanation().contains("is already in progress") => Ok(()),
        Err(error) => Err(Failure::new(format!("Error removing container {id}: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Sends a request. If the engine refuses it because the container is paused, unpauses the container and repeats the
/// request.
fn call_unpausing<'a>(task: &Task, id: &str, request: impl Fn() -> Request<'a>) -> Result<(), ApiError> {
    for _ in 0..3 {
        match task.engine.call(request()) {
            Err(error) if error.explanation().contains("Unpause the container before stopping or killing") => {
                task.engine.call(Request::post(format!("/containers/{}/unpause", encoded(id))))?;
            }
            answer => return answer.map(drop),
        }
    }
    task.engine.call(request()).map(drop)
}

/// Restarts the container.
pub(super) fn restart(task: &mut Task, id: &str) -> Result<Container, Failure> {
    let seconds = task.args.int("stop_timeout");
    task.act(json!({ "restarted": id, "timeout": seconds }));
    if !task.check {
        let seconds = seconds.filter(|seconds| *seconds != 0).unwrap_or(10);
        let request = Request::post(format!("/containers/{}/restart", encoded(id)))
            .query("t", seconds)
            .patience(Patience::Longer(Duration::from_secs(seconds.unsigned_abs())));
        task.engine.call(request).map_err(|error| Failure::new(format!("Error restarting container {id}: {error}")))?;
    }
    Container::find(&task.engine, id)
}

/// Changes limits of an existing container.
pub(super) fn update(task: &mut Task, id: &str, parameters: Map) -> Result<(), Failure> {
    task.act(json!({ "updated": id, "update_parameters": parameters }));
    if task.check {
        return Ok(());
    }
    let body = parameters.into();
    let answer = task
        .engine
        .call(Request::post(format!("/containers/{}/update", encoded(id))).json(&body))
        .map_err(|error| Failure::new(format!("Error updating container {id}: {error}")))?;
    task.warn_of(&answer["Warnings"]);
    Ok(())
}

/// Pauses or unpauses the container.
pub(super) fn pause(task: &mut Task, id: &str, paused: bool) -> Result<(), Failure> {
    if !task.check {
        let (path, doing) = if paused { ("pause", "pausing") } else { ("unpause", "unpausing") };
        task.engine
            .call(Request::post(format!("/containers/{}/{path}", encoded(id))))
            .map_err(|error| Failure::new(format!("Error {doing} container {id}: {error}")))?;
    }
    task.act(json!({ "set_paused": paused }));
    Ok(())
}

/// State to wait for.
pub(super) enum Awaited {
    /// The container is removed.
    Removal,
    /// The health check reports healthy; a container without a check counts as healthy.
    Health,
}

/// Waits up to the given number of seconds.
pub(super) fn wait(
    task: &Task,
    id: &str,
    awaited: &Awaited,
    limit: Option<f64>,
    host: &Host,
) -> Result<Value, Failure> {
    let (mut delay, mut waited) = (0.1f64, 0.0);
    loop {
        host.check_cancelled()?;
        let Some(container) = lookup::container_by_id(&task.engine, id)? else {
            return match awaited {
                Awaited::Removal => Ok(Value::Null),
                Awaited::Health => {
                    Err(Failure::new(format!("Encontered vanished container while waiting for container \"{id}\"")))
                }
            };
        };
        let state = &container["State"];
        let (state, expected) = match awaited {
            Awaited::Removal => (&state["Status"], state["Status"] == "removing"),
            Awaited::Health => match state["Health"]["Status"].as_str() {
                None | Some("healthy" | "none") => return Ok(container),
                Some(status) => (&state["Health"]["Status"], matches!(status, "starting" | "unhealthy")),
            },
        };
        if !expected {
            let state = super::super::plain_text(state);
            return Err(Failure::new(format!(
                "Encontered unexpected state \"{state}\" while waiting for container \"{id}\""
            ))
            .with("container", container));
        }
        if let Some(limit) = limit {
            if waited >= limit {
                return Err(Failure::new(format!(
                    "Timeout of {limit:?} seconds exceeded while waiting for container \"{id}\""
                ))
                .with("container", container));
            }
            delay = delay.min(limit - waited);
        }
        thread::sleep(Duration::from_secs_f64(delay.max(0.001)));
        waited += delay;
        delay = (delay * 1.5).min(2.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_frames_stripped() {
        let mut bytes = vec![1, 0, 0, 0, 0, 0, 0, 3];
        bytes.extend(b"out");
        bytes.extend([2, 0, 0, 0, 0, 0, 0, 4]);
        bytes.extend(b"err\n");
        assert_eq!(without_frames(&bytes), b"outerr\n");
        assert_eq!(without_frames(&bytes[..9]), b"o");
    }
}
