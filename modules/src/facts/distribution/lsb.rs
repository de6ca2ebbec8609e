//! Facts of the Linux Standard Base.

use super::super::{Facts, Root};
use super::{assignments, os_release};
use crate::Map;

/// `lsb`: the output of `lsb_release`, which itself only reads these files.
pub(crate) fn lsb(root: &Root, facts: &mut Facts) {
    let own = root.read("/etc/lsb-release").map(|text| assignments(&text)).unwrap_or_default();
    let release = os_release(root);
    let installed = root.program("lsb_release").is_some();
    let pick = |lsb_key: &str, os_key: &str| {
        own.get(lsb_key)
            .or_else(|| release.get(os_key).filter(|_| installed))
            .cloned()
            .filter(|value| !value.is_empty())
    };
    let mut lsb = Map::new();
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            lsb.insert(key.to_owned(), value.into());
        }
    };
    let version = pick("DISTRIB_RELEASE", "VERSION_ID");
    put("release", version.clone());
    let id = pick("DISTRIB_ID", "ID").map(|id| match id.as_str() {
        "debian" => "Debian".to_owned(),
        "ubuntu" => "Ubuntu".to_owned(),
        _ => id,
    });
    put("id", id);
    put("description", pick("DISTRIB_DESCRIPTION", "PRETTY_NAME"));
    put("codename", pick("DISTRIB_CODENAME", "VERSION_CODENAME"));
    put("major_release", version.and_then(|version| version.split('.').next().map(str::to_owned)));
    facts.set("lsb", lsb);
}
