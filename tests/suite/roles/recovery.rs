//! The judgement of playbooks/recover.yml about damaged members of etcd.

use std::fs;
use std::path::Path;

use super::play;

/// Decisions of recover.yml about three control planes with members in pods, from the lines of their probes.
fn recovery(states: &str) -> serde_json::Value {
    recovery_of("kubeadm", states)
}

/// The same with another `etcd_deployment_type`. cp3 is the first member.
fn recovery_of(deployment: &str, states: &str) -> serde_json::Value {
    let folder = tempfile::tempdir().unwrap();
    let role = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles/recover");
    let playbook = format!(
        "- hosts: kube_control_plane
  gather_facts: false
  roles: [{{role: recover, when: false}}]
  vars:
    states: {{{states}}}
  tasks:
    - ansible.builtin.set_fact:
        recover_reached: true
        recover_state: \"{{{{ {{'certificates.lacking': '', 'api.serves': 'yes'}} | combine(states[inventory_hostname]) }}}}\"
    - ansible.builtin.copy:
        dest: {0}/out
        content: \"{{{{ lookup('ansible.builtin.template', '{1}/templates/judge.j2') }}}}\"
      run_once: true
",
        folder.path().display(),
        role.display(),
    );
    let hosts = "cp1 ip=10.0.0.1\ncp2 ip=10.0.0.2\ncp3 ip=10.0.0.3\n[etcd]\ncp3\n";
    let deployment = format!("etcd_deployment_type={deployment}");
    let (code, text) = play(folder.path(), hosts, &playbook, &["-e", &deployment]);
    assert_eq!(code, Some(0), "{text}");
    serde_json::from_str(&fs::read_to_string(folder.path().join("out")).unwrap()).unwrap()
}

const SERVES: &str =
    "{etcd.process: active, etcd.data: 'yes', etcd.answers: 'yes', etcd.revision: '9', etcd.majority: 'yes'}";

const EMPTY: &str = "{etcd.process: waiting, etcd.data: 'no'}";

#[test]
fn survivor_in_a_pod_is_recovered_after_a_confirmation() {
    // kubelet ends a member that has no leader, although the member has not failed.
    let found = recovery(&format!("cp1: {{etcd.process: waiting, etcd.data: 'yes'}}, cp2: {EMPTY}, cp3: {EMPTY}"));
    assert_eq!(found["lost"], serde_json::json!({"etcd": ["cp1"]}), "{found}");
    assert!(found["refused"][0].as_str().unwrap().contains("recover_confirm_quorum_loss=true"), "{found}");
}

#[test]
fn member_in_a_pod_without_data_joins_the_others() {
    let found = recovery(&format!("cp1: {EMPTY}, cp2: {SERVES}, cp3: {SERVES}"));
    assert_eq!(found["join"], serde_json::json!({"etcd": ["cp1"]}), "{found}");
    assert_eq!(found["refused"], serde_json::json!([]), "{found}");
}

#[test]
fn member_in_a_pod_whose_manifest_is_gone_starts_again() {
    let stopped = "{etcd.process: inactive, etcd.data: 'yes', etcd.manifest: missing}";
    let found = recovery(&format!("cp1: {stopped}, cp2: {stopped}, cp3: {EMPTY}"));
    assert_eq!(found["start"], serde_json::json!({"cp1": ["etcd"], "cp2": ["etcd"]}), "{found}");
    assert_eq!(found["lost"], serde_json::json!({}), "{found}");
}

/// Right after the damage of one member, the others elect a leader, and the damaged one has not failed yet.
#[test]
fn state_of_etcd_that_is_still_changing_is_looked_at_again() {
    let starts = "{etcd.process: active, etcd.data: 'yes'}";
    for (states, unsettled) in [
        (format!("cp1: {EMPTY}, cp2: {starts}, cp3: {starts}"), true),
        (format!("cp1: {starts}, cp2: {SERVES}, cp3: {SERVES}"), true),
        (format!("cp1: {EMPTY}, cp2: {SERVES}, cp3: {SERVES}"), false),
        (format!("cp1: {SERVES}, cp2: {SERVES}, cp3: {SERVES}"), false),
        (format!("cp1: {starts}, cp2: {EMPTY}, cp3: {EMPTY}"), false),
    ] {
        assert_eq!(recovery(&states)["unsettled"], unsettled, "{states}");
    }

    let role = Path::new(env!("CARGO_MANIFEST_DIR")).join("roles/recover/tasks");
    for (settles_at, looks) in [(0, 0), (2, 2), (9, 6)] {
        let folder = tempfile::tempdir().unwrap();
        for name in ["settled.yml", "again.yml"] {
            fs::copy(role.join(name), folder.path().join(name)).unwrap();
        }
        let look = format!(
            "- ansible.builtin.set_fact:
    recover_judgement: {{unsettled: \"{{{{ seen | int + 1 < {settles_at} }}}}\"}}
    seen: \"{{{{ seen | int + 1 }}}}\"
"
        );
        fs::write(folder.path().join("diagnose.yml"), look).unwrap();
        let playbook = format!(
            "- hosts: cp1
  gather_facts: false
  vars: {{recover_looks: 6, recover_looks_apart: 0}}
  tasks:
    - ansible.builtin.set_fact: {{seen: 0, recover_judgement: {{unsettled: \"{{{{ {settles_at} > 0 }}}}\"}}}}
    - ansible.builtin.import_tasks: settled.yml
    - ansible.builtin.assert: {{that: seen | int == {looks}}}
"
        );
        let (code, text) = play(folder.path(), "cp1\n", &playbook, &[]);
        assert_eq!(code, Some(0), "{text}");
    }
}

/// Advice to check the network would be wrong.
#[test]
fn member_that_is_not_installed_is_installed_by_cluster_yml() {
    let found = recovery(&format!("cp1: {{}}, cp2: {SERVES}, cp3: {SERVES}"));
    assert!(found["findings"].to_string().contains("run playbooks/cluster.yml, which installs it"), "{found}");
}

/// The API server of that member serves an empty database, and the survivor would join it.
#[test]
fn member_that_started_a_cluster_of_its_own_is_refused() {
    let anew = "{etcd.process: active, etcd.data: 'yes', etcd.majority: 'yes', etcd.strangers: cp2 cp3}";
    let survivor = "{etcd.process: active, etcd.data: 'yes'}";
    let found = recovery(&format!("cp1: {anew}, cp2: {EMPTY}, cp3: {survivor}"));
    assert!(found["refused"][0].as_str().unwrap().contains("etcd on cp1 is another cluster than on cp3"), "{found}");
}

/// No other step issues them, and a member that runs without certificates looks like one whose network is broken.
#[test]
fn lost_certificates_of_a_member_in_a_pod_are_issued_by_the_authority_of_the_others() {
    let lost = "{etcd.process: active, etcd.data: 'yes', certificates.lacking: etcd/ca.crt etcd/ca.key, \
                etcd-certificates.broken: etcd/server etcd/peer}";
    let signed = |authorities| SERVES.replace('}', &format!(", etcd-certificates.authorities: '{authorities}'}}"));

    let found = recovery(&format!("cp1: {lost}, cp2: {}, cp3: {}", signed("aa"), signed("aa")));
    assert_eq!(found["keys"], serde_json::json!(["cp1"]), "{found}");
    assert_eq!(found["keepers"], serde_json::json!(["cp2", "cp3"]), "{found}");
    assert_eq!(
        (&found["refused"], &found["unsettled"]),
        (&serde_json::json!([]), &serde_json::json!(false)),
        "{found}"
    );
    let findings = found["findings"].to_string();
    assert!(findings.matches("etcd/ca.crt").count() == 1 && !findings.contains("and does not serve"), "{findings}");

    // Members that are only unreachable keep their data, so the majority is not lost.
    let found = recovery(&format!("cp1: {lost}, cp2: {lost}, cp3: {}", signed("aa").replace("etcd.majority", "x")));
    assert_eq!(
        (&found["keys"], &found["lost"]),
        (&serde_json::json!(["cp1", "cp2"]), &serde_json::json!({})),
        "{found}"
    );
    assert_eq!(found["refused"], serde_json::json!([]), "{found}");

    // Certificates of all members end on the same day.
    let ended = "{etcd.process: active, etcd.data: 'yes', etcd-certificates.ended: etcd/server etcd/peer}";
    let found = recovery(&format!("cp1: {ended}, cp2: {ended}, cp3: {ended}"));
    assert_eq!(found["keys"], serde_json::json!(["cp1", "cp2", "cp3"]), "{found}");
    assert_eq!(
        (&found["refused"], &found["unsettled"]),
        (&serde_json::json!([]), &serde_json::json!(false)),
        "{found}"
    );

    for (first, second) in [("aa", "bb"), ("aa bb", "aa")] {
        let found = recovery(&format!("cp1: {lost}, cp2: {}, cp3: {}", signed(first), signed(second)));
        assert!(found["refused"][0].as_str().unwrap().contains("2 etcd CAs: one on cp2"), "{found}");
    }
    // A container keeps the folder that was replaced, also if a run ended before it restarted the member.
    let replaced = "{etcd.process: active, etcd.data: 'yes', etcd.detached: 'yes'}";
    let found = recovery(&format!("cp1: {replaced}, cp2: {}, cp3: {}", signed("aa"), signed("aa")));
    assert_eq!((&found["keys"], &found["renew"]), (&serde_json::json!(["cp1"]), &serde_json::json!([])), "{found}");
    assert_eq!(found["findings"][0]["does"], "restarts it", "{found}");

    let found = recovery(&format!("cp1: {lost}, cp2: {lost}, cp3: {lost}"));
    assert!(found["refused"][0].as_str().unwrap().contains("cp3 lacks etcd/ca.crt etcd/ca.key"), "{found}");
}

/// Without this, the run is refused with the wrong advice to correct the network between the hosts.
#[test]
fn ended_certificates_of_all_members_as_services_are_issued_by_their_authority() {
    let member = |ended: &str, authority: &str| {
        format!(
            "{{etcd.process: activating, etcd.data: 'yes', etcd-certificates.broken: '', \
             etcd-certificates.ended: {ended}, etcd-certificates.authorities: {authority}}}"
        )
    };
    let judged = |[cp1, cp2, cp3]: [&str; 3]| recovery_of("host", &format!("cp1: {cp1}, cp2: {cp2}, cp3: {cp3}"));
    let (ended, last, good) = (member("member.pem", "aa"), member("ca.pem member.pem", "aa"), member("''", "aa"));
    let none = serde_json::json!([]);

    for (states, keys, donor) in [
        ([&ended, &ended, &ended], "cp1 cp2 cp3", "cp3"),
        // A run that was killed has issued them on one host.
        ([&ended, &good, &ended], "cp1 cp3", "cp2"),
        // The authority was signed again there.
        ([&last, &ended, &last], "cp1 cp2 cp3", "cp2"),
    ] {
        let found = judged(states.map(String::as_str));
        let keys: Vec<&str> = keys.split(' ').collect();
        assert_eq!((&found["keys"], &found["ended"]), (&serde_json::json!(keys), &serde_json::json!(keys)), "{found}");
        assert_eq!((&found["refused"], &found["renew"]), (&none, &none), "{found}");
        assert_eq!((&found["unsettled"], &found["lost"]), (&false.into(), &serde_json::json!({})), "{found}");
        let does = format!("issues them again on {donor} with the same CA");
        assert!(found["donor"] == donor && found["findings"].to_string().contains(&does), "{found}");
    }

    let found = judged([&last, &last, &last].map(String::as_str));
    let advice = "Sign it again with its own key on cp3: `cd /etc/ssl/etcd/ssl && openssl x509 -in ca.pem -signkey";
    assert!(found["refused"][0].as_str().unwrap().contains(advice), "{found}");

    let other = member("member.pem", "bb");
    let found = judged([&other, &ended, &ended].map(String::as_str));
    assert!(found["refused"][0].as_str().unwrap().contains("2 CAs: one on cp3, cp2, another one on"), "{found}");
}

/// Without this, the members are refused with the wrong advice to correct the network between the hosts.
#[test]
fn members_with_an_older_authority_in_memory_are_restarted() {
    let stale = "{etcd.process: active, etcd.data: 'yes', etcd.stale: 'yes', etcd-certificates.broken: '', \
                 etcd-certificates.ended: '', etcd-certificates.authorities: aa}";
    let found = recovery_of("host", &format!("cp1: {stale}, cp2: {stale}, cp3: {stale}"));
    assert_eq!(found["keys"], serde_json::json!(["cp1", "cp2", "cp3"]), "{found}");
    assert_eq!((&found["refused"], &found["unsettled"]), (&serde_json::json!([]), &false.into()), "{found}");
    assert!(found["findings"].to_string().contains("restarts etcd"), "{found}");
}

/// The first complete member may have another authority than the one that serves.
#[test]
fn certificates_of_members_with_different_authorities_are_not_copied() {
    let member =
        |rest: &str| format!("{{etcd.process: active, etcd.data: 'yes', etcd-certificates.ended: '', {rest}}}");
    let lost = member("etcd-certificates.broken: ca.pem");
    let serving = member("etcd.majority: 'yes', etcd-certificates.broken: '', etcd-certificates.authorities: aa");
    let wrong = member("etcd-certificates.broken: '', etcd-certificates.authorities: bb");
    let found = recovery_of("host", &format!("cp1: {lost}, cp2: {serving}, cp3: {wrong}"));
    assert!(found["refused"][0].as_str().unwrap().contains("2 CAs"), "{found}");
}
