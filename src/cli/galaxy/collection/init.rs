//! `windlass galaxy collection init`: creates a new collection.

use std::path::PathBuf;

use clap::Args;

use super::name::Name;
use crate::cli::galaxy::init::{make_folder, prepare, write};
use crate::cli::galaxy::state::{Common, Galaxy};
use crate::error::Result;

#[derive(Debug, Args)]
pub(in crate::cli::galaxy) struct Init {
    /// Name of the collection, as NAMESPACE.NAME
    #[arg(value_name = "COLLECTION")]
    name: String,
    /// Parent directory of the namespace
    #[arg(long, value_name = "DIR", default_value = "./")]
    init_path: PathBuf,
    /// Replace an existing collection
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    common: Common,
}

const GALAXY_YML: &str = "# Names consist of lower-case letters, digits and underscores.
namespace: {namespace}
name: {name}
# A semantic version
version: 1.0.0
readme: README.md
authors:
  - your name <you@example.com>
description: your collection description
license: [Apache-2.0]
tags: []
# Other collections with their version ranges, such as community.general: '>=8.0.0'
dependencies: {}
repository: https://example.com/repository
# Patterns of files that the archive leaves out
build_ignore: []
";

const RUNTIME: &str = "# Oldest ansible-core that the collection works with\nrequires_ansible: '>=2.15.0'\n";

const PLUGINS: &str = "# Plugins\n\nModules are in `modules`, their shared code in `module_utils`, and every other kind of plugin in a directory of
its own: `action`, `callback`, `connection`, `filter`, `inventory`, `lookup`, `test`.\n";

/// Creates a collection.
pub(super) fn run(init: &Init, galaxy: &Galaxy) -> Result<u8> {
    let name = Name::require(&init.name)?;
    let target = init.init_path.join(&name.namespace).join(&name.name);
    prepare(&target, init.force)?;
    let own = |text: &str| text.replace("{namespace}", &name.namespace).replace("{name}", &name.name);
    let readme = format!("# {name}\n\nSay here what the collection is for, and how its content is used.\n");
    for (path, text) in [
        ("README.md", readme.as_str()),
        ("galaxy.yml", &own(GALAXY_YML)),
        ("meta/runtime.yml", RUNTIME),
        ("plugins/README.md", PLUGINS),
    ] {
        write(&target.join(path), text.as_bytes())?;
    }
    ["docs", "roles"].iter().try_for_each(|folder| make_folder(&target.join(folder)))?;
    galaxy.say(&format!("- Collection {name} was created successfully"));
    Ok(0)
}
