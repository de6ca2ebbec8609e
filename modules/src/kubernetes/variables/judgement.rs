//! Judges settings of an inventory.

use std::collections::BTreeMap;

use serde_json::Value;
use strsim::osa_distance;

use super::{
    names::Names,
    table::{Reason, State, Table},
};

/// One value of a variable.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Location of the setting, for messages.
    pub place: String,
    /// The value as written, possibly a template.
    pub written: Value,
    /// A host that the setting applies to.
    pub host: String,
}

/// Variables that are set, each with its distinct values.
pub type Given = BTreeMap<String, Vec<Setting>>;

/// Outcome of a judgement.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// A message for each refused variable.
    pub refusals: Vec<String>,
    /// Variables that the roles do not need.
    pub not_needed: Vec<String>,
}

/// Evaluates the template in a setting; `None` if that fails.
type Evaluate<'a> = &'a dyn Fn(&str, &Setting) -> Option<Value>;

impl Table {
    /// Judges all settings. Variables that the roles let an inventory set are supported regardless of the table. Names
    /// in `own` belong to the user and never count as misspellings.
    pub fn judge(&self, given: &Given, names: &Names, own: &[&str], evaluate: Evaluate<'_>) -> Judgement {
        let judge = Judge { table: self, given, evaluate };
        let mut refused = BTreeMap::new();
        let mut not_needed = Vec::new();
        for (name, settings) in given {
            let Some(place) = settings.first().map(|setting| &setting.place) else { continue };
            if names.settable.contains(name) {
                continue;
            }
            match self.state(name) {
                Some(State::Supported) => {}
                Some(State::Renamed(new)) => {
                    refused.insert(name, (None, format!("`{name}` ({place}) is called `{new}` here. Rename it.")));
                }
                Some(State::NotNeeded(reason, accepted)) => {
                    if judge.counts(*reason, name, settings, accepted.as_deref(), None).is_some() {
                        not_needed.push(name.clone());
                    }
                }
                Some(State::NotSupported(reason, accepted)) => {
                    let found = judge.counts(*reason, name, settings, accepted.as_deref(), Some(is_nothing));
                    if let Some((reason, place)) = found {
                        let (why, remedy) = (&reason.reason, remedy(reason, accepted.as_deref()));
                        let sentence = format!("`{name}` ({place}) is not supported: {why}. {remedy}");
                        refused.insert(name, (Some(reason), sentence));
                    }
                }
                None if own.contains(&name.as_str()) => {}
                None => {
                    if let Some(meant) = self.slip(name, names) {
                        let sentence = format!(
                            "`{name}` ({place}) is not a variable of Kubespray or of the roles; did you mean `{meant}`? Correct it, or list \
                             a name of your own in `own_variables`."
                        );
                        refused.insert(name, (None, sentence));
                    }
                }
            }
        }
        // Once the user removes a refused choice, the variables that depend on it no longer matter.
        let depends_on_refused = |reason: &Option<&Reason>| {
            reason.is_some_and(|one| one.only_with.keys().any(|key| refused.contains_key(key)))
        };
        let sentences = refused.values().filter(|(reason, _)| !depends_on_refused(reason));
        Judgement { refusals: sentences.map(|(_, sentence)| sentence.clone()).collect(), not_needed }
    }

    /// The known name that an unknown one probably misspells.
    fn slip<'a>(&'a self, name: &str, names: &'a Names) -> Option<&'a str> {
        let limit = match name.chars().count() {
            // Short names resemble each other by chance.
            0..=5 => return None,
            6..=11 => 1,
            _ => 2,
        };
        // Skips names of Ansible and internal names of roles.
        if names.derived.contains(name) || name.starts_with("ansible_") || name.starts_with('_') {
            return None;
        }
        let candidates = self.names().chain(names.settable.iter().map(String::as_str));
        candidates
            .filter(|candidate| candidate.len().abs_diff(name.len()) <= limit)
            .map(|candidate| (osa_distance(name, candidate), candidate))
            .filter(|(distance, _)| *distance <= limit)
            .min()
            .map(|(_, candidate)| candidate)
    }
}

struct Judge<'a> {
    table: &'a Table,
    given: &'a Given,
    evaluate: Evaluate<'a>,
}

impl<'a> Judge<'a> {
    /// The reason, with the place of the first setting that it applies to. `accepted` values are skipped; without such
    /// a list, `by_rule` decides.
    fn counts(
        &self,
        reason: usize,
        name: &str,
        settings: &'a [Setting],
        accepted: Option<&[Value]>,
        by_rule: Option<fn(&Value) -> bool>,
    ) -> Option<(&'a Reason, &'a str)> {
        let reason = self.table.reason(reason)?;
        let is_accepted = |value: &Value| match accepted {
            Some(accepted) => accepted.iter().any(|one| same(one, value)),
            None => by_rule.is_some_and(|rule| rule(value)),
        };
        // If no value is acceptable, the setting need not be evaluated.
        let may_be_accepted = accepted.is_some() || by_rule.is_some();
        let decides = |setting: &Setting| !may_be_accepted || !self.passes(name, setting, &is_accepted);
        let setting = settings.iter().find(|setting| self.applies(reason) && decides(setting))?;
        Some((reason, &setting.place))
    }

    /// Whether the variables that a reason depends on have one of its values.
    fn applies(&self, reason: &Reason) -> bool {
        reason.only_with.iter().all(|(name, wanted)| {
            let is_wanted = |value: &Value| wanted.iter().any(|one| same(one, value));
            match self.given.get(name) {
                Some(settings) => settings.iter().any(|setting| self.passes(name, setting, &is_wanted)),
                None => is_wanted(self.table.unset.get(name).unwrap_or(&Value::Bool(false))),
            }
        })
    }

    /// Whether a setting passes a test as written or, for a template, after evaluation.
    fn passes(&self, name: &str, setting: &Setting, test: &dyn Fn(&Value) -> bool) -> bool {
        let is_template = || setting.written.as_str().is_some_and(|text| text.contains("{{") || text.contains("{%"));
        test(&setting.written) || (is_template() && (self.evaluate)(name, setting).is_some_and(|value| test(&value)))
    }
}

fn remedy(reason: &Reason, accepted: Option<&[Value]>) -> String {
    match (&reason.instead, accepted) {
        (Some(instead), _) => format!("{instead}."),
        (None, Some(values)) if !values.is_empty() => {
            let values: Vec<_> = values.iter().map(|value| format!("`{}`", written(value))).collect();
            format!("Leave it out or set it to {}.", values.join(" or "))
        }
        _ => "Leave it out.".to_owned(),
    }
}

fn written(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether a value requests nothing: false or empty.
fn is_nothing(value: &Value) -> bool {
    matches!(plain(value).as_str(), "" | "false" | "[]" | "{}")
}

/// Compares values as Ansible users write them: `yes`, `"true"` and `true` are equal, and so are `5` and `"5"`.
fn same(left: &Value, right: &Value) -> bool {
    plain(left) == plain(right)
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => match text.trim().to_lowercase().as_str() {
            "yes" | "on" => "true".to_owned(),
            "no" | "off" => "false".to_owned(),
            "true" | "false" => text.trim().to_lowercase(),
            _ => text.trim().to_owned(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TABLE: &str = "
unset: {kube_network_plugin: calico, container_manager: containerd}
subjects:
  - subject: Network
    supported: [kube_network_plugin, kube_version, ip]
    renamed: {old_name: new_name}
    not_supported:
      - reason: Calico is not among the network plugins yet
        instead: Choose another kube_network_plugin
        only_with: {kube_network_plugin: [calico]}
        variables: [calico_mtu]
      - reason: secrets are not encrypted
        only_with: {kube_encrypt_secret_data: [true]}
        variables: [kube_encryption_algorithm]
      - reason: nothing encrypts secrets yet
        variables:
          - kube_encrypt_secret_data
          - flipped_since
          - kube_api_anonymous_auth: [true]
          - kube_script_dir: [\"{{ bin_dir }}/scripts\"]
    not_needed:
      - reason: kubeadm makes its own
        variables:
          - kubeadm_certificate_key
          - retry_stagger: [5]
";

    fn judge(given: &[(&str, Value)]) -> Judgement {
        let table = Table::read("table.yml", TABLE).unwrap();
        let setting =
            |value: &Value| Setting { place: "all.yml:1:1".into(), written: value.clone(), host: "node1".into() };
        let mut all = Given::new();
        for (name, value) in given {
            all.entry((*name).to_owned()).or_default().push(setting(value));
        }
        let names = Names {
            settable: ["cluster_name", "flipped_since"].map(str::to_owned).into(),
            derived: ["derived_names"].map(str::to_owned).into(),
        };
        table.judge(&all, &names, &["cluster_names"], &|name, _| match name {
            "kube_encrypt_secret_data" => Some(json!(false)),
            "kube_api_anonymous_auth" => None,
            _ => panic!("{name} is evaluated"),
        })
    }

    fn refusals(given: &[(&str, Value)]) -> Vec<String> {
        judge(given).refusals
    }

    #[test]
    fn unsupported_variable_refused_with_reason_and_remedy() {
        assert_eq!(
            refusals(&[("kube_encrypt_secret_data", json!(true)), ("kube_api_anonymous_auth", json!(false))]),
            [
                "`kube_api_anonymous_auth` (all.yml:1:1) is not supported: nothing encrypts secrets yet. Leave it out or set it to `true`.",
                "`kube_encrypt_secret_data` (all.yml:1:1) is not supported: nothing encrypts secrets yet. Leave it out.",
            ]
        );
    }

    #[test]
    fn harmless_values_accepted() {
        for value in [json!(false), json!("no"), json!(""), json!(null), json!([]), json!({}), json!("{{ flag }}")] {
            assert_eq!(refusals(&[("kube_encrypt_secret_data", value)]), [""; 0]);
        }
        assert_eq!(refusals(&[("kube_api_anonymous_auth", json!("True"))]), [""; 0]);
        assert_eq!(
            refusals(&[("kube_script_dir", json!("{{ bin_dir }}/scripts")), ("ip", json!("10.0.0.1"))]),
            [""; 0]
        );
        // A template that cannot be evaluated does not count as harmless.
        assert_eq!(refusals(&[("kube_api_anonymous_auth", json!("{{ flag }}"))]).len(), 1);
    }

    #[test]
    fn one_harmful_setting_among_several_refused() {
        let settings = [("kube_encrypt_secret_data", json!(false)), ("kube_encrypt_secret_data", json!(true))];
        assert_eq!(refusals(&settings).len(), 1);
    }

    #[test]
    fn dependent_variable_refused_only_with_its_choice() {
        let mtu = ("calico_mtu", json!(1400));
        assert_eq!(refusals(&[mtu.clone(), ("kube_network_plugin", json!("bridge"))]), [""; 0]);
        let sentence = "`calico_mtu` (all.yml:1:1) is not supported: Calico is not among the network plugins yet. Choose another kube_network_plugin.";
        assert_eq!(refusals(&[mtu.clone(), ("kube_network_plugin", json!("calico"))]), [sentence]);
        // An unset variable has Kubespray's default.
        assert_eq!(refusals(&[mtu]), [sentence]);
    }

    #[test]
    fn variables_of_refused_choice_not_reported() {
        let refused =
            refusals(&[("kube_encrypt_secret_data", json!(true)), ("kube_encryption_algorithm", json!("aescbc"))]);
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(refused.concat().contains("`kube_encrypt_secret_data`"), "{refused:?}");
    }

    #[test]
    fn renamed_variable_refused_with_new_name() {
        assert_eq!(
            refusals(&[("old_name", json!(1))]),
            ["`old_name` (all.yml:1:1) is called `new_name` here. Rename it."]
        );
    }

    #[test]
    fn misspelt_variable_refused_with_suggestion() {
        let refused = refusals(&[("kube_network_plugn", json!("bridge"))]);
        assert!(refused.iter().any(|sentence| sentence.contains("did you mean `kube_network_plugin`?")), "{refused:?}");
        let refused = refusals(&[("cluster_nmae", json!("x"))]);
        assert!(refused.iter().any(|sentence| sentence.contains("did you mean `cluster_name`?")), "{refused:?}");
    }

    #[test]
    fn user_and_ansible_names_accepted() {
        let own = [
            "app_port",
            "ips",
            "cluster_names",
            "derived_names",
            "my_kube_version",
            "_kube_version",
            "ansible_host",
            "registry_mirror",
        ];
        assert_eq!(refusals(&own.map(|name| (name, json!(1)))), [""; 0]);
    }

    #[test]
    fn role_variables_supported_regardless_of_table() {
        assert_eq!(refusals(&[("flipped_since", json!(true)), ("cluster_name", json!("x"))]), [""; 0]);
    }

    #[test]
    fn unneeded_variables_listed_unevaluated() {
        let judgement = judge(&[
            ("kubeadm_certificate_key", json!("{{ lookup('password', 'x') }}")),
            ("retry_stagger", json!("5")),
        ]);
        assert_eq!(judgement, Judgement { refusals: vec![], not_needed: vec!["kubeadm_certificate_key".into()] });
        assert_eq!(judge(&[("retry_stagger", json!(60))]).not_needed, ["retry_stagger"]);
    }

    #[test]
    fn invalid_table_fails_with_reason() {
        let fault = |text: &str| Table::read("table.yml", text).unwrap_err().message;
        assert!(fault("unset: {}\nsubjects: [{subject: x, suported: [a]}]").contains("suported"));
        assert!(fault("unset: {}\nsubjects: [{subject: x, supported: [a, a]}]").contains("a occurs twice"));
        assert!(fault("[").contains("table.yml"));
    }
}
