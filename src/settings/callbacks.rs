//! Settings of callbacks, in groups that callbacks share.

/// A setting of a callback.
#[derive(Debug)]
pub struct CallbackOption {
    /// Name of the setting.
    pub name: &'static str,
    /// `bool`, `int`, `path` or `str`.
    pub kind: &'static str,
    /// Default value as text.
    pub default: Option<&'static str>,
    /// Environment variables that set the option.
    pub env: &'static [&'static str],
    /// Sections and keys of ansible.cfg that set the option.
    pub ini: &'static [(&'static str, &'static str)],
    /// Description.
    pub doc: &'static str,
}

/// All groups.
const ALL: &[&[CallbackOption]] =
    &[DEFAULT, SHOW_CUSTOM_STATS, RESULT_FORMAT, JSON, JSONL, JUNIT, PROFILE_TASKS, PROFILE_ROLES, TREE];

/// Sections and keys of ansible.cfg that callbacks read.
pub(crate) fn keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.iter().copied().flatten().flat_map(|option| option.ini.iter().copied())
}

const fn flag(
    name: &'static str,
    env: &'static [&'static str],
    ini: &'static [(&'static str, &'static str)],
    default: &'static str,
    doc: &'static str,
) -> CallbackOption {
    CallbackOption { name, kind: "bool", default: Some(default), env, ini, doc }
}

/// Options shared by callbacks that derive from the default one.
pub(crate) const DEFAULT: &[CallbackOption] = &[
    flag(
        "display_skipped_hosts",
        &["ANSIBLE_DISPLAY_SKIPPED_HOSTS"],
        &[("defaults", "display_skipped_hosts")],
        "true",
        "Show hosts on which a task is skipped.",
    ),
    flag(
        "display_ok_hosts",
        &["ANSIBLE_DISPLAY_OK_HOSTS"],
        &[("defaults", "display_ok_hosts")],
        "true",
        "Show hosts on which a task changed nothing.",
    ),
    flag(
        "display_failed_stderr",
        &["ANSIBLE_DISPLAY_FAILED_STDERR"],
        &[("defaults", "display_failed_stderr")],
        "false",
        "Print failures on standard error.",
    ),
    flag(
        "show_per_host_start",
        &["ANSIBLE_SHOW_PER_HOST_START"],
        &[("defaults", "show_per_host_start")],
        "false",
        "Report when a task starts on a host.",
    ),
    flag(
        "check_mode_markers",
        &["ANSIBLE_CHECK_MODE_MARKERS"],
        &[("defaults", "check_mode_markers")],
        "false",
        "Mark plays and tasks in check mode, and print a banner at the start and end of a dry run.",
    ),
    flag(
        "show_task_path_on_failure",
        &["ANSIBLE_SHOW_TASK_PATH_ON_FAILURE"],
        &[("defaults", "show_task_path_on_failure")],
        "false",
        "Show the file and line of failed tasks.",
    ),
];

/// The statistics of `set_stats`.
pub(crate) const SHOW_CUSTOM_STATS: &[CallbackOption] = &[flag(
    "show_custom_stats",
    &["ANSIBLE_SHOW_CUSTOM_STATS"],
    &[("defaults", "show_custom_stats")],
    "false",
    "Show statistics of set_stats after the recap.",
)];

/// The form of results.
pub(crate) const RESULT_FORMAT: &[CallbackOption] = &[
    CallbackOption {
        name: "result_format",
        kind: "str",
        default: Some("json"),
        env: &["ANSIBLE_CALLBACK_RESULT_FORMAT"],
        ini: &[("defaults", "callback_result_format")],
        doc: "Format of results: json or yaml.",
    },
    CallbackOption {
        name: "pretty_results",
        kind: "bool",
        default: None,
        env: &["ANSIBLE_CALLBACK_FORMAT_PRETTY"],
        ini: &[("defaults", "callback_format_pretty")],
        doc: "Print results over several lines, and YAML in a readable rather than exact form.",
    },
];

/// Settings of the callback `json`.
pub(crate) const JSON: &[CallbackOption] = &[json_indent("4")];

/// Settings of the callback `jsonl`.
pub(crate) const JSONL: &[CallbackOption] = &[json_indent("0")];

const fn json_indent(default: &'static str) -> CallbackOption {
    CallbackOption {
        name: "json_indent",
        kind: "int",
        default: Some(default),
        env: &["ANSIBLE_JSON_INDENT"],
        ini: &[("defaults", "json_indent")],
        doc: "Number of blanks per level; 0 prints one line.",
    }
}

const fn of_junit(
    name: &'static str,
    kind: &'static str,
    default: Option<&'static str>,
    env: &'static [&'static str],
    doc: &'static str,
) -> CallbackOption {
    CallbackOption { name, kind, default, env, ini: &[], doc }
}

/// Settings of the callback `junit`.
pub(crate) const JUNIT: &[CallbackOption] = &[
    of_junit("output_dir", "path", Some("~/.ansible.log"), &["JUNIT_OUTPUT_DIR"], "Directory of the files."),
    of_junit("task_class", "bool", Some("false"), &["JUNIT_TASK_CLASS"], "Use one class for each task file."),
    of_junit(
        "task_relative_path",
        "path",
        None,
        &["JUNIT_TASK_RELATIVE_PATH"],
        "Directory that paths of tasks are relative to.",
    ),
    of_junit(
        "replace_out_of_tree_path",
        "path",
        None,
        &["JUNIT_REPLACE_OUT_OF_TREE_PATH"],
        "Replacement for the directory of tasks outside of task_relative_path.",
    ),
    of_junit("fail_on_change", "bool", Some("false"), &["JUNIT_FAIL_ON_CHANGE"], "Report changed tasks as failed."),
    of_junit(
        "fail_on_ignore",
        "bool",
        Some("false"),
        &["JUNIT_FAIL_ON_IGNORE"],
        "Report ignored failures as failures.",
    ),
    of_junit(
        "include_setup_tasks_in_report",
        "bool",
        Some("true"),
        &["JUNIT_INCLUDE_SETUP_TASKS_IN_REPORT"],
        "Include tasks that gather facts.",
    ),
    of_junit(
        "hide_task_arguments",
        "bool",
        Some("false"),
        &["JUNIT_HIDE_TASK_ARGUMENTS"],
        "Omit arguments from task names.",
    ),
    of_junit(
        "test_case_prefix",
        "str",
        Some(""),
        &["JUNIT_TEST_CASE_PREFIX"],
        "Include only tasks whose names start with this text, and failed tasks.",
    ),
];

/// Settings of the callback `profile_tasks`.
pub(crate) const PROFILE_TASKS: &[CallbackOption] = &[
    CallbackOption {
        name: "output_limit",
        kind: "str",
        default: Some("20"),
        env: &["PROFILE_TASKS_TASK_OUTPUT_LIMIT"],
        ini: &[("callback_profile_tasks", "task_output_limit")],
        doc: "Number of tasks in the summary, or `all`.",
    },
    CallbackOption {
        name: "sort_order",
        kind: "str",
        default: Some("descending"),
        env: &["PROFILE_TASKS_SORT_ORDER"],
        ini: &[("callback_profile_tasks", "sort_order")],
        doc: "Order of the summary: descending, ascending or none.",
    },
    CallbackOption {
        name: "summary_only",
        kind: "bool",
        default: Some("false"),
        env: &["PROFILE_TASKS_SUMMARY_ONLY"],
        ini: &[("callback_profile_tasks", "summary_only")],
        doc: "Show only the summary.",
    },
];

/// Settings of the callback `profile_roles`.
pub(crate) const PROFILE_ROLES: &[CallbackOption] = &[CallbackOption {
    name: "summary_only",
    kind: "bool",
    default: Some("false"),
    env: &["PROFILE_ROLES_SUMMARY_ONLY"],
    ini: &[("callback_profile_roles", "summary_only")],
    doc: "Show only the summary.",
}];

/// Settings of the callback `tree`.
pub(crate) const TREE: &[CallbackOption] = &[CallbackOption {
    name: "directory",
    kind: "path",
    default: Some("~/.ansible/tree"),
    env: &["ANSIBLE_CALLBACK_TREE_DIR"],
    ini: &[("callback_tree", "directory")],
    doc: "Directory of the files.",
}];
