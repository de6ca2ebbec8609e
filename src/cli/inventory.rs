//! `windlass inventory`: shows an inventory in the formats of `ansible-inventory`.

use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::path::PathBuf;

use clap::Args;
use windlass_inventory::Inventory;
use windlass_inventory::export::{self, Profile, Variables};

/// Show hosts, groups and variables of an inventory
#[derive(Debug, Args)]
pub(super) struct InventoryArguments {
    /// Print all hosts and groups in the format of an inventory script
    #[arg(long)]
    list: bool,
    /// Print the variables of one host; --limit is ignored
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Print groups and hosts as a tree
    #[arg(long)]
    graph: bool,
    /// Group at the root of the tree
    #[arg(value_name = "GROUP", default_value = "all")]
    group: String,
    /// Print YAML instead of JSON
    #[arg(long, short)]
    yaml: bool,
    /// Print TOML instead of JSON
    #[arg(long, conflicts_with = "yaml")]
    toml: bool,
    /// Add variables to the tree
    #[arg(long)]
    vars: bool,
    /// Keep variables with their groups, so that the output is a valid inventory
    #[arg(long)]
    export: bool,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Reason why the inventory was not shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// No action was selected.
    #[error("No action selected, at least one of --host, --graph or --list needs to be specified.")]
    NoAction,
    /// Several actions were selected.
    #[error("Conflicting options used, only one of --host, --graph or --list can be used at the same time.")]
    SeveralActions,
    /// The host is unknown.
    #[error("You must pass a single valid host to --host parameter: {0}")]
    Host(windlass_inventory::Error),
    /// The group is unknown.
    #[error("Pattern must be valid group name when using --graph: {0}")]
    Graph(windlass_inventory::Error),
    /// The inventory is invalid.
    #[error(transparent)]
    Inventory(#[from] windlass_inventory::Error),
    /// Writing to the file failed.
    #[error("The inventory could not be written to {}: {source}.", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Writing to standard output failed.
    #[error("The inventory could not be written to the standard output: {0}.")]
    Output(io::Error),
}

/// Shows an inventory on `output`, or in the file that the arguments name.
pub(super) fn run(
    arguments: &InventoryArguments,
    inventory: &Inventory,
    profile: Profile,
    output: &mut dyn Write,
) -> Result<(), Error> {
    match usize::from(arguments.list) + usize::from(arguments.graph) + usize::from(arguments.host.is_some()) {
        0 => return Err(Error::NoAction),
        1 => {}
        _ => return Err(Error::SeveralActions),
    }
    let text = show(arguments, inventory, profile)?;
    match &arguments.output {
        Some(path) => crate::replace::output(path, &text).map_err(|source| Error::File { path: path.clone(), source }),
        None => output
            .write_all(text.trim_end_matches('\n').as_bytes())
            .and_then(|()| output.write_all(b"\n"))
            .map_err(Error::Output),
    }
}

fn show(arguments: &InventoryArguments, inventory: &Inventory, profile: Profile) -> Result<String, Error> {
    let variables = if arguments.export { Variables::Own } else { Variables::Merged };
    if arguments.graph {
        let tree = export::graph(inventory, &arguments.group, arguments.vars.then_some(variables));
        return tree.map_err(Error::Graph);
    }
    // ansible-core 2.18 omits keys that are not text; 2.19 converts them.
    let only_text_keys = matches!(profile, Profile::None);
    // Leaked on purpose: freeing every value of a large inventory takes a good part of the short runtime.
    let shown = ManuallyDrop::new(match &arguments.host {
        Some(host) => export::host(inventory, host, variables).map_err(Error::Host)?,
        None if arguments.yaml => export::nested_list(inventory, variables)?,
        None if arguments.toml => export::flat_list(inventory, variables)?,
        None => export::list(inventory, variables, profile)?,
    });
    Ok(match (arguments.yaml, arguments.toml) {
        (true, _) => export::to_yaml(&shown)?,
        (_, true) => export::to_toml(&shown, only_text_keys)?,
        _ => export::to_json(&shown),
    })
}

/// Whether the error lies in an unreadable or undecryptable file rather than the command line.
fn is_of_a_file(error: &windlass_inventory::Error) -> bool {
    use windlass_inventory::Error as Reason;
    matches!(
        error,
        Reason::Read { .. } | Reason::NotText { .. } | Reason::Vault { .. } | Reason::Yaml(_) | Reason::Meaning { .. }
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: InventoryArguments,
    }

    fn shown(words: &[&str]) -> String {
        let command = Command::try_parse_from(std::iter::once(&"inventory").chain(words)).unwrap();
        let (inventory, _) =
            Inventory::load(&["a,b,".to_owned()], &windlass_inventory::LoadOptions::default()).unwrap();
        let mut output = Vec::new();
        run(&command.arguments, &inventory, Profile::default(), &mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn each_action_prints_its_format() {
        assert_eq!(shown(&["--graph"]), "@all:\n  |--@ungrouped:\n  |  |--a\n  |  |--b\n");
        assert_eq!(shown(&["--host", "a"]), "{}\n");
        assert_eq!(
            shown(&["--list", "-y"]),
            "all:\n  children:\n    ungrouped:\n      hosts:\n        a: {}\n        b: {}\n"
        );
        assert!(shown(&["--list"]).contains("\"profile\": \"inventory_legacy\""));
        assert_eq!(shown(&["--list", "--toml"]), "[ungrouped.hosts.a]\n\n[ungrouped.hosts.b]\n");
    }

    #[test]
    fn result_written_to_output_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tree");
        assert_eq!(shown(&["--graph", "ungrouped", "--output", &path.display().to_string()]), "");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "@ungrouped:\n  |--a\n  |--b");
    }
}

/// All arguments of the subcommand.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass inventory -i hosts.yml --graph --vars          # show groups as a tree
  windlass inventory -i hosts.yml --host web1             # show the variables of a host
  windlass inventory -i hosts.yml --list --yaml --export  # convert to YAML")]
pub(super) struct Arguments {
    #[command(flatten)]
    show: InventoryArguments,
    /// Variables: `key=value`, YAML, JSON or @FILE; repeatable
    #[arg(short, long, value_name = "VARS")]
    extra_vars: Vec<String>,
    /// Directory with group_vars and host_vars [default: current directory]
    #[arg(long, value_name = "DIR")]
    playbook_dir: Option<PathBuf>,
    /// Increase verbosity, up to -vvvv
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    inventory: super::options::InventoryOptions,
    #[command(flatten)]
    vault: super::options::VaultOptions,
}

/// Runs the subcommand. A signal while an inventory script runs ends it with a sentence.
pub(super) fn run_verb(arguments: Arguments) -> crate::error::Result<u8> {
    super::session::block_on(async { print(arguments) })
}

fn print(mut arguments: Arguments) -> crate::error::Result<u8> {
    let config = crate::settings::Config::find()?;
    let mut settings = crate::settings::Settings::from_config(&config)?;
    arguments.inventory.apply(&mut settings);
    arguments.show.export |= settings.inventory.export;
    if let Some(dir) = &arguments.playbook_dir {
        settings.playbook_dir.clone_from(dir);
    }
    let secrets = arguments.vault.secrets(&settings)?;
    let files = crate::playbook::Files::new(secrets.clone(), settings.duplicate_keys);
    let extra_vars = super::options::extra_vars(&arguments.extra_vars, &files)?;
    let engine = windlass_template::Engine::new(
        &windlass_template::LIBRARY,
        windlass_template::Options {
            compat: settings.compat,
            playbook_dir: settings.playbook_dir.clone(),
            secrets,
            ..windlass_template::Options::default()
        },
    );
    let printer = crate::output::Printer::plain(crate::output::Secrets::default());
    let mut warn =
        |sentence: String| printer.error_line(&format!("[WARNING]: {sentence}"), crate::settings::Color::Plain);
    if let Some(folder) = arguments.playbook_dir.as_ref().filter(|folder| !folder.is_dir()) {
        warn(format!("Ignoring --playbook-dir: '{}' is not a directory", folder.display()));
    }
    let plugins = super::session::plugins_without_tasks(&settings, files);
    let inventory = super::session::inventory(&settings, &engine, plugins, &extra_vars, &mut warn)?;
    let inventory = ManuallyDrop::new(inventory);
    let profile = match settings.compat.lists_inventory_without_profile() {
        true => Profile::None,
        false => Profile::Legacy,
    };
    let shown = run(&arguments.show, &inventory, profile, &mut io::stdout().lock());
    inventory.take_warnings().iter().for_each(|warning| warn(warning.to_string()));
    shown.map_err(|error| match error {
        Error::Host(windlass_inventory::Error::UnknownHost { name })
            if settings.inventory.host_pattern_mismatch == "error" =>
        {
            crate::error::Error::usage(format!("Could not match supplied host pattern, ignoring: {name}"))
        }
        Error::Host(reason) | Error::Graph(reason) | Error::Inventory(reason) if is_of_a_file(&reason) => {
            crate::error::Error::new(reason.to_string()).as_parse()
        }
        Error::NoAction | Error::SeveralActions | Error::Host(_) | Error::Graph(_) => {
            crate::error::Error::usage(error.to_string())
        }
        _ => crate::error::Error::new(error.to_string()),
    })?;
    Ok(0)
}
