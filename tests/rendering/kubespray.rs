//! Variables of Kubespray for the control planes, etcd and kubelet: each is in the file that it is meant for.

use serde_json::{Value, json};

use super::{KUBEADM, documents, has, render};

fn flag(cluster: &Value, component: &str, name: &str) -> Option<String> {
    let flags = cluster.pointer(component)?.as_array()?;
    let found = flags.iter().find(|flag| flag["name"] == name)?;
    found["value"].as_str().map(str::to_owned)
}

#[test]
fn name_of_load_balancer_is_in_certificates_and_kubeconfigs() {
    let facts = ("facts.json", "{{ [kube_apiserver_endpoint, no_proxy.split(','), kubeadm_cert_names] | to_json }}");
    let mut settings = json!({
        "loadbalancer_apiserver": {"address": "192.0.2.9", "port": 8443},
        "apiserver_loadbalancer_domain_name": "api.example.com",
    });
    let rendered = render(&["control_plane"], &[KUBEADM, facts], &settings);
    let cluster = &documents(&rendered[0])[1];
    has(cluster, "/controlPlaneEndpoint", &json!("api.example.com:8443"));
    let names = cluster.pointer("/apiServer/certSANs").unwrap().as_array().unwrap();
    assert!(names.contains(&json!("api.example.com")) && names.contains(&json!("192.0.2.9")), "{names:?}");
    let facts: Value = serde_json::from_str(&rendered[1]).unwrap();
    assert!(facts[1].as_array().unwrap().contains(&json!("api.example.com")), "{facts}");

    // Nodes keep their local load balancer, and the name is only in the certificates.
    settings.as_object_mut().unwrap().remove("loadbalancer_apiserver");
    let cluster = &documents(&render(&["control_plane"], &[KUBEADM], &settings)[0])[1];
    has(cluster, "/controlPlaneEndpoint", &json!("127.0.0.1:8443"));
    let names = cluster.pointer("/apiServer/certSANs").unwrap().as_array().unwrap();
    assert!(names.contains(&json!("api.example.com")), "{names:?}");
}
