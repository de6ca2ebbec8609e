//! Table of all rules.

use clap::ValueEnum;
use serde::Serialize;

/// Severity of a finding, ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Style, or something worth knowing.
    Info,
    /// A likely mistake, or a risk.
    Warning,
    /// Something that would fail.
    Error,
}

impl Severity {
    /// Name in output.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Name, in kebab-case.
    pub id: &'static str,
    /// Usual severity of a finding.
    pub severity: Severity,
    /// Whether `--fix` corrects all or some findings.
    pub fixable: bool,
    /// Names of the same rule in ansible-lint, accepted in comments and options.
    pub aliases: &'static [&'static str],
    /// One line for lists.
    pub summary: &'static str,
    /// Paragraph for `--explain` and the documentation.
    pub doc: &'static str,
}

macro_rules! rules {
    ($($name:ident: $id:literal, $severity:ident, $fixable:literal, [$($alias:literal),*], $summary:literal, $doc:literal;)*) => {
        $(
            #[doc = $summary]
            pub(super) static $name: Rule = Rule {
                id: $id,
                severity: Severity::$severity,
                fixable: $fixable,
                aliases: &[$($alias),*],
                summary: $summary,
                doc: $doc,
            };
        )*

        /// All rules, sorted by name.
        pub static RULES: &[&Rule] = &[$(&$name),*];
    };
}

rules! {
    COMMAND_INSTEAD_OF_MODULE: "command-instead-of-module", Warning, false, [],
        "A command that a module can run",
        "A module knows whether something has to change, supports check mode, and reports differences. Only subcommands \
         that a built-in module covers are reported, so `systemctl status` and `git log` are not.";
    COMMAND_INSTEAD_OF_SHELL: "command-instead-of-shell", Warning, false, [],
        "`shell` without any feature of a shell",
        "`command` starts the program without a shell, so values from variables cannot become code. Pipes, redirections, \
         variables, wildcards and builtins of the shell need `shell`, and are not reported.";
    COMMAND_SHELL_SYNTAX: "command-shell-syntax", Warning, false, [],
        "Syntax of a shell in `command`",
        "`command` starts a program without a shell, so a pipe, a redirection, `&&` and `||` become its \
         arguments. Only words outside of quotes are reported. `shell` runs them.";
    CONDITIONAL_NOT_BOOLEAN: "conditional-not-boolean", Warning, true, [],
        "A condition whose value is not a boolean",
        "ansible-core 2.19 and Windlass refuse a condition that results in a text, a number, a list or a mapping. Earlier \
         releases, and Windlass with `--compat 2.18`, treat it as true or false. Reported are literals, and filters that \
         never return a boolean, such as `length` and `regex_search`, also behind `and` and `or`. A variable with such a \
         value is not reported. `--fix` appends `> 0` to `length` and `count`.";
    DEPRECATED: "deprecated", Info, false, ["deprecated-local-action", "deprecated-module"],
        "A keyword or action that Ansible replaced",
        "`with_*` loops, `local_action` and `include` have successors. `include` was removed from ansible-core, where it is an \
         error. Windlass runs it, with a warning.";
    DUPLICATE_HOST: "duplicate-host", Warning, false, [],
        "A host that a group of an inventory lists twice",
        "The second line adds nothing but its variables, and is probably another host with a misspelt name. Checked with `-i`, \
         within one file.";
    DUPLICATE_KEY: "duplicate-key", Warning, false, ["yaml[key-duplicates]"],
        "A key that a mapping has twice",
        "Only the last of the two values counts, and nothing reports it when the other is changed.";
    HANDLER_UNKNOWN: "handler-unknown", Error, false, [],
        "A notified handler that no file defines",
        "The task fails when it changes something. Names with templates are compared by their literal parts. If a role of \
         the project is installed elsewhere, its handlers are unknown here, and the finding is a warning.";
    HANDLER_UNUSED: "handler-unused", Warning, false, [],
        "A handler that nothing notifies",
        "No task notifies the handler, neither by name nor by a topic of its `listen`. It never runs.";
    INVENTORY_SYNTAX: "inventory-syntax", Error, false, [],
        "A part of an inventory that cannot be read or has no effect",
        "A run skips a source that cannot be read, and warns. Such a source has an undefined group in `[...:children]`, a \
         line that is neither a host nor a section, or invalid YAML. A part that is only ignored, such as a misspelt `hosts` \
         or the first of two equal keys, is a warning. Checked with `-i`.";
    JINJA_SPACING: "jinja-spacing", Info, true, ["jinja[spacing]"],
        "No space inside of `{{ }}`",
        "One space after `{{` and before `}}` is the usual style. `--fix` inserts it.";
    KEYWORD_VALUE: "keyword-value", Error, false, [],
        "A value that a keyword cannot have",
        "Numbers such as `retries`, `timeout` and `serial`, and choices such as `strategy`, `order` and \
         `debugger`. Names of connection and become plugins are reported if they resemble a usual one. Booleans \
         belong to `syntax-error`.";
    LITERAL_COMPARE: "literal-compare", Warning, true, [],
        "A comparison with `true` or `false`",
        "`x == true` is false for the text `\"true\"` and for `1`, which variables of the command line and of INI \
         inventories often are. `--fix` writes `x | bool` or `not x | bool`.";
    MISSING_COLLECTION: "missing-collection", Info, false, [],
        "A module whose collection is not installed here",
        "Neither the module nor its options could be checked. The finding is reported once for each module.";
    MISSING_FILE: "missing-file", Error, false, [],
        "A file that a playbook or task names and nothing has",
        "Imports, includes, `vars_files`, `include_vars`, and `src` of `copy`, `template` and `script`. The \
         file is looked for where a run does: beside the file, in its role, and beside the project's playbooks. \
         Names with a template and absolute paths are not checked. A missing `src` is a warning, because an \
         earlier task may write it.";
    MISSING_ROLE: "missing-role", Error, false, [],
        "A role that does not exist",
        "The role is neither in the project nor in a directory of `roles_path`. Roles of collections, and roles \
         that a `requirements.yml` lists, are not reported.";
    MISSPELT_CONNECTION: "misspelt-connection", Warning, false, [],
        "A variable whose name resembles one of connections",
        "Nothing reads a variable such as `ansible_hots`, so the host is reached in another way than intended. \
         Facts, variables of plugins, and names that the project uses elsewhere are not reported.";
    MISSPELT_GROUP: "misspelt-group", Warning, false, [],
        "A group whose name resembles a missing one",
        "No play names the group, and plays or files in `group_vars` name another one that the inventory lacks and that is \
         spelt nearly the same, such as `kube_node` for `kube-node`. Names that differ by a number are not reported. Checked \
         with `-i`.";
    MISSPELT_VARIABLE: "misspelt-variable", Warning, false, [],
        "A variable whose name resembles one of a role",
        "An inventory, `group_vars`, `host_vars` or the `vars` of a play, block or task set a variable that nothing in the \
         project uses, and a role of the project defines or documents one that is spelt nearly the same. Variables in the \
         inventory itself are checked with `-i`.";
    MODULE_OPTION: "module-option", Error, false, ["args", "args[module]"],
        "An unknown, missing or invalid option of a module",
        "The options of a task are compared with the module's: names, required options, permitted values and types. \
         Values with templates are skipped. `windlass doc MODULE` lists the options.";
    NAME_CASING: "name-casing", Info, false, ["name[casing]"],
        "A name that begins with a lower-case letter",
        "Names of plays, tasks and handlers are sentences in the output of a run.";
    NAME_MISSING: "name-missing", Info, false, ["name[missing]", "unnamed-task"],
        "A task without a name",
        "The output of a run shows the name of each task, and `--start-at-task` needs it.";
    NO_CHANGED_WHEN: "no-changed-when", Warning, false, [],
        "A command that always counts as a change",
        "Without `changed_when`, `creates` or `removes`, a command reports a change on every run, and notifies handlers each \
         time. Handlers themselves are not reported.";
    NO_LOG_MISSING: "no-log-missing", Warning, false, [],
        "A secret in a command line or a message",
        "The task renders a variable that is named like a secret, such as `db_password`, and neither it nor an enclosing \
         block or play has `no_log`. Each user of the host sees command lines while they run. Values that are encrypted by \
         vault are masked in the output all the same.";
    NOT_PORTABLE: "not-portable", Warning, false, [],
        "A keyword that only Windlass has",
        "`ansible-playbook` refuses a playbook with `loop_control.parallel`, or with a `loop` on a block. A project that must \
         run with both leaves them out.";
    ORPHAN_VARS: "orphan-vars", Warning, false, [],
        "A file of variables of no group or host",
        "A file in `group_vars` or `host_vars` beside the inventory is named like no group or host of it, so \
         nothing reads it. Checked only with `-i`. Beside a playbook, where the file may belong to another \
         inventory, only a name that resembles a known one is reported. Groups that a task adds (`add_host`, \
         `group_by`) count as known.";
    PLAINTEXT_SECRET: "plaintext-secret", Warning, false, ["no-log-password"],
        "A secret written in clear text",
        "An option that the module declares secret has a literal value. Put it in a variable encrypted by `windlass vault`.";
    RISKY_FILE_PERMISSIONS: "risky-file-permissions", Warning, false, [],
        "A new file whose mode depends on the host",
        "Without `mode`, a new file or directory gets its mode from the umask of the session, which differs between hosts.";
    RISKY_OCTAL: "risky-octal", Warning, true, ["yaml[octal-values]"],
        "A mode that is an unquoted number",
        "YAML reads `mode: 644` as the decimal number 644, which is the mode `1204`. `mode: 0644` is read as an octal \
         number by YAML 1.1 only, and is reported as info. `--fix` writes `\"0644\"` for both.";
    ROLE_ARGUMENT: "role-argument", Warning, false, [],
        "A parameter that contradicts a role's argument specification",
        "A role is called with a parameter that neither its `meta/argument_specs.yml` nor its files know, without a required \
         one that no file of the project defines, or with a value that is not among its choices. The last one is an error.";
    SYNTAX_ERROR: "syntax-error", Error, false, ["load-failure", "syntax-check", "parser-error", "schema"],
        "A file with invalid syntax or structure",
        "The file is not valid YAML, or a play, block or task does not have the structure that a run needs. These are the \
         checks of `windlass playbook --syntax-check` that need no other file, and keywords such as `become` whose value \
         is neither true nor false.";
    TEMPLATE_SYNTAX: "template-syntax", Error, false, ["jinja[invalid]"],
        "A template or condition with a syntax error",
        "The text cannot be parsed. It is found everywhere, also in tasks that no host would run.";
    UNDEFINED_VARIABLE: "undefined-variable", Warning, false, [],
        "A variable that nothing defines",
        "A template uses a name that no file of the project defines or documents: variables, facts, results, loop variables, \
         argument specifications, inventory. A name that some template gives a `default` or tests with `is defined` is \
         not reported.";
    UNKNOWN_FILTER: "unknown-filter", Error, false, [],
        "A filter that does not exist",
        "The filter is neither built in nor a plugin of the project. Filters of collections (`a.b.c`) are not reported. It is \
         found everywhere, also behind `false and`.";
    UNKNOWN_GROUP: "unknown-group", Warning, false, [],
        "A host pattern that matches nothing",
        "The play's `hosts` names a group or host that the inventory lacks, so the play has no hosts. Checked only with `-i`. \
         Groups that a task adds (`add_host`, `group_by`) count as known. In `delegate_to`, `groups['NAME']` and \
         `hostvars['NAME']`, a name is reported if it resembles one of the inventory.";
    UNKNOWN_KEYWORD: "unknown-keyword", Error, false, [],
        "A keyword that a play, block or task does not have",
        "Ansible refuses the whole playbook for an unknown keyword.";
    UNKNOWN_LOOKUP: "unknown-lookup", Error, false, [],
        "A lookup that does not exist",
        "The name in `lookup`, `query` or `with_NAME` is neither built in nor a plugin of the project. Lookups \
         of collections (`a.b.c`) are not reported. It is found everywhere, also behind `false and`.";
    UNKNOWN_MODULE: "unknown-module", Error, false, ["syntax-check[unknown-module]"],
        "A module that does not exist",
        "The name is neither built in nor a module of the project. A short name that resembles no known module is a warning: \
         it may belong to a collection that is not installed here.";
    UNKNOWN_TEST: "unknown-test", Error, false, [],
        "A test that does not exist",
        "The word after `is` is neither a built-in test nor a plugin of the project. Tests of collections (`a.b.c`) are not \
         reported.";
    UNUSED_VARIABLE: "unused-variable", Info, false, [],
        "A role's variable that nothing mentions",
        "A variable of a role's `defaults` or `vars` is mentioned nowhere else in the project. A name that could be composed \
         from parts (`prefix_`) is not reported.";
    WHEN_BRACES: "when-braces", Warning, true, ["no-jinja-when"],
        "A condition in `{{ }}`",
        "A condition is an expression already. Delimiters evaluate it twice, which Ansible deprecates. `--fix` removes them \
         if they surround the whole condition.";
    YAML_NUMBER: "yaml-number", Warning, true, ["yaml[octal-values]"],
        "A number that YAML 1.1 and 1.2 read differently",
        "YAML 1.1 reads `0644` as an octal number, `12:30` as 750, and `0o644` as a text; YAML 1.2 reads 644, a \
         text, and an octal number. `--fix` quotes `0o644`, which keeps its value. Modes of files belong to \
         `risky-octal`.";
    YAML_TRUTHY: "yaml-truthy", Info, true, ["yaml[truthy]"],
        "A boolean written as `yes`, `no`, `on` or `off`",
        "YAML 1.1 reads these words as booleans, YAML 1.2 as texts. `true` and `false` mean the same to every reader. `--fix` \
         writes them.";
}

impl Rule {
    /// The rule with this name; ansible-lint's names work too, with or without their part in brackets.
    pub fn named(name: &str) -> Option<&'static Rule> {
        let known = |rule: &&&'static Rule| rule.id == name || rule.aliases.contains(&name);
        RULES.iter().find(known).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_sorted_and_named_once() {
        assert!(RULES.is_sorted_by(|left, right| left.id < right.id));
        for rule in RULES {
            assert!(rule.id.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", rule.id);
            assert_eq!(Rule::named(rule.id), Some(*rule));
        }
    }
}
