//! Action plugins in Python: their code runs on the controller, and Windlass performs the operations on the host that
//! they request.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use indexmap::IndexMap;
use serde_json::{Value as Json, json};
use tokio::runtime::Handle;
use windlass_template::Value;

use super::context::POSTPONED;
use super::files::{value_of, written};
use super::{ActionContext, Failure, foreign};
use crate::executor::RawCommand;
use crate::foreign::{ActionCall, ForeignModule, Print, Resolution, answer_to, packed, unpacked, with_changes};
use crate::outcome::{Arguments, TaskResult};
use crate::output::Event;
use crate::playbook::short_name;

/// Runs the action plugin `plugin` of a module, which may have no file of its own.
pub(super) async fn run(context: &ActionContext, module: &ForeignModule, plugin: &Path) -> Result<TaskResult, Failure> {
    let call = call(context, module, plugin);
    let handle = Handle::current();
    // Other hosts must not wait meanwhile.
    let (events, host) = (context.events.clone(), Arc::clone(&context.host));
    let print = Print::by(move |line| {
        drop(events.send(Event::Printed { host: Some(Arc::clone(&host)), line: line.to_owned() }));
    });
    let answer = tokio::task::block_in_place(|| {
        context.plugins.act(&call, &mut |question| handle.block_on(answer(context, question)), &print)
    });
    let failed = |reason: String| {
        Failure::Failed(format!("The action plugin {} failed: {}.", plugin.display(), reason.trim_end_matches('.')))
    };
    let answer = answer.map_err(failed)?;
    if let Some(reason) = answer.get("unreachable").and_then(Json::as_str) {
        return Err(Failure::Unreachable(reason.to_owned()));
    }
    // It may contain the host's answer, so it is treated as a result from the host.
    let result = answer.get("result").map(unpacked).unwrap_or_default();
    let result = context.result(&context.connection.target.name, &module.described(), &result)?;
    let result = foreign::completed(result);
    Ok(if answer.get("is_secret").and_then(Json::as_bool) == Some(true) { result.secret() } else { result })
}

fn call(context: &ActionContext, module: &ForeignModule, plugin: &Path) -> ActionCall {
    let ActionContext { task, connection, check, diff, no_log, .. } = context;
    let target = &connection.target;
    let kind = target.kind.name();
    let user = connection.become_user.as_ref();
    let play = json!({
        "check_mode": check, "diff": diff, "no_log": no_log, "connection": kind, "remote_addr": target.host,
        "remote_user": target.user, "port": target.port, "become": user.is_some(),
        "become_user": user.map(|user| user.user.as_str()), "become_method": user.map(|user| user.method.to_string()),
        "verbosity": context.world.run.settings.verbosity, "timeout": target.connect_timeout.map(|time| time.as_secs()),
    });
    let options = json!({
        "connection": kind, "host": target.host, "remote_addr": target.host, "port": target.port,
        "remote_user": target.user, "remote_tmp": target.remote_tmp, "pipelining": true,
    });
    let fields = json!({
        "action": module.described(), "args": packed(&value_of(context.args.clone())),
        "check_mode": check, "diff": diff, "no_log": no_log,
        "name": task.name.as_ref().and_then(|name| name.as_str()), "environment": [context.environment],
        "async_val": context.detach, "collections": task.collections(),
    });
    ActionCall {
        path: plugin.to_owned(),
        short: module.name.clone(),
        task: fields,
        play,
        options,
        search_paths: context.context.search_paths(),
        native: crate::builtin::controller_actions().collect(),
    }
}

/// Performs an operation that a plugin requests. An error is returned to the plugin.
async fn answer(context: &ActionContext, question: &Json) -> Result<Json, String> {
    let text = |key: &str| question.get(key).and_then(Json::as_str);
    let result = if let Some(name) = text("module") {
        let resolution = context.modules.resolve(name, &context.task.collections());
        if let Resolution::Unknown(reason) = resolution {
            let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            return Err(format!("the module {name} was not found{reason}"));
        }
        let mut asked = asked(context, name, question)?;
        let is_lenient = question.get("lenient").and_then(Json::as_bool).unwrap_or(false);
        if let Some(spec) = crate::builtin::spec(short_name(name)).filter(|_| is_lenient) {
            asked.args.retain(|name, _| spec.option(name).is_some());
        }
        run_module(&asked, name, &resolution).await
    } else if let Some(name) = text("action") {
        let asked = asked(context, name, question)?;
        run_action(&ActionContext { context: with_changes(&context.context, question), ..asked }).await
    } else if let Some(command) = text("command") {
        let input = BASE64_STANDARD.decode(text("input").unwrap_or_default()).map_err(|error| error.to_string())?;
        return answered(run_command(context, command, text("executable"), input).await);
    } else if let (Some(local), Some(remote)) = (text("put"), text("to")) {
        put(context, Path::new(local), remote).await
    } else if let (Some(remote), Some(local)) = (text("fetch"), text("to")) {
        fetch(context, remote, Path::new(local)).await
    } else if question.get("reset").is_some() {
        context.pool.reset(&Arc::new(context.connection.target.clone())).await;
        return Ok(json!({ "result": null }));
    } else {
        return answer_to(question, &context.context);
    };
    let compat = context.world.run.settings.compat;
    answered(match result {
        Err(failure @ Failure::Unreachable(_)) => Err(failure),
        Err(failure) => Ok(packed(&failure.into_result(compat).to_value())),
        Ok(result) => Ok(packed(&result.to_value())),
    })
}

fn answered(result: Result<Json, Failure>) -> Result<Json, String> {
    match result {
        Ok(result) => Ok(json!({ "result": result })),
        Err(Failure::Unreachable(reason)) => Ok(json!({ "unreachable": reason })),
        Err(Failure::Failed(reason)) => Err(reason),
        Err(Failure::Error(error)) => Err(error.what_and_where()),
        Err(Failure::Evaluation(error)) => Err(error.to_string()),
        Err(Failure::Postponed) => Err(POSTPONED.to_owned()),
    }
}

/// Context of the action or module that a plugin asks for.
fn asked(context: &ActionContext, name: &str, question: &Json) -> Result<ActionContext, String> {
    let flag = |key: &str| question.get(key).and_then(Json::as_bool).unwrap_or(false);
    let Some(Json::Object(given)) = question.get("args") else {
        return Err(format!("the arguments of {name} are not a mapping"));
    };
    let args: Arguments = given.iter().map(|(name, value)| (Arc::from(name.as_str()), unpacked(value))).collect();
    Ok(ActionContext {
        action: short_name(name).to_owned(),
        args,
        check: flag("check"),
        diff: flag("diff"),
        detach: if flag("async") { context.detach } else { 0 },
        ahead: None,
        ..context.clone()
    })
}

/// Runs a module without its action.
async fn run_module(context: &ActionContext, name: &str, resolution: &Resolution) -> Result<TaskResult, Failure> {
    match resolution {
        Resolution::Foreign(module) if module.has_file() => foreign::run_module(context, module).await,
        Resolution::Foreign(_) => Err(format!("{name} is an action without a module").into()),
        _ => {
            let name = crate::builtin::spec(short_name(name))
                .map_or_else(|| name.to_owned(), |spec| format!("{}.{}", spec.collection, spec.name));
            let mut args = context.args.clone();
            // ansible-core's module `copy` works on a file that is on the host already.
            if context.action == "copy" && args.contains_key("src") {
                args.insert("remote_src".into(), Value::from(true));
            }
            context.module(&name, value_of(args), Vec::new()).await
        }
    }
}

/// Runs one of the actions of Windlass.
async fn run_action(context: &ActionContext) -> Result<TaskResult, Failure> {
    let args = super::checked(&context.action, &context.action, context.args.clone())?;
    let context = ActionContext { args, ..context.clone() };
    match super::action(&context.action) {
        Some(action) => (action.run)(&context).await,
        None => super::module::run(&context).await,
    }
}

async fn run_command(
    context: &ActionContext,
    command: &str,
    executable: Option<&str>,
    input: Vec<u8>,
) -> Result<Json, Failure> {
    let command = RawCommand {
        command: command.to_owned(),
        executable: executable.map(str::to_owned),
        input,
        ..RawCommand::default()
    };
    let output = super::raw::send(context, command).await?;
    if output.left_out > 0 {
        return Err("its command ran, but the output is too long".into());
    }
    Ok(json!({
        "rc": output.status,
        "stdout": BASE64_STANDARD.encode(&output.stdout),
        "stderr": BASE64_STANDARD.encode(&output.stderr),
    }))
}

/// Copies a file of the controller to the host, also in check mode: plugins put files there that they remove again.
async fn put(context: &ActionContext, local: &Path, remote: &str) -> Result<TaskResult, Failure> {
    let content = context.content_made(local, false)?;
    let context = ActionContext { check: false, ahead: None, ..context.clone() };
    failing(written(&context, IndexMap::from([("dest".into(), Value::from(remote))]), content).await?)
}

/// Copies a file of the host to the controller.
async fn fetch(context: &ActionContext, remote: &str, local: &Path) -> Result<TaskResult, Failure> {
    let args = IndexMap::from([("src".into(), Value::from(remote)), ("fail_on_missing".into(), Value::from(true))]);
    let folder = local.parent().map(Path::to_path_buf).unwrap_or_else(|| PathBuf::from("/"));
    let context = ActionContext { check: false, ahead: None, ..context.clone() };
    let (result, received) =
        context.module_with_file("ansible.builtin.fetch", value_of(args), Vec::new(), Some(folder)).await?;
    if let Some(received) = received {
        received.persist(local).map_err(|error| Failure::Failed(error.to_string()))?;
    }
    failing(result)
}

/// Turns a failed result into the error that a plugin gets.
fn failing(result: TaskResult) -> Result<TaskResult, Failure> {
    match result.failed() {
        true => Err(result.text("msg").unwrap_or("the file was not copied").to_owned().into()),
        false => Ok(result),
    }
}
