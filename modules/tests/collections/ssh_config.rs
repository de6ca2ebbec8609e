use serde_json::json;

use crate::{case::Bench, with};

#[test]
fn host_added_changed_and_removed() {
    let bench = Bench::new();
    let args = json!({"ssh_config_file": "@/new/config", "host": "bastion", "hostname": "bastion.example.org", "port": 2222,
        "forward_agent": true, "other_options": {"serveraliveinterval": "30"}});
    let result = bench.converges("community.general.ssh_config", args.clone());
    assert_eq!(
        (&result["hosts_added"], &result["hosts_changed"], &result["hosts_removed"], &result["hosts_change_diff"]),
        (&json!(["bastion"]), &json!([]), &json!([]), &json!([]))
    );
    assert_eq!(
        bench.read("new/config"),
        "Host bastion\n    hostname bastion.example.org\n    port 2222\n    forwardagent yes\n    serveraliveinterval 30\n"
    );
    assert_eq!(bench.mode("new/config"), 0o600);
    let fewer = json!({"ssh_config_file": "@/new/config", "host": "bastion", "hostname": "other.example.org"});
    let result = bench.converges("ssh_config", fewer);
    assert_eq!(
        result["hosts_change_diff"][0]["bastion"]["new"],
        json!({"hostname": "other.example.org", "serveraliveinterval": "30"})
    );
    assert_eq!(result["hosts_change_diff"][0]["bastion"]["old"]["port"], "2222");
    bench.converges("ssh_config", with(&args, json!({"state": "absent"})));
    assert_eq!(bench.read("new/config"), "");
}

#[test]
fn rest_of_file_kept() {
    let bench = Bench::new();
    let text = "# Mine\nHost *\n  Compression=yes\n\nHost web1 web2 # two\n\tIdentityFile a\n\tIdentityFile b\n# end\nMatch user x\n Port 9\n";
    bench.write("config", text);
    let args = json!({"ssh_config_file": "@/config", "host": "db", "remote_user": "ada", "proxyjump": "bastion"});
    bench.converges("ssh_config", args.clone());
    assert_eq!(bench.read("config"), format!("{text}Host db\n    user ada\n    proxyjump bastion\n"));
    bench.converges("ssh_config", with(&args, json!({"state": "absent"})));
    assert_eq!(bench.read("config"), text);
    bench.rests("ssh_config", json!({"ssh_config_file": "@/config", "host": "none", "state": "absent"}));
    bench.write("config", "Host a\n  IdentityFile b\n  # why\n  IdentityFile c\n  SetEnv X=1\n");
    bench.write("b", "");
    bench.converges("ssh_config", json!({"ssh_config_file": "@/config", "host": "a", "identity_file": "b", "port": 1}));
    assert_eq!(
        bench.read("config"),
        "Host a\n    identityfile b\n    identityfile c\n    setenv X=1\n    port 1\n  # why\n"
    );
}

#[test]
fn invalid_configuration_refused() {
    let bench = Bench::new();
    bench.write("config", "");
    let args = json!({"ssh_config_file": "@/config", "host": "a"});
    for (more, word) in [
        (json!({"identity_file": "@/none"}), "none does not exist"),
        (json!({"other_options": {"Port": "1"}}), "must be lower case"),
        (json!({"other_options": {"port": "1"}}), "Multiple values provided for key port"),
        (json!({"proxyjump": "a", "proxycommand": "b"}), "mutually exclusive"),
        (json!({"user": "root"}), "mutually exclusive"),
        (json!({"controlmaster": "maybe"}), "must be one of"),
    ] {
        bench.refuses("ssh_config", with(&args, more), word);
    }
    bench.refuses("ssh_config", json!({"ssh_config_file": "@/config"}), "missing required arguments: host");
}
