//! The object of a playbook that a cursor is in.

use windlass_modules::{Opt, Spec};

use super::outline::{Cursor, Step, entries};
use super::text::Lines;
use crate::builtin;
use crate::lint::Kind;
use crate::playbook::On;

/// Sections of plays that hold tasks.
const SECTIONS: [&str; 3] = ["pre_tasks", "tasks", "post_tasks"];

/// Keys of `loop_control` with their meanings.
pub(super) const LOOP_CONTROL: [(&str, &str); 8] = [
    ("loop_var", "Name of the variable that holds the item; `item` by default."),
    ("index_var", "Name of a variable that holds the number of the item, from 0."),
    ("label", "Text that the output shows in place of the item."),
    ("parallel", "Maximum number of items that run at once on a host. Only Windlass has it."),
    ("pause", "Seconds to wait between items."),
    ("extended", "Whether `ansible_loop` describes the loop."),
    ("extended_allitems", "Whether `ansible_loop.allitems` holds all items."),
    ("break_when", "Conditions that end the loop after an item."),
];

/// An object with keys.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope<'t> {
    /// A list of plays.
    Plays,
    /// A list of tasks or handlers.
    Tasks(On),
    /// A list of plays or tasks in a file that could be either.
    Either,
    /// A play, task or handler.
    On(On),
    /// A play or a task.
    PlayOrTask,
    /// A list of roles.
    Roles,
    /// `loop_control`.
    LoopControl,
    /// `module_defaults`.
    Defaults,
    /// Options of a module, or of one of its options.
    Options(&'static Spec, &'static [Opt]),
    /// Variables of a file.
    Variables,
    /// The value of a key of a play, task or role entry.
    ValueOf(&'t str, On),
    /// `meta/main.yml`.
    Meta,
    /// Anything else.
    Other,
}

impl<'t> Scope<'t> {
    /// The object whose keys surround the cursor.
    pub(super) fn of(kind: Option<Kind>, lines: &Lines<'t>, cursor: &Cursor<'t>) -> Scope<'t> {
        let mut scope = match kind {
            Some(Kind::Playbook) => Scope::Plays,
            Some(Kind::Tasks) => Scope::Tasks(On::Task),
            Some(Kind::Handlers) => Scope::Tasks(On::Handler),
            Some(Kind::Meta) => Scope::Meta,
            Some(Kind::RoleVars | Kind::Vars) => Scope::Variables,
            Some(Kind::Template | Kind::Text | Kind::ArgumentSpecs) => Scope::Other,
            Some(Kind::OtherYaml) | None => Scope::Either,
        };
        let mut item = (0, 0);
        for step in &cursor.path {
            scope = match step {
                Step::Item(row, column) => {
                    item = (*row, *column);
                    scope.item()
                }
                Step::Key(key, ..) => scope.key(key, || entries(lines, item.0, item.1)),
            };
        }
        scope
    }

    fn item(self) -> Scope<'t> {
        match self {
            Scope::Plays => Scope::On(On::Play),
            Scope::Tasks(on) => Scope::On(on),
            Scope::Either => Scope::PlayOrTask,
            Scope::Roles => Scope::On(On::Role),
            // A list of mappings, such as the rules of a firewall.
            Scope::Options(..) | Scope::ValueOf(..) => self,
            _ => Scope::Other,
        }
    }

    fn key(self, key: &'t str, neighbours: impl Fn() -> Vec<(&'t str, &'t str)>) -> Scope<'t> {
        match self {
            Scope::On(On::Play | On::Import) => of_play(key),
            Scope::On(on @ (On::Task | On::Handler | On::Block)) => of_task(key, on, neighbours),
            Scope::On(On::Role) => Scope::ValueOf(key, On::Role),
            Scope::PlayOrTask => match of_play(key) {
                Scope::ValueOf(..) => of_task(key, On::Task, neighbours),
                scope => scope,
            },
            Scope::Meta if key == "dependencies" => Scope::Roles,
            Scope::Defaults => builtin::spec(key).map_or(Scope::Other, |spec| Scope::Options(spec, spec.options)),
            Scope::Options(spec, options) => {
                let option = options.iter().find(|option| option.is_called(key));
                option.map_or(Scope::Other, |option| Scope::Options(spec, option.options))
            }
            _ => Scope::Other,
        }
    }
}

fn of_play(key: &str) -> Scope<'_> {
    match key {
        "handlers" => Scope::Tasks(On::Handler),
        "roles" => Scope::Roles,
        "module_defaults" => Scope::Defaults,
        key if SECTIONS.contains(&key) => Scope::Tasks(On::Task),
        key => Scope::ValueOf(key, On::Play),
    }
}

fn of_task<'t>(key: &'t str, on: On, neighbours: impl Fn() -> Vec<(&'t str, &'t str)>) -> Scope<'t> {
    let options = |spec: Option<&'static Spec>| spec.map(|spec| Scope::Options(spec, spec.options));
    match key {
        "block" | "rescue" | "always" => Scope::Tasks(on),
        "loop_control" => Scope::LoopControl,
        "module_defaults" => Scope::Defaults,
        "args" => options(module_of(&neighbours())).unwrap_or(Scope::Other),
        key => options(as_module(key)).unwrap_or(Scope::ValueOf(key, on)),
    }
}

/// The module that a key of a task names. A keyword never names one, although a module may have the same name.
fn as_module(key: &str) -> Option<&'static Spec> {
    builtin::spec(key).filter(|_| !crate::playbook::keyword::is_keyword(key, On::Task))
}

/// The module of a task with these keys.
pub(super) fn module_of(entries: &[(&str, &str)]) -> Option<&'static Spec> {
    let named = entries.iter().find(|(key, _)| matches!(*key, "action" | "local_action"));
    let word = named.and_then(|(_, value)| value.split_whitespace().next());
    word.and_then(builtin::spec).or_else(|| entries.iter().find_map(|(key, _)| as_module(key)))
}
