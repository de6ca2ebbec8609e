//! Compares `docs/reference/deadlines.md` with the constants and settings of the code.

use std::fs;
use std::path::Path;

use crate::sources::rust_files;
use regex::Regex;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A documented wait, its deadline, and the places that set it: a source file, and the code in it.
type Row = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const DOCUMENTED: &[Row] = &[
    (
        "TCP connection, and then the SSH banner",
        "10 s",
        &[("crates/ssh/src/resolved.rs", "const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);")],
    ),
    ("SSH key exchange", "30 s", &[("crates/ssh/src/settings.rs", "key_exchange: Duration::from_secs(30)")]),
    ("SSH authentication", "60 s", &[("crates/ssh/src/settings.rs", "authentication: Duration::from_secs(60)")]),
    ("SSH channel", "30 s", &[("crates/ssh/src/settings.rs", "channel: Duration::from_secs(30)")]),
    (
        "SSH connection that carries nothing",
        "15 s between probes",
        &[("crates/ssh/src/connect.rs", "const ALIVE_INTERVAL: Duration = Duration::from_secs(15);")],
    ),
    (
        "`Match exec`",
        "10 s",
        &[("crates/ssh/src/config/reader.rs", "const EXEC_DEADLINE: Duration = Duration::from_secs(10);")],
    ),
    (
        "Lookup of host keys by `windlass doctor`",
        "10 s",
        &[("src/cli/doctor.rs", "const KEYS_DEADLINE: Duration = Duration::from_secs(10);")],
    ),
    (
        "[Rules of a project](../how-to/lint.md#rules-of-your-own) in `windlass lint`",
        "10 s",
        &[("src/lint/own.rs", "const DEADLINE: Duration = Duration::from_secs(10);")],
    ),
    (
        "Start of the executor",
        "60 s",
        &[("src/executor/start.rs", "const START_DEADLINE: Duration = Duration::from_secs(60);")],
    ),
    (
        "Start of a process of `--shards`",
        "60 s",
        &[
            ("src/shards/mod.rs", "const START: Duration = Duration::from_secs(60);"),
            ("src/shards/mod.rs", "const LOOK: Duration = Duration::from_millis(100);"),
        ],
    ),
    (
        "Silence of such a process",
        "60 s",
        &[
            ("src/shards/mod.rs", "const ALIVE: Duration = Duration::from_secs(5);"),
            ("src/shards/mod.rs", "const LOST: Duration = Duration::from_secs(60);"),
        ],
    ),
    (
        "Silence of the lead for a worker in another pod",
        "15 s; 600 s",
        &[
            ("src/shards/mod.rs", "const SILENT: Duration = Duration::from_secs(15);"),
            ("src/shards/mod.rs", "const WAIT: Duration = Duration::from_secs(600);"),
            ("src/shards/mod.rs", "const PAUSE: Duration = Duration::from_secs(1);"),
        ],
    ),
    (
        "Handshake between two pods of a run",
        "10 s",
        &[("src/shards/mod.rs", "const HANDSHAKE: Duration = Duration::from_secs(10);")],
    ),
    (
        "End of such a process",
        "1 s; 15 s",
        &[
            ("src/shards/mod.rs", "const REST: Duration = Duration::from_secs(1);"),
            ("src/shards/mod.rs", "const END: Duration = Duration::from_secs(15);"),
        ],
    ),
    (
        "Trace of a run",
        "30 s; 10 s of silence",
        &[
            ("src/cli/otlp.rs", "const TRACE: Duration = Duration::from_secs(30);"),
            ("src/cli/otlp.rs", "const SILENCE: u64 = 10;"),
        ],
    ),
    (
        "A request of a run in a cluster",
        "10 s",
        &[("src/engine/mod.rs", "const REQUEST: Duration = Duration::from_secs(10);")],
    ),
    (
        "Checks by the client and by the pod of such a run",
        "1 s apart; segments up to 30 s apart",
        &[
            ("src/engine/mod.rs", "const LOOK: Duration = Duration::from_secs(1);"),
            ("src/engine/pod.rs", "const SLOWEST: Duration = Duration::from_secs(30);"),
        ],
    ),
    (
        "Lease of such a run",
        "5 s; 15 s; 30 s",
        &[
            ("src/engine/mod.rs", "const RENEW: Duration = Duration::from_secs(5);"),
            ("src/engine/mod.rs", "const GIVE_UP: Duration = Duration::from_secs(15);"),
            ("src/engine/mod.rs", "const EXPIRE: Duration = Duration::from_secs(30);"),
        ],
    ),
    (
        "The client of such a run",
        "600 s",
        &[("src/engine/follow.rs", "const SILENCE: Duration = Duration::from_secs(600);")],
    ),
    (
        "End of such a run that is stopped",
        "10 s",
        &[("src/engine/mod.rs", "const STOP: Duration = Duration::from_secs(10);")],
    ),
    (
        "A host that does not answer",
        "after 15 s, unreachable after 120 s; both begin again after the control machine itself was busy for 1 s",
        &[
            ("src/executor/heartbeat.rs", "const LATE: Duration = Duration::from_secs(1);"),
            ("src/executor/heartbeat.rs", "Self::lost_after(Some(Duration::from_secs(120)))"),
            ("src/executor/heartbeat.rs", "let quiet = Duration::from_secs(15);"),
            ("src/settings/connect.rs", "\"heartbeat_timeout\", Duration::from_secs(120)"),
        ],
    ),
    (
        "Signal to `windlass` itself",
        "2 s",
        &[("crates/bounds/src/child.rs", "const OWN_SIGNAL: Duration = Duration::from_secs(2);")],
    ),
    (
        "The `ssh` of a `synchronize`",
        "10 s; 15 s between probes",
        &[(
            "src/action/synchronize.rs",
            "&[\"ConnectTimeout=10\", \"ServerAliveInterval=15\", \"ServerAliveCountMax=4\"]",
        )],
    ),
    (
        "Arrival of one message",
        "120 s",
        &[("src/executor/live.rs", "const ARRIVAL: Duration = Duration::from_secs(120);")],
    ),
    ("Arrival of one message", "64 KiB/s", &[("src/executor/live.rs", "const SLOWEST_ARRIVAL: usize = 64 << 10;")]),
    (
        "End of a `raw` command",
        "3 s each",
        &[("src/connection/duplex.rs", "const GRACE: Duration = Duration::from_secs(3);")],
    ),
    (
        "Host that passes a file on to another",
        "10 s, 3 s",
        &[
            ("src/executor/peers.rs", "const OFFER_DEADLINE: u64 = 10;"),
            ("modules/src/serve/peer/take.rs", "const CONNECT: Duration = Duration::from_secs(3);"),
        ],
    ),
    (
        "Such a host that sends nothing",
        "10 s; 64 KiB/s on average after 30 s",
        &[
            ("modules/src/serve/peer/take.rs", "const SILENCE: Duration = Duration::from_secs(10);"),
            ("modules/src/serve/peer/mod.rs", "const SLOWEST: u64 = 64 << 10;"),
            ("modules/src/serve/peer/mod.rs", "const MEASURED_AFTER: Duration = Duration::from_secs(30);"),
        ],
    ),
    (
        "Receiver that it waits for",
        "15 s; 10 s, 64 KiB/s on average after 30 s",
        &[
            ("modules/src/serve/peer/send.rs", "const ARRIVAL: Duration = Duration::from_secs(15);"),
            ("modules/src/serve/peer/send.rs", "const SILENCE: Duration = Duration::from_secs(10);"),
        ],
    ),
    (
        "Host that waits for such a file",
        "60 s, and 1 s for each MiB",
        &[("src/executor/peers.rs", "const PATIENCE: Duration = Duration::from_secs(60);")],
    ),
    (
        "File that it keeps",
        "120 s",
        &[("modules/src/serve/peer/send.rs", "const KEPT_FOR: Duration = Duration::from_secs(120);")],
    ),
    (
        "A task of a lost process of such a run",
        "30 min",
        &[
            ("modules/src/serve/once.rs", "const LONGEST: Duration = Duration::from_secs(30 * 60);"),
            ("modules/src/serve/once.rs", "const PAUSE: Duration = Duration::from_millis(100);"),
            ("modules/src/serve/once.rs", "const HEARTBEAT: Duration = Duration::from_secs(15);"),
        ],
    ),
    (
        "Stopping what a process of such a run has on its hosts",
        "5 s; 15 s; 2 s",
        &[
            ("src/cli/shards.rs", "const STOPPING: Duration = Duration::from_secs(5);"),
            ("src/cli/shards.rs", "const STOPPED: Duration = Duration::from_secs(15);"),
            ("src/cli/shards.rs", "const AT_ONCE: Duration = Duration::from_secs(2);"),
        ],
    ),
    (
        "Another run's lock",
        "1800 s",
        &[("src/settings/journal.rs", "config.number(\"lock_timeout\")?.unwrap_or(1800)")],
    ),
    (
        "Lock of an edited file",
        "300 s; 10 s",
        &[
            ("modules/src/host_lock/file.rs", "const DEADLINE: Duration = Duration::from_secs(300);"),
            ("modules/src/host_lock/file.rs", "const OTHER_USER: Duration = Duration::from_secs(10);"),
        ],
    ),
    (
        "Another process's lock on the packages of a host",
        "60 s with `apt`, 30 s with `dnf`",
        &[
            ("modules/src/system/apt/mod.rs", "args.seconds(\"lock_timeout\", 60)"),
            ("modules/src/system/dnf/mod.rs", "args.seconds(\"lock_timeout\", 30)"),
        ],
    ),
    ("Another run that rewrites the ledger", "10 s", &[("src/journal/ledger.rs", "const PATIENCE: u32 = 10;")]),
    (
        "Reconnection after a lost",
        "20 s",
        &[("src/executor/pool.rs", "const LOOK_DEADLINE: Duration = Duration::from_secs(20);")],
    ),
    (
        "Lost executor that stops what it runs",
        "6 s; 25 s",
        &[
            ("modules/src/serve/former.rs", "const IN_ORDER: Duration = Duration::from_secs(6);"),
            ("modules/src/serve/former.rs", "const LONGEST: Duration = Duration::from_secs(25);"),
            ("modules/src/serve/former.rs", "const PAUSE: Duration = Duration::from_millis(100);"),
        ],
    ),
    (
        "Lookups that run programs",
        "600 s",
        &[("src/settings.rs", "\"command_timeout\", windlass_bounds::child::DEADLINE")],
    ),
    (
        "Password programs",
        "600 s",
        &[("crates/bounds/src/child.rs", "const DEADLINE: Duration = Duration::from_secs(600);")],
    ),
    (
        "End of the executor",
        "5 s",
        &[("src/executor/live.rs", "const END_DEADLINE: Duration = Duration::from_secs(5);")],
    ),
    (
        "End of an SSH connection",
        "5 s",
        &[("src/connection/ssh.rs", "const CLOSE_DEADLINE: Duration = Duration::from_secs(5);")],
    ),
    (
        "The runs that `reconcile` starts",
        "2 h",
        &[("src/reconcile/policy.rs", "run_timeout: Duration::from_secs(7200)")],
    ),
    (
        "End of a run that `reconcile` or `fleet` stops",
        "60 s",
        &[("src/cli/child.rs", "const ENDING: std::time::Duration = std::time::Duration::from_secs(60);")],
    ),
    (
        "Rest of the output of a run of `fleet`",
        "2 s",
        &[("src/cli/fleet.rs", "const REST: Duration = Duration::from_secs(2);")],
    ),
    (
        "End of all connections after a signal",
        "10 s",
        &[("src/cli/session.rs", "const CLOSING: Duration = Duration::from_secs(10);")],
    ),
    (
        "Threads that still evaluate or read",
        "2 s",
        &[("src/cli/session.rs", "const THREADS: Duration = Duration::from_secs(2);")],
    ),
    (
        "End of the run after a bug in Windlass",
        "60 s",
        &[("src/cli/session.rs", "const AFTER_BUG: Duration = Duration::from_secs(60);")],
    ),
    (
        "Templates that keep all threads busy",
        "5 s",
        &[("src/cli/session.rs", "const WORKERS_TO_ANSWER: Duration = Duration::from_secs(5);")],
    ),
    (
        "Answer to the question about a host key",
        "300 s",
        &[("src/output/host_keys.rs", "const ANSWER_DEADLINE: Duration = Duration::from_secs(300);")],
    ),
    (
        "Name lookup on a host",
        "30 s",
        &[("modules/src/net/resolve.rs", "const DEADLINE: Duration = Duration::from_secs(30);")],
    ),
    (
        "A `sudo`, `su` or `doas` that refused",
        "2 s",
        &[("modules/src/become_user/start.rs", "const FAREWELL: Duration = Duration::from_secs(2);")],
    ),
    ("`become`", "10 s", &[("src/vars/connection.rs", "timeout: timeout.max(10),")]),
    (
        "Answer of a host to a task that exceeded",
        "30 s",
        &[("src/executor/call.rs", "const GRACE: Duration = Duration::from_secs(30);")],
    ),
    (
        "Output of programs that a task left",
        "5 s",
        &[("modules/src/process/running.rs", "const BACKGROUND: Duration = Duration::from_secs(5);")],
    ),
    (
        "Stopping such a command altogether",
        "12 s",
        &[("src/executor/raw.rs", "const STOP_DEADLINE: Duration = GRACE.saturating_mul(4);")],
    ),
    (
        "Gate of the host lock",
        "10 s",
        &[("modules/src/host_lock/mod.rs", "const GATE: Duration = Duration::from_secs(10);")],
    ),
    (
        "`reboot`, `wait_for_connection`",
        "600 s",
        &[
            ("src/action/reboot.rs", "Duration::from_secs(seconds(\"timeout\", 600))"),
            ("src/action/reboot.rs", "Duration::from_secs(seconds(\"reboot_timeout\", 600))"),
        ],
    ),
    ("Program `file`", "2 s", &[("modules/src/files/mime.rs", "const ANSWER: Duration = Duration::from_secs(2);")]),
    ("Lookup `url`", "10 s", &[("crates/template/src/lookups/url.rs", "number::to_float).unwrap_or(10.0)")]),
    (
        "Programs of fact gathering",
        "5 s; others 10 s",
        &[
            ("modules/src/facts/account.rs", "Duration::from_secs(5)"),
            ("modules/src/facts/service_manager.rs", "Duration::from_secs(5)"),
            ("modules/src/facts/platform.rs", "Duration::from_secs(5)"),
            ("modules/src/facts/storage.rs", "Duration::from_secs(5)"),
            ("modules/src/facts/setup.rs", "args.seconds(\"gather_timeout\", 10)"),
        ],
    ),
    (
        "A Galaxy server, a registry, or another server of `bundle create`",
        "60 s without a byte; after the first 60 s, the time of the answer at 16 KiB/s",
        &[
            ("src/cli/galaxy/state.rs", "unwrap_or(60)"),
            ("src/http.rs", "const SLOWEST: u64 = 16 << 10;"),
            ("modules/src/http/exchange.rs", "const START: Duration = Duration::from_secs(60);"),
        ],
    ),
    ("Webhook of `reconcile`", "10 s", &[("src/cli/reconcile.rs", "const WEBHOOK: u64 = 10;")]),
    (
        "Each read from the HTTP server of a module",
        "10 s, 30 s, 60 s",
        &[
            ("modules/src/http/client.rs", "args.seconds(\"timeout\", 10)"),
            ("modules/src/kubernetes/core/helm/chart.rs", "const SILENCE: Duration = Duration::from_secs(30);"),
            ("modules/src/kubernetes/core/access.rs", "const SILENCE: Duration = Duration::from_secs(60);"),
        ],
    ),
    (
        "Service of this machine",
        "2 s",
        &[("modules/src/http/client.rs", "const UNTIL_IT_LISTENS: Duration = Duration::from_secs(2);")],
    ),
    (
        "Connections between etcd members",
        "20 s",
        &[("modules/src/kubernetes/etcd/members.rs", "const SETTLED: Duration = Duration::from_secs(20);")],
    ),
    (
        "Another change of members of the same etcd cluster",
        "1 h; after 30 s",
        &[
            ("modules/src/kubernetes/turn.rs", "const PATIENCE: Duration = Duration::from_secs(3600);"),
            ("modules/src/kubernetes/turn.rs", "const NOTICE: Duration = Duration::from_secs(30);"),
        ],
    ),
    (
        "Lock of members whose holder was killed",
        "30 s",
        &[("modules/src/kubernetes/etcd/lock.rs", "const MARGIN: u64 = 30;")],
    ),
    (
        "Lock of control planes whose holder was killed",
        "40 s",
        &[("modules/src/kubernetes/kubeadm/lock.rs", "const DURATION: Duration = Duration::from_secs(40);")],
    ),
    (
        "Cluster that answered, before such a lock",
        "60 s",
        &[("modules/src/kubernetes/turn.rs", "const ELECTION: Duration = Duration::from_secs(60);")],
    ),
    (
        "API server that releases the lock of control planes",
        "20 s",
        &[("modules/src/kubernetes/kubeadm/lock.rs", "const RELEASE: Duration = Duration::from_secs(20);")],
    ),
    (
        "Recovery from the change of another control plane",
        "30 s",
        &[("modules/src/kubernetes/kubeadm/planes.rs", "const SETTLED: Duration = Duration::from_secs(30);")],
    ),
    (
        "TLS handshake with `bundle serve`",
        "10 s",
        &[("src/http/server.rs", "const HEAD_DEADLINE: Duration = Duration::from_secs(10);")],
    ),
    (
        "GnuPG, which verifies a signature",
        "60 s",
        &[("src/cli/galaxy/collection/signature.rs", "const DEADLINE: Duration = Duration::from_secs(60);")],
    ),
    (
        "Form that a browser sends",
        "10 s",
        &[("src/http/server/form.rs", "const DEADLINE: Duration = Duration::from_secs(10);")],
    ),
    (
        "Session of a user of `serve`",
        "12 h",
        &[("src/serve/sessions.rs", "const LIFE: Duration = Duration::from_secs(12 * 60 * 60);")],
    ),
    (
        "Period in which `serve` records",
        "60 s",
        &[("src/serve/control.rs", "const WINDOW: Duration = Duration::from_secs(60);")],
    ),
    (
        "Preparation of an answer by `serve`",
        "60 s",
        &[("src/http/server.rs", "const ANSWER_DEADLINE: Duration = Duration::from_secs(60);")],
    ),
    (
        "Client of `serve`",
        "30 s",
        &[("src/http/server/stalled.rs", "const SILENCE: Duration = Duration::from_secs(30);")],
    ),
    (
        "A callback in Python",
        "60 s",
        &[("src/foreign/plugins/callback.rs", "const EVENT_DEADLINE: Duration = Duration::from_secs(60);")],
    ),
    (
        "A cache plugin in Python",
        "60 s",
        &[("src/foreign/plugins/cache.rs", "const REQUEST_DEADLINE: Duration = Duration::from_secs(60);")],
    ),
    ("Pause of `serve`", "100 ms", &[("src/http/server.rs", "const REST: Duration = Duration::from_millis(100);")]),
    (
        "Lock of a new journal",
        "100 attempts, 1 ms apart",
        &[
            ("src/journal/state.rs", "const LOOKS: usize = 100;"),
            ("src/journal/state.rs", "const LOOK: Duration = Duration::from_millis(1);"),
        ],
    ),
    (
        "End of a run that `--resume` finds still active",
        "100 checks, 20 ms apart",
        &[("src/journal/state.rs", "const END_LOOK: Duration = Duration::from_millis(20);")],
    ),
    (
        "Change of a run that `serve` shows live",
        "within 500 ms; after 15 s",
        &[
            ("src/serve/live.rs", "const LOOK: Duration = Duration::from_millis(500);"),
            ("src/serve/live.rs", "const QUIET: Duration = Duration::from_secs(15);"),
        ],
    ),
    (
        "Inventory that `serve` has read",
        "30 s",
        &[("src/serve/cluster.rs", "const FRESH: Duration = Duration::from_secs(30);")],
    ),
    (
        "Check of a document by `windlass lsp`",
        "200 ms after the last change, 2 s",
        &[
            ("src/lsp/server.rs", "const QUIET: Duration = Duration::from_millis(200);"),
            ("src/lsp/server.rs", "const LONGEST_DELAY: Duration = Duration::from_secs(2);"),
        ],
    ),
    (
        "Question of an editor to `windlass lsp`",
        "10 s",
        &[("src/lsp/server.rs", "const PATIENCE: Duration = Duration::from_secs(10);")],
    ),
    ("Editor of `vault edit`", "2 s", &[("src/cli/plaintext.rs", "const GRACE: Duration = Duration::from_secs(2);")]),
    (
        "ProxyCommand, after",
        "1 s",
        &[("crates/ssh/src/stream.rs", "const LAST_WORDS: Duration = Duration::from_secs(1);")],
    ),
    (
        "SSH server that refuses connections",
        "10 attempts, 10 s",
        &[
            ("crates/ssh/src/attempts.rs", "const THROTTLED_ATTEMPTS: u32 = 10;"),
            ("crates/ssh/src/attempts.rs", "const LONGEST_PAUSE: Duration = Duration::from_secs(10);"),
        ],
    ),
    (
        "Start of such a program",
        "1 s",
        &[("crates/guard/src/lib.rs", "const STARTING: Duration = Duration::from_secs(1);")],
    ),
    (
        "Suspended executor",
        "3 s",
        &[("crates/guard/src/run.rs", "const SUSPENDED: Duration = Duration::from_secs(3);")],
    ),
    (
        "Silent SSH server, before another host takes its turn",
        "1 s; 5 s after an answer",
        &[
            ("crates/ssh/src/openings.rs", "const PATIENCE: Duration = Duration::from_secs(1);"),
            ("crates/ssh/src/openings.rs", "const LONG_PATIENCE: Duration = Duration::from_secs(5);"),
        ],
    ),
    (
        "Connections to one network, after the first 64",
        "4 ms apart",
        &[
            ("crates/ssh/src/openings.rs", "const BURST: u32 = 64;"),
            ("crates/ssh/src/openings.rs", "const INTERVAL: Duration = Duration::from_millis(4);"),
        ],
    ),
    ("Executor that hangs", "15 s", &[("crates/guard/src/run.rs", "const HUNG: Duration = Duration::from_secs(15);")]),
    (
        "Processes of a stopped task, and programs of a killed controller",
        "3 s",
        &[("crates/guard/src/lib.rs", "const GRACE: Duration = Duration::from_secs(3);")],
    ),
];

#[test]
fn documented_deadlines_are_those_of_the_code() {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/reference/deadlines.md")).unwrap();
    let mut wrong = Vec::new();
    for (wait, deadline, places) in DOCUMENTED {
        let row = page.lines().find(|line| line.starts_with(&format!("| {wait}")));
        let cell = row.and_then(|row| row.split('|').nth(2)).unwrap_or_default();
        if !cell.contains(deadline) {
            wrong.push(format!("the row `{wait}` does not have `{deadline}`"));
        }
        for (file, code) in *places {
            if !fs::read_to_string(Path::new(ROOT).join(file)).unwrap().contains(code) {
                wrong.push(format!("{file} no longer has `{code}`, on which the row `{wait}` depends"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Constants that bound no wait of a run, with their meaning.
const OTHERS: &[(&str, &str, &str)] = &[
    ("crates/bounds/src/file.rs", "LOOK", "interval at which a wait for a pipe looks for a signal"),
    ("src/journal/log.rs", "INTERVAL", "lines of the journal are flushed that often"),
    ("src/serve/starts.rs", "LOOK", "interval at which a run that a page has started is looked at"),
    ("src/output/footer/mod.rs", "PERIOD", "shortest time between two drawings of the footer"),
    ("src/output/footer/mod.rs", "TICK", "interval at which the footer is drawn"),
    ("src/output/footer/mod.rs", "DELAY", "runs that are shorter have no footer"),
    ("src/output/footer/progress.rs", "HELP", "time for which the footer names the key that lists all keys"),
    ("src/output/footer/progress.rs", "SLOW", "age of a task from which its host is named"),
    ("src/output/footer/keys.rs", "WATCH", "interval at which the mode of the terminal is checked"),
    ("src/foreign/plugins/helper.rs", "ENDING", "interval at which the end of a plugin's process is looked for"),
    ("src/output/screen.rs", "WATCH", "interval at which the silence of a run is measured"),
    ("src/output/durations.rs", "SHORTEST", "shorter plays are not listed"),
    ("src/executor/pool.rs", "REFUSED_PAUSE", "a refused login is not repeated earlier, and fails at once meanwhile"),
    (
        "src/output/host_keys.rs",
        "SHOWN_DEADLINE",
        "output and not an answer is awaited; the warning is dropped afterwards",
    ),
    ("crates/ssh/src/attempts.rs", "FIRST_PAUSE", "shortest of the pauses that LONGEST_PAUSE bounds"),
    ("crates/lab/src/wait.rs", "PAUSE", "interval of attempts in the lab"),
    ("crates/lab/src/lab.rs", "SECONDS_FOR_OTHERS", "another command of the lab"),
    ("crates/lab/src/cgroup.rs", "SECONDS_TO_DIE", "end of a host of the lab"),
    ("crates/lab/src/node.rs", "SECONDS_TO_BOOT", "start of a host of the lab"),
    ("crates/lab/src/base.rs", "SECONDS_TO_BUILD", "another lab's build of the same base"),
    ("crates/lab/src/ssh.rs", "MOMENT", "one attempt to connect to a host of the lab"),
    ("modules/src/serve/peer/send.rs", "PAUSE", "rest of a listener that cannot accept a connection"),
    ("modules/src/serve/peer/take.rs", "TICK", "interval at which a read looks for a cancelled request"),
    ("modules/src/kubernetes/kubeadm/lock.rs", "RENEWAL", "interval of renewals of a lock"),
    ("modules/src/kubernetes/kubeadm/lock.rs", "AGAIN", "pause before a lock is renewed or released again"),
    ("modules/src/serve/gate.rs", "PAUSE", "interval of attempts to get a lock"),
    ("modules/src/serve/gate.rs", "HEARTBEAT", "interval of reports while a lock is awaited"),
    ("modules/src/host_lock/flight.rs", "OLD", "age of results of other runs that may be removed"),
    ("src/executor/flight.rs", "STORED", "age at which an outcome of a run in pods needs no result on its host"),
    ("src/engine/objects.rs", "LOST_NODE", "Kubernetes waits, and not the run"),
    ("src/engine/objects.rs", "GRACE", "longer than the stop of a run, which has a row"),
    ("modules/src/become_user/start.rs", "USUAL_TIMEOUT", "the control machine always sends the time for `become`"),
    ("modules/src/files/sweep.rs", "YOUNG", "age of temporary files that may be removed"),
];

/// Seconds in the code that are neither constants nor deadlines: file, code, and reason.
const SECONDS: &[(&str, &str, &str)] = &[
    ("src/settings/output.rs", "progress_interval", "interval of lines about a run without a terminal"),
    ("src/action/reboot.rs", "Duration::from_secs(2),", "interval of attempts to connect"),
    ("src/reconcile/policy.rs", "interval:", "interval of verifications"),
    ("src/reconcile/policy.rs", "unhealthy_for:", "age of a failure from which a node is replaced"),
    ("src/reconcile/policy.rs", "budget_period:", "period for which repairs are counted"),
    ("modules/src/serve/execution.rs", "GRACE +", "longer than the grace, which has a row"),
    ("modules/src/serve/session.rs", "GRACE +", "longer than the grace, which has a row"),
    ("modules/src/become_user/mod.rs", "GRACE +", "longer than the grace, which has a row"),
    ("modules/src/become_user/elevated.rs", "deadline +", "longer than the deadline of `become`, which has a row"),
    ("modules/src/kubernetes/kube/nodes.rs", "limit +", "longer than kubectl's own limit, the module's `timeout`"),
    ("modules/src/kubernetes/core/k8s/definitions.rs", "timeout:", "in the row of HTTP servers"),
];

#[test]
fn duration_in_the_code_is_documented() {
    let constant =
        Regex::new(r"(?:const ([A-Z_]+): (?:std::time::)?Duration|[sS]econds.*\nconst ([A-Z_]+): u(?:64|32)) = [^;]+;");
    let constant = constant.unwrap();
    let literal = Regex::new(r"Duration::from_secs\([0-9_]+\)").unwrap();
    let mut missing = Vec::new();
    for file in rust_files(&["src", "crates", "modules/src"]) {
        let text = fs::read_to_string(&file).unwrap();
        let shown = file.strip_prefix(ROOT).unwrap().display().to_string();
        if shown.contains("/tests") || shown.starts_with("crates/bench") {
            continue;
        }
        let places: Vec<&str> = DOCUMENTED
            .iter()
            .flat_map(|(_, _, places)| *places)
            .filter(|(file, _)| *file == shown)
            .map(|(_, code)| *code)
            .collect();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for found in constant.captures_iter(text) {
            let name = found.get(1).or(found.get(2)).unwrap().as_str();
            let is_other = OTHERS.iter().any(|(file, other, _)| *file == shown && *other == name);
            if !is_other && !places.iter().any(|code| found[0].ends_with(code)) {
                missing.push(format!("{shown}: {}", &found[0]));
            }
        }
        // Pauses and least values are no deadlines.
        let skipped = |line: &&str| ["const ", "sleep(", ".max("].iter().any(|part| line.contains(part));
        for line in text.lines().filter(|line| literal.is_match(line) && !skipped(line)) {
            let is_other = SECONDS.iter().any(|(file, code, _)| *file == shown && line.contains(code));
            if !is_other && !places.iter().any(|code| line.contains(code)) {
                missing.push(format!("{shown}: {}", line.trim()));
            }
        }
    }
    assert!(missing.is_empty(), "durations without a row in docs/reference/deadlines.md:\n{}", missing.join("\n"));
}
