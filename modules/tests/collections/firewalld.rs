use serde_json::json;

use crate::{case::Bench, has, with};

/// A firewall that is not running, with its own configuration.
fn offline() -> Option<Bench> {
    if !has("firewall-offline-cmd") {
        return None;
    }
    let bench = Bench::new().program("firewall-cmd", "echo 'not running' >&2; exit 252").program(
        "firewall-offline-cmd",
        "mkdir -p $ROOT/config; exec /usr/bin/firewall-offline-cmd --system-config $ROOT/config \"$@\"",
    );
    let made = bench.run("firewalld", json!({"zone": "cluster", "state": "present", "permanent": true}), false);
    assert_eq!(
        made["msg"],
        "Permanent operation, Added zone cluster, Changed zone cluster to present, (offline operation: only on-disk configs were altered)"
    );
    Some(bench)
}

#[test]
fn stopped_firewall_configuration_changed() {
    let Some(bench) = offline() else { return };
    let args = json!({"service": "https", "zone": "cluster", "permanent": true});
    for state in ["enabled", "disabled"] {
        let result = bench.converges("ansible.posix.firewalld", with(&args, json!({"state": state})));
        assert!(result["msg"].as_str().unwrap().contains("Changed service https to"), "{result}");
    }
    bench.converges("firewalld", json!({"zone": "cluster", "permanent": true, "target": "DROP", "state": "present"}));
    bench.converges("firewalld", json!({"zone": "cluster", "permanent": true, "state": "absent"}));
}

#[test]
fn unsupported_change_refused() {
    let Some(bench) = offline() else { return };
    for (args, word) in [
        (json!({"service": "https", "state": "enabled"}), "unable to perform immediate actions"),
        (json!({"port": "80", "state": "enabled", "permanent": true}), "improper port format"),
        (json!({"service": "nope", "state": "enabled", "permanent": true}), "Services are defined by port/tcp"),
        (json!({"service": "https", "state": "present", "permanent": true}), "zone level operations"),
        (json!({"interface": "eth0", "state": "enabled", "permanent": true}), "required by 'interface': zone"),
        (json!({"service": "http", "port": "1/tcp", "state": "enabled"}), "mutually exclusive"),
        (json!({"service": "http", "offline": true, "state": "enabled"}), "offline cannot be enabled"),
    ] {
        bench.refuses("firewalld", args, word);
    }
}

#[test]
fn running_firewall_changed_immediately_and_permanently() {
    // Recorded output of firewall-cmd; the script stores its changes in a file.
    let bench = Bench::new().program(
        "firewall-cmd",
        r#"case "$*" in
--state) echo running;;
--get-default-zone) echo public;;
*--query-*) key=$(echo "$*" | sed 's/--query-//'); grep -qxF -- "$key" $ROOT/set && echo yes || { echo no; exit 1; };;
*--add-*) echo "$*" | sed 's/--add-//; s/ --timeout=.*//' >> $ROOT/set; echo "$*" >> $ROOT/log; echo success;;
*--remove-*) key=$(echo "$*" | sed 's/--remove-//'); grep -vxF -- "$key" $ROOT/set > $ROOT/next; mv $ROOT/next $ROOT/set; echo success;;
esac
"#,
    );
    bench.write("set", "").write("log", "");
    let args = json!({"service": "https", "permanent": true, "immediate": true, "state": "enabled"});
    let result = bench.converges("firewalld", args.clone());
    assert_eq!(result["msg"], "Permanent and Non-Permanent(immediate) operation, Changed service https to enabled");
    assert_eq!(bench.read("log"), "--permanent --zone=public --add-service=https\n--zone=public --add-service=https\n");
    bench.converges("firewalld", with(&args, json!({"state": "disabled", "permanent": false})));
    for (setting, said) in [
        (json!({"port": "161-162/udp"}), "Changed port 161-162/udp to enabled"),
        (json!({"source": "192.0.2.0/24"}), "Added 192.0.2.0/24 to zone public"),
        (
            json!({"rich_rule": "rule service name=\"ftp\" accept"}),
            "Changed rich_rule rule service name=\"ftp\" accept to enabled",
        ),
        (json!({"icmp_block": "echo-request"}), "Changed icmp-block echo-request to enabled"),
        (json!({"icmp_block_inversion": true}), "Changed icmp-block-inversion True to enabled"),
        (json!({"masquerade": true}), "Added masquerade to zone public"),
        (
            json!({"port_forward": [{"port": 80, "proto": "tcp", "toport": 8080}]}),
            "Changed port_forward port=80:proto=tcp:toport=8080:toaddr= to enabled",
        ),
    ] {
        let result = bench.converges("firewalld", with(&setting, json!({"state": "enabled"})));
        assert_eq!(result["msg"], format!("Non-permanent operation, {said}"));
        bench.converges("firewalld", with(&setting, json!({"state": "disabled"})));
    }
    bench.converges("firewalld", json!({"port": "80/tcp", "state": "enabled", "timeout": 60}));
    assert!(bench.read("log").ends_with("--zone=public --add-port=80/tcp --timeout=60\n"));
}
