//! Groups of modules, named `group/NAME` in `module_defaults`.

use windlass_yaml::Node;

use super::finder::Modules;
use super::module::{Origin, Resolution};
use crate::error::{Error, Result, did_you_mean};

/// Groups without a collection's name, with the collection groups they stand for.
const SHORT: &[(&str, &[&str])] = &[
    ("acme", &["community.crypto.acme"]),
    ("aws", &["amazon.aws.aws", "community.aws.aws"]),
    ("azure", &["azure.azcollection.azure"]),
    ("cpm", &["wti.remote.cpm"]),
    ("docker", &["community.general.docker", "community.docker.docker"]),
    ("gcp", &["google.cloud.gcp"]),
    (
        "k8s",
        &[
            "community.kubernetes.k8s",
            "community.general.k8s",
            "community.kubevirt.k8s",
            "community.okd.k8s",
            "kubernetes.core.k8s",
        ],
    ),
    ("os", &["openstack.cloud.os"]),
    ("ovirt", &["ovirt.ovirt.ovirt", "community.general.ovirt"]),
    ("vmware", &["community.vmware.vmware"]),
];

impl Modules {
    /// Fails if `module_defaults` names an unknown group.
    pub fn check_groups(&self, module_defaults: Option<&Node>) -> Result<()> {
        let Some(node) = module_defaults else { return Ok(()) };
        let maps = node.as_list().unwrap_or(std::slice::from_ref(node)).iter().filter_map(Node::as_map);
        for key in maps.flat_map(|map| map.keys()) {
            let name = key.to_text();
            let Some(group) = name.strip_prefix("group/") else { continue };
            if self.group(group).is_none() {
                let full =
                    if group.matches('.').count() < 2 { format!("ansible.builtin.{group}") } else { group.to_owned() };
                let message =
                    format!("Error loading module_defaults: could not resolve the module_defaults group {full}");
                let hint = did_you_mean(group, SHORT.iter().map(|(name, _)| *name)).unwrap_or_else(|| {
                    "name a group of an installed collection as `group/NAMESPACE.COLLECTION.GROUP`; its name cannot \
                     be a template"
                        .to_owned()
                });
                return Err(Error::parse(message, &key.span).hint(hint));
            }
        }
        Ok(())
    }

    /// Qualified names of a group's modules; `None` if the group is unknown.
    pub fn group(&self, name: &str) -> Option<Vec<String>> {
        let mut members = Vec::new();
        let known =
            match SHORT.iter().find(|(short, _)| name.strip_prefix("ansible.builtin.").unwrap_or(name) == *short) {
                Some((_, groups)) => {
                    groups.iter().for_each(|group| {
                        self.add_group(group, &mut Vec::new(), &mut members);
                    });
                    true
                }
                None => self.add_group(name, &mut Vec::new(), &mut members),
            };
        known.then_some(members)
    }

    /// Adds the members of a group and of the groups it extends. Returns false if the group is unknown.
    fn add_group(&self, name: &str, seen: &mut Vec<String>, members: &mut Vec<String>) -> bool {
        let mut parts = name.splitn(3, '.');
        let (Some(namespace), Some(collection), Some(group)) = (parts.next(), parts.next(), parts.next()) else {
            return false;
        };
        if seen.iter().any(|known| known == name) {
            return true;
        }
        seen.push(name.to_owned());
        let file = match self.collection(namespace, collection) {
            Some(folder) => folder.join("meta/runtime.yml"),
            None => return false,
        };
        let Ok(meta) = self.files.variables(&file) else { return false };
        let groups = meta.get("action_groups");
        let Some(list) = groups.and_then(|groups| groups.get(name).or_else(|| groups.get(group))) else { return false };
        let full = |word: &str| match word.matches('.').count() {
            0 => format!("{namespace}.{collection}.{word}"),
            _ => word.to_owned(),
        };
        for entry in list.as_list().unwrap_or_default() {
            if let Some(word) = entry.as_str() {
                members.push(full(word));
                continue;
            }
            let more = entry.get("metadata").and_then(|metadata| metadata.get("extend_group"));
            let more = more.map(|node| node.as_list().map_or_else(|| vec![node.clone()], <[_]>::to_vec));
            for word in more.unwrap_or_default().iter().filter_map(|node| node.as_str()) {
                self.add_group(&full(word), seen, members);
            }
        }
        true
    }

    /// Qualified name that an action's name resolves to.
    pub fn full_name(&self, name: &str, collections: &[String]) -> String {
        match self.resolve(name, collections) {
            Resolution::Foreign(module) => match &module.origin {
                Origin::Collection(collection) => format!("{collection}.{}", module.name),
                Origin::Core => format!("ansible.builtin.{}", module.name),
                Origin::Project => format!("ansible.legacy.{}", module.name),
            },
            _ => match windlass_modules::registry::find(name) {
                Some(module) => format!("{}.{}", module.spec().collection, module.spec().name),
                None if name.contains('.') => name.to_owned(),
                None => format!("ansible.builtin.{name}"),
            },
        }
    }
}
