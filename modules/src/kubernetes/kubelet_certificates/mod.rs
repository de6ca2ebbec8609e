//! `kubelet_certificates`: approves kubelets' requests for serving certificates, each only for its own node.
//!
//! A compromised node can write such requests itself, and an approved one would let it pose as any server of the
//! cluster. So a request is approved only if all of it was understood and allowed. The object that was judged is the
//! object that is approved: the API server refuses another version or another object of the same name.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use self::nodes::{Nodes, SIGNER};
use super::kube::kubectl::Kubectl;
use crate::{Args, Check, Failure, Host, Kind, Module, Opt, Outcome, Plan, Return, Spec};

mod nodes;
mod request;

/// Path of the requests in the API.
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// Number of refused requests to report. A node can make as many as it likes.
const REFUSED: usize = 1000;
/// Number of refused requests with a warning each.
const WARNINGS: usize = 10;

/// The `kubelet_certificates` module.
pub struct KubeletCertificates;

static SPEC: Spec = Spec {
    name: "kubelet_certificates",
    collection: "windlass.kubernetes",
    summary: "Approve kubelets' requests for serving certificates",
    description: &[
        "Approves a request only if the kubelet of a listed node requests a server's certificate for itself, with names \
         and addresses of this node alone. The signature must be valid, and the request must have no other extension.",
        "Neither approves nor denies other requests; it reports them with the reason.",
    ],
    options: &[
        Opt::required(
            "nodes",
            Kind::Dict,
            "Nodes by their names in Kubernetes, each with a list of the DNS names and IP addresses that its \
             certificate may contain.",
        ),
        Opt::new(
            "missing",
            Kind::List(&Kind::Str),
            "Nodes whose approved requests to wait for; without any, requests are judged once.",
        )
        .default("[]"),
        Opt::new("timeout", Kind::Int, "Seconds to wait before failing.").default("120"),
        Opt::new("request_timeout", Kind::Int, "Seconds to wait for a single answer of the API server.").default("30"),
        Opt::new(
            "kubeconfig",
            Kind::Path,
            "Path of the kubeconfig. Default: `KUBECONFIG`, or the administrator's file of the node.",
        ),
        Opt::new("context", Kind::Str, "Context of the kubeconfig."),
        Opt::new("server", Kind::Str, "Address of the API server; overrides the kubeconfig."),
        Opt::new("kubectl", Kind::Str, "Name or path of the program.").default("\"kubectl\""),
    ],
    check: Check::Full,
    examples: "- name: Approve the serving certificates of two nodes\n  windlass.kubernetes.kubelet_certificates:\n    nodes:\n      worker1: [worker1, 192.0.2.11]\n      worker2: [worker2, 192.0.2.12]\n    missing: [worker2]\n",
    returns: &[
        Return {
            name: "approved",
            kind: "list",
            when: "always",
            doc: "Nodes whose requests were (or would be) approved.",
        },
        Return {
            name: "refused",
            kind: "list",
            when: "always",
            doc: "`request`, `user` and `reason` of requests that were not approved.",
        },
    ],
    ..Spec::EMPTY
}
.compiled();

impl Module for KubeletCertificates {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn plan(&self, args: &Args, host: &Host) -> Result<Plan, Failure> {
        let client = Kubectl::of(args);
        if let Some(guess) = client.guess(host) {
            return Ok(guess);
        }
        let nodes = Nodes::read(args.value("nodes").unwrap_or(&Value::Null))?;
        let missing = args.list("missing").iter().map(|node| (*node).to_owned()).collect();
        let limit = args.seconds("timeout", 120);
        let mut run = Run { client, nodes, missing, approved: BTreeSet::new(), refused: BTreeMap::new() };
        Plan::steps(host, move |host, outcome| {
            let result = run.wait(limit, host);
            run.report(outcome);
            result
        })
    }
}

/// Approves requests until every node of `missing` has an approved one.
struct Run {
    client: Kubectl,
    nodes: Nodes,
    missing: BTreeSet<String>,
    approved: BTreeSet<String>,
    /// By the request's name: its user, and the reason against it.
    refused: BTreeMap<String, (String, String)>,
}

impl Run {
    fn wait(&mut self, limit: Duration, host: &Host) -> Result<(), Failure> {
        let deadline = Instant::now() + limit;
        loop {
            host.check_cancelled()?;
            let error = self.round(host)?;
            if host.check() || (self.missing.is_empty() && error.is_none()) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(self.failure(error));
            }
            std::thread::sleep(Duration::from_secs(2));
        }
    }

    /// Judges all requests once. Returns the error of an API server that did not answer, because it may do so later.
    fn round(&mut self, host: &Host) -> Result<Option<String>, Failure> {
        let selector = format!("--field-selector=spec.signerName={SIGNER}");
        let words = ["get", "certificatesigningrequests.v1.certificates.k8s.io", &selector, "-o", "json"];
        let answer = self.client.ask(&words, host)?;
        if !answer.success() {
            return Ok(Some(last_line(&answer.stderr_text())));
        }
        if answer.overlong.is_some() {
            return Err(Failure::new(
                "The cluster has too many requests for serving certificates to read them. Delete those that wait.",
            ));
        }
        let list: Value = serde_json::from_slice(&answer.stdout)
            .map_err(|error| Failure::new(format!("kubectl printed no JSON: {error}.")))?;
        let mut error = None;
        for object in list["items"].as_array().into_iter().flatten() {
            error = self.one(object, host)?.or(error);
        }
        Ok(error)
    }

    fn one(&mut self, object: &Value, host: &Host) -> Result<Option<String>, Failure> {
        let has = |wanted: &str| {
            let conditions = object["status"]["conditions"].as_array();
            conditions.is_some_and(|all| all.iter().any(|condition| condition["type"] == wanted))
        };
        if has("Denied") || has("Failed") {
            return Ok(None);
        }
        let node = match self.nodes.judge(object) {
            Ok(node) => node.to_owned(),
            // An approved one that has other names is from before the node got its address.
            Err(_) if has("Approved") => return Ok(None),
            Err(reason) => {
                self.refuse(object, reason);
                return Ok(None);
            }
        };
        if !has("Approved") {
            if !host.check()
                && let Some(error) = self.approve(object, host)?
            {
                return Ok(Some(error));
            }
            self.approved.insert(node.clone());
        }
        self.missing.remove(&node);
        Ok(None)
    }

    fn refuse(&mut self, object: &Value, reason: String) {
        let text = |value: &Value| value.as_str().unwrap_or_default().chars().take(253).collect::<String>();
        let reason = reason.chars().take(300).collect();
        if self.refused.len() < REFUSED {
            self.refused.insert(text(&object["metadata"]["name"]), (text(&object["spec"]["username"]), reason));
        }
    }

    /// Approves the judged object. Its uid and version are in it, so that the API server refuses any other.
    fn approve(&self, object: &Value, host: &Host) -> Result<Option<String>, Failure> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        let given = |key: &str| object["metadata"][key].as_str().is_some_and(|text| !text.is_empty());
        if !name.starts_with(|first: char| first.is_ascii_alphanumeric())
            || !name.bytes().all(known)
            || !given("uid")
            || !given("resourceVersion")
        {
            return Ok(Some("a request has no valid name, uid or version".to_owned()));
        }
        let mut approved = object.clone();
        let condition = json!({
            "type": "Approved",
            "status": "True",
            "reason": "WindlassApproved",
            "message": "Has only names and addresses that the inventory gives to this node.",
        });
        let conditions = &mut approved["status"]["conditions"];
        match conditions.as_array_mut() {
            Some(conditions) => conditions.push(condition),
            None => *conditions = json!([condition]),
        }
        let path = format!("{REQUESTS}/{name}/approval");
        let answer = self.client.send(&["replace", "--raw", &path, "-f", "-"], approved.to_string(), host)?;
        Ok((!answer.success()).then(|| last_line(&answer.stderr_text())))
    }

    fn report(&self, outcome: &mut Outcome) {
        outcome.changed = !self.approved.is_empty();
        outcome.set("approved", self.approved.iter().cloned().collect::<Vec<_>>());
        let refused = self.refused.iter();
        let refused: Vec<Value> = refused
            .map(|(request, (user, reason))| json!({"request": request, "user": user, "reason": reason}))
            .collect();
        outcome.set("refused", refused);
        outcome.warnings.extend(self.sentences().take(WARNINGS));
        if self.refused.len() > WARNINGS {
            outcome.warnings.push(format!("{} further requests were not approved.", self.refused.len() - WARNINGS));
        }
    }

    fn sentences(&self) -> impl Iterator<Item = String> {
        self.refused
            .iter()
            .map(|(request, (user, reason))| format!("The request {request} of {user} was not approved: {reason}."))
    }

    fn failure(&self, error: Option<String>) -> Failure {
        let missing = self.missing.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let mut message = match missing.as_str() {
            "" => "The requests for serving certificates were not approved.".to_owned(),
            _ => format!("No request that can be approved came from: {missing}."),
        };
        for sentence in self.sentences().take(WARNINGS).chain(error.map(|error| format!("The API answered: {error}.")))
        {
            message.push(' ');
            message.push_str(&sentence);
        }
        Failure::new(message)
    }
}

fn last_line(text: &str) -> String {
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("the API server did not answer");
    line.chars().take(500).collect()
}
