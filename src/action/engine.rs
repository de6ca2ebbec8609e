//! Documentation of actions that the engine carries out itself: `meta`, imports and includes. `strategy` and `playbook`
//! implement them.

use windlass_modules::{Check, Kind, Opt, Spec};

use crate::strategy::META_ACTIONS;

/// All specs of this file.
pub(super) const SPECS: &[&Spec] =
    &[&META, &IMPORT_PLAYBOOK, &IMPORT_ROLE, &IMPORT_TASKS, &INCLUDE_ROLE, &INCLUDE_TASKS];

const NAME: Opt = Opt::required("name", Kind::Str, "The role: its name, `namespace.collection.role`, or its path.")
    .aliases(&["role"]);
const TASKS_FROM: Opt = Opt::new("tasks_from", Kind::Str, "The file of `tasks` to read.").default("\"main\"");
const VARS_FROM: Opt = Opt::new("vars_from", Kind::Str, "The file of `vars` to read.").default("\"main\"");
const DEFAULTS_FROM: Opt = Opt::new("defaults_from", Kind::Str, "The file of `defaults` to read.").default("\"main\"");
const HANDLERS_FROM: Opt = Opt::new("handlers_from", Kind::Str, "The file of `handlers` to read.").default("\"main\"");
const ALLOW_DUPLICATES: Opt =
    Opt::new("allow_duplicates", Kind::Bool, "The role may run again in this play.").default("true");
const ROLESPEC_VALIDATE: Opt =
    Opt::new("rolespec_validate", Kind::Bool, "Check the variables against the role's `meta/argument_specs.yml`.")
        .default("true");
const PUBLIC: Opt = Opt::new("public", Kind::Bool, "The rest of the play sees the role's defaults and variables.");
const APPLY: Opt = Opt::new(
    "apply",
    Kind::Dict,
    "Keywords for all that is included, such as `tags` or `become`. Those that stand on the include itself are its own, except for variables and conditions.",
);
const FILE_AS_TEXT: Opt = Opt::new("_raw_params", Kind::Str, "The file, as free text.");

static META: Spec = Spec {
    name: "meta",
    summary: "Tell the engine itself what to do",
    description: &[
        "`flush_handlers` runs the handlers that were notified so far. `end_host`, `end_role`, `end_batch` and `end_play` end the play there without \
         a failure; `end_batch` and `end_play` for all hosts, as soon as one gets there. `clear_facts` forgets facts, `clear_host_errors` \
         takes hosts back that have failed or were unreachable. `refresh_inventory` reads the inventory again, `reset_connection` \
         connects anew. `noop` does nothing.",
    ],
    options: &[Opt::required("_raw_params", Kind::Str, "What to do.").choices(META_ACTIONS)],
    free_form: Some("_raw_params"),
    check: Check::Partial,
    examples: "- name: The service must have its new settings before it is asked\n  ansible.builtin.meta: flush_handlers\n\n\
               - name: Nothing to do on old hosts\n  ansible.builtin.meta: end_host\n  when: ansible_distribution_major_version is version('11', '<')\n",
    ..Spec::EMPTY
};

static IMPORT_PLAYBOOK: Spec = Spec {
    name: "import_playbook",
    summary: "Put the plays of another playbook here",
    description: &[
        "Stands where a play stands. The other playbook is read before anything runs, so its name can only be made of extra variables. `vars`, `tags` \
         and `when` on it are for all its plays.",
    ],
    options: &[Opt::required(
        "_raw_params",
        Kind::Str,
        "The playbook, relative to this one, or `namespace.collection.playbook`.",
    )],
    free_form: Some("_raw_params"),
    examples: "- name: The databases first\n  ansible.builtin.import_playbook: databases.yml\n\n- name: Then what uses them\n  hosts: apps\n  roles: [app]\n",
    ..Spec::EMPTY
};

static IMPORT_ROLE: Spec = Spec {
    name: "import_role",
    summary: "Put the tasks of a role here",
    description: &[
        "The role is read before anything runs: its tasks are those of the play as if they stood here, with the tags and conditions of this task on \
         each of them. It cannot be in a loop; `include_role` can.",
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
    examples: "- name: The web server\n  ansible.builtin.import_role:\n    name: nginx\n    tasks_from: install\n  vars:\n    nginx_port: 8080\n",
    ..Spec::EMPTY
};

/// Spec of `include_role`.
pub(crate) static INCLUDE_ROLE: Spec = Spec {
    name: "include_role",
    summary: "Run a role here",
    description: &[
        "The role is read when a host gets here, so its name may depend on the host, and it can be in a loop. Tags and conditions of this task decide \
         about the include; those for the tasks inside are given with `apply`.",
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
    examples: "- name: A role for each service of the host\n  ansible.builtin.include_role:\n    name: \"service_{{ item }}\"\n  loop: \"{{ services }}\"\n",
    ..Spec::EMPTY
};

static IMPORT_TASKS: Spec = Spec {
    name: "import_tasks",
    summary: "Put the tasks of a file here",
    description: &[
        "The file is read before anything runs: its tasks are those of the play as if they stood here, with the tags and conditions of this task on \
         each of them. It cannot be in a loop; `include_tasks` can.",
    ],
    options: &[FILE_AS_TEXT, Opt::new("file", Kind::Str, "The file, relative to this one or in `tasks` of the role.")],
    free_form: Some("_raw_params"),
    examples: "- name: Prepare the disks\n  ansible.builtin.import_tasks: disks.yml\n",
    ..Spec::EMPTY
};

/// Spec of `include_tasks`.
pub(crate) static INCLUDE_TASKS: Spec = Spec {
    name: "include_tasks",
    summary: "Run the tasks of a file here",
    description: &[
        "The file is read when a host gets here, so its name may depend on the host, and it can be in a loop. Tags and conditions of this task decide \
         about the include; those for the tasks inside are given with `apply`.",
    ],
    options: &[
        FILE_AS_TEXT,
        Opt::new("file", Kind::Str, "The file, relative to this one or in `tasks` of the role."),
        APPLY,
    ],
    free_form: Some("_raw_params"),
    examples: "- name: What differs between distributions\n  ansible.builtin.include_tasks: \"{{ ansible_os_family | lower }}.yml\"\n\n\
               - name: Each disk\n  ansible.builtin.include_tasks:\n    file: disk.yml\n    apply:\n      tags: [disks]\n  loop: \"{{ disks }}\"\n  tags: [disks]\n",
    ..Spec::EMPTY
};
