//! The tree callback: writes the last result of every host to a file with its name.

use std::path::PathBuf;

use super::callbacks::Setup;
use super::masked::Masked;
use super::printer::written;
use super::shown::Format;
use super::{Event, Output, Status};

/// Writes the files.
pub(super) struct Tree {
    format: Format,
    folder: PathBuf,
}

impl Tree {
    pub(super) fn new(setup: &Setup<'_>) -> Tree {
        let folder = setup.settings.output.tree.clone();
        let folder =
            folder.unwrap_or_else(|| crate::settings::expand_home(&setup.text("directory").unwrap_or_default()));
        Tree { format: Format::json(setup), folder }
    }
}

impl Output for Tree {
    fn event(&mut self, event: &Masked) {
        let Event::Result(result) = &**event else { return };
        // A name with a slash would leave the directory.
        if result.item.is_some() || result.status == Status::Skipped || result.name.contains('/') {
            return;
        }
        let text = self.format.dump(result.result.json(), None);
        let path = self.folder.join(&*result.name);
        let outcome = std::fs::create_dir_all(&self.folder).and_then(|()| crate::replace::write(&path, &text));
        written(&path.display().to_string(), outcome);
    }
}
