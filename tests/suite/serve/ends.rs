//! The end of a server whose runs go on.

use rustix::process::Signal;

use super::desk::{Desk, wait};

#[test]
fn run_goes_on_after_the_end_of_its_server() {
    let desk = Desk::new();
    let server = desk.serve();
    let ana = desk.sign_in(&server, "ana");
    let run = ana.run_of(&ana.start("Wait", &[]));
    super::live::begun(&desk.site, 2);
    let journal = std::fs::read_to_string(desk.site.journals().pop().unwrap()).unwrap();
    let header: serde_json::Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(header["pid"].as_i64().unwrap().try_into().unwrap()).unwrap();
    // Ctrl-C at the terminal of the server does not reach another session.
    assert_eq!(rustix::process::getsid(Some(pid)).unwrap(), pid);
    let (code, rest) = server.end(Signal::INT);
    assert_eq!(code, Some(99), "{rest}");
    assert!(rest.contains(&format!("Wait, run {run} of ana goes on")), "{rest}");
    assert_eq!(desk.records("goes_on")[0]["run"], run.as_str());
    assert!(rustix::process::test_kill_process(pid).is_ok());
    desk.site.write("go", "");
    let path = desk.site.journals().pop().unwrap();
    wait("the run ends", || std::fs::read_to_string(&path).unwrap().contains("\"t\":\"end\""));
    // Its result is that of its playbook, and not of a signal or a closed pipe.
    assert!(std::fs::read_to_string(&path).unwrap().contains("\"code\":2"));

    assert!(desk.records("ended").is_empty());

    // The next server records the end. A server that is killed ends no run either.
    std::fs::remove_file(desk.site.path("go")).unwrap();
    let server = desk.serve();
    let ended = &desk.wait_for("ended", 1)[0];
    assert_eq!((&ended["run"], &ended["result"], &ended["code"]), (&run.as_str().into(), &"failed".into(), &2.into()));
    let ana = desk.sign_in(&server, "ana");
    ana.run_of(&ana.start("Wait", &[]));
    drop(server);
    desk.site.write("go", "");
    let path = desk.site.journals().pop().unwrap();
    wait("the run ends", || std::fs::read_to_string(&path).unwrap().contains("\"code\":2"));
}
