/// What a module is called, takes and returns. Coercion, argument errors, documentation and completion are all read from here.
#[derive(Debug)]
pub struct Spec {
    /// The short name, such as `copy`.
    pub name: &'static str,
    /// The collection, such as `ansible.builtin`.
    pub collection: &'static str,
    /// Other fully qualified or short names it answers to.
    pub aliases: &'static [&'static str],
    /// One line for lists.
    pub summary: &'static str,
    /// Paragraphs for `windlass doc`.
    pub description: &'static [&'static str],
    /// The options, in the order they are documented.
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
    /// What is said when a required option is missing, if Ansible says it in words of its own.
    pub missing: Option<&'static str>,
    /// The option that takes the free text of `module: text`, if the module has one.
    pub free_form: Option<&'static str>,
    /// What options of other names are, if they are taken too: the facts of `set_fact`, for one.
    pub others: Option<&'static str>,
    /// An action that refuses options it does not know in words of its own, all of them at once.
    pub lists_unknown: bool,
    /// What the module does in check mode.
    pub check: Check,
    /// Tasks, as YAML.
    pub examples: &'static str,
    /// What it returns beyond the keys every module returns.
    pub returns: &'static [Return],
}

impl Spec {
    /// A spec with nothing set, to be completed with `..Spec::EMPTY`.
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

    /// What it is called in sentences about its arguments: what the task calls it, or its full name. Ansible's own modules that have an action
    /// are called there as the action calls them.
    pub fn called(&self, written: Option<&str>) -> String {
        const WITH_ACTION: [&str; 9] =
            ["assemble", "async_status", "command", "copy", "dnf", "service", "shell", "unarchive", "uri"];
        match self.collection == "ansible.builtin" && WITH_ACTION.contains(&self.name) {
            true => format!("ansible.legacy.{}", self.name),
            false => written.map_or_else(|| format!("{}.{}", self.collection, self.name), str::to_owned),
        }
    }

    /// The names it answers to, fully qualified: its own first.
    pub fn full_names(&self) -> impl Iterator<Item = String> {
        std::iter::once(&self.name).chain(self.aliases).map(|name| match name.contains('.') {
            true => (*name).to_owned(),
            false => format!("{}.{name}", self.collection),
        })
    }

    /// Every name it answers to, short and fully qualified, as [`Spec::answers_to`] has it.
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

    /// Whether the module answers to this name: short, `ansible.builtin.`, `ansible.legacy.` or its own collection's.
    pub fn answers_to(&self, name: &str) -> bool {
        if self.name == name || self.aliases.contains(&name) {
            return true;
        }
        let Some((collection, short)) = name.rsplit_once('.') else { return false };
        let ours =
            collection == self.collection || (collection == "ansible.legacy" && self.collection == "ansible.builtin");
        ours && (short == self.name || self.aliases.contains(&short))
    }

    /// Whether other options are needed with some values of this one.
    pub fn decides(&self, name: &str) -> bool {
        self.required_if.iter().chain(self.required_if_any).any(|(option, _, _)| *option == name)
    }

    /// The option that answers to this name, by its own name or an alias.
    pub fn option(&self, name: &str) -> Option<&'static Opt> {
        self.options.iter().find(|option| option.name == name || option.aliases.contains(&name))
    }
}

/// How far a module goes in check mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// It predicts exactly.
    Full,
    /// It predicts in some cases and is skipped in others (such as `command` with `creates`).
    Partial,
    /// It is skipped.
    None,
}

/// One option of a module.
#[derive(Debug, Clone, Copy)]
pub struct Opt {
    /// Its name.
    pub name: &'static str,
    /// Other names it answers to.
    pub aliases: &'static [&'static str],
    /// Its type; arguments are coerced to it.
    pub kind: Kind,
    /// Whether it must be given.
    pub required: bool,
    /// Its default, as JSON text.
    pub default: Option<&'static str>,
    /// The values it may have; all if empty.
    pub choices: &'static [&'static str],
    /// Whether its value is a secret.
    pub no_log: bool,
    /// Whether its text may be an address with a password in it.
    pub address: bool,
    /// Restriction on its text.
    pub form: Form,
    /// The options inside a [`Kind::Dict`] or a list of them; any if empty.
    pub options: &'static [Opt],
    /// What it means.
    pub doc: &'static str,
}

impl Opt {
    /// An optional option.
    pub const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Opt {
        Opt {
            name,
            kind,
            doc,
            aliases: &[],
            required: false,
            default: None,
            choices: &[],
            no_log: false,
            address: false,
            form: Form::Free,
            options: &[],
        }
    }

    /// An option that must be given.
    pub const fn required(name: &'static str, kind: Kind, doc: &'static str) -> Opt {
        Opt { required: true, ..Opt::new(name, kind, doc) }
    }

    /// With these other names.
    pub const fn aliases(self, aliases: &'static [&'static str]) -> Opt {
        Opt { aliases, ..self }
    }

    /// With a default, written as JSON.
    pub const fn default(self, json: &'static str) -> Opt {
        Opt { default: Some(json), ..self }
    }

    /// With these values only.
    pub const fn choices(self, choices: &'static [&'static str]) -> Opt {
        Opt { choices, ..self }
    }

    /// With these options inside.
    pub const fn options(self, options: &'static [Opt]) -> Opt {
        Opt { options, ..self }
    }

    /// A word of a command: it must not begin with `-`, or the program would take it for an option.
    pub const fn word(self) -> Opt {
        Opt { form: Form::Word, ..self }
    }

    /// A part of a line of a file or of a program's input: it must not hold the end of a line, or it would be two.
    pub const fn line(self) -> Opt {
        Opt { form: Form::Line, ..self }
    }

    /// An address, or a text with addresses: passwords in it are masked wherever they would be shown.
    pub const fn address(self) -> Opt {
        Opt { address: true, ..self }
    }

    /// A secret, which is masked wherever it would be shown.
    pub const fn secret(self) -> Opt {
        Opt { no_log: true, ..self }
    }
}

/// Syntactic role of an option's text, which restricts its characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Any text.
    Free,
    /// A word of a command that is no option and holds no line break.
    Word,
    /// A part of one line.
    Line,
}

impl Form {
    /// Violation of this form by a text; `None` if there is none.
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

/// The type of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text; numbers and booleans are written out.
    Str,
    /// An integer.
    Int,
    /// A number.
    Float,
    /// A boolean: `yes`, `on`, `1`, `true`, `y`, `t` and their opposites.
    Bool,
    /// A path: `~` and `$VARIABLE` are expanded on the host.
    Path,
    /// A list; a text is split at commas, a single value becomes a list of one.
    List(&'static Kind),
    /// A mapping; a text is read as JSON or `key=value`.
    Dict,
    /// A size in bytes such as `10M`, kept as an integer.
    Bytes,
    /// A JSON text; structures are written as JSON.
    Json,
    /// Anything, as it is.
    Raw,
}

impl Kind {
    /// What Ansible calls the type.
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

/// One key of a result.
#[derive(Debug)]
pub struct Return {
    /// The key.
    pub name: &'static str,
    /// Its type in words.
    pub kind: &'static str,
    /// When it is there.
    pub when: &'static str,
    /// What it means.
    pub doc: &'static str,
}
