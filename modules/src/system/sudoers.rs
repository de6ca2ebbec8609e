//! `sudoers`: rules of `sudo`.

use std::path::Path;

use crate::{
    Args, Diff, Failure, Host, Kind, Module, Opt, Plan, Spec,
    files::{
        attributes::Attributes,
        mode::Mode,
        write::{Source, Wanted},
    },
    process::{self, Command, reason},
};

/// The `sudoers` module.
pub struct Sudoers;

static SPEC: Spec = Spec {
    name: "sudoers",
    collection: "community.general",
    summary: "Manage sudo rules",
    description: &["Writes one rule to its own file in /etc/sudoers.d, after `visudo` has validated it."],
    options: &[
        Opt::required("name", Kind::Str, "Name of the file.").line(),
        Opt::new("state", Kind::Str, "`present` writes the rule, `absent` removes it.")
            .default("\"present\"")
            .choices(&["present", "absent"]),
        Opt::new("user", Kind::Str, "User that the rule applies to.").line(),
        Opt::new("group", Kind::Str, "Group that the rule applies to.").line(),
        Opt::new("commands", Kind::List(&Kind::Str), "Commands that the rule allows; `ALL` allows all.").line(),
        Opt::new("host", Kind::Str, "Host that the rule applies to.").line().default("\"ALL\""),
        Opt::new("runas", Kind::Str, "User to run the commands as.").line(),
        Opt::new("nopassword", Kind::Bool, "Allow the commands without a password.").default("true"),
        Opt::new("noexec", Kind::Bool, "Keep the commands from starting other programs.").default("false"),
        Opt::new("setenv", Kind::Bool, "Let the user keep their environment.").default("false"),
        Opt::new("sudoers_path", Kind::Str, "Path of the directory.").default("\"/etc/sudoers.d\""),
        Opt::new(
            "validation",
            Kind::Str,
            "Validation by `visudo`: `detect` validates if it is installed, `required` fails without it, `absent` \
             skips it.",
        )
        .default("\"detect\"")
        .choices(&["absent", "detect", "required"]),
    ],
    mutually_exclusive: &[&["user", "group"]],
    required_if: &[("state", "present", &["commands"])],
    examples: "- name: The backup may read everything\n  community.general.sudoers:\n    name: backup\n    user: backup\n    commands: /usr/bin/rsync\n",
    ..Spec::EMPTY
}
.compiled();

impl Module for Sudoers {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let path = Path::new(args.required("sudoers_path")?).join(args.required("name")?);
        if args.str("state") == Some("absent") {
            if !path.exists() {
                return Ok(Plan::unchanged());
            }
            let diff = Diff::of(&path.display().to_string(), std::fs::read_to_string(&path).unwrap_or_default(), "");
            let plan = Plan::change(move |_, _| {
                std::fs::remove_file(&path)
                    .map_err(|error| Failure::new(format!("{} cannot be removed: {}.", path.display(), reason(&error))))
            });
            return Ok(if host.diff() { plan.with_diff(diff) } else { plan });
        }
        let rule = rule(args)?;
        validate(&rule, args.str("validation"), host)?;
        let mut wanted = Wanted::new(path, Source::Bytes(rule.into_bytes()));
        let mut attributes = Attributes::default();
        attributes.mode = Some(Mode::parse(&"0440".into())?);
        wanted.attributes = attributes;
        Ok(Plan::sequence(vec![wanted.plan(host)?]))
    }
}

fn rule(args: &Args) -> Result<String, Failure> {
    let owner = match (args.str("user"), args.str("group")) {
        (Some(user), _) if !user.is_empty() => user.to_owned(),
        (_, Some(group)) if !group.is_empty() => format!("%{group}"),
        _ => return Err(Failure::new("A rule is for a user or a group: one of user, group is required.")),
    };
    let mut rule = format!("{owner} {}=", args.str("host").unwrap_or("ALL"));
    if let Some(runas) = args.str("runas") {
        rule.push_str(&format!("({runas})"));
    }
    for (option, tag) in [("noexec", "NOEXEC:"), ("nopassword", "NOPASSWD:"), ("setenv", "SETENV:")] {
        if args.bool(option) {
            rule.push_str(tag);
        }
    }
    rule.push_str(&format!(" {}\n", args.list("commands").join(", ")));
    Ok(rule)
}

fn validate(rule: &str, how: Option<&str>, host: &Host) -> Result<(), Failure> {
    if how == Some("absent") {
        return Ok(());
    }
    let Some(visudo) = process::find(host, "visudo") else {
        if how == Some("required") {
            return Err(Failure::new("Failed to find required executable \"visudo\", which validation asks for."));
        }
        return Ok(());
    };
    let output = Command::new(visudo).args(["-c", "-f", "-"]).input(rule).run(host)?;
    if output.success() {
        return Ok(());
    }
    let (stdout, stderr) = (output.stdout_text(), output.stderr_text());
    let said = if stdout.is_empty() { &stderr } else { &stdout };
    Err(Failure::new(format!("Failed to validate sudoers rule:\n{said}"))
        .with("stdout", stdout.as_str())
        .with("stderr", stderr.as_str()))
}
