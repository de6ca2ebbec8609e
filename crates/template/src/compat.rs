//! Everything that `--compat 2.18` changes, as one list.
//!
//! Code that differs between versions of ansible-core asks a method of [`Compat`] and never compares versions. A search
//! for the method finds the code.

/// Version of ansible-core to follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compat {
    /// ansible-core 2.18 and earlier.
    V2_18,
    /// ansible-core 2.19 and later.
    #[default]
    V2_19,
}

impl Compat {
    /// Version with this name, such as `2.18`.
    pub fn named(name: &str) -> Option<Compat> {
        match name {
            "2.18" => Some(Compat::V2_18),
            "2.19" => Some(Compat::V2_19),
            _ => None,
        }
    }
}

/// Defines methods that hold for ansible-core 2.18 and no longer for 2.19.
macro_rules! until_2_18 {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        impl Compat {$(
            $(#[doc = $doc])+
            pub fn $name(self) -> bool {
                self == Compat::V2_18
            }
        )+}
    };
}

// Types of results.
until_2_18! {
    /// Templates yield text, and text that looks like a list, dict or boolean becomes one.
    renders_to_text,
    /// The lookup `template` converts text that looks like a list or dict (`convert_data`).
    converts_template_lookups,
    /// `set_fact` turns `yes`, `no`, `true` and `false` into booleans.
    converts_words_of_set_fact,
    /// The filter `bool` returns none for none.
    keeps_none_as_bool,
    /// Tuples inside text keep their parentheses; later they print as lists.
    prints_tuples,
    /// `copy` escapes other characters than ASCII when it writes `content` as JSON.
    escapes_copied_json,
    /// A null `content` of `copy` is an empty text.
    copies_null_as_empty_text,
    /// `started` and `finished` of a background job are numbers.
    counts_job_states,
    /// The filter `vault` can return an object that prints its plain text (`wrap_object`).
    wraps_vaulted_text,
    /// `type_debug` distinguishes text of the project, of templates and from outside.
    traces_origins,
    /// `__class__` is readable; later Jinja's sandbox refuses it.
    has_class_attribute,
}

// Undefined values.
until_2_18! {
    /// A variable that contains an undefined value is undefined as a whole, for filters such as `default`.
    is_undefined_with_any_part,
    /// Tests for types, such as `string` and `mapping`, are false for an undefined value.
    tests_types_of_undefined,
    /// `%` and the filter `format` show undefined values by their representation.
    formats_undefined,
    /// A macro that prints an undefined value fails; later its result is undefined.
    fails_at_undefined_output,
    /// `hostvars` shows a text that needs something undefined as written.
    keeps_undefined_in_hostvars,
}

// Templates and their files.
until_2_18! {
    /// Where an expression is expected, a template stands for its value, or for the path of a variable.
    evaluates_templates_as_expressions,
    /// `vars` holds templates as written.
    keeps_templates_in_vars,
    /// The name of a task stays as written if any part fails; later only the failed parts do.
    keeps_failing_names_whole,
    /// Unknown options of a header `#jinja2:` only warn, and values are not checked.
    accepts_any_header,
    /// A template file has its newlines normalized, even if nothing in it is evaluated.
    normalizes_plain_files,
    /// A header's `newline_sequence` applies to the newlines restored at the end of the text.
    restores_newlines_of_header,
    /// Newlines at the end of a template file are restored, even if nothing was printed.
    restores_newlines_of_nothing,
    /// The lookup `template` has no `trim_blocks`.
    lacks_trim_blocks_of_lookup,
    /// Expressions of inventory plugins are rendered like templates.
    renders_inventory_expressions,
}

// Conditions.
until_2_18! {
    /// A condition may have any value, whose truth counts as in Python.
    takes_any_truth,
    /// A condition may be text that a template yields; only `False` and the empty text are false.
    takes_text_of_templates,
    /// Templates inside conditions are rendered before the condition is evaluated.
    renders_templates_in_conditions,
    /// Delimiters of templates in conditions cause a warning.
    warns_of_delimiters_in_conditions,
    /// `assert` renders `that` before it evaluates its conditions.
    renders_assertions,
}

// Plays, tasks and loops.
until_2_18! {
    /// A play without a name is called by its list of `hosts`, rendered as a template.
    renders_names_of_host_lists,
    /// Handlers run whatever tags are skipped.
    flushes_despite_tags,
    /// An item whose arguments cannot be evaluated ends the whole loop.
    ends_loops_at_failing_items,
    /// `with_items` of a mapping loops over its keys.
    loops_over_keys,
    /// `var` of `debug` is rendered as a template unless it is one.
    renders_debug_var,
    /// Null is not a valid text for an argument of a role.
    refuses_null_arguments,
    /// `omit` is an ordinary name for a variable.
    allows_variable_omit,
    /// Files of cached facts hold plain JSON, and their names have no version.
    caches_plain_facts,
}

// Results and messages that playbooks compare.
until_2_18! {
    /// Errors of templates have the sentences of ansible-core 2.18.
    words_template_errors,
    /// `msg` is the sentence of the filter or lookup that failed, and nothing else.
    fails_with_bare_sentences,
    /// `msg` about an undefined variable says that an option of the task includes it.
    names_undefined_options,
    /// A result of an undefined variable, or of an include that cannot be evaluated, has no `changed`.
    lacks_changed_when_undefined,
    /// Wrong arguments of a role are reported with Python's class, as in `<class 'int'>`.
    names_classes_of_arguments,
    /// Warnings about reserved names have no position.
    warns_of_reserved_names_only,
}

// Output of the commands.
until_2_18! {
    /// Errors that end a run begin with `ERROR!` instead of `[ERROR]:`.
    prefixes_errors_plainly,
    /// Failed tasks are not shown with their position, unless `msg` alone is not enough to find the mistake.
    hides_positions,
    /// A censored loop is shown like a task without one.
    shows_censored_loops_as_tasks,
    /// The label of a censored item is `None`.
    labels_censored_items_none,
    /// `inventory --list` names no profile.
    lists_inventory_without_profile,
    /// `config dump` shows the options of a Galaxy server as tuples, without `client_secret`.
    dumps_servers_as_tuples,
}
