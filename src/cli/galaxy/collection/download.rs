//! `windlass galaxy collection download`: archives for an installation without a server.

use std::path::Path;

use windlass_yaml::emit::{DumpOptions, Item, dump};

use super::given::{Content, Given};
use super::install::{self, Request};
use super::{Download, archive, archive_name, wanted};
use crate::cli::galaxy::state::Galaxy;
use crate::error::{Error, Result};

/// Downloads collections and writes a requirements file for them.
pub(super) fn run(arguments: &Download, galaxy: &Galaxy) -> Result<u8> {
    let options = &arguments.wanted;
    let requirements = wanted(&options.sources, options.requirements.as_deref(), &[], galaxy)?;
    let to = crate::paths::absolute(&crate::settings::expand_home(&arguments.download_path.to_string_lossy()));
    let fail = |error: std::io::Error| Error::new(format!("{} cannot be written: {error}", to.display()));
    std::fs::create_dir_all(&to).map_err(fail)?;
    galaxy.say("Process download dependency map");
    let servers = galaxy.servers(&arguments.common)?;
    let request = Request::new(&requirements, None, &arguments.common, galaxy)?;
    let (mut resolution, given) = request.resolution(&servers);
    resolution.pre = options.pre;
    resolution.no_dependencies = options.no_deps;
    let chosen = resolution.solve()?;
    galaxy.say(&format!("Starting collection download process to '{}'", to.display()));
    let mut listed = Vec::new();
    for (name, version) in chosen {
        galaxy.say(&format!("Downloading collection '{name}:{version}' to '{}'", to.display()));
        let downloaded;
        let given = match given.get(&name) {
            Some(given) => given,
            None => {
                downloaded = install::download(&name, &version, &resolution, galaxy)?;
                &downloaded
            }
        };
        let file = archive_name(given.manifest());
        save(given, &to.join(&file), galaxy)?;
        galaxy.say(&format!("Collection '{name}:{version}' was downloaded successfully"));
        listed.push((file, version.to_string()));
    }
    let path = to.join("requirements.yml");
    galaxy.say(&format!("Writing requirements.yml file of downloaded collections to '{}'", path.display()));
    std::fs::write(&path, requirements_of(listed)?).map_err(fail)?;
    Ok(0)
}

fn save(given: &Given, to: &Path, galaxy: &Galaxy) -> Result<()> {
    match &given.content {
        Content::Archive { path, .. } => match std::fs::copy(path, to) {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::new(format!("{} cannot be written: {error}", to.display()))),
        },
        Content::Tree(tree) => {
            archive::write(tree, to)?;
            galaxy.say(&format!("Created collection for {} at {}", tree.manifest.name, to.display()));
            Ok(())
        }
    }
}

/// A requirements file beside the archives.
fn requirements_of(archives: Vec<(String, String)>) -> Result<String> {
    let text = |text: &str| Item::Str(text.to_owned());
    let entry = |(file, version): (String, String)| {
        Item::Map(vec![(text("name"), text(&file)), (text("version"), text(&version))])
    };
    let document = Item::Map(vec![(text("collections"), Item::List(archives.into_iter().map(entry).collect()))]);
    let options = DumpOptions { default_flow_style: Some(false), sort_keys: false, ..DumpOptions::to_yaml() };
    dump(&document, &options).map_err(|error| Error::new(error.to_string()))
}
