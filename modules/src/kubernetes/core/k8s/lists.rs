//! Lists whose items are merged by a key.

use serde_json::Value;

/// Positions of pod specifications, by kind.
const POD_SPECS: [&str; 6] = [
    "Pod.spec.",
    "Deployment.spec.template.spec.",
    "DaemonSet.spec.template.spec.",
    "StatefulSet.spec.template.spec.",
    "Job.spec.template.spec.",
    "CronJob.spec.jobTemplate.spec.template.spec.",
];

/// The merge key of a list, by its position: `Service.spec.ports`, `Pod.spec.containers.env`.
pub(super) fn merge_key(position: &str) -> Option<&'static str> {
    let inner = POD_SPECS.iter().find_map(|prefix| position.strip_prefix(prefix));
    let Some(inner) = inner else {
        return Some(match position {
            "Service.spec.ports" => "port",
            "ServiceAccount.secrets"
            | "ValidatingWebhookConfiguration.webhooks"
            | "MutatingWebhookConfiguration.webhooks" => "name",
            _ => return None,
        });
    };
    let inner = ["containers.", "initContainers.", "ephemeralContainers."]
        .iter()
        .find_map(|prefix| inner.strip_prefix(prefix).map(|field| (true, field)))
        .unwrap_or((false, inner));
    Some(match inner {
        (false, "containers" | "initContainers" | "ephemeralContainers" | "volumes" | "imagePullSecrets") => "name",
        (true, "env") => "name",
        (true, "volumeMounts") => "mountPath",
        (true, "volumeDevices") => "devicePath",
        (true, "ports") => "containerPort",
        _ => return None,
    })
}

/// The items by their keys; of several with the same key, the last wins.
pub(super) fn by_key<'a>(items: &'a [Value], key: &str, position: &str) -> Result<Vec<(&'a Value, &'a Value)>, String> {
    let mut found: Vec<(&Value, &Value)> = Vec::new();
    for item in items {
        let name = item.get(key).ok_or_else(|| format!("Expected key '{key}' not found in position {position}"))?;
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some(former) => former.1 = item,
            None => found.push((name, item)),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_lists_have_merge_keys_in_every_kind() {
        assert_eq!(merge_key("Pod.spec.containers"), Some("name"));
        assert_eq!(merge_key("Deployment.spec.template.spec.containers.ports"), Some("containerPort"));
        assert_eq!(merge_key("Job.spec.template.spec.initContainers.volumeMounts"), Some("mountPath"));
        assert_eq!(merge_key("Service.spec.ports"), Some("port"));
        assert_eq!(merge_key("Pod.spec.tolerations"), None);
        assert_eq!(merge_key("ConfigMap.data"), None);
    }
}
