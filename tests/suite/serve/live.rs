//! Running runs, and journals that are damaged.

use std::fs;
use std::io::Write as _;

use super::site::Site;

/// Waits until the run has a journal with the start of its second task on this number of hosts.
pub(crate) fn begun(site: &Site, hosts: usize) -> String {
    loop {
        let journal = site.journals().pop().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let starts = journal.lines().filter(|line| line.contains("\"t\":\"sent\"") && line.contains("Second"));
        if starts.count() >= hosts {
            return site.last();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn events_follow_a_run_until_its_end() {
    let site = Site::new();
    let mut run = site.wait();
    let id = begun(&site, 2);
    let server = site.serve(&["-i", "hosts"]);
    assert!(server.get("/").body.contains(&format!("<a href=\"/runs/{id}/live\">Watch</a>")));
    assert!(server.get(&format!("/runs/{id}")).body.contains(&format!("/runs/{id}/live")));
    let page = server.get(&format!("/runs/{id}/live"));
    assert!(page.body.contains(&format!("data-events=\"/runs/{id}/events\"")), "{}", page.body);
    assert!(page.body.contains("<bdi>Second</bdi>"), "{}", page.body);

    let mut events = server.events(&id);
    let (kind, state) = events.next().unwrap();
    assert!(events.head.contains("Content-Type: text/event-stream"), "{}", events.head);
    assert_eq!(kind, "state");
    assert_eq!(state["play"], "Waiting");
    let hosts = state["hosts"].as_array().unwrap();
    assert!(hosts.iter().any(|host| host["host"] == "a" && host["task"] == "Second" && host["ok"] == 1), "{state}");

    site.write("go", "");
    let rest: Vec<_> = events.collect();
    let (kind, end) = rest.last().unwrap();
    assert_eq!((kind.as_str(), &end["result"], &end["code"]), ("end", &"failed".into(), &2.into()));
    let failures: Vec<_> =
        rest.iter().flat_map(|(_, state)| state["failures"].as_array().cloned().unwrap_or_default()).collect();
    assert!(failures.iter().any(|one| one["host"] == "b" && one["task"] == "Second"), "{rest:?}");
    run.0.wait().unwrap();
    let page = server.get(&format!("/runs/{id}/live")).body;
    assert!(!page.contains("data-events") && page.contains("The run has ended."), "{page}");
    // The events of a run that has ended are its state and its end.
    let kinds: Vec<String> = server.events(&id).map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["state", "end"]);
}

#[test]
fn killed_run_ends_its_events() {
    let site = Site::new();
    let mut run = site.wait();
    let id = begun(&site, 2);
    let server = site.serve(&["-i", "hosts"]);
    let mut events = server.events(&id);
    assert_eq!(events.next().unwrap().0, "state");
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    site.write("go", "");
    let (kind, end) = events.last().unwrap();
    assert_eq!((kind.as_str(), &end["result"]), ("end", &"killed".into()));
    assert!(server.get("/").body.contains("killed"));
}

#[test]
fn number_of_watched_runs_is_limited() {
    let site = Site::new();
    let mut run = site.wait();
    let id = begun(&site, 2);
    let server = site.serve(&["-i", "hosts"]);
    let mut open: Vec<_> = (0..16).map(|_| server.events(&id)).collect();
    assert!(open.iter_mut().all(|events| events.next().is_some()));
    let refused = server.get(&format!("/runs/{id}/events"));
    assert_eq!(refused.status, 503, "{}", refused.head);
    assert!(refused.body.contains("16 views"), "{}", refused.body);
    assert_eq!(server.get("/").status, 200);
    site.write("go", "");
    run.0.wait().unwrap();
}

#[test]
fn damaged_and_truncated_journals_have_pages() {
    let site = Site::new();
    let id = site.play();
    let path = site.journals().pop().unwrap();
    let whole = fs::read(&path).unwrap();
    let server = site.serve(&["-i", "hosts"]);
    assert!(server.get("/").body.contains(">failed</span>"));

    // The end is missing, as after kill -9.
    fs::write(&path, &whole[..whole.len() - 20]).unwrap();
    assert!(server.get("/").body.contains(">killed</span>"));
    let report = server.get(&format!("/runs/{id}"));
    assert!(report.status == 200 && report.body.contains("Fail &lt;b&gt;here"), "{}", report.body);
    assert_eq!(server.events(&id).last().unwrap().0, "end");

    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let mut damaged = lines.clone();
    damaged[4] = b"</script>garbage\n";
    fs::write(&path, damaged.concat()).unwrap();
    let list = server.get("/").body;
    assert!(list.contains(">unreadable</span>") && list.contains("line 5 of the journal is not a record"), "{list}");
    let report = server.get(&format!("/runs/{id}"));
    assert!(report.status == 200 && report.body.contains("This run has no report"), "{}", report.body);
    assert!(report.body.contains(":5: the line is not a journal record"), "{}", report.body);
    let live = server.get(&format!("/runs/{id}/live"));
    assert!(live.body.contains("line 5 of the journal"), "{}", live.body);
    assert_eq!(server.events(&id).last().unwrap().0, "problem");

    // A header that is damaged still belongs to its project, which another run shows.
    site.play();
    fs::write(&path, b"garbage\n").unwrap();
    assert!(server.get("/").body.contains("the journal has no valid first line"));
    assert_eq!(server.get(&format!("/runs/{id}")).status, 200);
    fs::File::create(&path).unwrap().write_all(b"").unwrap();
    assert_eq!(server.get(&format!("/runs/{id}")).status, 404);
}
