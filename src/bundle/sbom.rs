//! The list of components of a bundle, as CycloneDX 1.5.

use serde_json::{Value, json};

use super::manifest::{File, Kind};
use crate::error::{Error, Result};

/// The document. It has neither a serial number nor a time, so that it depends on the files only.
pub(super) fn sbom(name: &str, files: &[File]) -> Result<Vec<u8>> {
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": "bundle", "name": name},
            "tools": {"components": [
                {"type": "application", "name": "windlass", "version": env!("CARGO_PKG_VERSION")},
            ]},
        },
        "components": files.iter().map(component).collect::<Vec<_>>(),
    });
    let mut bytes = serde_json::to_vec_pretty(&document)
        .map_err(|error| Error::new(format!("the list of components cannot be written: {error}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn component(file: &File) -> Value {
    let kind = match file.kind {
        Kind::Artifact | Kind::Windlass => "application",
        Kind::Manifest => "file",
        Kind::Image => "container",
    };
    let mut properties = vec![json!({"name": "windlass:bundle:path", "value": file.path})];
    properties.extend(file.images.iter().map(|image| json!({"name": "windlass:bundle:image", "value": image})));
    let mut component = json!({
        "type": kind,
        "bom-ref": file.path,
        "name": file.name,
        "hashes": [{"alg": "SHA-256", "content": file.sha256}],
        "properties": properties,
    });
    if let Some(fields) = component.as_object_mut() {
        if !file.version.is_empty() {
            fields.insert("version".to_owned(), file.version.clone().into());
        }
        if file.source.contains("://") {
            let reference = json!([{"type": "distribution", "url": file.source}]);
            fields.insert("externalReferences".to_owned(), reference);
        }
    }
    component
}
