//! Hints of `windlass reconcile`, with playbooks that stand for a cluster's.

use super::Case;

const FILES: &[(&str, &str)] = &[
    (
        "playbooks/verify.yml",
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - copy: {src: '{{ inventory_dir }}/health.json', dest: '{{ verify_report }}'}\n      \
         check_mode: false\n",
    ),
    ("playbooks/cluster.yml", "- hosts: all\n  gather_facts: false\n  tasks:\n    - debug: msg=x\n"),
    (
        "playbooks/replace_node.yml",
        "- hosts: all\n  connection: local\n  gather_facts: false\n  tasks:\n    - copy: {src: '{{ inventory_dir }}/healthy.json', dest: \
         '{{ inventory_dir }}/health.json'}\n",
    ),
    ("healthy.json", HEALTHY),
    ("health.json", HEALTHY),
    ("machines", "#!/bin/sh\n[ $1 = release ] || echo '{\"ansible_host\": \"192.0.2.7\"}'\n"),
    ("nodes.yml", "repair: [nodes]\nmachines: ./machines\nunhealthy_for: 1s\n"),
];
const HEALTHY: &str = r#"{"healthy": true, "hosts": ["here"], "not_reached": [], "nodes": {}, "checks": []}"#;
const BROKEN: &str = r#"{"healthy": false, "hosts": ["here"], "not_reached": [], "nodes": {"here": "n1"}, "checks": [
    {"id": "cluster.nodes", "status": "fail",
     "results": [{"host": "here", "status": "fail", "text": "n1 is not Ready", "node": "n1"}]}]}"#;
/// The second round finds the node unhealthy for long enough.
const REPLACE: &str = "chmod +x machines; windlass reconcile -i hosts --once --policy nodes.yml; sleep 2
    windlass reconcile -i hosts --once --policy nodes.yml";

pub(crate) const CASES: &[Case] = &[
    Case {
        setup: FILES,
        fails: "windlass reconcile -i hosts --once --playbooks none",
        says: "run the command in a project that `windlass init kubernetes` made, or give --playbooks",
        mended: &[],
        then: &["windlass reconcile -i hosts --once --playbooks playbooks"],
    },
    Case {
        setup: &[FILES[0], FILES[1], FILES[3], FILES[4], FILES[5], ("policy.yml", "repair: [nodes]\n")],
        fails: "windlass reconcile -i hosts --once --policy policy.yml",
        says: "set `machines` to a program that releases machines and provides new ones",
        mended: &[("policy.yml", "repair: [nodes]\nmachines: ./machines\n")],
        then: &["windlass reconcile -i hosts --once --policy policy.yml"],
    },
    Case {
        setup: FILES,
        fails: "windlass reconcile -i hosts & until ls .local/state/windlass/reconcile/*.lock; do sleep 0.1; done; sleep 1
            windlass reconcile -i hosts --once; code=$?; kill $!; wait; exit $code",
        says: "--status shows what it has done",
        mended: &[],
        then: &["windlass reconcile -i hosts --status"],
    },
    Case {
        setup: FILES,
        fails: "windlass reconcile -i hosts --once; for file in .local/state/windlass/reconcile/*.json; do echo x > $file; done
            windlass reconcile -i hosts --once",
        says: "without the file, waiting times and the budget start again",
        mended: &[],
        then: &["rm .local/state/windlass/reconcile/*.json", "windlass reconcile -i hosts --once"],
    },
    Case {
        setup: &[FILES[0], FILES[1], FILES[2], FILES[3], ("health.json", BROKEN), ("machines", "#!/bin/sh\necho []\n"), FILES[6]],
        fails: REPLACE,
        says: "print one JSON object with `ansible_host`; it may have `ansible_port`, `ansible_user`, `ip`, `ip6` and `access_ip`",
        mended: &[FILES[5]],
        then: &["windlass reconcile -i hosts --once --policy nodes.yml"],
    },
    Case {
        setup: &[
            FILES[0],
            FILES[1],
            FILES[2],
            FILES[3],
            ("health.json", BROKEN),
            FILES[5],
            FILES[6],
            ("host_vars/here.yml", "ansible_host: 192.0.2.1\n"),
        ],
        fails: REPLACE,
        says: "find it by `windlass explain var`, and keep addresses in the inventory file",
        mended: &[],
        then: &["windlass explain var -i hosts -i machines.yml here ansible_host | grep host_vars/here.yml"],
    },
];
