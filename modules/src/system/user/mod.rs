//! `user`: accounts of the host.

use serde_json::{Value, json};

use crate::{Args, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec, accounts};

mod account;
mod change;
mod home;
mod key;

use account::Account;
use change::{Change, Wanted};

/// The `user` module.
pub struct User;

static SPEC: Spec = Spec {
    name: "user",
    summary: "Manage user accounts",
    description: &[
        "Creates, changes and removes accounts with useradd, usermod and userdel. Passes the password hash to \
         chpasswd on standard input, so that no process list shows it.",
    ],
    options: &[
        Opt::required("name", Kind::Str, "Login name.").word().aliases(&["user"]),
        Opt::new("state", Kind::Str, "`present` creates or changes the account, `absent` removes it.")
            .default("\"present\"")
            .choices(&["absent", "present"]),
        Opt::new("uid", Kind::Int, "User id (UID)."),
        Opt::new("non_unique", Kind::Bool, "Allow a UID that another account has.").default("false"),
        Opt::new("comment", Kind::Str, "Comment of the account, usually the full name.").line(),
        Opt::new("group", Kind::Str, "Name of the primary group.").line(),
        Opt::new("groups", Kind::List(&Kind::Str), "Names of supplementary groups; an empty list removes all.").line(),
        Opt::new("append", Kind::Bool, "Add to the supplementary groups instead of replacing them.").default("false"),
        Opt::new("shell", Kind::Path, "Path of the login shell.").line(),
        Opt::new("home", Kind::Path, "Path of the home directory.").line(),
        Opt::new("create_home", Kind::Bool, "Create the home directory if it is missing.")
            .aliases(&["createhome"])
            .default("true"),
        Opt::new("move_home", Kind::Bool, "Move the content of the old home directory if `home` changes.")
            .default("false"),
        Opt::new("skeleton", Kind::Str, "Directory to copy into a new home directory."),
        Opt::new("umask", Kind::Str, "Mask for the permissions of a new home directory."),
        Opt::new("password", Kind::Str, "Hash of the password; `*` or `!` for none.").line().secret(),
        Opt::new(
            "update_password",
            Kind::Str,
            "`always` updates the password of an existing account, `on_create` sets it for a new one only.",
        )
        .default("\"always\"")
        .choices(&["always", "on_create"]),
        Opt::new("password_lock", Kind::Bool, "Lock the password."),
        Opt::new(
            "expires",
            Kind::Float,
            "Expiry of the account, in seconds since the epoch; a negative number removes it.",
        ),
        Opt::new("password_expire_min", Kind::Int, "Days before a password may be changed again."),
        Opt::new("password_expire_max", Kind::Int, "Days after which a password must be changed."),
        Opt::new("password_expire_warn", Kind::Int, "Days of warning before a password expires."),
        Opt::new(
            "password_expire_account_disable",
            Kind::Int,
            "Days after the expiry of a password until the account is disabled.",
        ),
        Opt::new("system", Kind::Bool, "Make a new account a system account.").default("false"),
        Opt::new("uid_min", Kind::Int, "Smallest UID for a new account."),
        Opt::new("uid_max", Kind::Int, "Largest UID for a new account."),
        Opt::new("remove", Kind::Bool, "With `absent`: remove the home directory too.").default("false"),
        Opt::new(
            "force",
            Kind::Bool,
            "With `absent`: remove the account even if the user is logged in. With `generate_ssh_key`: replace an \
             existing key.",
        )
        .default("false"),
        Opt::new("local", Kind::Bool, "Consider only accounts in the host's own files, not in a directory service.")
            .default("false"),
        Opt::new("seuser", Kind::Str, "SELinux user of the account."),
        Opt::new("generate_ssh_key", Kind::Bool, "Generate an SSH key for the user, unless one exists.")
            .default("false"),
        Opt::new("ssh_key_type", Kind::Str, "Type of the SSH key.").default("\"rsa\""),
        Opt::new("ssh_key_bits", Kind::Int, "Size of the SSH key in bits."),
        Opt::new("ssh_key_file", Kind::Path, "Path of the SSH key; relative paths start at the home directory."),
        Opt::new("ssh_key_comment", Kind::Str, "Comment of the SSH key."),
        Opt::new("ssh_key_passphrase", Kind::Str, "Passphrase of the SSH key.").secret(),
        Opt::new("login_class", Kind::Str, "No effect on Linux; accepted for compatibility."),
        Opt::new("profile", Kind::Str, "No effect on Linux; accepted for compatibility."),
        Opt::new("role", Kind::Str, "No effect on Linux; accepted for compatibility."),
        Opt::new("authorization", Kind::Str, "No effect on Linux; accepted for compatibility."),
        Opt::new("hidden", Kind::Bool, "No effect on Linux; accepted for compatibility."),
    ],
    examples: "- name: An account for etcd\n  ansible.builtin.user:\n    name: etcd\n    system: true\n    create_home: false\n    shell: /sbin/nologin\n\n- name: An administrator\n  ansible.builtin.user:\n    name: ada\n    groups: [sudo]\n    append: true\n    generate_ssh_key: true\n    ssh_key_type: ed25519\n",
    returns: &[
        Return { name: "uid", kind: "int", when: "the account exists", doc: "User id (UID)." },
        Return { name: "group", kind: "int", when: "the account exists", doc: "Group id (GID) of the primary group." },
        Return { name: "home", kind: "str", when: "the account exists", doc: "Path of the home directory." },
        Return { name: "shell", kind: "str", when: "the account exists", doc: "Path of the login shell." },
        Return {
            name: "groups",
            kind: "str",
            when: "groups were given",
            doc: "Names of the supplementary groups, separated by commas.",
        },
        Return { name: "ssh_public_key", kind: "str", when: "generate_ssh_key", doc: "Public key." },
        Return { name: "ssh_key_file", kind: "str", when: "generate_ssh_key", doc: "Path of the private key." },
        Return { name: "ssh_fingerprint", kind: "str", when: "generate_ssh_key", doc: "Fingerprint of the key." },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for User {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let name = args.required("name")?.to_owned();
        if name.is_empty() || name.starts_with('-') || name.contains([':', '\n', ',', '/']) {
            return Err(Failure::new(format!("{name:?} is not a login name.")));
        }
        let account = Account::read(&name, args.bool("local"));
        if args.str("state") == Some("absent") {
            return Ok(absent(args, &name, account.is_some(), host));
        }
        present(args, name, account, host)
    }

    fn removes<'a>(&self, arguments: &'a Value) -> Option<&'a str> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        text("name").or_else(|| text("user")).filter(|_| text("state") == Some("absent"))
    }
}

fn absent(args: &Args, name: &str, exists: bool, host: &Host) -> Plan {
    let (force, remove) = (args.bool("force"), args.bool("remove"));
    let report = |plan: Plan| plan.with("name", name).with("state", "absent");
    if !exists {
        return report(Plan::unchanged());
    }
    let mut words = vec!["userdel".to_owned()];
    if force {
        words.push("-f".to_owned());
    }
    if remove {
        words.push("-r".to_owned());
    }
    words.push(name.to_owned());
    let plan = Plan::change(move |host: &Host, outcome: &mut Outcome| {
        let (stdout, stderr) = Change::Run(words).carry_out(host)?;
        record_output(outcome, stdout, stderr);
        Ok(())
    });
    if host.check() {
        // Check mode predicts no further values for an account that would be removed.
        return plan;
    }
    report(plan.with("force", force).with("remove", remove))
}

fn present(args: &Args, name: String, account: Option<Account>, host: &Host) -> Result<Plan, Failure> {
    let wanted = Wanted::of(args, host)?;
    let changes = match &account {
        None => change::to_create(&name, &wanted),
        Some(account) => change::to_change(account, &wanted),
    };
    let home = wanted.home.clone().or_else(|| account.as_ref().map(|account| account.user.home.clone()));
    // useradd creates the home directory of a new account; an existing account may lack one.
    let missing_home = account.is_some()
        && wanted.create_home
        && home.as_deref().is_some_and(|home| !std::path::Path::new(home).exists());
    let key = args.bool("generate_ssh_key").then(|| key::Wanted::of(args));
    let (makes_key, told) = match (&key, &home) {
        (None, _) => (false, Vec::new()),
        (Some(_), None) => (true, Vec::new()),
        (Some(key), Some(home)) => key.decide(home),
    };
    let created = account.is_none();
    let mut shown = report(args, &name, account.as_ref(), created);
    let mut warnings: Vec<String> = wanted.warning().into_iter().collect();
    let local = args.bool("local");
    if local {
        for option in ["umask", "uid_min", "uid_max"] {
            if args.value(option).is_some() {
                return Err(Failure::new(format!("'{option}' can not be used with 'local'")));
            }
        }
    }
    if args.bool("append") && args.value("groups").is_none() {
        warnings.push(
            "'append' is set, but no 'groups' are specified. Use 'groups' to say which groups are added.".to_owned(),
        );
    }
    if let (Some(key), Some(home), true) = (&key, &home, host.check() && !created) {
        warnings.extend(told);
        shown.extend(key.report(home, host)?);
    }
    let changed = !changes.is_empty() || missing_home || makes_key;
    let plan = if changed || key.is_some() {
        let mut plan = Plan::change(move |host: &Host, outcome: &mut Outcome| {
            let (mut stdout, mut stderr) = (String::new(), String::new());
            for change in changes {
                let (out, error) = change.carry_out(host)?;
                stdout.push_str(&out);
                stderr.push_str(&error);
            }
            let Some(account) = Account::read(&name, local) else {
                if host.check() {
                    return Ok(());
                }
                return Err(Failure::new(format!("The account {name} was made, but the host does not know it now.")));
            };
            if missing_home {
                home::make(&account.user, wanted.skeleton.as_deref().unwrap_or("/etc/skel"), wanted.umask.as_deref())?;
            }
            if let Some(key) = key {
                key.have(&account.user, host, outcome)?;
            }
            record_output(outcome, stdout, stderr);
            describe(&account.user, outcome);
            Ok(())
        });
        plan.outcome.changed = changed;
        plan
    } else {
        Plan::unchanged()
    };
    // Check mode predicts no further values for an account that would be created.
    let plan = if host.check() && created { plan } else { plan.with_all(shown) };
    Ok(warnings.into_iter().fold(plan, Plan::with_warning))
}

/// Records the output of the programs, if they printed any.
fn record_output(outcome: &mut Outcome, stdout: String, stderr: String) {
    for (key, text) in [("stdout", stdout), ("stderr", stderr)] {
        if !text.is_empty() {
            outcome.set(key, text);
        }
    }
}

fn describe(user: &accounts::User, outcome: &mut Outcome) {
    outcome.set("uid", user.uid);
    outcome.set("group", user.gid);
    outcome.set("comment", user.gecos.as_str());
    outcome.set("home", user.home.as_str());
    outcome.set("shell", user.shell.as_str());
}

fn report(args: &Args, name: &str, account: Option<&Account>, created: bool) -> crate::Map {
    let mut outcome = Outcome::default();
    outcome.set("name", name);
    outcome.set("state", "present");
    if let Some(account) = account {
        describe(&account.user, &mut outcome);
        outcome.set("append", args.bool("append"));
        outcome.set("move_home", args.bool("move_home"));
    }
    if created {
        outcome.set("create_home", args.bool("create_home"));
        outcome.set("system", args.bool("system"));
    }
    if args.value("groups").is_some() {
        outcome.set("groups", args.list("groups").join(","));
    }
    if args.str("password").is_some() {
        outcome.set("password", json!("NOT_LOGGING_PASSWORD"));
    }
    outcome.data
}
