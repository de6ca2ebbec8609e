//! A project with runs, a server over them, and a client.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use crate::project;

/// Text of a host that would run a script, end elements, load from the network, or turn the direction of text.
pub(crate) const HOSTILE: &str = "</pre></style></script><script>document.title=\"pwned\"</script>\
                                  <img src=\"http://192.0.2.1/x\" onerror=\"document.title='pwned'\">\
                                  ' onmouseover=x \"\u{202e}\u{1b}[2J";

const PLAYBOOK: &str = r#"
- name: Web servers
  hosts: all
  gather_facts: false
  vars:
    hostile: "{{ lookup('file', 'hostile') }}"
  tasks:
    - name: Hidden
      command: echo hidden-by-no-log
      no_log: true
    - name: Show a secret
      debug: {msg: "the secret is {{ secret }}"}
    - name: Add a host whose name is hostile
      add_host: {name: "</script><script>document.title='pwned'</script>\u202e", ansible_connection: local}
    - name: Fail <b>here</b>
      shell: "cat FOLDER/hostile; cat FOLDER/hostile >&2; exit {{ 4 if inventory_hostname == 'b' and not lookup('env', 'GOOD') else 0 }}"
- name: Of a hostile name
  hosts: all:!a:!b
  gather_facts: false
  tasks:
    - name: Say nothing
      command: "true"
"#;

/// A playbook that waits until a file exists.
pub(crate) const WAITING: &str = r#"
- name: Waiting
  hosts: all
  gather_facts: false
  tasks:
    - name: First
      command: echo begun
    - name: Second
      shell: until [ -e FOLDER/go ]; do sleep 0.1; done; exit {{ 3 if inventory_hostname == 'b' else 0 }}
"#;

pub(crate) struct Site {
    pub(crate) folder: tempfile::TempDir,
}

/// An answer: its status, its head and its body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    /// The body as it came.
    pub(crate) raw: String,
    /// The body with escaped slashes as a browser reads them.
    pub(crate) body: String,
}

pub(crate) struct Server {
    child: Child,
    /// The rest of its output.
    output: BufReader<ChildStdout>,
    /// Address and port.
    pub(crate) address: String,
    pub(crate) token: String,
}

impl Site {
    pub(crate) fn new() -> Site {
        let site = Site { folder: tempfile::tempdir().unwrap() };
        site.write("hosts", "[web]\na plain=x\nb\n[outer:children]\nweb\n[all:vars]\nansible_connection=local\n");
        site.write("site.yml", PLAYBOOK);
        site.write("waiting.yml", WAITING);
        site.write("hostile", HOSTILE);
        // A word that no argument holds, or the command line would be masked.
        site.write("pass", "w0rd-of-the-vault\n");
        site.write("group_vars/all.yml", "secret: s3cret-of-the-vault\n");
        let encrypted = ["vault", "encrypt", "--vault-password-file", "pass", "group_vars/all.yml"];
        assert!(site.run(&encrypted).status.success());
        let hostile = HOSTILE.replace('\\', "\\\\").replace('"', "\\\"").replace('\u{1b}', "\\e");
        site.write("host_vars/a.yml", &format!("ansible_password: s3cret-of-the-login\nbent: \"{hostile}\"\n"));
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("FOLDER", &self.path("").display().to_string())).unwrap();
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        // Signals may be ignored where tests run in the background.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,TERM", env!("CARGO_BIN_EXE_windlass")]);
        project::enter(command.args(words), &self.path(""));
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs the playbook and returns the run's id.
    pub(crate) fn play(&self) -> String {
        let output = self.run(&["playbook", "-i", "hosts", "--vault-password-file", "pass", "--diff", "site.yml"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        self.last()
    }

    /// Starts a run that lasts until the file `go` exists.
    pub(crate) fn wait(&self) -> Waiting {
        let words = ["playbook", "-i", "hosts", "--vault-password-file", "pass", "waiting.yml"];
        Waiting(self.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Journals, oldest first.
    pub(crate) fn journals(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("state/runs")).into_iter().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }

    /// Id of the newest run.
    pub(crate) fn last(&self) -> String {
        let path = self.journals().pop().unwrap();
        path.file_name().unwrap().to_string_lossy().split('.').next().unwrap().to_owned()
    }

    /// Starts a server with more arguments.
    pub(crate) fn serve(&self, more: &[&str]) -> Server {
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0"]);
        if !more.contains(&"--vault-password-file") {
            command.args(["--vault-password-file", "pass"]);
        }
        let mut child = command.args(more).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let line = line.trim_end();
        let rest = line.strip_prefix("serving at http://").unwrap();
        // Users sign in with tokens of their own.
        let (address, token) = rest.split_once("/?token=").unwrap_or((rest.trim_end_matches('/'), ""));
        Server { child, output, address: address.to_owned(), token: token.to_owned() }
    }
}

impl Server {
    /// Name and value of the cookie.
    pub(crate) fn cookie(&self) -> String {
        format!("windlass-{}={}", self.address.rsplit_once(':').unwrap().1, self.token)
    }

    /// Sends bytes and reads the answer to its end.
    pub(crate) fn send(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        answer(&mut stream)
    }

    /// Reads a page with the cookie.
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send(&self.request(path))
    }

    pub(crate) fn request(&self, path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n", self.address, self.cookie())
    }

    /// Opens the events of a run.
    pub(crate) fn events(&self, run: &str) -> Events {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(self.request(&format!("/runs/{run}/events")).as_bytes()).unwrap();
        Events { reader: BufReader::new(stream), head: String::new() }
    }

    /// Another address that leads to the server, as a tunnel of SSH does. The observer gets the head of each request.
    pub(crate) fn tunnel(&self, observe: impl Fn(&str) + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (own, target) = (listener.local_addr().unwrap().to_string(), self.address.clone());
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let Ok(mut server) = TcpStream::connect(&target) else { return };
                let mut head = [0; 8192];
                let count = client.read(&mut head).unwrap_or_default();
                observe(&String::from_utf8_lossy(&head[..count]));
                let _ = server.write_all(&head[..count]);
                // The request is complete, so only the answer is passed on.
                std::thread::spawn(move || std::io::copy(&mut server, &mut client));
            }
        });
        own
    }

    /// Sends a signal and returns the exit code.
    pub(crate) fn stop(self, signal: rustix::process::Signal) -> Option<i32> {
        self.end(signal).0
    }

    /// Sends a signal and returns the exit code and the rest of the output.
    pub(crate) fn end(mut self, signal: rustix::process::Signal) -> (Option<i32>, String) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

/// A run that lasts, and ends with its test.
pub(crate) struct Waiting(pub(crate) Child);

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads an answer. A connection that the server resets after it has answered is not a failure.
pub(crate) fn answer(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..count]);
    }
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
    Answer { status, head: head.to_owned(), raw: body.to_owned(), body: body.replace("&#x2f;", "/") }
}

/// Server-sent events.
pub(crate) struct Events {
    reader: BufReader<TcpStream>,
    pub(crate) head: String,
}

impl Iterator for Events {
    type Item = (String, serde_json::Value);

    /// The next event, its kind and its data; `None` at the end of the stream.
    fn next(&mut self) -> Option<Self::Item> {
        let mut kind = String::new();
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap_or_default() == 0 {
                return None;
            }
            if let Some(name) = line.strip_prefix("event: ") {
                kind = name.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((kind, serde_json::from_str(data).unwrap()));
            } else if kind.is_empty() {
                self.head.push_str(&line);
            }
        }
    }
}
