//! Documentation of actions that the engine carries out itself: `meta`, imports and includes. `strategy` and `playbook`
//! implement them.

use windlass_modules::{Check, Kind, Opt, Spec};

/// All specs of this file.
pub(super) const SPECS: &[&Spec] =
    &[&META, &IMPORT_PLAYBOOK, &IMPORT_ROLE, &IMPORT_TASKS, &INCLUDE_ROLE, &INCLUDE_TASKS];

const NAME: Opt =
    Opt::required("name", Kind::Str, "Name of the role, `namespace.collection.role`, or a path.").aliases(&["role"]);
const TASKS_FROM: Opt = Opt::new("tasks_from", Kind::Str, "File under `tasks` to load.").default("\"main\"");
const VARS_FROM: Opt = Opt::new("vars_from", Kind::Str, "File under `vars` to load.").default("\"main\"");
const DEFAULTS_FROM: Opt = Opt::new("defaults_from", Kind::Str, "File under `defaults` to load.").default("\"main\"");
const HANDLERS_FROM: Opt = Opt::new("handlers_from", Kind::Str, "File under `handlers` to load.").default("\"main\"");
const ALLOW_DUPLICATES: Opt =
    Opt::new("allow_duplicates", Kind::Bool, "Allow the role to run again in this play.").default("true");
const ROLESPEC_VALIDATE: Opt =
    Opt::new("rolespec_validate", Kind::Bool, "Check the variables against the role's `meta/argument_specs.yml`.")
        .default("true");
const PUBLIC: Opt =
    Opt::new("public", Kind::Bool, "Make the role's defaults and variables visible to the rest of the play.");
const APPLY: Opt = Opt::new(
    "apply",
    Kind::Dict,
    "Keywords for all included tasks, such as `tags` or `become`. Except for variables and conditions, keywords of \
     the include itself do not affect included tasks.",
);
const FILE_AS_TEXT: Opt = Opt::new("_raw_params", Kind::Str, "Path of the file, as free text.");

/// An action of `meta`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaAction {
    /// Deletes the facts of all hosts.
    ClearFacts,
    /// Brings back failed and unreachable hosts.
    ClearHostErrors,
    /// Ends the batch without a failure.
    EndBatch,
    /// Ends the play for one host.
    EndHost,
    /// Ends the play without a failure.
    EndPlay,
    /// Ends the role for one host.
    EndRole,
    /// Runs the handlers notified so far.
    FlushHandlers,
    /// Does nothing.
    Noop,
    /// Reads the inventory again.
    RefreshInventory,
    /// Closes the connection of a host.
    ResetConnection,
}

impl MetaAction {
    /// All actions, sorted by name.
    pub(crate) const ALL: [MetaAction; 10] = [
        MetaAction::ClearFacts,
        MetaAction::ClearHostErrors,
        MetaAction::EndBatch,
        MetaAction::EndHost,
        MetaAction::EndPlay,
        MetaAction::EndRole,
        MetaAction::FlushHandlers,
        MetaAction::Noop,
        MetaAction::RefreshInventory,
        MetaAction::ResetConnection,
    ];

    /// Name of the action in a task.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            MetaAction::ClearFacts => "clear_facts",
            MetaAction::ClearHostErrors => "clear_host_errors",
            MetaAction::EndBatch => "end_batch",
            MetaAction::EndHost => "end_host",
            MetaAction::EndPlay => "end_play",
            MetaAction::EndRole => "end_role",
            MetaAction::FlushHandlers => "flush_handlers",
            MetaAction::Noop => "noop",
            MetaAction::RefreshInventory => "refresh_inventory",
            MetaAction::ResetConnection => "reset_connection",
        }
    }
}

/// Names of the actions of `meta`.
const META_ACTIONS: [&str; MetaAction::ALL.len()] = {
    let mut names = [""; MetaAction::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = MetaAction::ALL[index].name();
        index += 1;
    }
    names
};

static META: Spec = Spec {
    name: "meta",
    summary: "Control the engine itself",
    description: &[
        "`flush_handlers` runs the handlers notified so far. `end_host`, `end_role`, `end_batch` and `end_play` end \
         that part of the run without a failure. `end_batch` and `end_play` affect all hosts as soon as one reaches \
         them. `clear_facts` deletes facts, `clear_host_errors` brings back failed and unreachable hosts. \
         `refresh_inventory` reads the inventory again, `reset_connection` closes the connection so that the next \
         task opens a new one. `noop` does nothing.",
    ],
    options: &[Opt::required("_raw_params", Kind::Str, "Action to carry out.").choices(&META_ACTIONS)],
    free_form: Some("_raw_params"),
    check: Check::Partial,
    examples: "- name: Restart services with changed settings now\n  ansible.builtin.meta: flush_handlers\n\n\
               - name: Skip the rest on old hosts\n  ansible.builtin.meta: end_host\n  when: ansible_distribution_major_version is version('11', '<')\n",
    ..Spec::EMPTY
};

static IMPORT_PLAYBOOK: Spec = Spec {
    name: "import_playbook",
    summary: "Import the plays of another playbook",
    description: &[
        "Takes the place of a play. The other playbook is read before anything runs, so its name can use only extra \
         variables. `vars`, `tags` and `when` apply to all its plays.",
    ],
    options: &[Opt::required(
        "_raw_params",
        Kind::Str,
        "Path of the playbook, relative to this one, or `namespace.collection.playbook`.",
    )],
    free_form: Some("_raw_params"),
    examples: "- name: Set up the databases\n  ansible.builtin.import_playbook: databases.yml\n\n- name: Set up the applications\n  hosts: apps\n  roles: [app]\n",
    ..Spec::EMPTY
};

static IMPORT_ROLE: Spec = Spec {
    name: "import_role",
    summary: "Import the tasks of a role",
    description: &[
        "The role is read before anything runs. Its tasks become tasks of the play, each with the tags and conditions \
         of this task. It cannot be used in a loop; `include_role` can.",
    ],
    options: &[
        NAME,
        TASKS_FROM,
        VARS_FROM,
        DEFAULTS_FROM,
        HANDLERS_FROM,
        ALLOW_DUPLICATES,
        ROLESPEC_VALIDATE,
        PUBLIC.default("true"),
    ],
    examples: "- name: Install the web server\n  ansible.builtin.import_role:\n    name: nginx\n    tasks_from: install\n  vars:\n    nginx_port: 8080\n",
    ..Spec::EMPTY
};

/// Spec of `include_role`.
pub(crate) static INCLUDE_ROLE: Spec = Spec {
    name: "include_role",
    summary: "Run a role",
    description: &[
        "The role is read when a host reaches this task, so its name may depend on the host, and loops are allowed. \
         Tags and conditions of this task decide whether it is included; set those of the included tasks with \
         `apply`.",
    ],
    options: &[
        NAME,
        TASKS_FROM,
        VARS_FROM,
        DEFAULTS_FROM,
        HANDLERS_FROM,
        APPLY,
        ALLOW_DUPLICATES,
        ROLESPEC_VALIDATE,
        PUBLIC.default("false"),
    ],
    examples: "- name: Run the role of each service\n  ansible.builtin.include_role:\n    name: \"service_{{ item }}\"\n  loop: \"{{ services }}\"\n",
    ..Spec::EMPTY
};

static IMPORT_TASKS: Spec = Spec {
    name: "import_tasks",
    summary: "Import the tasks of a file",
    description: &[
        "The file is read before anything runs. Its tasks become tasks of the play, each with the tags and conditions \
         of this task. It cannot be used in a loop; `include_tasks` can.",
    ],
    options: &[
        FILE_AS_TEXT,
        Opt::new("file", Kind::Str, "Path of the file, relative to this one or to `tasks` of the role."),
    ],
    free_form: Some("_raw_params"),
    examples: "- name: Prepare the disks\n  ansible.builtin.import_tasks: disks.yml\n",
    ..Spec::EMPTY
};

/// Spec of `include_tasks`.
pub(crate) static INCLUDE_TASKS: Spec = Spec {
    name: "include_tasks",
    summary: "Run the tasks of a file",
    description: &[
        "The file is read when a host reaches this task, so its name may depend on the host, and loops are allowed. \
         Tags and conditions of this task decide whether it is included; set those of the included tasks with \
         `apply`.",
    ],
    options: &[
        FILE_AS_TEXT,
        Opt::new("file", Kind::Str, "Path of the file, relative to this one or to `tasks` of the role."),
        APPLY,
    ],
    free_form: Some("_raw_params"),
    examples: "- name: Run the tasks for the distribution\n  ansible.builtin.include_tasks: \"{{ ansible_os_family | lower }}.yml\"\n\n\
               - name: Prepare each disk\n  ansible.builtin.include_tasks:\n    file: disk.yml\n    apply:\n      tags: [disks]\n  loop: \"{{ disks }}\"\n  tags: [disks]\n",
    ..Spec::EMPTY
};
