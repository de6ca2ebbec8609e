//! `url`: content from a web server.

use std::time::Duration;

use base64::Engine;
use minijinja::Value;
use ureq::Agent;
use ureq::tls::TlsConfig;

use super::call::{Answer, Call};
use crate::python::container::pairs;
use crate::python::{number, text};

/// Maximum size of a response, in bytes.
const LARGEST: u64 = 64 << 20;

pub(super) fn url(call: &Call<'_>) -> Answer {
    let seconds = call.option("timeout").and_then(number::to_float).unwrap_or(10.0);
    let redirects = match call.text("follow_redirects", "urllib2").to_lowercase().as_str() {
        "none" | "no" | "false" => 0,
        _ => 10,
    };
    let tls = TlsConfig::builder().disable_verification(!call.flag("validate_certs", true)).build();
    let mut config = Agent::config_builder()
        .timeout_global(Duration::try_from_secs_f64(seconds.max(0.1)).ok())
        .max_redirects(redirects)
        .user_agent(call.text("http_agent", "ansible-httpget"))
        .tls_config(tls);
    if !call.flag("use_proxy", true) {
        config = config.proxy(None);
    }
    let agent = Agent::new_with_config(config.build());
    let mut answers = Vec::new();
    for term in call.texts() {
        let body = get(call, &agent, &term).map_err(|error| call.error(format!("cannot get '{term}': {error}")))?;
        match call.flag("split_lines", true) {
            true => answers.extend(body.lines().map(Value::from)),
            false => answers.push(Value::from(body)),
        }
    }
    Ok(answers)
}

fn get(call: &Call<'_>, agent: &Agent, url: &str) -> Result<String, ureq::Error> {
    let mut request = agent.get(url);
    if let Some(user) = call.option("username") {
        let credentials = format!("{}:{}", text(user), call.text("password", ""));
        let encoded = base64::engine::general_purpose::STANDARD.encode(credentials);
        request = request.header("Authorization", format!("Basic {encoded}"));
    }
    for (name, value) in call.option("headers").and_then(pairs).unwrap_or_default() {
        request = request.header(text(&name), text(&value));
    }
    if call.flag("force", false) {
        request = request.header("Cache-Control", "no-cache");
    }
    request.call()?.body_mut().with_config().limit(LARGEST).read_to_string()
}
