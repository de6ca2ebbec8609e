//! Documentation and options of the actions with a part on the controller that run no module of their name.

use windlass_modules::facts::setup;
use windlass_modules::files::write::{BACKUP, VALIDATE};
use windlass_modules::{Check, Kind, Opt, Return, Spec, with_attributes};

pub(crate) static ADD_HOST: Spec = Spec {
    name: "add_host",
    summary: "Add a host to the inventory of this run",
    description: &[
        "Later plays can name the host and its groups. The task runs once for all hosts of the play, with the \
         variables of the first. A loop adds one host per item.",
    ],
    options: &[
        Opt::new("name", Kind::Str, "Name of the host. Required.").aliases(&["host", "hostname"]),
        Opt::new(
            "groups",
            Kind::Raw,
            "Groups of the host, as a list or separated by commas. Missing groups are created.",
        )
        .aliases(&["group", "groupname"]),
    ],
    others: Some("A variable of the host with its value."),
    examples: "- name: Add the new machine\n  ansible.builtin.add_host:\n    name: \"{{ machine.name }}\"\n    groups: [new_nodes]\n    \
               ansible_host: \"{{ machine.address }}\"\n",
    returns: &[Return { name: "add_host", kind: "dict", when: "success", doc: "Name, groups and variables." }],
    ..Spec::EMPTY
};

pub(crate) static ASSERT: Spec = Spec {
    name: "assert",
    summary: "Fail unless conditions hold",
    description: &[
        "Conditions are expressions as in `when`. The first false one fails the task and is part of the result.",
    ],
    options: &[
        Opt::required("that", Kind::Raw, "A condition, or a list of conditions which must all hold."),
        Opt::new("fail_msg", Kind::Raw, "Message if a condition is false.")
            .aliases(&["msg"])
            .default("\"Assertion failed\""),
        Opt::new("success_msg", Kind::Raw, "Message if all conditions hold.").default("\"All assertions passed\""),
        Opt::new("quiet", Kind::Bool, "Print no result without `-v`.").default("false"),
    ],
    examples: "- name: Check that the number of etcd members is odd\n  ansible.builtin.assert:\n    that:\n      - groups['etcd'] | length is odd\n      \
               - etcd_version is defined\n    fail_msg: etcd needs one, three or five members\n",
    returns: &[
        Return { name: "assertion", kind: "str", when: "failure", doc: "The false condition." },
        Return { name: "evaluated_to", kind: "bool", when: "failure", doc: "Its value, `false`." },
        Return { name: "msg", kind: "raw", when: "always", doc: "`fail_msg` or `success_msg`." },
    ],
    ..Spec::EMPTY
};

pub(crate) static DEBUG: Spec = Spec {
    name: "debug",
    summary: "Print a message or a variable",
    description: &["Runs only on the controller. Without `msg` and `var` it prints `Hello world!`."],
    options: &[
        Opt::new("msg", Kind::Raw, "Message to print: a text, a list or a mapping.").default("\"Hello world!\""),
        Opt::new(
            "var",
            Kind::Str,
            "Name of a variable, or an expression without braces. An undefined variable is reported without failing \
             the task.",
        ),
        Opt::new("verbosity", Kind::Int, "Minimum verbosity at which to print, as the number of `-v`.").default("0"),
    ],
    examples: "- name: Show the host's address\n  ansible.builtin.debug:\n    msg: \"{{ inventory_hostname }} is at {{ ansible_host }}\"\n\n\
               - name: Show all variables of the host, only with -vv\n  ansible.builtin.debug:\n    var: hostvars[inventory_hostname]\n    verbosity: 2\n",
    mutually_exclusive: &[&["msg", "var"]],
    returns: &[
        Return { name: "msg", kind: "raw", when: "without `var`", doc: "The message." },
        Return { name: "(the name in `var`)", kind: "raw", when: "with `var`", doc: "The value." },
    ],
    ..Spec::EMPTY
};

pub(crate) static FAIL: Spec = Spec {
    name: "fail",
    lists_unknown: true,
    summary: "Fail with a message",
    description: &["Fails on every host that reaches it. With `when`, it stops hosts in an unsupported state."],
    options: &[Opt::new("msg", Kind::Raw, "Why.").default("\"Failed as requested from task\"")],
    examples: "- name: Reject unsupported releases\n  ansible.builtin.fail:\n    msg: \"{{ ansible_distribution_release }} is too old\"\n  \
               when: ansible_distribution_major_version is version('11', '<')\n",
    returns: &[Return { name: "msg", kind: "raw", when: "always", doc: "The message." }],
    ..Spec::EMPTY
};

pub(crate) static GATHER_FACTS: Spec = Spec {
    name: "gather_facts",
    summary: "Gather facts about a host",
    description: &["Plays start with this task unless `gather_facts` is false. It runs `setup`."],
    options: &[
        setup::GATHER_SUBSET,
        setup::FILTER,
        setup::FACT_PATH,
        setup::GATHER_TIMEOUT,
        Opt::new("parallel", Kind::Bool, "Accepted for compatibility; only one facts module runs."),
    ],
    examples: "- name: Update network facts after a change\n  ansible.builtin.gather_facts:\n    gather_subset: [\"!all\", network]\n",
    returns: &[Return {
        name: "ansible_facts",
        kind: "dict",
        when: "success",
        doc: "The facts; their names start with `ansible_`.",
    }],
    ..Spec::EMPTY
};

pub(crate) static GROUP_BY: Spec = Spec {
    name: "group_by",
    lists_unknown: true,
    summary: "Group hosts by their variables",
    description: &["Later plays can name the groups. Blanks in names become hyphens."],
    options: &[
        Opt::required("key", Kind::Str, "Group to add the host to."),
        Opt::new("parents", Kind::Raw, "Parents of that group, as a list or separated by commas.").default("\"all\""),
    ],
    examples: "- name: Group hosts by distribution\n  ansible.builtin.group_by:\n    key: \"os_{{ ansible_distribution | lower }}\"\n",
    returns: &[
        Return { name: "add_group", kind: "str", when: "success", doc: "The group." },
        Return { name: "parent_groups", kind: "list", when: "success", doc: "Parent groups." },
    ],
    ..Spec::EMPTY
};

pub(crate) static INCLUDE_VARS: Spec = Spec {
    name: "include_vars",
    summary: "Read variables from files of the project",
    description: &[
        "Files are YAML or JSON, and may be encrypted with vault. They are searched in `vars` of the role, beside the \
         file that contains the task, and in `vars` of the playbook's directory. The variables belong to the host \
         from the next task on.",
    ],
    options: &[
        Opt::new("_raw_params", Kind::Str, "Path of the file, as free text."),
        Opt::new("file", Kind::Str, "The file."),
        Opt::new(
            "dir",
            Kind::Str,
            "A directory. All its files are read in the order of their names, including subdirectories.",
        ),
        Opt::new("name", Kind::Str, "Store everything in one variable with this name."),
        Opt::new("depth", Kind::Int, "Number of levels of `dir` to read; 0 reads all.").default("0"),
        Opt::new("files_matching", Kind::Str, "Read only files of `dir` whose names match this regular expression."),
        Opt::new("ignore_files", Kind::List(&Kind::Str), "Names of files in `dir` to skip.").default("[]"),
        Opt::new("extensions", Kind::List(&Kind::Str), "File extensions to accept in `dir`.")
            .default("[\"json\", \"yaml\", \"yml\"]"),
        Opt::new(
            "ignore_unknown_extensions",
            Kind::Bool,
            "Skip files of `dir` with other extensions instead of failing.",
        )
        .default("false"),
        Opt::new(
            "hash_behaviour",
            Kind::Str,
            "Handling of an existing dictionary: replace it, or merge the new one into it at every level.",
        )
        .choices(&["replace", "merge"])
        .default("\"replace\""),
    ],
    mutually_exclusive: &[
        &["_raw_params", "file"],
        &["file", "dir"],
        &["_raw_params", "dir"],
        &["file", "depth"],
        &["file", "files_matching"],
        &["file", "ignore_files"],
        &["file", "extensions"],
    ],
    free_form: Some("_raw_params"),
    examples: "- name: Read variables of the distribution\n  ansible.builtin.include_vars: \"{{ ansible_os_family | lower }}.yml\"\n\n\
               - name: Read all settings of the site into one variable\n  ansible.builtin.include_vars:\n    dir: site\n    name: site\n",
    returns: &[
        Return { name: "ansible_facts", kind: "dict", when: "success", doc: "The variables." },
        Return { name: "ansible_included_var_files", kind: "list", when: "success", doc: "Files that were read." },
    ],
    ..Spec::EMPTY
};

pub(crate) static PAUSE: Spec = Spec {
    name: "pause",
    summary: "Wait for a time or for the user",
    description: &[
        "Runs once for all hosts. Without a time it waits for Enter. Without a terminal it continues at once with a \
         warning.",
    ],
    options: &[
        Opt::new("minutes", Kind::Int, "Minutes to wait."),
        Opt::new("seconds", Kind::Int, "Seconds to wait, at least 1."),
        Opt::new("prompt", Kind::Str, "Prompt to print."),
        Opt::new("echo", Kind::Bool, "Echo the user's input.").default("true"),
    ],
    mutually_exclusive: &[&["minutes", "seconds"]],
    examples: "- name: Wait for the load balancers to notice\n  ansible.builtin.pause:\n    seconds: 20\n\n\
               - name: Ask before draining the node\n  ansible.builtin.pause:\n    prompt: Press Enter to drain the node\n",
    returns: &[
        Return { name: "user_input", kind: "str", when: "no time is set", doc: "Input of the user." },
        Return { name: "stdout", kind: "str", when: "always", doc: "Duration as a sentence." },
        Return { name: "delta", kind: "int", when: "always", doc: "Duration in seconds." },
        Return { name: "start", kind: "str", when: "always", doc: "Start time." },
        Return { name: "stop", kind: "str", when: "always", doc: "End time." },
        Return { name: "echo", kind: "bool", when: "always", doc: "Whether the input was echoed." },
    ],
    ..Spec::EMPTY
};

pub(crate) static RAW: Spec = Spec {
    name: "raw",
    summary: "Run a command without the executor",
    description: &[
        "The text goes unchanged to the login shell of the connection. Nothing is copied to the host, so it works on \
         appliances and on machines that cannot run the executor. Elsewhere prefer `command` and `shell`, which \
         report more and are safer.",
    ],
    options: &[
        Opt::new("_raw_params", Kind::Str, "The command."),
        Opt::new("executable", Kind::Str, "Absolute path of the shell to run it with."),
    ],
    free_form: Some("_raw_params"),
    others: Some("Accepted for compatibility, without effect."),
    check: Check::None,
    examples: "- name: Query a switch\n  ansible.builtin.raw: show version\n  changed_when: false\n",
    returns: &[
        Return { name: "rc", kind: "int", when: "always", doc: "Exit status." },
        Return { name: "stdout", kind: "str", when: "always", doc: "Standard output." },
        Return { name: "stderr", kind: "str", when: "always", doc: "Standard error." },
        Return { name: "stdout_lines", kind: "list", when: "always", doc: "Standard output in lines." },
        Return { name: "stderr_lines", kind: "list", when: "always", doc: "Standard error in lines." },
    ],
    ..Spec::EMPTY
};

pub(crate) static REBOOT: Spec = Spec {
    name: "reboot",
    lists_unknown: true,
    summary: "Restart a host and wait until it is back",
    description: &[
        "The host counts as back when it answers with a new boot id, so a restart that never happened is detected. \
         The controller itself is never restarted.",
    ],
    options: &[
        Opt::new("pre_reboot_delay", Kind::Int, "Seconds to wait before the restart.")
            .aliases(&["pre_reboot_delay_sec"])
            .default("0"),
        Opt::new("post_reboot_delay", Kind::Int, "Seconds to wait before checking for the host.")
            .aliases(&["post_reboot_delay_sec"])
            .default("0"),
        Opt::new("reboot_timeout", Kind::Int, "Seconds after which to give up.")
            .aliases(&["reboot_timeout_sec"])
            .default("600"),
        Opt::new(
            "connect_timeout",
            Kind::Int,
            "Accepted for compatibility; `timeout` of the connection limits each attempt.",
        )
        .aliases(&["connect_timeout_sec"]),
        Opt::new("test_command", Kind::Str, "Command that must succeed after the restart."),
        Opt::new("msg", Kind::Str, "Message to logged-in users before the restart.")
            .default("\"Reboot initiated by Ansible\""),
        Opt::new("boot_time_command", Kind::Str, "Command whose output changes with a restart.")
            .default("\"cat /proc/sys/kernel/random/boot_id\""),
        Opt::new(
            "reboot_command",
            Kind::Str,
            "Command that restarts the host; by default systemd's, or else `shutdown`.",
        ),
        Opt::new(
            "search_paths",
            Kind::List(&Kind::Str),
            "Accepted for compatibility; commands are searched in the user's PATH on the host.",
        ),
    ],
    examples: "- name: Boot the new kernel\n  ansible.builtin.reboot:\n    reboot_timeout: 900\n  when: kernel_updated is changed\n",
    returns: &[
        Return { name: "rebooted", kind: "bool", when: "always", doc: "Whether the host was restarted." },
        Return { name: "elapsed", kind: "int", when: "always", doc: "Duration in seconds." },
    ],
    ..Spec::EMPTY
};

pub(crate) static SET_FACT: Spec = Spec {
    name: "set_fact",
    summary: "Set variables of a host",
    description: &[
        "The variables belong to the host from the next task on, for the rest of the run. They outrank variables of \
         the inventory, plays and roles, but not parameters of roles and includes, nor `-e`.",
        "Their values are computed once, when the task runs, not when they are used.",
    ],
    options: &[
        Opt::new("cacheable", Kind::Bool, "Store the variables as facts too, in `ansible_facts`.").default("false")
    ],
    others: Some("A variable with its value."),
    examples: "- name: Compute the address once\n  ansible.builtin.set_fact:\n    node_address: \"{{ ip | default(ansible_default_ipv4.address) }}\"\n    \
               is_first: \"{{ inventory_hostname == groups['etcd'] | first }}\"\n",
    returns: &[Return { name: "ansible_facts", kind: "dict", when: "success", doc: "The variables." }],
    ..Spec::EMPTY
};

pub(crate) static SET_STATS: Spec = Spec {
    name: "set_stats",
    lists_unknown: true,
    summary: "Collect custom statistics of a run",
    description: &["They are printed at the end of the run if `show_custom_stats` is set in ansible.cfg, or \
         ANSIBLE_SHOW_CUSTOM_STATS in the environment."],
    options: &[
        Opt::new("data", Kind::Raw, "A mapping of names to values."),
        Opt::new("per_host", Kind::Raw, "Keep separate values for each host.").default("false"),
        Opt::new("aggregate", Kind::Raw, "Add to an existing value instead of replacing it.").default("true"),
    ],
    examples: "- name: Count the packages\n  ansible.builtin.set_stats:\n    data:\n      packages: \"{{ ansible_facts.packages | length }}\"\n",
    returns: &[Return {
        name: "ansible_stats",
        kind: "dict",
        when: "success",
        doc: "The statistics, and how they were stored.",
    }],
    ..Spec::EMPTY
};

pub(crate) static TEMPLATE: Spec = Spec {
    name: "template",
    summary: "Render a template and write it to a host",
    description: &[
        "The template is a Jinja file of the project. It is searched in `templates` of the role, beside the file that \
         contains the task, and in `templates` of the playbook's directory. It is rendered on the controller, so an \
         error in it leaves the host unchanged.",
        "In addition to the host's variables, it sees `ansible_managed`, `template_host`, `template_path`, `template_fullpath`, `template_destpath`, \
         `template_uid`, `template_mtime` and `template_run_date`. A file that already has this content stays unchanged.",
    ],
    options: with_attributes![
        Opt::required("src", Kind::Str, "The template."),
        Opt::required(
            "dest",
            Kind::Path,
            "Path of the file on the host. In a directory, the file gets the template's name."
        ),
        BACKUP,
        Opt::new("force", Kind::Bool, "Replace an existing file that has other content.").default("true"),
        Opt::new("follow", Kind::Bool, "If `dest` is a link, replace its target.").default("false"),
        VALIDATE,
        Opt::new("newline_sequence", Kind::Str, r"Line ending of the result: `\n`, `\r` or `\r\n`.")
            .default(r#""\n""#),
        Opt::new("block_start_string", Kind::Str, "Start of a statement.").default(r#""{%""#),
        Opt::new("block_end_string", Kind::Str, "End of a statement.").default(r#""%}""#),
        Opt::new("variable_start_string", Kind::Str, "Start of an expression.").default(r#""{{""#),
        Opt::new("variable_end_string", Kind::Str, "End of an expression.").default(r#""}}""#),
        Opt::new("comment_start_string", Kind::Str, "Start of a comment.").default(r##""{#""##),
        Opt::new("comment_end_string", Kind::Str, "End of a comment.").default(r##""#}""##),
        Opt::new("trim_blocks", Kind::Bool, "Remove the line break after a statement.")
            .default("true"),
        Opt::new(
            "lstrip_blocks",
            Kind::Bool,
            "Remove blanks at the start of a line before a statement."
        )
        .default("false"),
        Opt::new(
            "output_encoding",
            Kind::Str,
            "Encoding of the file: `utf-8`, `utf-8-sig`, `utf-16`, `utf-32`, `ascii`, `latin-1`, `iso-8859-15` or `windows-1252`.",
        )
        .default(r#""utf-8""#),
    ],
    examples: "- name: Write the configuration\n  ansible.builtin.template:\n    src: app.conf.j2\n    dest: /etc/app.conf\n    owner: root\n    group: app\n    \
               mode: '0640'\n    validate: app --check %s\n  notify: Restart app\n",
    returns: &[
        Return { name: "dest", kind: "str", when: "success", doc: "The file." },
        Return { name: "checksum", kind: "str", when: "always", doc: "SHA-1 of the result." },
        Return { name: "md5sum", kind: "str", when: "changed", doc: "MD5 of the result." },
        Return { name: "src", kind: "str", when: "changed", doc: "Source of the copy to the host." },
        Return { name: "size", kind: "int", when: "success", doc: "Size of the file in bytes." },
        Return { name: "owner", kind: "str", when: "success", doc: "Its owner." },
        Return { name: "group", kind: "str", when: "success", doc: "Its group." },
        Return { name: "uid", kind: "int", when: "success", doc: "User id of its owner." },
        Return { name: "gid", kind: "int", when: "success", doc: "Id of its group." },
        Return { name: "mode", kind: "str", when: "success", doc: "Permission bits in octal." },
        Return { name: "backup_file", kind: "str", when: "a backup was created", doc: "Path of the backup." },
    ],
    missing: Some("src and dest are required"),
    ..Spec::EMPTY
};

pub(crate) static VALIDATE_ARGUMENT_SPEC: Spec = Spec {
    name: "validate_argument_spec",
    summary: "Check variables against a specification",
    description: &[
        "The specification maps names to `type`, `required`, `choices`, `elements` and `options`, like `options` in a \
         role's `meta/argument_specs.yml`. A role with such a file is checked before its first task.",
    ],
    options: &[
        Opt::required("argument_spec", Kind::Raw, "The specification."),
        Opt::new(
            "provided_arguments",
            Kind::Raw,
            "A mapping of values to check. Absent ones are taken from the host's variables.",
        ),
        Opt::new("validate_args_context", Kind::Raw, "Description of the check, for the result."),
    ],
    examples: "- name: Check the settings\n  ansible.builtin.validate_argument_spec:\n    argument_spec:\n      app_port: {type: int, required: true}\n      \
               app_scheme: {choices: [http, https]}\n    provided_arguments: \"{{ app }}\"\n",
    returns: &[
        Return { name: "argument_errors", kind: "list", when: "failure", doc: "Errors, one sentence each." },
        Return { name: "argument_spec_data", kind: "dict", when: "failure", doc: "The specification." },
        Return { name: "validate_args_context", kind: "dict", when: "always", doc: "Description of the check." },
    ],
    ..Spec::EMPTY
};

pub(crate) static WAIT_FOR_CONNECTION: Spec = Spec {
    name: "wait_for_connection",
    lists_unknown: true,
    summary: "Wait until a host is reachable",
    description: &[
        "Retries until the host answers. Use it at the start of a play on newly created machines, with `gather_facts: \
         false`.",
    ],
    options: &[
        Opt::new("delay", Kind::Int, "Seconds to wait before the first attempt.").default("0"),
        Opt::new("sleep", Kind::Int, "Seconds to wait between attempts.").default("1"),
        Opt::new("timeout", Kind::Int, "Seconds after which to give up.").default("600"),
        Opt::new(
            "connect_timeout",
            Kind::Int,
            "Accepted for compatibility; `timeout` of the connection limits each attempt.",
        )
        .default("5"),
    ],
    check: Check::None,
    examples: "- name: Wait for the new machines\n  ansible.builtin.wait_for_connection:\n    timeout: 300\n",
    returns: &[Return { name: "elapsed", kind: "int", when: "always", doc: "Duration in seconds." }],
    ..Spec::EMPTY
};
