//! Hosts that pass large files on to each other, over a real sshd.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Sshd, available};
use serde_json::{Value, json};
use sha2::Digest as _;
use windlass::connection::{HostKeyChecking, Kind, Target};
use windlass::executor::{Call, Limits, Pool, Source, TaskEvent};
use windlass_protocol::{Become, BecomeMethod, Content, Delivery, Request};

const SIZE: usize = 2 << 20;
/// Bytes of all frames beside the contents, at most.
const BESIDE: u64 = 256 << 10;

/// A machine that plays several hosts, and a file of the controller.
struct Site {
    sshd: Sshd,
    pool: Pool<Value>,
    file: PathBuf,
    bytes: Vec<u8>,
    warnings: Arc<Mutex<Vec<String>>>,
    /// User as whom the hosts copy, if not the login user.
    user: Option<Become>,
}

impl Site {
    fn new(peer_port: Option<u16>) -> Site {
        let sshd = Sshd::start("LogLevel INFO\nMaxStartups 100");
        let bytes: Vec<u8> = (0..SIZE).map(|at| (at * 7 % 253) as u8).collect();
        let file = sshd.path("image.tar");
        fs::write(&file, &bytes).unwrap();
        let pool = Pool::new(Limits { peer_port, ..Limits::default() });
        Site { sshd, pool, file, bytes, warnings: Arc::default(), user: None }
    }

    fn target(&self, name: &str, peer_address: Option<IpAddr>) -> Arc<Target> {
        let settings = self.sshd.settings();
        Arc::new(Target {
            host: "127.0.0.1".into(),
            port: Some(self.sshd.port),
            user: Some("root".into()),
            private_key_file: settings.identity_file,
            ssh_arguments: [vec!["-F".into(), "none".into()], settings.arguments].concat(),
            host_key_checking: Some(HostKeyChecking::AcceptNew),
            remote_tmp: self.sshd.path("remote tmp").display().to_string(),
            peer_address,
            ..Target::new(name, Kind::Ssh)
        })
    }

    /// Copies the file to a host, and returns the path there.
    async fn copy(&self, target: &Arc<Target>) -> PathBuf {
        let dest = self.sshd.path(&format!("of {}", target.name));
        self.run(target, json!({ "dest": dest, "_content": 0 }), 1).await;
        dest
    }

    /// Runs `copy` with as many contents, which are all the same file.
    async fn run(&self, target: &Arc<Target>, args: Value, contents: usize) {
        let content = Content {
            name: "image.tar".into(),
            size: self.bytes.len() as u64,
            sha1: hex::encode(sha1::Sha1::digest(&self.bytes)),
            sha256: Some(hex::encode(sha2::Sha256::digest(&self.bytes))),
            mode: 0o644,
            delivery: Delivery::OnDemand,
        };
        let warnings = Arc::clone(&self.warnings);
        let mut call = Call {
            sources: vec![Source::File(self.file.clone()); contents],
            listener: Some(Box::new(move |event| {
                if let TaskEvent::Warning(text) = event {
                    warnings.lock().unwrap().push(text);
                }
            })),
            ..Call::new(request(args, vec![content; contents]))
        };
        call.request.become_user.clone_from(&self.user);
        let answer = self.pool.run(target, call).await.unwrap();
        assert_eq!(answer.result["changed"], true, "{}", answer.result);
    }

    fn assert_equal(&self, path: &Path) {
        assert!(fs::read(path).unwrap() == self.bytes, "{}", path.display());
    }

    /// Copies the file to all hosts in parallel. Returns the bytes sent, without the executors' own.
    async fn copy_to(&self, targets: &[Arc<Target>]) -> u64 {
        for target in targets {
            self.pool.hello(target).await.unwrap();
        }
        let before = self.sent().await;
        let paths = futures_util::future::join_all(targets.iter().map(|target| self.copy(target))).await;
        paths.iter().for_each(|path| self.assert_equal(path));
        self.sent().await - before
    }

    async fn sent(&self) -> u64 {
        self.pool.statistics().await.sent
    }
}

fn request(args: Value, contents: Vec<Content>) -> Request<Value> {
    Request { contents, ..Request::new("copy", args) }
}

#[tokio::test(flavor = "multi_thread")]
async fn controller_sends_a_large_file_only_twice() {
    if !available() {
        return;
    }
    let site = Site::new(Some(0));
    let targets: Vec<_> = (0..12).map(|number| site.target(&format!("web{number}"), None)).collect();
    let sent = site.copy_to(&targets).await;
    assert!(sent < 2 * SIZE as u64 + BESIDE, "{sent} bytes for twelve hosts");
    assert_eq!(*site.warnings.lock().unwrap(), [""; 0]);
    site.pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn executors_of_other_users_pass_files_on() {
    if !available() || !windlass_testing::has("sudo") {
        return;
    }
    let (method, user) = (BecomeMethod::Sudo, "root".to_owned());
    let become_root = Become { method, user, exe: None, flags: None, password: None, timeout: 20 };
    let site = Site { user: Some(become_root), ..Site::new(Some(0)) };
    let targets: Vec<_> = (0..5).map(|number| site.target(&format!("web{number}"), None)).collect();
    let sent = site.copy_to(&targets).await;
    assert!(sent < 2 * SIZE as u64 + BESIDE, "{sent} bytes for five hosts");
    assert_eq!(*site.warnings.lock().unwrap(), [""; 0]);
    site.pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn file_changed_on_the_sending_host_comes_from_the_controller() {
    if !available() {
        return;
    }
    let site = Site::new(Some(0));
    let first = site.copy(&site.target("web1", None)).await;
    // Written in place, so that the sender still holds this file.
    fs::File::options().write(true).open(&first).unwrap().write_at(&[255], 5).unwrap();
    let second = site.copy(&site.target("web2", None)).await;
    site.assert_equal(&second);
    let warnings = site.warnings.lock().unwrap().clone();
    assert!(
        matches!(&*warnings, [only] if only.contains("at 127.0.0.1:") && only.contains("it has another content now")),
        "{warnings:?}"
    );
    site.pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn file_replaced_on_the_sending_host_is_still_passed_on() {
    if !available() {
        return;
    }
    let site = Site::new(Some(0));
    let first = site.copy(&site.target("web1", None)).await;
    fs::remove_file(&first).unwrap();
    std::os::unix::fs::symlink("/etc/shadow", &first).unwrap();
    assert!(site.copy_to(&[site.target("web2", None)]).await < BESIDE);
    assert_eq!(*site.warnings.lock().unwrap(), [""; 0]);
    site.pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_do_not_reach_each_other_get_everything_from_the_controller() {
    if !available() {
        return;
    }
    let site = Site::new(Some(0));
    // TEST-NET-1 of RFC 5737, which nobody has.
    let nowhere = Some(IpAddr::from([192, 0, 2, 1]));
    let targets: Vec<_> = (0..16).map(|number| site.target(&format!("web{number}"), nowhere)).collect();
    site.copy_to(&targets).await;
    let warnings = site.warnings.lock().unwrap().clone();
    assert!(!warnings.is_empty() && warnings.iter().all(|text| text.contains("at 192.0.2.1:")), "{warnings:?}");
    assert!(warnings.len() < 12, "hosts that waited try it in vain: {warnings:?}");
    site.pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_setting_the_controller_sends_to_every_host() {
    if !available() {
        return;
    }
    let site = Site::new(None);
    let targets: Vec<_> = (0..3).map(|number| site.target(&format!("web{number}"), None)).collect();
    assert!(site.copy_to(&targets).await > 3 * SIZE as u64);
    site.pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tree_with_equal_files_is_copied() {
    if !available() {
        return;
    }
    let site = Site::new(Some(0));
    let names: Vec<String> = (0..5).map(|number| format!("image{number}")).collect();
    let entries: Vec<Value> =
        names.iter().enumerate().map(|(at, name)| json!({ "path": name, "kind": "file", "content": at })).collect();
    let targets: Vec<_> = (0..3).map(|number| site.target(&format!("web{number}"), None)).collect();
    let copies = futures_util::future::join_all(targets.iter().map(async |target| {
        let dest = site.sshd.path(&target.name);
        fs::create_dir(&dest).unwrap();
        site.run(target, json!({ "dest": dest, "_entries": entries }), names.len()).await;
        names.iter().for_each(|name| site.assert_equal(&dest.join(name)));
    }));
    tokio::time::timeout(Duration::from_secs(60), copies).await.expect("the hosts wait for each other");
    site.pool.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lying_sender_is_not_used_for_other_contents() {
    if !available() {
        return;
    }
    let mut site = Site::new(Some(0));
    let liar = site.target("liar", None);
    for round in 0..2 {
        let path = site.copy(&liar).await;
        fs::File::options().write(true).open(path).unwrap().write_at(&[255], 5).unwrap();
        for number in 0..2 {
            let path = site.copy(&site.target(&format!("web{round}{number}"), None)).await;
            site.assert_equal(&path);
        }
        assert_eq!(site.warnings.lock().unwrap().len(), 2, "in round {round}");
        site.bytes[9] ^= 1;
        fs::write(&site.file, &site.bytes).unwrap();
    }
    site.pool.close().await;
}
