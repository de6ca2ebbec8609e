//! `async_status`: status of a job started with `async`.

use std::io::Read;

use serde_json::{Value, json};

use crate::{Args, Failure, Host, Kind, Module, Opt, Plan, Return, Spec, job_files, process::reason};

/// The `async_status` module.
pub struct AsyncStatus;

/// Specification of `async_status`.
pub static SPEC: Spec = Spec {
    name: "async_status",
    summary: "Read the status of a job started with `async`",
    description: &[
        "Returns the status and result of a job that a task with `async` and `poll: 0` started.",
        "The job's file remains until `mode: cleanup` removes it.",
    ],
    options: &[
        Opt::required("jid", Kind::Str, "Id of the job: `ansible_job_id` in the result of its task."),
        Opt::new("mode", Kind::Str, "`status` reads the result, `cleanup` removes the job's file.")
            .default("\"status\"")
            .choices(&["status", "cleanup"]),
        Opt::new("_async_dir", Kind::Str, "Folder of the job files.").default("\"~/.ansible_async\""),
    ],
    examples: "- name: Begin\n  ansible.builtin.command: /usr/local/bin/long\n  async: 600\n  poll: 0\n  register: long\n\n\
               - name: Wait for it\n  ansible.builtin.async_status:\n    jid: \"{{ long.ansible_job_id }}\"\n  register: status\n  \
               until: status is finished\n  retries: 60\n  delay: 10\n",
    returns: &[
        Return { name: "ansible_job_id", kind: "str", when: "always", doc: "Id of the job." },
        Return { name: "started", kind: "bool", when: "always", doc: "Whether the job has started." },
        Return { name: "finished", kind: "bool", when: "always", doc: "Whether the job has finished." },
        Return { name: "results_file", kind: "str", when: "mode is status", doc: "Path of the job's file." },
        Return { name: "erased", kind: "str", when: "mode is cleanup", doc: "Path of the removed file." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for AsyncStatus {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, _host: &Host) -> Result<Plan, Failure> {
        let job = args.required("jid")?.to_owned();
        let file = job_files::directory(args.required("_async_dir")?).join(&job);
        let shown = file.display().to_string();
        let cleanup = args.str("mode") == Some("cleanup");
        let place = if cleanup { "erased" } else { "results_file" };
        if job.contains('/') || !file.exists() {
            return Err(Failure::new("could not find job")
                .with("ansible_job_id", job)
                .with(place, shown)
                .with("started", true)
                .with("finished", true));
        }
        let job_file = job_files::place_of(&file).map_err(|error| {
            Failure::new(format!("{shown} is not used: {}.", reason(&error))).with(place, shown.clone())
        })?;
        let plan = Plan::unchanged().with("ansible_job_id", job.clone()).with(place, shown.clone());
        if cleanup {
            // Also in check mode, because the file is our own bookkeeping.
            job_file
                .unlink()
                .map_err(|error| Failure::new(format!("{shown} cannot be removed: {}.", reason(&error))))?;
            return Ok(plan.with("started", false).with("finished", false));
        }
        let mut text = Vec::new();
        let read = job_file.open().and_then(|mut open| open.read_to_end(&mut text));
        let Ok(Value::Object(mut data)) = read.map_or(Ok(Value::Null), |_| serde_json::from_slice(&text)) else {
            return Ok(plan.with("started", true).with("finished", false));
        };
        if !data.contains_key("started") {
            data.insert("finished".to_owned(), json!(true));
            data.insert("started".to_owned(), json!(true));
            data.insert("ansible_job_id".to_owned(), json!(job));
        }
        data.entry("finished").or_insert(json!(false));
        Ok(plan.with_all(data))
    }
}
