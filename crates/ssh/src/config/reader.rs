//! Reads the options of one host from ssh_config files, as ssh_config(5) orders them: the first value wins. Evaluates
//! `Host`, `Match` and `Include`, and reads again if a `Match final` asks for it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::lexer::{self, Line};
use super::{Arguments, HostOptions, Tokens};
use crate::account::Account;
use crate::{Error, pattern};

/// Maximum depth of nested includes.
const MAX_DEPTH: usize = 16;
/// Deadline of a `Match exec` command.
const EXEC_DEADLINE: Duration = Duration::from_secs(10);

/// Configuration files to read.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    /// `~/.ssh/config`, or `None` to read no user file.
    pub(crate) user: Option<PathBuf>,
    /// `/etc/ssh/ssh_config`, or `None`.
    pub(crate) system: Option<PathBuf>,
}

/// The host whose options are read.
#[derive(Debug, Clone)]
pub(crate) struct Query<'a> {
    /// Host name as the user gave it.
    pub(crate) host: &'a str,
    /// Local account.
    pub(crate) account: &'a Account,
}

/// Reads the options of a host. Values already in `options` win, then the arguments, the user's file and the system's
/// file.
pub(crate) fn read(
    query: &Query<'_>,
    options: HostOptions,
    arguments: &Arguments,
    sources: &Sources,
) -> Result<HostOptions, Error> {
    let mut reader = Reader { query, options, final_pass: false, wants_final_pass: false };
    for text in &arguments.options {
        let place = || format!("ssh option `-o {text}`");
        if let Some(line) = lexer::line(text).map_err(|problem| wrong(place(), problem))? {
            reader.options.set(&line.keyword, &line.rest, &line.words).map_err(|problem| wrong(place(), problem))?;
        }
    }
    let mut owner = Owner::Any;
    let files: Vec<&PathBuf> = match &arguments.config_file {
        // As in ssh, `-F` replaces both files, and `none` reads no file at all.
        Some(path) if path.as_os_str().eq_ignore_ascii_case("none") => Vec::new(),
        Some(path) => {
            if !path.exists() {
                return Err(wrong(format!("ssh option `-F {}`", path.display()), "the file does not exist".into()));
            }
            vec![path]
        }
        None => {
            owner = Owner::Trusted;
            [&sources.user, &sources.system].into_iter().flatten().collect()
        }
    };
    for pass in [false, true] {
        reader.final_pass = pass;
        for path in &files {
            let owner = if sources.system.as_ref() == Some(*path) { Owner::Any } else { owner };
            reader.file(path, owner, true, 0)?;
        }
        if !reader.wants_final_pass {
            break;
        }
    }
    Ok(reader.options)
}

/// Users who may own a file and write to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Any,
    /// This user and root.
    Trusted,
}

struct Reader<'a> {
    query: &'a Query<'a>,
    options: HostOptions,
    final_pass: bool,
    wants_final_pass: bool,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, owner: Owner, parent_active: bool, depth: usize) -> Result<(), Error> {
        let text = match owner {
            Owner::Any => windlass_bounds::read_text(path),
            Owner::Trusted => windlass_bounds::read_own(path).and_then(windlass_bounds::to_text),
        };
        let text = match text {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            // A `Match exec` or ProxyCommand of others would run as this user.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && owner == Owner::Trusted => {
                let problem = format!(
                    "the file cannot be read: {error}. Like ssh, Windlass reads this file only if it belongs to you or \
                     root and nobody else can write to it (`chmod go-w`)"
                );
                return Err(wrong(path.display().to_string(), problem));
            }
            Err(error) => return Err(wrong(path.display().to_string(), format!("the file cannot be read: {error}"))),
        };
        let mut active = parent_active;
        for (index, text) in text.lines().enumerate() {
            let place = || format!("{}:{}", path.display(), index + 1);
            let Some(line) = lexer::line(text).map_err(|problem| wrong(place(), problem))? else { continue };
            match line.keyword.as_str() {
                "host" => {
                    let found = pattern::list(line.words.iter().map(String::as_str), self.query.host);
                    active = parent_active && found == pattern::Match::Yes;
                }
                "match" => {
                    let found = self.matches(&line).map_err(|problem| wrong(place(), problem))?;
                    active = parent_active && found;
                }
                "include" => {
                    if depth >= MAX_DEPTH {
                        return Err(wrong(place(), "files include each other too deeply".into()));
                    }
                    for word in &line.words {
                        for included in self.included(word, path) {
                            // As in ssh, also where the including file may belong to anybody.
                            self.file(&included, Owner::Trusted, active, depth + 1)?;
                        }
                    }
                }
                _ if active => {
                    self.options
                        .set(&line.keyword, &line.rest, &line.words)
                        .map_err(|problem| wrong(place(), problem))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn included(&self, word: &str, from: &Path) -> Vec<PathBuf> {
        let home = &self.query.account.home;
        let path = match word.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            // A relative name refers to the directory of the user's or the system's file.
            None => from.parent().unwrap_or(Path::new("/")).join(word),
        };
        let mut found = vec![PathBuf::from("/")];
        for component in path.components().skip(1) {
            let name = component.as_os_str().to_string_lossy();
            if !name.contains(['*', '?']) {
                for path in &mut found {
                    path.push(component);
                }
                continue;
            }
            let mut deeper = Vec::new();
            for directory in found {
                let mut names: Vec<String> = fs::read_dir(&directory)
                    .into_iter()
                    .flatten()
                    .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                    .filter(|entry| {
                        pattern::wildcard(&name, entry) && (name.starts_with('.') || !entry.starts_with('.'))
                    })
                    .collect();
                names.sort();
                deeper.extend(names.into_iter().map(|name| directory.join(name)));
            }
            found = deeper;
        }
        found
    }

    fn matches(&mut self, line: &Line) -> Result<bool, String> {
        let mut words = line.words.iter();
        let mut answer = true;
        let mut any = false;
        while let Some(word) = words.next() {
            any = true;
            let (negated, criterion) = match word.strip_prefix('!') {
                Some(rest) => (true, rest),
                None => (false, word.as_str()),
            };
            let (criterion, attached) = match criterion.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (criterion, None),
            };
            let criterion = criterion.to_lowercase();
            let holds = match criterion.as_str() {
                "all" => true,
                // This client never canonicalizes names.
                "canonical" => false,
                "final" => {
                    self.wants_final_pass = true;
                    self.final_pass
                }
                name => {
                    let value = attached
                        .or_else(|| words.next().cloned())
                        .ok_or_else(|| format!("the `Match {name}` has no value"))?;
                    // A command only runs if everything before it holds.
                    answer && self.criterion(name, &value)? != negated
                }
            };
            let valued = !matches!(criterion.as_str(), "all" | "canonical" | "final");
            answer &= if valued { holds } else { holds != negated };
        }
        if any { Ok(answer) } else { Err("the `Match` has no criterion".into()) }
    }

    fn criterion(&self, name: &str, value: &str) -> Result<bool, String> {
        let tokens = self.tokens();
        let subject = match name {
            "host" => &tokens.host,
            "originalhost" => &tokens.original,
            "user" => &tokens.user,
            "localuser" => &tokens.account.name,
            "exec" => return run(&tokens.expand(value)?),
            // `tagged` and `localnetwork` depend on features that this client lacks.
            "tagged" | "localnetwork" => return Ok(false),
            _ => return Err(format!("`{name}` is not a criterion of `Match`")),
        };
        Ok(pattern::list(value.split(','), subject) == pattern::Match::Yes)
    }

    fn tokens(&self) -> Tokens {
        let options = &self.options;
        let original = self.query.host.to_owned();
        let host = match &options.host_name {
            Some(name) => name.replace("%h", &original).replace("%%", "%"),
            None => original.clone(),
        };
        Tokens {
            key_alias: options.host_key_alias.clone().unwrap_or_else(|| host.clone()),
            host,
            original,
            port: options.port.unwrap_or(22),
            user: options.user.clone().unwrap_or_else(|| self.query.account.name.clone()),
            jump: options.proxy_jump.clone().unwrap_or_default(),
            account: self.query.account.clone(),
        }
    }
}

fn run(command: &str) -> Result<bool, String> {
    let shell = std::env::var("SHELL").ok().filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    let start = windlass_guard::start();
    let mut child = Command::new(&shell)
        .arg("-c")
        .arg(command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("the command of `Match exec` could not be started with `{shell}`: {error}"))?;
    let _watched = start.watch_tree(rustix::process::Pid::from_child(&child));
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if started.elapsed() < EXEC_DEADLINE => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                // An error means that the command has already ended.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!(
                    "the command `{command}` of `Match exec` did not end within {} s",
                    EXEC_DEADLINE.as_secs()
                ));
            }
        }
    }
}

fn wrong(place: String, problem: String) -> Error {
    Error::Configuration { place, problem }
}

#[cfg(test)]
mod tests {
    use super::super::AddressFamily;
    use super::*;

    fn options(text: &str, host: &str, arguments: &[&str]) -> HostOptions {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        fs::write(&path, text).unwrap();
        let account = Account { name: "me".into(), uid: 1000, home: directory.path().to_owned() };
        let words: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let arguments = Arguments::parse(&words).unwrap();
        let sources = Sources { user: Some(path), system: None };
        read(&Query { host, account: &account }, HostOptions::default(), &arguments, &sources).unwrap()
    }

    #[test]
    fn the_first_value_wins_and_arguments_come_before_files() {
        let text = "Host web*\n  Port 2201\n  User deploy\nHost *\n  Port 2202\n  User nobody\n";
        let found = options(text, "web1", &["-o", "User=root"]);
        assert_eq!((found.port, found.user.as_deref()), (Some(2201), Some("root")));
        assert_eq!(options(text, "db", &[]).port, Some(2202));
    }

    #[test]
    fn a_match_block_applies_only_where_it_matches() {
        let text = "Host web*\n  User deploy\nMatch user root\n  Port 99\nMatch host web1,web2 user deploy\n  Port 98\nMatch all\n  Port 97\n";
        assert_eq!(options(text, "web1", &[]).port, Some(98));
        assert_eq!(options(text, "web9", &[]).port, Some(97));
        assert_eq!(options(text, "web1", &["-lroot"]).port, Some(99));
    }

    #[test]
    fn match_host_sees_hostname_and_originalhost_the_given_name() {
        let text = "Host alias\n  HostName real.example.com\nMatch host *.example.com originalhost alias !localuser root\n  Port 5\n";
        assert_eq!(options(text, "alias", &[]).port, Some(5));
        assert_eq!(options(text, "other", &[]).port, None);
    }

    #[test]
    fn match_exec_and_final_evaluated() {
        let text = "Match exec \"test %n = web1\"\n  Port 7\nMatch final host fin*\n  User last\nHost web1\n  HostName final.example.com\n";
        let found = options(text, "web1", &[]);
        assert_eq!((found.port, found.user.as_deref()), (Some(7), Some("last")));
        assert_eq!(options(text, "web2", &[]).port, None);
    }

    #[test]
    fn included_files_are_read_in_order_and_only_where_the_block_matches() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("conf.d")).unwrap();
        fs::write(directory.path().join("conf.d/10-a.conf"), "Port 10\nHost never\nPort 11\n").unwrap();
        fs::write(directory.path().join("conf.d/20-b.conf"), "Port 20\nUser b\n").unwrap();
        let text = format!("Host web\n  Include {0}/conf.d/*.conf\nHost *\n  User z\n", directory.path().display());
        let found = options(&text, "web", &[]);
        assert_eq!((found.port, found.user.as_deref()), (Some(10), Some("b")));
        assert_eq!(options(&text, "db", &[]).user.as_deref(), Some("z"));
    }

    #[test]
    fn config_that_others_can_write_is_refused_unless_named() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let (config, included) = (directory.path().join("config"), directory.path().join("included"));
        let account = Account { name: "me".into(), uid: 1000, home: directory.path().to_owned() };
        let sources = Sources { user: Some(config.clone()), system: None };
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let arguments = Arguments::parse(&words).unwrap();
            read(&Query { host: "a", account: &account }, HostOptions::default(), &arguments, &sources)
        };
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        fs::write(&config, format!("Include {}\nUser b\n", included.display())).unwrap();
        fs::write(&included, "Port 7\n").unwrap();
        assert_eq!(read(&[]).unwrap().port, Some(7));
        open(&config, 0o646);
        let error = read(&[]).unwrap_err().to_string();
        assert!(error.contains("other users can write to it") && error.contains("chmod go-w"), "{error}");
        let named = ["-F", config.to_str().unwrap()];
        assert_eq!(read(&named).unwrap().port, Some(7), "as ssh takes a file that -F names");
        open(&included, 0o646);
        for words in [&named[..], &[]] {
            assert!(read(words).is_err());
        }
        open(&config, 0o644);
        assert!(read(&[]).unwrap_err().to_string().contains("included"));
    }

    #[test]
    fn proxy_jump_blocks_later_proxy_command() {
        let found = options("Host *\n  ProxyJump none\nHost *\n  ProxyCommand nc %h %p\n", "x", &[]);
        assert_eq!((found.proxy_jump.as_deref(), found.proxy_command), (Some("none"), None));
    }

    #[test]
    fn config_mistake_reported_with_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        fs::write(&path, "Host *\n  Port ssh\n").unwrap();
        let account = Account { name: "me".into(), uid: 1000, home: directory.path().to_owned() };
        let sources = Sources { user: Some(path), system: None };
        let query = Query { host: "a", account: &account };
        let error = read(&query, HostOptions::default(), &Arguments::default(), &sources).unwrap_err();
        assert!(error.to_string().ends_with("config:2: `ssh` is not a port"), "{error}");

        let arguments = Arguments::parse(&["-oConectTimeout=5".to_owned()]).unwrap();
        let error = read(&query, HostOptions::default(), &arguments, &sources).unwrap_err().to_string();
        assert!(error.starts_with("ssh option `-o ConectTimeout=5`: ssh has no option `conecttimeout`"), "{error}");
    }

    #[test]
    fn keywords_of_other_builds_of_ssh_pass() {
        let text = "IgnoreUnknown My*,Other\nMyChoice yes\nOther 1\nGSSAPIKeyExchange no\nUseKeychain yes\nPort 7\n";
        assert_eq!(options(text, "a", &[]).port, Some(7));
        let hpn =
            "NoneEnabled no\nNoneSwitch no\nNoneMacEnabled no\nHPNDisabled yes\nHPNBufferSize 2048\nTcpRcvBuf 4\n";
        let others = "TcpRcvBufPoll yes\nDisableMTAES no\nAskPassGUI no\nKeychainIntegration no\nPort 8\n";
        assert_eq!(options(&format!("{hpn}{others}"), "a", &[]).port, Some(8));
    }

    #[test]
    fn words_of_options_compared_without_regard_to_case() {
        let text = "AddressFamily INET6\nPubkeyAuthentication Unbound\nRSAMinSize 3072\nRequiredRSASize 1024\n";
        let found = options(text, "a", &["-F", "NONE"]);
        assert_eq!((found.address_family, found.required_rsa_size), (None, None));
        let found = options(text, "a", &[]);
        assert_eq!(found.address_family, Some(AddressFamily::V6));
        assert_eq!((found.public_key_authentication, found.required_rsa_size), (Some(true), Some(3072)));
    }

    #[test]
    fn second_value_of_an_option_refused() {
        let account = Account { name: "me".into(), uid: 1000, home: "/".into() };
        let query = Query { host: "a", account: &account };
        let sources = Sources { user: None, system: None };
        let read_one = |option: &str| {
            let arguments = Arguments::parse(&["-o".to_owned(), option.to_owned()]).unwrap();
            read(&query, HostOptions::default(), &arguments, &sources)
        };
        for option in
            ["RevokedHostKeys /a /b", "Port 22 23", "RequiredRSASize 2048 1024", "StrictHostKeyChecking yes no"]
        {
            let error = read_one(option).unwrap_err().to_string();
            assert!(error.contains("is too many, unless quotes join them"), "{option}: {error}");
        }
        for option in ["RevokedHostKeys \"/a b\"", "RevokedHostKeys /a # why", "RekeyLimit 1G 1h"] {
            read_one(option).unwrap();
        }
    }
}
