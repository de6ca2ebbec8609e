//! Playbooks started from forms: values, results, limits, cancelled runs, and the records of them.

use std::fs;

use super::desk::{Desk, location, wait};
use super::pages::check;

#[test]
fn form_starts_run_with_typed_values_and_leads_to_its_view() {
    let desk = Desk::new();
    let server = desk.serve();
    let ana = desk.sign_in(&server, "ana");
    let page = ana.get("/start?playbook=Form");
    check(&page);
    for part in [
        "<option value=\"20\" selected=\"selected\">",
        "name=\"variable.note\"",
        "Text of &lt;b&gt;any&lt;/b&gt; kind",
        "<input type=\"password\" name=\"variable.password\"",
        "<textarea name=\"variable.items\"",
        "<option value=\"a\" selected=\"selected\">",
        "name=\"check\"",
    ] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    let fields = [
        ("limit", "a"),
        ("variable.size", "20"),
        ("variable.on", "true"),
        ("variable.note", "a note"),
        ("variable.items", "1\r\n\r\n 22 \r\n"),
        ("variable.map", "{\"k\": [1, null]}"),
        ("variable.password", ""),
    ];
    let started = ana.start("Form", &fields);
    let run = ana.run_of(&started);
    assert_eq!(ana.get(&format!("/runs/{run}/live")).status, 200);
    let ended = desk.wait_for("ended", 1);
    assert_eq!(
        (&ended[0]["result"], &ended[0]["code"], &ended[0]["run"]),
        (&"ok".into(), &0.into(), &run.as_str().into())
    );
    assert_eq!(fs::read_to_string(desk.site.path("out-a")).unwrap(), "a note|1+22|none");
    assert!(!desk.site.path("out-b").exists());
    let report = ana.get(&format!("/runs/{run}")).body;
    assert!(report.contains("size 20 True, on True"), "{report}");

    let records = desk.records("started");
    let record = &records[0];
    for (name, value) in [("user", "ana"), ("name", "Form"), ("inventory", "one"), ("limit", "a")] {
        assert_eq!(record[name], value, "{record}");
    }
    assert_eq!((&record["version"], &record["check"]), (&1.into(), &false.into()));
    let variables =
        serde_json::json!({"size": 20, "on": true, "note": "a note", "items": [1, 22], "map": {"k": [1, null]}});
    assert_eq!(record["variables"], variables);
    assert_eq!(record["start"], ended[0]["start"]);
}

#[test]
fn dry_run_and_tags_reach_the_run() {
    let desk = Desk::new();
    let server = desk.serve();
    let bob = desk.sign_in(&server, "bob");
    let run = bob.run_of(&bob.start("Of bob", &[("tags", "write")]));
    desk.wait_for("ended", 1);
    assert!(!desk.site.path("out-a").exists());
    let journal = fs::read_to_string(desk.site.journals().pop().unwrap()).unwrap();
    let header: serde_json::Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&header["check"], &header["tags"], &header["run"]),
        (&true.into(), &serde_json::json!(["write"]), &run.into())
    );
    assert!(!journal.contains("Print the secret"), "{journal}");
    let run = bob.run_of(&bob.start("Form", &[("limit", "a"), ("check", "yes")]));
    desk.wait_for("ended", 2);
    assert!(!desk.site.path("out-a").exists());
    assert!(bob.get("/").body.contains("(dry run)") && bob.get(&format!("/runs/{run}")).status == 200);
}

#[test]
fn specifications_of_roles_become_fields() {
    let desk = Desk::new();
    let server = desk.serve();
    let ana = desk.sign_in(&server, "ana");
    let page = ana.get("/start?playbook=Of%20a%20role");
    check(&page);
    for part in ["name=\"variable.replicas\"", "Number of replicas", "<option value=\"large\">", "'sm' ~ 'all'"] {
        assert!(page.body.replace("&#x27;", "'").contains(part), "{part}: {}", page.body);
    }
    for (value, problem) in [("", "missing required arguments: replicas"), ("many", "unable to convert to int")] {
        let answer = ana.post("/start", &[("playbook", "Of a role"), ("variable.replicas", value)]);
        assert_eq!(answer.status, 400);
        assert!(answer.body.contains(problem), "{}", answer.body);
    }
    let run = ana.run_of(&ana.start("Of a role", &[("variable.replicas", "3"), ("variable.flavor", "")]));
    desk.wait_for("ended", 1);
    let report = ana.get(&format!("/runs/{run}")).body;
    assert!(report.contains("3 of small"), "{report}");
}

#[test]
fn value_outside_of_its_specification_is_refused() {
    let desk = Desk::new();
    let server = desk.serve();
    let ana = desk.sign_in(&server, "ana");
    let cases = [
        (vec![("limit", "a"), ("variable.size", "7")], "value of size must be one of"),
        (vec![("limit", "a"), ("variable.size", "x")], "unable to convert to int"),
        (vec![("limit", "a"), ("variable.on", "perhaps")], "unable to convert to bool"),
        (vec![("limit", "a"), ("variable.items", "1\nx")], "Elements value for option"),
        (vec![("limit", "a"), ("variable.map", "a=b")], "is not a JSON object"),
        (vec![("limit", "a"), ("variable.other", "x")], "the form has no field `variable.other`"),
        (vec![("limit", "a"), ("limit", "all")], "`limit` is given twice"),
        (vec![("limit", "-e@/etc/passwd")], "`limit` must be one of: a, all"),
        (vec![], "`limit` must be one of"),
        (vec![("limit", "a"), ("tags", "write")], "`tags` must be one of"),
    ];
    for (fields, problem) in cases {
        let mut all = vec![("playbook", "Form")];
        all.extend(fields);
        let answer = ana.post("/start", &all);
        assert_eq!(answer.status, 400, "{problem}");
        let body = answer.body.replace("&#x27;", "'");
        assert!(body.contains(problem) && body.contains("The run was not started"), "{problem}: {body}");
        check(&answer);
    }
    let answer = ana.post("/start", &[("playbook", "Wait"), ("check", "yes")]);
    assert!(answer.status == 400 && answer.body.contains("has no dry run"), "{}", answer.body);
    assert!(desk.site.journals().is_empty() && desk.records("started").is_empty());
    assert!(!desk.records("refused").is_empty());
}

#[test]
fn inventory_has_one_run_and_the_server_a_number_of_them() {
    let desk = Desk::new();
    let server = desk.serve();
    let (ada, ana, bob) = (desk.sign_in(&server, "ada"), desk.sign_in(&server, "ana"), desk.sign_in(&server, "bob"));
    let first = ana.start("Wait", &[]);
    let run = ana.run_of(&first);
    let busy = bob.post("/start", &[("playbook", "Form"), ("limit", "a")]);
    assert_eq!(busy.status, 409);
    assert!(busy.body.contains("`Wait` of ana is running for the inventory `one`"), "{}", busy.body);
    assert!(bob.get("/start").body.contains(&format!("/runs/{run}/live")));
    bob.run_of(&bob.start("Wait elsewhere", &[]));
    let busy = ada.post("/start", &[("playbook", "Wait for <ada> & \"co\"")]);
    assert_eq!(busy.status, 409);
    assert!(busy.body.contains("2 runs are going on"), "{}", busy.body);
    desk.site.write("go", "");
    desk.wait_for("ended", 2);
    let started = ada.start("Wait for <ada> & \"co\"", &[]);
    ada.run_of(&started);
    assert_eq!(desk.wait_for("ended", 3)[2]["result"], "failed");
}

#[test]
fn run_is_cancelled_by_its_user_or_an_admin_only() {
    let desk = Desk::new();
    let server = desk.serve();
    let (ada, ana, bob) = (desk.sign_in(&server, "ada"), desk.sign_in(&server, "ana"), desk.sign_in(&server, "bob"));
    let run = ana.run_of(&ana.start("Wait", &[]));
    super::live::begun(&desk.site, 2);
    let live = format!("/runs/{run}/live");
    let page = ana.get(&live);
    check(&page);
    let start = desk.records("started")[0]["start"].as_str().unwrap().to_owned();
    assert!(page.body.contains("action=\"/cancel\"") && page.body.contains(&start), "{}", page.body);
    let vic = desk.sign_in(&server, "vic");
    for other in [&bob, &vic] {
        assert!(!other.get(&live).body.contains("action=\"/cancel\""));
        assert_eq!(other.post("/cancel", &[("start", &start)]).status, 403);
    }
    assert!(desk.records("cancelled").is_empty() && desk.records("ended").is_empty());
    let cancelled = ana.post("/cancel", &[("start", &start)]);
    assert_eq!((cancelled.status, location(&cancelled)), (303, live.clone()));
    assert_eq!(desk.wait_for("ended", 1)[0]["result"], "interrupted");
    assert!(!ana.get(&live).body.contains("action=\"/cancel\""));
    let report = ana.get(&format!("/runs/{run}")).body;
    assert!(report.contains("interrupted"), "{report}");

    // An admin cancels any run, and a second request ends it immediately.
    let run = bob.run_of(&bob.start("Wait", &[]));
    let start = desk.records("started")[1]["start"].as_str().unwrap().to_owned();
    // The second press of the same button, and a request out of order, do nothing.
    assert_eq!(ada.post("/cancel", &[("start", &start), ("at_once", "yes")]).status, 303);
    assert_eq!(desk.records("cancelled").len(), 1);
    assert_eq!(ada.post("/cancel", &[("start", &start)]).status, 303);
    assert_eq!(ada.post("/cancel", &[("start", &start)]).status, 303);
    desk.wait_for("ended", 2);
    let records = desk.records("cancelled");
    assert!(records.len() == 2 && records[1]["user"] == "ada" && records[1]["start"] == start.as_str(), "{records:?}");
    assert_eq!(ada.get(&format!("/runs/{run}")).status, 200);
    assert_eq!(ada.post("/cancel", &[("start", "none")]).status, 404);
}

#[test]
fn run_that_cannot_begin_shows_why() {
    let desk = Desk::new();
    let server = desk.serve();
    let ana = desk.sign_in(&server, "ana");
    let started = ana.start("Broken", &[]);
    desk.wait_for("ended", 1);
    let page = ana.get(&started);
    check(&page);
    assert!(page.body.contains("ended with 4") && page.body.contains("broken.yml:2"), "{}", page.body);
    wait("the list", || !ana.get("/start").body.contains("Running"));
}
