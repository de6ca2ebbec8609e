//! HTML pages that need no network.
//!
//! All values of a page pass through [`Design::render`], the one place where text becomes HTML: control characters are
//! made visible, and the template engine escapes everything. No value stands where a script, a style or an address is
//! expected, except for addresses that [`crate::http::server::encoded`] has built. A Content-Security-Policy allows the
//! page's own style and script, by their hashes, and nothing else.

use std::borrow::Cow;

use base64::Engine as _;
use minijinja::{AutoEscape, Environment};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::output::{Secrets, printable};

/// Links to the other pages of a server; empty in a page that stands alone.
pub(crate) const NAVIGATION: (&str, &str) = ("navigation", include_str!("html/navigation.html"));

/// Templates with the style and the script that they share.
pub(crate) struct Design {
    /// Templates by name.
    pub(crate) templates: &'static [(&'static str, &'static str)],
    pub(crate) style: &'static str,
    /// The script; may be empty.
    pub(crate) script: &'static str,
}

/// A page.
pub(crate) struct Html {
    pub(crate) text: String,
    /// Content-Security-Policy of the page.
    pub(crate) policy: String,
}

impl Design {
    /// Renders a template with the values of a page, which is an object. Secrets in values are masked.
    pub(crate) fn render(&self, template: &str, mut page: Json, secrets: &Secrets) -> Result<Html> {
        make_harmless(&mut page, secrets);
        let script = if self.script.is_empty() { "'none'".to_owned() } else { hash(self.script) };
        let policy =
            format!("default-src 'none'; style-src {}; script-src {script}; base-uri 'none'", hash(self.style));
        if let Json::Object(page) = &mut page {
            for (name, text) in [("style", self.style), ("script", self.script), ("policy", &policy)] {
                page.insert(name.to_owned(), text.into());
            }
        }
        let fail = |error: minijinja::Error| Error::new(format!("the page cannot be rendered: {error:#}"));
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        for (name, text) in self.templates {
            environment.add_template(name, text).map_err(fail)?;
        }
        let template = environment.get_template(template).map_err(fail)?;
        let text = template.render(windlass_template::from_json(&page)).map_err(fail)?;
        Ok(Html { text, policy })
    }
}

/// SHA-256 of a style or script, in the notation of a Content-Security-Policy.
fn hash(text: &str) -> String {
    format!("'sha256-{}'", base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text.as_bytes())))
}

/// Masks secrets and makes control characters visible in all texts of a value.
pub(crate) fn make_harmless(value: &mut Json, secrets: &Secrets) {
    match value {
        Json::String(text) => {
            if let Cow::Owned(masked) = secrets.masked(text) {
                *text = masked;
            }
            if let Cow::Owned(visible) = printable(text) {
                *text = visible;
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| make_harmless(item, secrets)),
        Json::Object(map) => map.values_mut().for_each(|value| make_harmless(value, secrets)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_escaped_and_control_characters_visible() {
        let design = Design { templates: &[("page", "<p title=\"{{ text }}\">{{ text }}</p>")], style: "", script: "" };
        let secrets = Secrets::default();
        secrets.add("hunter2hunter");
        let html =
            design.render("page", json!({"text": "<script>\"'&\u{202e}\u{1b} hunter2hunter"}), &secrets).unwrap();
        assert!(!html.text.contains("<script") && !html.text.contains('\u{202e}'), "{}", html.text);
        assert!(html.text.contains("&lt;script&gt;") && html.text.contains("\\u{202e}"), "{}", html.text);
        assert!(!html.text.contains("hunter2"), "{}", html.text);
        assert!(html.policy.contains("script-src 'none'"), "{}", html.policy);
    }
}
