//! Actions that copy files between the project and a host.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::value::ValueKind;
use windlass_modules::files::checksum::Hasher;
use windlass_template::{Read, Value};

use super::{ActionContext, Content, Failure};
use crate::outcome::{Arguments, TaskResult};

/// Fails if `copy` has neither source nor content. Ansible checks this before anything else.
pub(super) fn refuse_nothing(args: &Arguments) -> Result<(), Failure> {
    let has_source = args.get("src").is_some_and(|src| src.is_true());
    if has_source || args.contains_key("content") { Ok(()) } else { Err("src (or content) is required".into()) }
}

/// `copy`: writes a file, a tree or a text.
pub(super) async fn copy(context: &ActionContext) -> Result<TaskResult, Failure> {
    let mut args = context.args.clone();
    if context.flag("remote_src").unwrap_or(false) {
        return context.module("ansible.builtin.copy", value_of(args), Vec::new()).await;
    }
    let compat = context.world.run.settings.compat;
    let content = args.shift_remove("content");
    if let Some(content) = content.filter(|content| compat.copies_null_as_empty_text() || !content.is_none()) {
        if args.contains_key("src") {
            return Err("src and content are mutually exclusive".into());
        }
        if context.text("dest").is_some_and(|dest| dest.ends_with('/')) {
            return Err("can not use content with a dir as dest".into());
        }
        // Mappings and lists are written as JSON.
        let text = match content.kind() {
            ValueKind::Map | ValueKind::Seq => {
                let json = crate::output::python_json_as_is(&windlass_template::to_json(&content));
                if compat.escapes_copied_json() { crate::output::ascii(&json) } else { json }
            }
            ValueKind::None => String::new(),
            _ => windlass_template::text(&content),
        };
        let dest = context.text("dest").unwrap_or_default();
        args.insert("_original_basename".into(), Value::from(""));
        let mut content = Content::of_bytes(&dest, text.into_bytes());
        // `mode: preserve` has no source file to take a mode from; the text may be a secret.
        content.description.mode = 0o600;
        return copy_content(context, args, content).await;
    }
    let src = context.text("src").unwrap_or_default();
    // Without a name, the search would find the folder of the role or the playbook.
    if src.is_empty() {
        return Err("src (or content) is required".into());
    }
    let decrypt = context.flag("decrypt").unwrap_or(true);
    let path = context.find("files", src.trim_end_matches('/'))?;
    if path.is_dir() {
        return tree(context, args, &path, src.ends_with('/'), decrypt).await;
    }
    let content = context.content_of(&path, decrypt)?;
    args.insert("_original_basename".into(), Value::from(file_name(&path)));
    copy_content(context, args, content).await
}

/// Runs the `copy` module with one content, and returns its result unchanged.
pub(super) async fn written(
    context: &ActionContext,
    mut args: Arguments,
    content: Content,
) -> Result<TaskResult, Failure> {
    args.insert("_content".into(), Value::from(0));
    context.module("ansible.builtin.copy", value_of(args), vec![content]).await
}

/// Runs the `copy` module with one content, and shapes its `diff` like Ansible's action.
pub(super) async fn copy_content(
    context: &ActionContext,
    mut args: Arguments,
    content: Content,
) -> Result<TaskResult, Failure> {
    args.shift_remove("decrypt");
    let mut result = written(context, args, content).await?;
    // Ansible returns the diff of a content as a list with one entry, but the diff of attributes as a mapping.
    let is_of_attributes = |diff: &Value| diff.get_attr("before").is_ok_and(|before| before.kind() == ValueKind::Map);
    if let Some(diff) = result.get("diff").filter(|diff| diff.kind() == ValueKind::Map && !is_of_attributes(diff)) {
        result.set("diff", vec![diff.clone()]);
    }
    Ok(result)
}

/// Copies a whole tree in one request. Unless `inside` is set, the folder itself is part of it.
async fn tree(
    context: &ActionContext,
    mut args: Arguments,
    folder: &Path,
    inside: bool,
    decrypt: bool,
) -> Result<TaskResult, Failure> {
    let prefix = if inside { PathBuf::new() } else { PathBuf::from(file_name(folder)) };
    let follow = context.flag("local_follow").unwrap_or(true);
    let Tree { entries, contents, .. } = Tree::read(context, folder, &prefix, Reading { decrypt, follow })?;
    args.shift_remove("decrypt");
    args.insert("_entries".into(), entries.into_iter().collect());
    context.module("ansible.builtin.copy", value_of(args), contents).await
}

/// Options for reading a tree.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    /// Decrypts files in a vault.
    pub(super) decrypt: bool,
    /// Follows links and copies their targets.
    pub(super) follow: bool,
}

/// The entries of a folder, in the form the `copy` module expects, and the contents of its files.
pub(super) struct Tree<'a> {
    context: &'a ActionContext,
    reading: Reading,
    /// Folders around the one that is read, without links.
    above: Vec<PathBuf>,
    pub(super) entries: Vec<Value>,
    pub(super) contents: Vec<Content>,
}

impl<'a> Tree<'a> {
    /// Reads a folder, whose entries get paths below `prefix`.
    pub(super) fn read(
        context: &'a ActionContext,
        folder: &Path,
        prefix: &Path,
        reading: Reading,
    ) -> Result<Tree<'a>, Failure> {
        let mut tree = Tree { context, reading, above: Vec::new(), entries: Vec::new(), contents: Vec::new() };
        tree.folder(folder, prefix)?;
        Ok(tree)
    }

    fn folder(&mut self, folder: &Path, prefix: &Path) -> Result<(), Failure> {
        use std::os::unix::fs::PermissionsExt as _;
        let fail =
            |path: &Path, error: std::io::Error| Failure::Failed(format!("{} cannot be read: {error}", path.display()));
        let mode = |path: &Path| {
            std::fs::metadata(path).map(|metadata| format!("{:04o}", metadata.permissions().mode() & 0o7777))
        };
        let entry = |path: &Path, kind: &str, more: Vec<(&str, Value)>| -> Value {
            let fixed = [("path", Value::from(path.display().to_string())), ("kind", Value::from(kind))];
            Value::from_pairs(fixed.into_iter().chain(more))
        };
        if prefix.as_os_str() != "" {
            self.entries.push(entry(
                prefix,
                "directory",
                vec![("mode", Value::from(mode(folder).map_err(|error| fail(folder, error))?))],
            ));
        }
        // The files of a folder precede its subfolders' files.
        self.context.files.reads().note(Read::Folder(folder.to_owned()));
        let mut children: Vec<(bool, PathBuf)> = std::fs::read_dir(folder)
            .map_err(|error| fail(folder, error))?
            .flatten()
            .map(|entry| (entry.path().is_dir(), entry.path()))
            .collect();
        children.sort();
        self.above.push(folder.canonicalize().map_err(|error| fail(folder, error))?);
        for (is_folder, child) in children {
            let relative = prefix.join(file_name(&child));
            // A link to one of its own parent folders stays a link, because following it would never end. So does a
            // broken link.
            let leads_back = |real: PathBuf| self.above.iter().any(|folder| folder.starts_with(&real));
            let is_link = child.is_symlink() && (!self.reading.follow || child.canonicalize().map_or(true, leads_back));
            if is_link {
                let target = std::fs::read_link(&child).map_err(|error| fail(&child, error))?;
                self.entries.push(entry(
                    &relative,
                    "link",
                    vec![("target", Value::from(target.display().to_string()))],
                ));
            } else if is_folder {
                self.folder(&child, &relative)?;
            } else {
                let content = self.context.content_of(&child, self.reading.decrypt)?;
                let details = vec![
                    ("content", Value::from(self.contents.len())),
                    ("mode", Value::from(format!("{:04o}", content.description.mode))),
                ];
                self.entries.push(entry(&relative, "file", details));
                self.contents.push(content);
            }
        }
        self.above.pop();
        Ok(())
    }
}

/// `script`: runs a script of the project on the host.
pub(super) async fn script(context: &ActionContext) -> Result<TaskResult, Failure> {
    let mut args = context.args.clone();
    let Some(command) = context.text("cmd").or_else(|| context.text("_raw_params")) else {
        return Err("one of the following is required: _raw_params, cmd".into());
    };
    let (name, rest) = first_word(command.trim())?;
    let path = context.find("files", &name)?;
    let content = context.content_of(&path, context.flag("decrypt").unwrap_or(true))?;
    args.shift_remove("decrypt");
    args.shift_remove("cmd");
    args.insert("_raw_params".into(), Value::from(rest.trim()));
    args.insert("_content".into(), Value::from(0));
    args.insert("_original_basename".into(), Value::from(file_name(&path)));
    context.module("ansible.builtin.script", value_of(args), vec![content]).await
}

/// Splits a command into its first word without quotes, and the unchanged rest.
fn first_word(command: &str) -> Result<(String, &str), Failure> {
    let mut quote = None;
    let mut escaped = false;
    let end = command.char_indices().find(|(_, character)| {
        match (quote, character) {
            _ if std::mem::take(&mut escaped) => {}
            (Some(open), character) if open == *character => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => escaped = true,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(*character),
            (None, character) => return character.is_whitespace(),
        }
        false
    });
    let (word, rest) = command.split_at(end.map_or(command.len(), |(at, _)| at));
    let words =
        shell_words::split(word).map_err(|error| format!("the script's path {word} cannot be read: {error}"))?;
    Ok((words.concat(), rest.trim_start()))
}

/// `unarchive`: sends an archive of the project, unless the host already has it.
pub(super) async fn unarchive(context: &ActionContext) -> Result<TaskResult, Failure> {
    let mut args = context.args.clone();
    let src = context.text("src").unwrap_or_default();
    let decrypt = context.flag("decrypt").unwrap_or(true);
    args.shift_remove("decrypt");
    // `copy` is the older name of the opposite.
    let is_remote = context.flag("remote_src").unwrap_or(false) || context.flag("copy") == Some(false);
    if is_remote || src.contains("://") {
        return context.module("ansible.builtin.unarchive", value_of(args), Vec::new()).await;
    }
    let path = context.find("files", &src)?;
    let content = context.content_of(&path, decrypt)?;
    args.insert("_content".into(), Value::from(0));
    context.module("ansible.builtin.unarchive", value_of(args), vec![content]).await
}

/// The folder of a host below `dest`. A host's name may come from another host's answer (`add_host`), so it must not
/// lead out of `dest`.
fn folder_of(host: &str) -> Result<&str, Failure> {
    let mut parts = Path::new(host).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) if name == host => Ok(host),
        _ => Err(format!(
            "the host name '{host}' cannot be the name of a folder below dest; set flat to true and name the file in dest"
        )
        .into()),
    }
}

/// `fetch`: stores a file of the host below a folder on the controller. The path depends on the task and on the host's
/// name, never on the host's answer.
pub(super) async fn fetch(context: &ActionContext) -> Result<TaskResult, Failure> {
    let (Some(src), Some(dest)) = (context.text("src"), context.text("dest")) else {
        return Err("src and dest are required".into());
    };
    for (name, what) in [("src", "source"), ("dest", "dest")] {
        if context.arg(name).is_some_and(|value| value.as_str().is_none()) {
            return Err(format!("Invalid type supplied for {what} option, it must be a string").into());
        }
    }
    if context.check {
        return Ok(TaskResult::given_up("check mode not (yet) supported for this module"));
    }
    let flat = context.flag("flat").unwrap_or(false);
    let inside: PathBuf = Path::new(&src).components().filter(|part| matches!(part, Component::Normal(_))).collect();
    let base = crate::settings::expand_home(&dest);
    let base = if base.is_absolute() { base } else { context.world.playbook_dir().join(base) };
    let path = match (flat, dest.ends_with('/')) {
        (true, true) => base.join(file_name(&inside)),
        (true, false) if base.is_dir() => {
            return Err(
                "dest is an existing directory, use a trailing slash if you want to fetch src into that directory"
                    .into(),
            );
        }
        (true, false) => base,
        (false, _) => base.join(folder_of(&context.host)?).join(&inside),
    };
    if path.is_dir() {
        let shown = path.display();
        return Err(format!(
            "calculated dest '{shown}' is an existing directory, use another path that does not point to an existing directory"
        )
        .into());
    }
    let before = Sums::of_file(&path);
    let mut args = IndexMap::from([(Arc::from("src"), Value::from(src.as_str()))]);
    if let Some(value) = context.arg("fail_on_missing") {
        args.insert(Arc::from("fail_on_missing"), value.clone());
    }
    if let Some(Sums { sha1, .. }) = &before {
        args.insert("_checksum".into(), Value::from(sha1.as_str()));
    }
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let (result, received) =
        context.module_with_file("ansible.builtin.fetch", value_of(args), Vec::new(), Some(folder)).await?;
    if result.failed() || result.is_skipped() {
        return Ok(result);
    }
    let remote = result.text("checksum").map(str::to_owned);
    let same = before.as_ref().is_some_and(|sums| Some(&sums.sha1) == remote.as_ref());
    let mut answer = TaskResult::ok(!same);
    answer.set("dest", path.display().to_string());
    answer.set("checksum", remote.clone().unwrap_or_default());
    let kept = match (same, received) {
        (true, _) => {
            answer.set("file", src);
            before
        }
        (false, Some(received)) => {
            let sum = received.sha1();
            if context.flag("validate_checksum").unwrap_or(true) && Some(&sum) != remote.as_ref() {
                return Err(format!(
                    "checksum mismatch: {} has {sum} here and {} on the host, so nothing was written",
                    path.display(),
                    remote.unwrap_or_default()
                )
                .into());
            }
            received.persist(&path).map_err(|error| Failure::Failed(error.to_string()))?;
            let kept = Sums::of_file(&path);
            answer.set("remote_checksum", remote);
            answer.set("remote_md5sum", Value::from(()));
            kept
        }
        // The module's own message explains why nothing was fetched.
        (false, None) => return Ok(result),
    };
    answer.set("md5sum", kept.map(|sums| sums.md5));
    Ok(answer)
}

/// Checksums of a file on the controller.
struct Sums {
    sha1: String,
    md5: String,
}

impl Sums {
    fn of_file(path: &Path) -> Option<Sums> {
        let mut file = windlass_bounds::open(path).ok()?;
        let (mut sha1, mut md5) = (Hasher::sha1(), Hasher::Md5(Default::default()));
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = std::io::Read::read(&mut file, &mut buffer).ok()?;
            if count == 0 {
                return Some(Sums { sha1: sha1.finish(), md5: md5.finish() });
            }
            let piece = buffer.get(..count).unwrap_or_default();
            sha1.update(piece);
            md5.update(piece);
        }
    }
}

pub(super) fn value_of(args: Arguments) -> Value {
    Value::from_pairs(args.into_iter().map(|(key, value)| (Value::from(&*key), value)))
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
