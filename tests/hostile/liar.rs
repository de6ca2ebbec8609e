//! The lying executor. sshd starts it instead of the controller's command, and it speaks the protocol as it likes.

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};
use windlass_protocol::{BEGIN_MARKER, PROTOCOL_VERSION, read_frame};

/// Answers according to the script until the controller disconnects.
pub(crate) fn serve(script: &Path) {
    let script: Value = serde_json::from_slice(&std::fs::read(script).unwrap()).unwrap();
    let mode = script["mode"].as_str().unwrap_or("answer").to_owned();
    let mut out = Wire(std::io::stdout().lock());
    let command = std::env::var("SSH_ORIGINAL_COMMAND").unwrap();
    let is_hex = |word: &&str| word.len() == 32;
    let Some(word) = command.split(|letter: char| !letter.is_ascii_hexdigit()).find(is_hex) else {
        // A bare command (`raw`), whose output is data too.
        return out.raw(super::stage::EVIL.as_bytes());
    };
    let word = word.to_owned();
    greet(&mut out, &mode, &word);
    let mut input = std::io::stdin().lock();
    let mut liar = Liar { out, mode, results: script["results"].clone(), held: None };
    while let Ok(Some((message, _))) = read_frame::<Value>(&mut input) {
        if let Some(request) = message.get("run") {
            liar.answer(request);
        }
    }
}

fn hello(boot: &str) -> Value {
    json!({"hello": {"protocol": PROTOCOL_VERSION, "pid": std::process::id(), "uid": 0, "boot_id": boot}})
}

fn greet(out: &mut Wire<impl Write>, mode: &str, word: &str) {
    match mode {
        // A login shell that prints its own marker, followed by a frame.
        "fake_marker" => {
            out.raw(format!("\n{BEGIN_MARKER}{}\n", "0".repeat(32)).as_bytes());
            out.frame(&hello("fake"), b"");
        }
        "another_forced_command" => {
            out.raw(b"only git is allowed here\n");
            std::process::exit(128);
        }
        "endless_noise" => (0..4096).for_each(|_| out.raw(&[b'x'; 16 << 10])),
        _ => {}
    }
    out.raw(format!("\n{BEGIN_MARKER}{word}\n").as_bytes());
    match mode {
        "greets_with_an_answer" => out.frame(&json!({"done": {"id": 1, "result": {}}}), b""),
        "greets_with_a_giant" => out.raw(&[0xff; 64]),
        "greets_with_megabytes" => {
            let mut boot = hello("");
            boot["hello"]["boot_id"] = "x".repeat(100 << 20).into();
            out.frame(&boot, b"");
        }
        "restarts" => out.frame(&hello(&format!("boot of {}", std::process::id())), b""),
        _ => out.frame(&hello("00000000-0000-0000-0000-000000000000"), b""),
    }
}

/// The stream to the controller. Frames are built by hand, so that they can be invalid.
struct Wire<W: Write>(W);

impl<W: Write> Wire<W> {
    fn raw(&mut self, bytes: &[u8]) {
        // The controller may have disconnected, which is a valid reaction.
        if self.0.write_all(bytes).and_then(|()| self.0.flush()).is_err() {
            std::process::exit(0);
        }
    }

    fn frame(&mut self, message: &Value, blob: &[u8]) {
        self.bytes(message.to_string().as_bytes(), blob);
    }

    fn bytes(&mut self, message: &[u8], blob: &[u8]) {
        let lengths = [(message.len() as u32).to_be_bytes(), (blob.len() as u32).to_be_bytes()].concat();
        self.raw(&[&lengths, message, blob].concat());
    }
}

struct Liar<W: Write> {
    out: Wire<W>,
    mode: String,
    results: Value,
    /// A request whose answer is held until the next one.
    held: Option<u64>,
}

impl<W: Write> Liar<W> {
    fn done(&mut self, id: u64, result: &Value) {
        self.out.frame(&json!({"done": {"id": id, "result": result}}), b"");
    }

    fn event(&mut self, id: u64, event: &Value, blob: &[u8]) {
        self.out.frame(&json!({"event": {"id": id, "event": event}}), blob);
    }

    fn result(&self, request: &Value) -> Value {
        let module = request["module"].as_str().unwrap_or_default();
        let module = module.rsplit('.').next().unwrap_or_default();
        let found = self.results.get(module).or_else(|| self.results.get("*"));
        found.cloned().unwrap_or_else(|| json!({"changed": false}))
    }

    fn answer(&mut self, request: &Value) {
        let id = request["id"].as_u64().unwrap();
        let result = self.result(request);
        match self.mode.as_str() {
            "silence" => return,
            "ask_for_content_200000_times" => {
                (0..200_000).for_each(|_| self.event(id, &json!({"need_content": {"content": 0}}), b""));
            }
            "ask_for_content_that_is_not_there" => {
                self.event(id, &json!({"need_content": {"content": 18_446_744_073_709_551_615_u64}}), b"");
            }
            "nested_lists" => {
                let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
                self.out.bytes(format!(r#"{{"done":{{"id":{id},"result":{{"deep":{deep}}}}}}}"#).as_bytes(), b"");
            }
            "many_small_lists" => {
                let many = format!("[{}[]]", "[],".repeat(40 << 20));
                self.out.bytes(format!(r#"{{"done":{{"id":{id},"result":{{"many":{many}}}}}}}"#).as_bytes(), b"");
            }
            "many_warnings" => {
                let text = "w".repeat(4096);
                for number in 0..100_000 {
                    self.event(id, &json!({"warning": {"message": format!("{number} {text}")}}), b"");
                }
            }
            "many_waits_for_a_lock" if !request["lock"].is_null() => {
                for number in 0..200_000 {
                    let holder = json!({"user": "u".repeat(200), "machine": "m".repeat(200), "pid": number,
                        "command": "c".repeat(200), "since": number.to_string()});
                    self.event(id, &json!({"lock_wait": {"holder": holder, "waited": 0, "left": 1800}}), b"");
                }
            }
            "waits_for_a_lock_without_end" if !request["lock"].is_null() => loop {
                let holder = json!({"user": "u", "machine": "m", "pid": 1, "command": "c", "since": "s"});
                self.event(id, &json!({"lock_wait": {"holder": holder, "waited": 0, "left": 1800}}), b"");
                std::thread::sleep(std::time::Duration::from_secs(5));
            },
            "another_large_warning" => {
                let warning = format!("{id} {}", "w".repeat(8 << 20));
                return self.done(id, &json!({"changed": false, "warnings": [warning]}));
            }
            "another_large_fact" => {
                let name = format!("ansible_large{id}");
                return self
                    .done(id, &json!({"changed": false, "ansible_facts": {name: {"device": "f".repeat(60 << 20)}}}));
            }
            "large_output" => {
                let line = format!("{id} {}\n", "o".repeat(1 << 20));
                return self.done(id, &json!({"changed": false, "rc": 0, "stdout": line.repeat(30)}));
            }
            "ends_after_three_sent_together" => match request["turn"]["step"].as_u64() {
                None => {}
                Some(2) => std::process::exit(3),
                Some(_) => return,
            },
            "much_output" => {
                let blob = vec![b'o'; 1 << 20];
                (0..512).for_each(|_| self.event(id, &json!({"output": {"stream": "stdout"}}), &blob));
            }
            "answers_to_100000_others" => {
                (1_000..101_000).for_each(|other| self.done(other, &json!({"changed": true, "msg": "FORGED"})));
            }
            "answers_ahead_of_the_question" => {
                (id + 1..id + 50).for_each(|other| self.done(other, &json!({"changed": true, "msg": "FORGED"})));
            }
            "answers_twice" => {
                self.done(id, &result);
                return self.done(id, &json!({"failed": true, "msg": "FORGED"}));
            }
            "greets_again" => self.out.frame(&hello("another boot"), b""),
            "sends_a_file" => self.event(id, &json!("file_data"), b"unasked"),
            "sends_another_file" => {
                self.event(id, &json!("file_data"), b"some");
                self.event(id, &json!("file_data"), &vec![b'x'; 4 << 20]);
            }
            "did_not_run_it" => return self.event(id, &json!("not_run"), b""),
            "refuses_for_a_lost_executor" => {
                return self.event(id, &json!({"refused": {"message": "{{ 1234 * 4321 }}"}}), b"");
            }
            "did_not_become_anybody" => {
                return self.event(id, &json!({"become_failed": {"message": "{{ 1234 * 4321 }}\u{1b}[2J"}}), b"");
            }
            "length_over_the_limit" => return self.out.raw(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
            "no_json" => return self.out.bytes(b"{\"done\": nonsense", b""),
            "no_text" => return self.out.bytes(b"{\"done\": {\"id\": \xff\xfe}}", b""),
            "unknown_message" => return self.out.frame(&json!({"run_on_the_controller": "touch CANARY"}), b""),
            "ends_within_a_frame" => {
                self.out.raw(&[0, 0, 1, 0, 0, 0, 0, 0, b'{']);
                std::process::exit(1);
            }
            // Another boot id on every connection, if the answer has one.
            "restarts_when_asked" if result["stdout"].is_string() => {
                let mut result = result;
                result["stdout"] = format!("{} {}", std::process::id(), result["stdout"].as_str().unwrap()).into();
                return self.done(id, &result);
            }
            "ends" | "restarts" => std::process::exit(3),
            // Answers two pipelined requests, each under the other's id.
            "swaps" if request["turn"].is_object() => match self.held.take() {
                None => return self.held = Some(id),
                Some(first) => {
                    self.done(id, &json!({"changed": false, "ping": format!("answer to {first}")}));
                    return self.done(first, &json!({"changed": false, "ping": format!("answer to {id}")}));
                }
            },
            _ => {}
        }
        self.done(id, &result);
    }
}
