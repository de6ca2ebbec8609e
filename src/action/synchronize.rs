//! `synchronize`: runs rsync between the host and the controller, or the machine the task is delegated to.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::UnixListener;
use windlass_template::Value;

use super::files::{Reading, Tree, file_name, value_of};
use super::{ActionContext, Failure};
use crate::connection::{Kind, Target, relay};
use crate::executor::{LockPolicy, Opened, RawCommand};
use crate::outcome::{Arguments, TaskResult};
use crate::output::Event;
use crate::vars::ConnectionVariables;

const MODULE: &str = "ansible.posix.synchronize";
/// Deadlines of the `ssh` that rsync starts on another host, as for Windlass' own connections.
const ALIVE: &[&str] = &["ConnectTimeout=10", "ServerAliveInterval=15", "ServerAliveCountMax=4"];

/// Selects the machine that runs rsync and its way to the other side.
pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    let (Some(src), Some(dest)) = (context.text("src"), context.text("dest")) else {
        return Err("synchronize requires both src and dest parameters are set".into());
    };
    let own = own_connection(context)?;
    let delegate = context.context.variable("ansible_delegated_vars")?.map(|_| &context.connection.target);
    let mut args = context.args.clone();
    match delegate {
        Some(there) if there.name == own.target.name || there.name == own.target.host => {
            context.module(MODULE, value_of(args), Vec::new()).await
        }
        None if own.target.kind == Kind::Local => {
            args.insert("src".into(), Value::from(local_path(context, &src)));
            args.insert("dest".into(), Value::from(local_path(context, &dest)));
            context.module(MODULE, value_of(args), Vec::new()).await
        }
        Some(_) if own.target.kind == Kind::Exec => {
            Err(format!("{} has no SSH server, so another host cannot synchronize with it", own.target.name).into())
        }
        Some(there) if there.kind != Kind::Local => {
            if !context.flag("verify_host").unwrap_or(false) {
                let (here, host) = (&there.name, &own.target.name);
                let _ = context.events.send(Event::Warning(format!(
                    "synchronize on {here} does not verify the host key of {host}, so another machine can answer. Set \
                     `verify_host: true` if the known_hosts file on {here} has this key."
                )));
            }
            let ssh = ssh_command(context, &own.target);
            args.insert("_rsh".into(), Value::from(ssh));
            if let Some(failed) = lock(context, &own).await? {
                return Ok(failed);
            }
            paths(context, &mut args, &own.target, (src, dest))?;
            if let Some(other) = context.connection.become_user.as_ref().filter(|_| !args.contains_key("rsync_path")) {
                args.insert("rsync_path".into(), Value::from(rsync_as(&other.method, &other.user)));
            }
            context.module_as_login_user(MODULE, value_of(args)).await
        }
        _ => {
            let pulls = context.text("mode").is_some_and(|mode| mode == "pull");
            let (src, dest) = match pulls {
                true => (src, local_path(context, &dest)),
                false => (local_path(context, &src), dest),
            };
            let here = windlass_modules::Host::alone();
            if windlass_modules::process::find(&here, "rsync").is_none() {
                return natively(context, &own, &src, &dest, "this machine").await;
            }
            if let Some(failed) = lock(context, &own).await? {
                return Ok(failed);
            }
            paths(context, &mut args, &own.target, (src.clone(), dest.clone()))?;
            match through_connection(context, &own, args).await? {
                Some(result) => Ok(result),
                None => natively(context, &own, &src, &dest, &own.target.name).await,
            }
        }
    }
}

/// Locks the host, because rsync changes it without the executor. Any request to the executor takes the lock, for the
/// rest of the run. Returns a result if that fails.
async fn lock(context: &ActionContext, own: &ConnectionVariables) -> Result<Option<TaskResult>, Failure> {
    if context.world.run.settings.lock.policy == LockPolicy::Ignore {
        return Ok(None);
    }
    let nothing = Value::from_pairs(<[(&str, Value); 0]>::default());
    let result = context.module_on(own, "ansible.builtin.ping", nothing, Vec::new()).await?;
    Ok(Some(result).filter(TaskResult::failed))
}

/// Connection of the play's host, ignoring `delegate_to`.
fn own_connection(context: &ActionContext) -> Result<ConnectionVariables, Failure> {
    if context.context.variable("ansible_delegated_vars")?.is_none() {
        return Ok(context.connection.clone());
    }
    let theirs = context.world.host_context(&context.host);
    let keyword = |name: &str| context.task.keyword(name).cloned();
    let settings = &context.world.run.settings;
    Ok(crate::vars::connection_variables(&context.host, &theirs, &keyword, settings)?)
}

/// A path on the controller; a relative one is searched in the project.
fn local_path(context: &ActionContext, path: &str) -> String {
    if path.starts_with('/') || path.starts_with('~') || path.starts_with("rsync://") {
        return crate::settings::expand_home(path).display().to_string() + trailing_slash(path);
    }
    let found = context.find("files", path.trim_end_matches('/'));
    let found = found.unwrap_or_else(|_| context.world.playbook_dir().join(path.trim_end_matches('/')));
    found.display().to_string() + if path.ends_with('/') { "/" } else { "" }
}

/// The trailing slash that expanding a path loses.
fn trailing_slash(path: &str) -> &'static str {
    let kept = crate::settings::expand_home(path).display().to_string().ends_with('/');
    if path.ends_with('/') && !kept { "/" } else { "" }
}

/// Prefixes the remote side's path with its host.
fn paths(
    context: &ActionContext,
    args: &mut Arguments,
    target: &Target,
    (src, dest): (String, String),
) -> Result<(), Failure> {
    let Target { host, port, user, .. } = target;
    let destination = windlass_ssh::Destination { host: host.clone(), port: *port, user: user.clone() };
    destination.check().map_err(|error| Failure::Failed(error.to_string()))?;
    let host = if target.host.contains(':') { format!("[{}]", target.host) } else { target.host.clone() };
    let user = target.user.as_ref().filter(|_| context.flag("set_remote_user").unwrap_or(true));
    let host = user.map_or_else(|| host.clone(), |user| format!("{user}@{host}"));
    let there = |path: String| if path.starts_with("rsync://") { path } else { format!("{host}:{path}") };
    let (src, dest) = match context.text("mode").as_deref() {
        Some("pull") => (there(src), dest),
        _ => (src, there(dest)),
    };
    args.insert("src".into(), Value::from(src));
    args.insert("dest".into(), Value::from(dest));
    Ok(())
}

/// The command that starts rsync as another user. The other side's shell reads it, and a host may have sent the user.
fn rsync_as(method: &impl std::fmt::Display, user: &str) -> String {
    format!("{method} -u {} rsync", shell_words::quote(user))
}

/// The `ssh` command with which rsync on one host reaches another.
fn ssh_command(context: &ActionContext, target: &Target) -> String {
    let mut words = vec!["ssh".to_owned()];
    if !context.flag("ssh_connection_multiplexing").unwrap_or(false) {
        words.extend(["-S".to_owned(), "none".to_owned()]);
    }
    if let Some(key) = context.text("private_key") {
        words.extend(["-i".to_owned(), key]);
    }
    if let Some(port) = context.text("dest_port").or_else(|| target.port.map(|port| port.to_string())) {
        words.extend(["-o".to_owned(), format!("Port={port}")]);
    }
    if !context.flag("verify_host").unwrap_or(false) {
        let unverified = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"];
        words.extend(unverified.map(str::to_owned));
    }
    if context.flag("use_ssh_args").unwrap_or(false) {
        words.extend(target.ssh_arguments.iter().cloned());
    }
    // A host that stops answering would otherwise hold up rsync for ever. The first value of an option counts.
    words.extend(ALIVE.iter().flat_map(|option| ["-o".to_owned(), (*option).to_owned()]));
    shell_words::join(words)
}

/// Runs rsync on the controller over the host's connection. Returns `None` if the host has no rsync.
async fn through_connection(
    context: &ActionContext,
    own: &ConnectionVariables,
    mut args: Arguments,
) -> Result<Option<TaskResult>, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("cannot pass the connection to rsync: {error}"));
    let folder = tempfile::tempdir().map_err(failed)?;
    let socket = folder.path().join("socket");
    let listener = UnixListener::bind(&socket).map_err(failed)?;
    args.insert("_rsh".into(), Value::from(relay::program(&socket).map_err(failed)?));
    let target = Arc::new(own.target.clone());
    let become_user = own.become_user.clone().filter(|_| !args.contains_key("rsync_path"));
    let missing = AtomicBool::new(false);
    let serving = async {
        loop {
            let Ok((stream, command)) = relay::accept(&listener).await else { continue };
            let command = RawCommand { command, become_user: become_user.clone(), ..RawCommand::default() };
            // An error means that rsync has exited; its own result explains why.
            match context.pool.open(&target, &command).await {
                Ok(Opened { duplex, early, lost }) => {
                    let status = tokio::select! {
                        status = relay::pass(stream, duplex, &early) => status,
                        error = lost => return Failure::from(error),
                    };
                    missing.fetch_or(matches!(status, Ok(127)), Ordering::Relaxed);
                }
                Err(error) => drop(relay::refuse(stream, &error.to_string()).await),
            }
        }
    };
    let result = tokio::select! {
        result = context.module_here(MODULE, value_of(args)) => result?,
        failure = serving => return Err(failure),
    };
    Ok(Some(result).filter(|_| !missing.load(Ordering::Relaxed)))
}

/// Pushes a tree without rsync.
async fn natively(
    context: &ActionContext,
    own: &ConnectionVariables,
    src: &str,
    dest: &str,
    without: &str,
) -> Result<TaskResult, Failure> {
    let unable = |what: &str| {
        Failure::Failed(format!("rsync is missing on {without}, and {what} needs it. Install rsync there."))
    };
    if context.text("mode").is_some_and(|mode| mode == "pull") {
        return Err(unable("mode: pull"));
    }
    if src.starts_with("rsync://") || dest.starts_with("rsync://") {
        return Err(unable("an rsync:// address"));
    }
    for name in ["existing_only", "dirs"] {
        if context.flag(name).unwrap_or(false) {
            return Err(unable(name));
        }
    }
    for name in ["rsync_opts", "link_dest"] {
        if context.arg(name).is_some_and(|list| list.len().unwrap_or(1) > 0) {
            return Err(unable(name));
        }
    }
    let path = Path::new(src);
    let is_archive = context.flag("archive").unwrap_or(true);
    let like_archive = |name: &str| context.flag(name).unwrap_or(is_archive);
    let mut contents = Vec::new();
    let mut args = vec![("_delete", Value::from(context.flag("delete").unwrap_or(false)))];
    if path.is_dir() {
        if !like_archive("recursive") {
            return Err(unable("a directory without recursive"));
        }
        // Only files inside the copied directory may be deleted, so that directory is the destination.
        let inside = src.ends_with('/');
        let dest = if inside { dest.to_owned() } else { Path::new(dest).join(file_name(path)).display().to_string() };
        let reading = Reading { decrypt: false, follow: context.flag("copy_links").unwrap_or(false) };
        let tree = Tree::read(context, path, Path::new(""), reading)?;
        contents = tree.contents;
        args.extend([("dest", Value::from(dest)), ("_entries", tree.entries.into_iter().collect())]);
    } else {
        contents.push(context.content_of(path, false)?);
        args.extend([("dest", Value::from(dest)), ("_content", Value::from(0))]);
        args.push(("_original_basename", Value::from(file_name(path))));
    }
    if like_archive("perms") {
        args.extend(["mode", "directory_mode"].map(|name| (name, Value::from("preserve"))));
    }
    let result = context.module_on(own, "ansible.builtin.copy", Value::from_pairs(args), contents).await?;
    if result.failed() {
        return Ok(result);
    }
    let mut answer = TaskResult::ok(result.changed()).with("rc", 0).with("cmd", "");
    answer.set("msg", format!("rsync is missing on {without}; the tree was copied without it."));
    answer.set("stdout_lines", Vec::<Value>::new());
    if let Some(diff) = result.get("diff") {
        answer.set("diff", diff.clone());
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn become_user_of_synchronize_is_no_command() {
        assert_eq!(rsync_as(&"sudo", "web"), "sudo -u web rsync");
        assert_eq!(rsync_as(&"sudo", "$(id)"), "sudo -u '$(id)' rsync");
    }
}
