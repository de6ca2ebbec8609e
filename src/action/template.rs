//! `template`: renders on the controller, and writes on the host like `copy`.

use std::os::unix::fs::MetadataExt as _;

use windlass_modules::files::write::{BACKUP, VALIDATE};
use windlass_modules::{Kind, Opt, Return, Spec, with_attributes};
use windlass_template::{TemplateOptions, Value, about};
use windlass_yaml::Text;

use super::files::{copy_content, file_name};
use super::{ActionContext, Content, Failure};
use crate::outcome::TaskResult;

/// Options consumed by rendering; the others are passed to `copy`.
const OWN: [&str; 11] = [
    "src",
    "newline_sequence",
    "block_start_string",
    "block_end_string",
    "variable_start_string",
    "variable_end_string",
    "comment_start_string",
    "comment_end_string",
    "trim_blocks",
    "lstrip_blocks",
    "output_encoding",
];

pub(super) static SPEC: Spec = Spec {
    name: "template",
    summary: "Render a template and write it to a host",
    description: &[
        "The template is a Jinja file of the project. It is searched in `templates` of the role, beside the file that \
         contains the task, and in `templates` of the playbook's directory. It is rendered on the controller, so an \
         error in it leaves the host unchanged.",
        "In addition to the host's variables, it sees `ansible_managed`, `template_host`, `template_path`, `template_fullpath`, `template_destpath`, \
         `template_uid`, `template_mtime` and `template_run_date`. A file that already has this content stays unchanged.",
    ],
    options: with_attributes![
        Opt::required("src", Kind::Str, "The template."),
        Opt::required(
            "dest",
            Kind::Path,
            "Path of the file on the host. In a directory, the file gets the template's name."
        ),
        BACKUP,
        Opt::new("force", Kind::Bool, "Replace an existing file that has other content.").default("true"),
        Opt::new("follow", Kind::Bool, "If `dest` is a link, replace its target.").default("false"),
        VALIDATE,
        Opt::new("newline_sequence", Kind::Str, r"Line ending of the result: `\n`, `\r` or `\r\n`.")
            .default(r#""\n""#),
        Opt::new("block_start_string", Kind::Str, "Start of a statement.").default(r#""{%""#),
        Opt::new("block_end_string", Kind::Str, "End of a statement.").default(r#""%}""#),
        Opt::new("variable_start_string", Kind::Str, "Start of an expression.").default(r#""{{""#),
        Opt::new("variable_end_string", Kind::Str, "End of an expression.").default(r#""}}""#),
        Opt::new("comment_start_string", Kind::Str, "Start of a comment.").default(r##""{#""##),
        Opt::new("comment_end_string", Kind::Str, "End of a comment.").default(r##""#}""##),
        Opt::new("trim_blocks", Kind::Bool, "Remove the line break after a statement.")
            .default("true"),
        Opt::new(
            "lstrip_blocks",
            Kind::Bool,
            "Remove blanks at the start of a line before a statement."
        )
        .default("false"),
        Opt::new(
            "output_encoding",
            Kind::Str,
            "Encoding of the file: `utf-8`, `utf-8-sig`, `utf-16`, `utf-32`, `ascii`, `latin-1`, `iso-8859-15` or `windows-1252`.",
        )
        .default(r#""utf-8""#),
    ],
    examples: "- name: Write the configuration\n  ansible.builtin.template:\n    src: app.conf.j2\n    dest: /etc/app.conf\n    owner: root\n    group: app\n    \
               mode: '0640'\n    validate: app --check %s\n  notify: Restart app\n",
    returns: &[
        Return { name: "dest", kind: "str", when: "success", doc: "The file." },
        Return { name: "checksum", kind: "str", when: "always", doc: "SHA-1 of the result." },
        Return { name: "md5sum", kind: "str", when: "changed", doc: "MD5 of the result." },
        Return { name: "src", kind: "str", when: "changed", doc: "Source of the copy to the host." },
        Return { name: "size", kind: "int", when: "success", doc: "Size of the file in bytes." },
        Return { name: "owner", kind: "str", when: "success", doc: "Its owner." },
        Return { name: "group", kind: "str", when: "success", doc: "Its group." },
        Return { name: "uid", kind: "int", when: "success", doc: "User id of its owner." },
        Return { name: "gid", kind: "int", when: "success", doc: "Id of its group." },
        Return { name: "mode", kind: "str", when: "success", doc: "Permission bits in octal." },
        Return { name: "backup_file", kind: "str", when: "a backup was created", doc: "Path of the backup." },
    ],
    missing: Some("src and dest are required"),
    ..Spec::EMPTY
};

pub(super) async fn run(context: &ActionContext) -> Result<TaskResult, Failure> {
    let (src, dest) = (context.text("src").unwrap_or_default(), context.text("dest").unwrap_or_default());
    let option = |name: &str| context.arg(name).cloned();
    if !matches!(newline_sequence(&option).as_str(), "\n" | "\r" | "\r\n") {
        return Err(r"newline_sequence needs to be one of: \n, \r or \r\n".into());
    }
    let path = context.find("templates", &src)?;
    let (bytes, _) = context.files.bytes(&path)?;
    #[expect(clippy::disallowed_methods, reason = "the task names the file as a template")]
    let text = String::from_utf8(bytes)
        .map(Text::of_project)
        .map_err(|_| Failure::Failed(format!("Template source files must be utf-8 encoded: {}", path.display())))?;
    let path = crate::paths::absolute(&path);
    let variables = about::of_template(&context.context, &path, &src, Some(&dest));
    let rendered =
        context.context.with(variables).template(&text, &path.display().to_string(), &options_of(&option))?;
    let mut args = context.args.clone();
    for key in OWN {
        args.shift_remove(key);
    }
    args.insert("_original_basename".into(), Value::from(file_name(&path)));
    let encoding = context.text("output_encoding").unwrap_or_default();
    let bytes = windlass_template::encode(&rendered, &encoding).map_err(|error| format!("output_encoding: {error}"))?;
    let mut content = Content::of_bytes(&path.display().to_string(), bytes);
    content.description.mode = std::fs::metadata(&path).map_or(0o644, |metadata| metadata.mode() & 0o7777);
    copy_content(context, args, content).await
}

/// The line ending; accepts escapes such as `
/// ` as well as the characters themselves.
pub(super) fn newline_sequence(option: &dyn Fn(&str) -> Option<Value>) -> String {
    let given = option("newline_sequence").map(|value| windlass_template::text(&value));
    given.map_or_else(|| "\n".to_owned(), |text| text.replace("\\n", "\n").replace("\\r", "\r"))
}

/// Template settings from options of these names.
pub(super) fn options_of(option: &dyn Fn(&str) -> Option<Value>) -> TemplateOptions {
    let text = |name: &str, usual: &str| {
        option(name).map_or_else(|| usual.to_owned(), |value| windlass_template::text(&value))
    };
    let flag = |name: &str| option(name).map(|value| crate::vars::truth(&value));
    TemplateOptions {
        trim_blocks: flag("trim_blocks").unwrap_or(true),
        lstrip_blocks: flag("lstrip_blocks").unwrap_or(false),
        newline_sequence: newline_sequence(option),
        block: (text("block_start_string", "{%"), text("block_end_string", "%}")),
        variable: (text("variable_start_string", "{{"), text("variable_end_string", "}}")),
        comment: (text("comment_start_string", "{#"), text("comment_end_string", "#}")),
        ..TemplateOptions::default()
    }
}
