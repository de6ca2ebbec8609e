//! `windlass inventory`: what an inventory says, as `ansible-inventory` shows it.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use windlass_inventory::Inventory;
use windlass_inventory::export::{self, Variables};

/// Show the hosts, groups and variables of an inventory.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("action").required(true).args(["list", "host", "graph"])))]
pub(super) struct InventoryArguments {
    /// All hosts and groups, as an inventory script would print them
    #[arg(long)]
    list: bool,
    /// The variables of one host; the limit does not count
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// The groups and their hosts as a tree
    #[arg(long)]
    graph: bool,
    /// The group the tree begins with
    #[arg(value_name = "GROUP", default_value = "all")]
    group: String,
    /// Print YAML instead of JSON
    #[arg(long, short)]
    yaml: bool,
    /// Add the variables to the tree
    #[arg(long)]
    vars: bool,
    /// Keep variables with the groups they belong to, so that the result is an inventory again
    #[arg(long)]
    export: bool,
    /// Write to a file instead of the standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Why the inventory could not be shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The inventory does not answer.
    #[error(transparent)]
    Inventory(#[from] windlass_inventory::Error),
    /// The result could not be written to the file.
    #[error("The inventory could not be written to {}: {source}.", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The result could not be written to the standard output.
    #[error("The inventory could not be written to the standard output: {0}.")]
    Output(io::Error),
}

/// Shows an inventory on `output`, or in the file that the arguments name.
pub(super) fn run(arguments: &InventoryArguments, inventory: &Inventory, output: &mut dyn Write) -> Result<(), Error> {
    let text = show(arguments, inventory)?;
    match &arguments.output {
        Some(path) => std::fs::write(path, text).map_err(|source| Error::File { path: path.clone(), source }),
        None => output
            .write_all(text.trim_end_matches('\n').as_bytes())
            .and_then(|()| output.write_all(b"\n"))
            .map_err(Error::Output),
    }
}

fn show(arguments: &InventoryArguments, inventory: &Inventory) -> Result<String, windlass_inventory::Error> {
    let variables = if arguments.export { Variables::Own } else { Variables::Merged };
    if arguments.graph {
        return export::graph(inventory, &arguments.group, arguments.vars.then_some(variables));
    }
    let shown = match &arguments.host {
        Some(host) => export::host(inventory, host, variables)?,
        None if arguments.yaml => export::nested_list(inventory, variables)?,
        None => export::list(inventory, variables)?,
    };
    if arguments.yaml { export::to_yaml(&shown) } else { Ok(export::to_json(&shown)) }
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
        run(&command.arguments, &inventory, &mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn each_action_has_its_form() {
        assert_eq!(shown(&["--graph"]), "@all:\n  |--@ungrouped:\n  |  |--a\n  |  |--b\n");
        assert_eq!(shown(&["--host", "a"]), "{}\n");
        assert_eq!(
            shown(&["--list", "-y"]),
            "all:\n  children:\n    ungrouped:\n      hosts:\n        a: {}\n        b: {}\n"
        );
        assert!(shown(&["--list"]).contains("\"profile\": \"inventory_legacy\""));
        assert!(Command::try_parse_from(["inventory", "--list", "--graph"]).is_err());
        assert!(Command::try_parse_from(["inventory"]).is_err());
    }

    #[test]
    fn the_result_may_go_to_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tree");
        assert_eq!(shown(&["--graph", "ungrouped", "--output", &path.display().to_string()]), "");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "@ungrouped:\n  |--a\n  |--b");
    }
}

/// The verb with everything it shares with others.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    show: InventoryArguments,
    #[command(flatten)]
    inventory: super::options::InventoryOptions,
    #[command(flatten)]
    vault: super::options::VaultOptions,
    /// Take group_vars from this folder
    #[arg(long, value_name = "DIR")]
    playbook_dir: Option<PathBuf>,
}

/// Runs the verb.
pub(super) fn run_verb(arguments: &Arguments) -> crate::error::Result<u8> {
    let config = crate::settings::Config::find()?;
    let mut settings = crate::settings::Settings::from_config(&config)?;
    arguments.inventory.apply(&mut settings);
    if let Some(dir) = &arguments.playbook_dir {
        settings.playbook_dir.clone_from(dir);
    }
    let secrets = arguments.vault.secrets(&settings)?;
    let printer = crate::output::Printer::new(false, crate::output::Secrets::default());
    let mut warn =
        |sentence: String| printer.error_line(&format!("[WARNING]: {sentence}"), crate::output::Color::Plain);
    let inventory = super::session::inventory(&settings, &secrets, &mut warn)?;
    let shown = run(&arguments.show, &inventory, &mut io::stdout().lock());
    shown.map_err(|error| crate::error::Error::new(error.to_string()))?;
    Ok(0)
}
