//! Decides on the commands that bring an account to its requested state: useradd(8), usermod(8), chage(1), chpasswd(8).
//! Passwords travel on standard input only.

use jiff::Timestamp;

use super::account::{Account, Shadow};
use crate::{Args, Failure, Host, accounts, process::Command};

/// The requested properties of an account.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    pub(super) uid: Option<i64>,
    pub(super) non_unique: bool,
    pub(super) comment: Option<String>,
    pub(super) group: Option<String>,
    pub(super) groups: Option<Vec<String>>,
    pub(super) append: bool,
    pub(super) shell: Option<String>,
    pub(super) home: Option<String>,
    pub(super) create_home: bool,
    pub(super) move_home: bool,
    pub(super) skeleton: Option<String>,
    pub(super) umask: Option<String>,
    pub(super) password: Option<String>,
    pub(super) update_password: bool,
    pub(super) lock: Option<bool>,
    pub(super) expires: Option<f64>,
    /// Options of chage with their values.
    ages: [(&'static str, Option<i64>); 4],
    pub(super) system: bool,
    limits: Vec<String>,
    seuser: Option<String>,
    name_is_group: bool,
}

impl Wanted {
    pub(super) fn of(args: &Args, host: &Host) -> Result<Wanted, Failure> {
        let text = |name: &str| args.str(name).map(str::to_owned);
        let group = text("group").filter(|group| !group.is_empty());
        let groups = args
            .value("groups")
            .is_some()
            .then(|| args.list("groups").into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect());
        let groups: Option<Vec<String>> = groups;
        let mut known: Option<Vec<String>> = groups.as_ref().map(|_| Vec::new());
        for name in group.iter().chain(groups.iter().flatten()) {
            let found = resolve(name);
            // In check mode, an earlier task may be about to create the group.
            if found.is_none() && !host.check() {
                return Err(Failure::new(format!("Group {name} does not exist")));
            }
        }
        if let (Some(known), Some(groups)) = (&mut known, &groups) {
            known.extend(groups.iter().map(|name| resolve(name).unwrap_or_else(|| name.clone())));
            known.dedup();
        }
        let name = args.required("name")?;
        let limit = |option: &str, key: &str| args.int(option).map(|value| format!("{key}={value}"));
        Ok(Wanted {
            uid: args.int("uid"),
            non_unique: args.bool("non_unique"),
            comment: text("comment"),
            group,
            groups: known,
            append: args.bool("append"),
            shell: text("shell"),
            home: text("home"),
            create_home: args.bool("create_home"),
            move_home: args.bool("move_home"),
            skeleton: text("skeleton"),
            umask: text("umask"),
            password: text("password"),
            update_password: args.str("update_password") != Some("on_create"),
            lock: args.maybe_bool("password_lock"),
            expires: args.float("expires"),
            ages: [
                ("-m", args.int("password_expire_min")),
                ("-M", args.int("password_expire_max")),
                ("-W", args.int("password_expire_warn")),
                ("-I", args.int("password_expire_account_disable")),
            ],
            system: args.bool("system"),
            limits: [limit("uid_min", "UID_MIN"), limit("uid_max", "UID_MAX")].into_iter().flatten().collect(),
            seuser: text("seuser"),
            name_is_group: accounts::group_by_name(name).is_some(),
        })
    }

    /// Warning for a password that does not look like a hash: it would be stored readable and would never match.
    pub(super) fn warning(&self) -> Option<String> {
        let password = self.password.as_deref()?;
        let bare = password.trim_start_matches('!');
        (!matches!(bare, "" | "*" | "*************") && !is_hash(bare)).then(|| {
            "The input password appears not to have been hashed. The 'password' argument must be hashed for this module to work properly."
                .to_owned()
        })
    }

    fn day_of_end(&self) -> Option<Option<i64>> {
        self.expires.map(|seconds| (seconds >= 0.0).then_some((seconds / 86_400.0).floor() as i64))
    }
}

/// Whether a text looks like a hash, such as `$6$salt$hash`, in alphabet and length.
fn is_hash(text: &str) -> bool {
    let fields: Vec<&str> = text.split('$').collect();
    let [_, method, .., hash] = fields.as_slice() else { return false };
    let length = match *method {
        "1" => Some(22),
        "5" => Some(43),
        "6" => Some(86),
        _ => None,
    };
    let letters = hash.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/' | b'='));
    letters && !text.contains([':', '*', '!']) && length.is_none_or(|length| hash.len() == length)
}

/// The name of a group given by name or number.
fn resolve(name: &str) -> Option<String> {
    accounts::group_by_name(name).or_else(|| accounts::group_by_id(name.parse().ok()?)).map(|group| group.name)
}

/// One step of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// Runs a command.
    Run(Vec<String>),
    /// Sets the password hash of a user, passed on standard input.
    Password(String, String),
}

impl Change {
    /// Applies the change and returns its output.
    pub(super) fn carry_out(self, host: &Host) -> Result<(String, String), Failure> {
        let (command, shown) = match self {
            Change::Run(words) => {
                let (program, rest) = words.split_first().ok_or_else(|| Failure::new("There is no command to run."))?;
                (Command::new(program).args(rest), words.join(" "))
            }
            Change::Password(name, hash) => {
                let command = Command::new("chpasswd").arg("-e").input(format!("{name}:{hash}\n"));
                (command, "chpasswd".to_owned())
            }
        };
        let output = command.plain_locale().run(host)?;
        if output.success() {
            return Ok((output.stdout_text(), output.stderr_text()));
        }
        let said = output.stderr_text();
        Err(Failure::new(format!("{shown} failed: {}", said.trim())).with("rc", output.rc))
    }
}

fn date(day: Option<i64>) -> String {
    let moment = day.and_then(|day| Timestamp::from_second(day.checked_mul(86_400)?).ok());
    moment.map(|moment| moment.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}

/// The chage command for the values that differ.
fn ages(name: &str, wanted: &Wanted, shadow: &Shadow) -> Option<Change> {
    let has = [shadow.min, shadow.max, shadow.warn, shadow.inactive];
    let differing: Vec<String> = wanted
        .ages
        .iter()
        .zip(has)
        .filter_map(|((option, value), has)| value.filter(|value| Some(*value) != has).map(|value| (option, value)))
        .flat_map(|(option, value)| [(*option).to_owned(), value.to_string()])
        .collect();
    if differing.is_empty() {
        return None;
    }
    let mut words = vec!["chage".to_owned()];
    words.extend(differing);
    words.push(name.to_owned());
    Some(Change::Run(words))
}

/// The steps that create an account.
pub(super) fn to_create(name: &str, wanted: &Wanted) -> Vec<Change> {
    let mut words = vec!["useradd".to_owned()];
    let mut add = |option: &str, value: Option<String>| {
        if let Some(value) = value {
            words.extend([option.to_owned(), value]);
        }
    };
    add("-u", wanted.uid.map(|uid| uid.to_string()));
    add("-g", wanted.group.clone());
    add("-G", wanted.groups.clone().filter(|groups| !groups.is_empty()).map(|groups| groups.join(",")));
    add("-c", wanted.comment.clone());
    add("-d", wanted.home.clone());
    add("-s", wanted.shell.clone());
    add("-Z", wanted.seuser.clone());
    add("-e", wanted.day_of_end().map(date));
    for limit in &wanted.limits {
        add("-K", Some(limit.clone()));
    }
    if wanted.create_home {
        add("-k", wanted.skeleton.clone());
        add("-K", wanted.umask.as_ref().map(|umask| format!("UMASK={umask}")));
    }
    let mut flag = |wanted: bool, option: &str| {
        if wanted {
            words.push(option.to_owned());
        }
    };
    flag(wanted.uid.is_some() && wanted.non_unique, "-o");
    // An existing group with the user's name is not created again, and is primary only if requested.
    flag(wanted.group.is_none() && wanted.name_is_group, "-N");
    flag(wanted.create_home, "-m");
    flag(!wanted.create_home, "-M");
    flag(wanted.system, "-r");
    words.push(name.to_owned());
    let mut changes = vec![Change::Run(words)];
    if let Some(password) = wanted.password.clone() {
        let locked = wanted.lock == Some(true) && !password.starts_with('!');
        changes.push(Change::Password(name.to_owned(), if locked { format!("!{password}") } else { password }));
    } else if wanted.lock == Some(true) {
        changes.push(Change::Run(["usermod", "-L", name].map(str::to_owned).to_vec()));
    }
    changes.extend(ages(name, wanted, &Shadow::default()));
    changes
}

/// The usermod arguments for the supplementary groups.
fn groups(account: &Account, wanted: &Wanted) -> Vec<String> {
    let Some(groups) = &wanted.groups else { return Vec::new() };
    let primary = wanted.group.clone().or_else(|| account.primary.clone()).unwrap_or_default();
    let sorted = |groups: &[String]| {
        let mut groups: Vec<String> = groups.iter().filter(|group| **group != primary).cloned().collect();
        groups.sort();
        groups
    };
    let (wished, has) = (sorted(groups), sorted(&account.groups));
    if wanted.append {
        let missing: Vec<String> = wished.into_iter().filter(|group| !has.contains(group)).collect();
        return if missing.is_empty() { Vec::new() } else { vec!["-a".to_owned(), "-G".to_owned(), missing.join(",")] };
    }
    if wished == has { Vec::new() } else { vec!["-G".to_owned(), wished.join(",")] }
}

/// The steps that change an account as requested.
pub(super) fn to_change(account: &Account, wanted: &Wanted) -> Vec<Change> {
    let user = &account.user;
    let shadow = account.shadow.clone().unwrap_or_default();
    let mut words: Vec<String> = Vec::new();
    let other = |wanted: &Option<String>, has: &str| wanted.clone().filter(|wanted| wanted != has);
    if let Some(uid) = wanted.uid.filter(|uid| *uid != i64::from(user.uid)) {
        words.extend(["-u".to_owned(), uid.to_string()]);
        words.extend(wanted.non_unique.then(|| "-o".to_owned()));
    }
    let same_group =
        |group: &String| account.primary.as_deref() == Some(group.as_str()) || group.parse() == Ok(user.gid);
    if let Some(group) = wanted.group.clone().filter(|group| !same_group(group)) {
        words.extend(["-g".to_owned(), group]);
    }
    words.extend(groups(account, wanted));
    if let Some(comment) = other(&wanted.comment, &user.gecos) {
        words.extend(["-c".to_owned(), comment]);
    }
    if let Some(home) = other(&wanted.home, &user.home) {
        words.extend(["-d".to_owned(), home]);
        words.extend(wanted.move_home.then(|| "-m".to_owned()));
    }
    if let Some(shell) = other(&wanted.shell, &user.shell) {
        words.extend(["-s".to_owned(), shell]);
    }
    // Without a line in /etc/shadow, no expiry is recorded, not even an unlimited one.
    let now = account.shadow.as_ref().map(|shadow| shadow.expires);
    if let Some(day) = wanted.day_of_end().filter(|day| Some(*day) != now) {
        words.extend(["-e".to_owned(), date(day)]);
    }
    let password = wanted.password.clone().filter(|_| wanted.update_password);
    let password = password.filter(|hash| {
        hash.trim_start_matches('!') != shadow.password.trim_start_matches('!')
            || wanted.lock.is_none() && *hash != shadow.password
    });
    if password.is_none() {
        match wanted.lock {
            Some(true) if !shadow.locked() => words.push("-L".to_owned()),
            Some(false) if shadow.locked() => words.push("-U".to_owned()),
            _ => {}
        }
    }
    let mut changes = Vec::new();
    if !words.is_empty() {
        words.insert(0, "usermod".to_owned());
        words.push(user.name.clone());
        changes.push(Change::Run(words));
    }
    if let Some(hash) = password {
        let bare = hash.trim_start_matches('!').to_owned();
        let hash = match wanted.lock {
            Some(true) => format!("!{bare}"),
            Some(false) => bare,
            None => hash,
        };
        changes.push(Change::Password(user.name.clone(), hash));
    }
    changes.extend(ages(&user.name, wanted, &shadow));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        Account {
            user: accounts::User {
                name: "ada".into(),
                password: "x".into(),
                uid: 1000,
                gid: 1000,
                gecos: "Ada".into(),
                home: "/home/ada".into(),
                shell: "/bin/bash".into(),
            },
            primary: Some("ada".into()),
            groups: vec!["sudo".into(), "docker".into()],
            shadow: Some(Shadow {
                password: "$6$a$b".into(),
                min: Some(0),
                max: Some(99999),
                warn: Some(7),
                ..Shadow::default()
            }),
        }
    }

    #[test]
    fn account_without_shadow_line_gets_expiry() {
        let account = Account { shadow: None, ..account() };
        let wanted = Wanted { expires: Some(-1.0), ..Wanted::default() };
        assert_eq!(shown(to_change(&account, &wanted)), ["usermod -e  ada"]);
    }

    fn shown(changes: Vec<Change>) -> Vec<String> {
        let one = |change| match change {
            Change::Run(words) => words.join(" "),
            Change::Password(name, hash) => format!("{name}={hash}"),
        };
        changes.into_iter().map(one).collect()
    }

    #[test]
    fn new_account_created_as_requested() {
        let wanted = Wanted {
            uid: Some(998),
            system: true,
            shell: Some("/sbin/nologin".into()),
            password: Some("$6$x$y".into()),
            lock: Some(true),
            expires: Some(1_735_689_600.0),
            ..Wanted::default()
        };
        assert_eq!(
            shown(to_create("etcd", &wanted)),
            ["useradd -u 998 -s /sbin/nologin -e 2025-01-01 -M -r etcd", "etcd=!$6$x$y"]
        );
        let wanted = Wanted {
            groups: Some(vec!["a".into(), "b".into()]),
            create_home: true,
            name_is_group: true,
            ..Wanted::default()
        };
        assert_eq!(shown(to_create("bob", &wanted)), ["useradd -G a,b -N -m bob"]);
    }

    #[test]
    fn matching_account_unchanged() {
        let wanted = Wanted {
            uid: Some(1000),
            comment: Some("Ada".into()),
            group: Some("ada".into()),
            groups: Some(vec!["docker".into(), "sudo".into()]),
            shell: Some("/bin/bash".into()),
            password: Some("$6$a$b".into()),
            update_password: true,
            lock: Some(false),
            expires: Some(-1.0),
            ..Wanted::default()
        };
        assert!(to_change(&account(), &wanted).is_empty());
    }

    #[test]
    fn differing_properties_changed() {
        let with = |wanted: Wanted| shown(to_change(&account(), &wanted));
        assert_eq!(
            with(Wanted { groups: Some(vec!["sudo".into(), "adm".into()]), append: true, ..Wanted::default() }),
            ["usermod -a -G adm ada"]
        );
        assert_eq!(with(Wanted { groups: Some(vec!["sudo".into()]), ..Wanted::default() }), ["usermod -G sudo ada"]);
        assert_eq!(with(Wanted { groups: Some(Vec::new()), ..Wanted::default() }), ["usermod -G  ada"]);
        assert_eq!(
            with(Wanted { home: Some("/srv/ada".into()), move_home: true, ..Wanted::default() }),
            ["usermod -d /srv/ada -m ada"]
        );
        assert_eq!(
            with(Wanted { password: Some("$6$n$n".into()), update_password: true, ..Wanted::default() }),
            ["ada=$6$n$n"]
        );
        assert!(
            with(Wanted { password: Some("$6$n$n".into()), update_password: false, ..Wanted::default() }).is_empty()
        );
        assert_eq!(with(Wanted { lock: Some(true), ..Wanted::default() }), ["usermod -L ada"]);
        let ages = [("-m", None), ("-M", Some(90)), ("-W", Some(7)), ("-I", None)];
        assert_eq!(with(Wanted { ages, ..Wanted::default() }), ["chage -M 90 ada"]);
    }

    #[test]
    fn plain_text_password_warned() {
        let warns =
            |password: &str| Wanted { password: Some(password.into()), ..Wanted::default() }.warning().is_some();
        let hash = |letter: &str| format!("$6$salt${}", letter.repeat(86));
        assert!(warns("secret") && warns("$6$salt$short") && warns(&hash("+")));
        assert!(!warns(&hash("a")) && !warns("$y$j9T$salt$hash") && !warns("!") && !warns("*"));
    }
}
