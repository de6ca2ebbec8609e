//! Modules: results and files in check mode, on the first run, and on a repeated run.
//!
//! Each case in `tables/modules/NAME.txt` is a list of tasks in YAML; blank lines separate the cases. The last task is
//! compared, and those before it prepare. `{{ here }}` is the case's own folder, `{{ own }}` a name that no other case
//! uses, and `{{ server }}` a web server. The project's folder `.programs` has stand-ins for system programs.
//!
//! All cases run on this machine as root. Copies of `/etc` and of the data of dpkg and debconf, and an empty
//! `/var/spool`, are mounted over the real ones, so no account or job is created in the system. apt takes every package
//! of the machine for installed on purpose. systemd's sockets are hidden, so its services are out of reach. Without
//! root, these tables are ignored.
//!
//! In a table whose first line is `## needs: PROGRAM...`, the programs unpacked by `tools/programs` are laid over the
//! system. It has its own network, and writes to `/usr`, `/etc` and `/var` stay in memory. If a program is missing or
//! overlays are impossible, the table is ignored with that reason. `.programs/serve-NAME` starts a service, which ends
//! with the table's process namespace.
//!
//! * `## makes: keys` excludes the details of generated keys, which differ in each run.
//! * `diff: true` in a case also compares the diff.
//! * In a table named `refusals*`, each line is a case. It runs once, and the error message is compared too.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::answers::{Answers, Report, is_chosen};
use crate::engine::{Engine, LINES, copy_folder};
use crate::{served, text};

/// A file of cases.
pub(crate) struct Table {
    pub(crate) name: String,
    path: PathBuf,
    pub(crate) cases: Vec<String>,
    is_refusals: bool,
    makes_keys: bool,
    /// Programs that few machines have.
    needs: String,
}

/// Mounts copies over the system's own folders, in memory: they are thousands of small files. Of apt's, only the lists of
/// packages are kept: it also lists the packages that `autoremove` removes.
const COPIES: &str = "mkdir $SCRATCH/system; mount -t tmpfs tmpfs $SCRATCH/system; \
    for folder in /etc /var/lib/dpkg /var/cache/debconf /var/spool; do copy=$SCRATCH/system$folder; mkdir -p $copy; \
    [ $folder = /var/spool ] || cp -a $folder/. $copy; mount --bind $copy $folder; done; \
    mkdir -p /etc/modprobe.d; \
    if [ -d /var/lib/apt/lists ]; then apt=$SCRATCH/system/var/lib/apt; mkdir -p $apt/lists; \
    mount --bind /var/lib/apt/lists $apt/lists; mount --rbind $apt /var/lib/apt; fi";

/// Like `COPIES`, for tables that need programs.
const LAYERS: &str = "layers=$SCRATCH/system unpacked=${WINDLASS_CACHE:-/var/cache/windlass}/programs; \
    mkdir -p $layers; mount -t tmpfs tmpfs $layers; \
    for folder in usr etc var; do mkdir $layers/{$folder,work-$folder}; below=/$folder; [ $folder != usr ] || [ ! -d $unpacked/usr ] || below=$unpacked/usr:/usr; \
    mount -t overlay overlay -o lowerdir=$below,upperdir=$layers/$folder,workdir=$layers/work-$folder /$folder || exit 77; done; \
    cp -a $unpacked/etc $unpacked/var / 2>/dev/null; ip link set lo up; \
    for program in $NEEDS; do serve=.programs/serve-$program; [ ! -e $serve ] || { . $serve; continue; }; \
    command -v $program >/dev/null || { echo $program is missing >&2; exit 77; }; done";

/// Keys of results with details of generated keys.
const OF_KEYS: [&str; 3] = ["fingerprint", "public_key", "privatekey"];

/// Exit code of a run that lacks a requirement.
const SKIPPED: &str = "77";

/// All tables.
pub(crate) fn all() -> Vec<Table> {
    let mut tables = Vec::new();
    for entry in fs::read_dir(crate::root().join("tables/modules")).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("modules/{}", path.file_stem().unwrap().display());
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let needs = text.lines().next().and_then(|line| line.strip_prefix("## needs: ")).unwrap_or_default().to_owned();
        let makes_keys = text.lines().any(|line| line == "## makes: keys");
        let text: String = text.split_inclusive('\n').filter(|line| !line.starts_with("##")).collect();
        let is_refusals = name.starts_with("modules/refusals");
        let cases = text.split(if is_refusals { "\n" } else { "\n\n" }).map(|case| case.trim_matches('\n').to_owned());
        let cases = cases.filter(|case| !case.is_empty()).collect();
        tables.push(Table { name, path, cases, is_refusals, makes_keys, needs });
    }
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    tables
}

/// Whether file systems can be mounted here.
pub(crate) fn is_possible() -> bool {
    fs::metadata("/proc/self").is_ok_and(|found| found.uid() == 0)
        && std::process::Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success())
}

impl Table {
    /// Runs the newer version of each engine and compares the answers; modules do not depend on the version. The error is
    /// a missing requirement.
    pub(crate) fn run(&self, engines: &[Engine]) -> Result<Report, String> {
        let first = self.settled(engines)?;
        if !self.is_served() || first.is_clean() {
            return Ok(first);
        }
        // Services are racy, so a difference counts only if it repeats.
        let mut again = self.settled(engines)?;
        again.keep_common(&first);
        Ok(again)
    }

    fn settled(&self, engines: &[Engine]) -> Result<Report, String> {
        let mut report = Report::default();
        let mut answers = Vec::new();
        for engine in engines.iter().filter(|engine| engine.line == LINES[1]) {
            answers.push((engine, self.ask(engine)?));
        }
        report.settle(&self.name, &self.path.with_extension("jsonl"), &answers);
        Ok(report)
    }

    /// The cases that run, with their numbers, which are also in the recorded answers.
    fn chosen(&self) -> impl Iterator<Item = (usize, &String)> {
        self.cases.iter().enumerate().filter(|(_, case)| is_chosen(case))
    }

    /// Answers of an engine. The error is a missing requirement.
    fn ask(&self, engine: &Engine) -> Result<Answers, String> {
        // The path has the same length in every run, because lengths and hashes of paths are compared.
        let folder = tempfile::Builder::new().prefix("wl").rand_bytes(8).tempdir_in("/tmp").unwrap();
        let (case, scratch) = (folder.path().join("case"), folder.path().join("scratch"));
        copy_folder(&crate::root().join("tables/project"), &case);
        fs::create_dir(&scratch).unwrap();
        for index in 0..self.cases.len() {
            fs::create_dir(scratch.join(folder_of(index))).unwrap();
        }
        let server = serve();
        fs::write(case.join("playbook.yml"), self.playbook(engine, &scratch, &server)).unwrap();
        let (apart, system) = match self.needs.is_empty() {
            true => ("", COPIES),
            false => ("--net --pid --fork --kill-child --mount-proc", LAYERS),
        };
        let script = format!(
            "unshare {apart} true || exit 77; NEEDS='{}' exec unshare --mount --uts {apart} bash -c '{system}; \
             for folder in /run/systemd /run/dbus; do mkdir -p $folder; mount -t tmpfs tmpfs $folder; done; \
             ansible-playbook -i inventory playbook.yml'",
            self.needs
        );
        let run = engine.run(&script, &case, &scratch);
        if run.code == SKIPPED {
            return Err(run.stderr.trim().to_owned());
        }
        let is_served = self.is_served();
        let steady = |text: &str| {
            let text = self.steady(text, &case, &scratch, &server);
            if is_served { served::steady(&text) } else { text }
        };
        let written = fs::read_to_string(scratch.join("answers.json")).unwrap_or_else(|_| {
            panic!("{} [{}] wrote no answers:\n{}{}", self.name, engine.line, run.stdout, run.stderr)
        });
        // The numbers of keys exceed serde_json's range.
        let written = text::replaced(&written, r": (\d{20,})", r#": "$1""#);
        let results: Json = serde_json::from_str(&steady(&written)).unwrap();
        let answer = |index: usize| {
            if self.is_refusals {
                return refusal(&results[format!("r{index}_first")]);
            }
            let mut answer = serde_json::Map::new();
            let is_shown = self.cases.get(index).is_some_and(|case| case.ends_with("\n  diff: true"));
            // Real programs print the same messages for both engines.
            let messages: &[&str] = if self.needs.is_empty() { &[] } else { &["msg", "failures"] };
            let kept = [if is_shown { &["diff"][..] } else { &[] }, messages].concat();
            for run in ["check", "first", "again"] {
                let mut result = text::steady_with(results[format!("r{index}_{run}")].clone(), &kept);
                if is_served {
                    result = served::described(result);
                }
                // apt-get's messages about a package file depend on what else the machine has.
                if self.cases.get(index).is_some_and(|case| case.contains("- apt: {deb:")) {
                    result.as_object_mut().unwrap().retain(|key, _| !key.starts_with("std"));
                }
                // dnf reports its actions in no particular order.
                if let Some(Json::Array(done)) = result.get_mut("results") {
                    done.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
                }
                answer.insert(run.to_owned(), result);
            }
            if self.makes_keys {
                leave_out_keys(
                    &mut answer,
                    self.cases.get(index).is_some_and(|case| case.contains("x509_certificate: ")),
                );
            }
            let files = files(&scratch.join(folder_of(index)));
            let files = files.into_iter().map(|(path, what)| (steady(&path), json!(steady(&what)))).collect();
            answer.insert("files".to_owned(), Json::Object(files));
            Json::Object(answer)
        };
        Ok(self.chosen().map(|(index, case)| (case.clone(), answer(index))).collect())
    }

    fn playbook(&self, engine: &Engine, scratch: &Path, server: &str) -> String {
        // Bindings to system programs only exist for the system's Python; clients of services are installed beside the
        // engine.
        let is_bound = !self.needs.is_empty() && !self.is_served();
        let python = if engine.is_ours || is_bound { "/usr/bin/python3" } else { "{{ ansible_playbook_python }}" };
        let mut text = format!(
            "- hosts: localhost\n  gather_facts: false\n  vars:\n    ansible_python_interpreter: \"{python}\"\n    server: {server}\n  tasks:\n"
        );
        for (index, case) in self.chosen() {
            let lines: Vec<&str> = case.lines().collect();
            let last = lines.iter().rposition(|line| line.starts_with("- ")).unwrap_or(0);
            let here = scratch.join(folder_of(index));
            let own = format!("wl-{}", folder_of(index));
            text.push_str(&format!(
                "    - vars:\n        here: {}\n        own: {own}\n      block:\n",
                here.display()
            ));
            let mut add = |lines: &[&str]| lines.iter().for_each(|line| text.push_str(&format!("        {line}\n")));
            add(&lines[..last]);
            for run in self.runs() {
                add(&lines[last..]);
                add(&[&format!("  register: r{index}_{run}"), "  ignore_errors: true"]);
                if *run == "check" {
                    add(&["  check_mode: true"]);
                }
            }
        }
        let runs_of = |index: usize| self.runs().iter().map(move |run| format!("r{index}_{run}"));
        let names = self.chosen().flat_map(|(index, _)| runs_of(index));
        let all: Vec<String> = names.map(|name| format!("'{name}': {name}")).collect();
        text.push_str(&format!(
            "    - copy:\n        dest: \"{{{{ scratch }}}}/answers.json\"\n        content: \"{{{{ {{{}}} | to_json }}}}\"\n",
            all.join(", ")
        ));
        text
    }

    /// Whether the table has a service.
    fn is_served(&self) -> bool {
        let programs = crate::root().join("tables/project/.programs");
        self.needs.split(' ').any(|program| programs.join(format!("serve-{program}")).exists())
    }

    /// Names of the runs of each case.
    fn runs(&self) -> &'static [&'static str] {
        if self.is_refusals { &["first"] } else { &["check", "first", "again"] }
    }

    /// Replaces values that change from run to run.
    fn steady(&self, text: &str, case: &Path, scratch: &Path, server: &str) -> String {
        let mut text = text::without_paths(text, case, scratch).replace(server, "http://SERVER");
        for (pattern, replacement) in [
            (r"SCRATCH/c\d+", "HERE"),
            (r"\.\d+\.\d{4}-\d\d-\d\d@\d\d:\d\d:\d\d~", ".BACKUP~"),
            (r"ansible\.[a-z0-9_]{8}", "ansible.RANDOM"),
            (r#"SCRATCH/\.home/\.ansible/tmp/ansible-local-[^"]*/"#, "CONTROLLER/"),
            (r"/usr/(local/)?bin/git config", "/usr/bin/git config"),
            (r"\(Reading database \.\.\.[^)]*\)", "(Reading database ...)"),
            (r"and \d+ not upgraded", "and 0 not upgraded"),
            (r#"/[^ "]*/ansible-tmp-[^/ ]*/([^/ ]*?)[a-z0-9_]{8}\.rpm"#, "FETCHED/$1.rpm"),
            (r"-----BEGIN ([A-Z ]+)-----[^-]+-----END", "-----BEGIN $1-----...-----END"),
            (r#""serial_number": ?"?[0-9.e+]+"?"#, r#""serial_number":"RANDOM""#),
        ] {
            text = text::replaced(&text, pattern, replacement);
        }
        if self.makes_keys {
            text = text::replaced(&text, r"\b(ssh-\w+|ecdsa-[\w-]+) AAAA[\w+/=]+( ?\n?$)?", "$1 KEY");
            text = text::replaced(&text, r"(DEK-Info: [A-Z0-9-]+),[^-]+", "$1,...");
        }
        text
    }
}

/// Removes details of generated keys, hashes of certificates (whose serial numbers change), and fingerprints by unusual
/// algorithms.
fn leave_out_keys(answer: &mut serde_json::Map<String, Json>, makes_certificate: bool) {
    let is_made = answer.values().any(|result| result["changed"] == true);
    // A key that check mode generates, as Ansible's modules do, is never stored.
    if let Some(check) = answer.get_mut("check").and_then(Json::as_object_mut).filter(|check| check["changed"] == true)
    {
        check.retain(|key, _| !OF_KEYS.contains(&key.as_str()));
    }
    if makes_certificate {
        answer.values_mut().filter_map(Json::as_object_mut).for_each(|result| _ = result.remove("fingerprints"));
    }
    let entries = answer.values_mut().filter_map(Json::as_object_mut).flat_map(|result| result.iter_mut());
    for (key, told) in entries {
        match told {
            told if is_made && OF_KEYS.contains(&key.as_str()) => *told = json!("NEW"),
            Json::Object(hashes) if key.contains("fingerprint") => {
                hashes.retain(|name, _| name == "md5" || name.starts_with("sha") && name.len() <= 6);
            }
            _ => {}
        }
    }
}

/// The compared parts of a refusal. Excludes options that only an action passes, and the order of Python's boolean
/// words.
fn refusal(result: &Json) -> Json {
    let mut sentence = result["msg"].to_string();
    for (pattern, replacement) in [(r"\b_\w+, ", ""), (r#"(Valid booleans include:)[^"]*"#, "$1 ...")] {
        sentence = text::replaced(&sentence, pattern, replacement);
    }
    json!({"failed": result["failed"], "changed": result["changed"], "msg": serde_json::from_str::<Json>(&sentence).unwrap()})
}

/// Folder of a case. All names have the same length, because the lengths of links are compared.
fn folder_of(index: usize) -> String {
    format!("c{index:02}")
}

/// Mode and content or target of every file in a folder.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let found = path.symlink_metadata().unwrap();
            let what = if found.is_symlink() {
                fs::read_link(&path).unwrap().display().to_string()
            } else if found.is_dir() {
                // Internal files of git and Python are not part of a module's answer.
                if !path.ends_with(".git") && !path.ends_with("venv") {
                    folders.push(path.clone());
                }
                String::new()
            } else if found.len() > 1 << 20 {
                "binary".to_owned()
            } else if found.is_file() {
                let text = String::from_utf8(fs::read(&path).unwrap()).ok();
                text.filter(|text| !text.contains('\0')).unwrap_or_else(|| "binary".to_owned())
            } else {
                "special".to_owned()
            };
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            all.insert(name, format!("{:o} {what}", found.mode()));
        }
    }
    all
}

/// Starts a server that answers every request with the requested path; returns its address.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().filter_map(Result::ok) {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                let mut line = String::new();
                let _ = reader.read_line(&mut line);
                let mut header = String::new();
                while reader.read_line(&mut header).is_ok_and(|count| count > 2) {
                    header.clear();
                }
                let path = line.split(' ').nth(1).unwrap_or("/").to_owned();
                let (status, body) = match path.starts_with("/missing") {
                    true => ("404 Not Found", "not here\n".to_owned()),
                    false if path.ends_with(".json") => ("200 OK", "{\"path\": [1, 2]}\n".to_owned()),
                    false => ("200 OK", format!("you asked for {path}\n")),
                };
                let kind = if path.ends_with(".json") { "application/json" } else { "text/plain" };
                let body = if line.starts_with("HEAD") { String::new() } else { body };
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = reader.get_mut().write_all(answer.as_bytes());
            });
        }
    });
    address
}
