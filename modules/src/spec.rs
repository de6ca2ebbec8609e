//! Declaration of a module: names, options and results. Checks, documentation, schemas and completion derive from it.
//!
//! Executors are built without the documentation, which nothing on a host shows.

/// Whether this program shows documentation.
const DOCS: bool = cfg!(feature = "docs");

/// Name, options and results of a module. Coercion, argument errors, documentation and completion are derived from it.
#[derive(Debug)]
pub struct Spec {
    /// Short name, such as `copy`.
    pub name: &'static str,
    /// Collection, such as `ansible.builtin`.
    pub collection: &'static str,
    /// Aliases, fully qualified or short.
    pub aliases: &'static [&'static str],
    /// One line for lists.
    pub summary: &'static str,
    /// Paragraphs for `windlass doc`.
    pub description: &'static [&'static str],
    /// Options, in the order of the documentation.
    pub options: &'static [Opt],
    /// Sets of options of which at most one may be given.
    pub mutually_exclusive: &'static [&'static [&'static str]],
    /// Sets of options that must be given together.
    pub required_together: &'static [&'static [&'static str]],
    /// Sets of options of which at least one must be given.
    pub required_one_of: &'static [&'static [&'static str]],
    /// `(option, value, needed)`: when the option has the value, the others must be given.
    pub required_if: &'static [(&'static str, &'static str, &'static [&'static str])],
    /// `(option, value, needed)`: when the option has the value, one of the others must be given.
    pub required_if_any: &'static [(&'static str, &'static str, &'static [&'static str])],
    /// `(option, needed)`: when the option is given, the others must be too.
    pub required_by: &'static [(&'static str, &'static [&'static str])],
    /// Message for a missing required option, if Ansible has a special one.
    pub missing: Option<&'static str>,
    /// The option that takes the free text of `module: text`, if any.
    pub free_form: Option<&'static str>,
    /// Description of arbitrary further options, such as the facts of `set_fact`; `None` if they are rejected.
    pub others: Option<&'static str>,
    /// Whether all unknown options are reported together, as some of Ansible's actions do.
    pub lists_unknown: bool,
    /// Support for check mode.
    pub check: Check,
    /// Example tasks as YAML.
    pub examples: &'static str,
    /// Result keys beyond the common ones.
    pub returns: &'static [Return],
}

impl Spec {
    /// A spec without values, for `..Spec::EMPTY`.
    pub const EMPTY: Spec = Spec {
        name: "",
        collection: "ansible.builtin",
        aliases: &[],
        summary: "",
        description: &[],
        options: &[],
        mutually_exclusive: &[],
        required_together: &[],
        required_one_of: &[],
        required_if: &[],
        required_if_any: &[],
        required_by: &[],
        missing: None,
        free_form: None,
        others: None,
        lists_unknown: false,
        check: Check::Full,
        examples: "",
        returns: &[],
    };

    /// The spec with its documentation, or without it in an executor.
    pub const fn compiled(self) -> Spec {
        match DOCS {
            true => self,
            false => Spec { summary: "", description: &[], examples: "", returns: &[], ..self },
        }
    }

    /// Name of the module in argument errors: as the task calls it, otherwise its full name. Ansible's own modules with
    /// an action are named as the action calls them.
    pub fn called(&self, written: Option<&str>) -> String {
        const WITH_ACTION: [&str; 9] =
            ["assemble", "async_status", "command", "copy", "dnf", "service", "shell", "unarchive", "uri"];
        match self.collection == "ansible.builtin" && WITH_ACTION.contains(&self.name) {
            true => format!("ansible.legacy.{}", self.name),
            false => written.map_or_else(|| format!("{}.{}", self.collection, self.name), str::to_owned),
        }
    }

    /// Fully qualified names, the module's own first.
    pub fn full_names(&self) -> impl Iterator<Item = String> {
        std::iter::once(&self.name).chain(self.aliases).map(|name| match name.contains('.') {
            true => (*name).to_owned(),
            false => format!("{}.{name}", self.collection),
        })
    }

    /// All names, short and fully qualified, as in [`Spec::answers_to`].
    pub fn all_names(&self) -> Vec<String> {
        let own = || std::iter::once(&self.name).chain(self.aliases);
        let mut collections = vec![self.collection];
        if self.collection == "ansible.builtin" {
            collections.push("ansible.legacy");
        }
        let qualified = collections.iter().flat_map(|collection| {
            own().filter(|name| !name.contains('.')).map(move |name| format!("{collection}.{name}"))
        });
        own().map(|name| (*name).to_owned()).chain(qualified).collect()
    }

    /// Whether the module has this name: short, `ansible.builtin.`, `ansible.legacy.` or its own collection's.
    pub fn answers_to(&self, name: &str) -> bool {
        if self.name == name || self.aliases.contains(&name) {
            return true;
        }
        let Some((collection, short)) = name.rsplit_once('.') else { return false };
        let ours =
            collection == self.collection || (collection == "ansible.legacy" && self.collection == "ansible.builtin");
        ours && (short == self.name || self.aliases.contains(&short))
    }

    /// Whether some values of this option require other options.
    pub fn decides(&self, name: &str) -> bool {
        self.required_if.iter().chain(self.required_if_any).any(|(option, _, _)| *option == name)
    }

    /// The option with this name or alias.
    pub fn option(&self, name: &str) -> Option<&'static Opt> {
        self.options.iter().find(|option| option.is_called(name))
    }
}

/// A module's support for check mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Predicts exactly.
    Full,
    /// Predicts in some cases and is skipped in others (such as `command` with `creates`).
    Partial,
    /// Skipped.
    None,
}

/// One option of a module.
#[derive(Debug, Clone, Copy)]
pub struct Opt {
    /// Name of the option.
    pub name: &'static str,
    /// Aliases of the option.
    pub aliases: &'static [&'static str],
    /// Type to which arguments are coerced.
    pub kind: Kind,
    /// Whether the option must be given.
    pub required: bool,
    /// Default, as JSON text.
    pub default: Option<&'static str>,
    /// Permitted values; empty permits all.
    pub choices: &'static [&'static str],
    /// Whether the value is secret.
    pub no_log: bool,
    /// Whether a text is the path of a file with the value. A path is not a secret.
    pub may_be_path: bool,
    /// Whether the text may be an address that contains a password.
    pub address: bool,
    /// Restriction on the text.
    pub form: Form,
    /// Suboptions of a [`Kind::Dict`] or of a list of them; empty permits any.
    pub options: &'static [Opt],
    /// Meaning of the option, for the documentation.
    pub doc: &'static str,
}

impl Opt {
    /// Whether the option has this name or alias.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// An optional option.
    pub const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Opt {
        Opt {
            name,
            kind,
            doc: if DOCS { doc } else { "" },
            aliases: &[],
            required: false,
            default: None,
            choices: &[],
            no_log: false,
            may_be_path: false,
            address: false,
            form: Form::Free,
            options: &[],
        }
    }

    /// A required option.
    pub const fn required(name: &'static str, kind: Kind, doc: &'static str) -> Opt {
        Opt { required: true, ..Opt::new(name, kind, doc) }
    }

    /// Sets the aliases.
    pub const fn aliases(self, aliases: &'static [&'static str]) -> Opt {
        Opt { aliases, ..self }
    }

    /// Sets the default, written as JSON.
    pub const fn default(self, json: &'static str) -> Opt {
        Opt { default: Some(json), ..self }
    }

    /// Restricts the values.
    pub const fn choices(self, choices: &'static [&'static str]) -> Opt {
        Opt { choices, ..self }
    }

    /// Sets the suboptions.
    pub const fn options(self, options: &'static [Opt]) -> Opt {
        Opt { options, ..self }
    }

    /// Marks a word of a command, which must not begin with `-`: the program would take it for an option.
    pub const fn word(self) -> Opt {
        Opt { form: Form::Word, ..self }
    }

    /// Marks a part of a line in a file or in a program's input, which must not contain a line ending.
    pub const fn line(self) -> Opt {
        Opt { form: Form::Line, ..self }
    }

    /// Marks an address, or a text with addresses. Passwords in it are masked in all output.
    pub const fn address(self) -> Opt {
        Opt { address: true, ..self }
    }

    /// Marks a secret, which is masked in all output.
    pub const fn secret(self) -> Opt {
        Opt { no_log: true, ..self }
    }

    /// Marks a value that is secret if it is a mapping. A text is the path of a file with the content.
    pub const fn secret_unless_path(self) -> Opt {
        Opt { no_log: true, may_be_path: true, ..self }
    }

    /// Whether a value of it is secret.
    pub(crate) fn hides(&self, value: &serde_json::Value) -> bool {
        self.no_log && !(self.may_be_path && value.is_string())
    }
}

/// Syntactic role of an option's text, which restricts its characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Any text.
    Free,
    /// A word of a command: not an option, and without a line break.
    Word,
    /// Part of a single line.
    Line,
}

impl Form {
    /// Violation of this form by a text; `None` if the text is valid.
    pub(crate) fn fault_of(self, text: &str) -> Option<&'static str> {
        match self {
            Form::Free => None,
            _ if text.contains(['\n', '\r', '\0']) => Some("must be one line, without line breaks"),
            Form::Word if text.starts_with('-') => {
                Some("must not begin with '-', which would make it an option of the program")
            }
            _ => None,
        }
    }
}

/// Type of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text; numbers and booleans are converted.
    Str,
    /// An integer.
    Int,
    /// A number.
    Float,
    /// A boolean: `yes`, `on`, `1`, `true`, `y`, `t` and their opposites.
    Bool,
    /// A path: `~` and `$VARIABLE` are expanded on the host.
    Path,
    /// A list; a text is split at commas, and a single value becomes a list of one.
    List(&'static Kind),
    /// A mapping; a text is parsed as JSON or `key=value`.
    Dict,
    /// A size such as `10M`, converted to bytes.
    Bytes,
    /// JSON text; structures are serialised.
    Json,
    /// Any value, unchanged.
    Raw,
}

impl Kind {
    /// Ansible's name of the type.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Str => "str",
            Kind::Int => "int",
            Kind::Float => "float",
            Kind::Bool => "bool",
            Kind::Path => "path",
            Kind::List(_) => "list",
            Kind::Dict => "dict",
            Kind::Bytes => "bytes",
            Kind::Json => "json",
            Kind::Raw => "raw",
        }
    }
}

/// A documented key of a result.
#[derive(Debug)]
pub struct Return {
    /// Name of the key.
    pub name: &'static str,
    /// Type of the value, in words.
    pub kind: &'static str,
    /// Condition under which the key is present.
    pub when: &'static str,
    /// Meaning of the value, for the documentation.
    pub doc: &'static str,
}
