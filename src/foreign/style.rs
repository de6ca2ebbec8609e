//! Detects a module's protocol from its content.

use std::sync::LazyLock;

use regex::bytes::Regex;

/// Protocol of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Python that imports `module_utils`; packed together with them.
    Python,
    /// A script with a placeholder that is replaced by the arguments as JSON.
    JsonInText,
    /// A script that takes the path of a JSON file.
    JsonFile,
    /// A script that takes the path of a file with `key=value` pairs.
    KeyValueFile,
    /// A binary that takes the path of a JSON file.
    Binary,
    /// PowerShell, for Windows.
    PowerShell,
}

/// Placeholder in old Python modules for the import of `module_utils.basic`.
pub(super) const COMMON: &str = "#<<INCLUDE_ANSIBLE_MODULE_COMMON>>";

static IMPORTS_MODULE_UTILS: LazyLock<Regex> = LazyLock::new(|| {
    let text = r"(?-u)from +\.{2,} *module_utils.* +import |from +ansible_collections\.[^.]+\.[^.]+\.plugins\.module_utils.* +import |import +ansible_collections\.[^.]+\.[^.]+\.plugins\.module_utils|from +ansible\.module_utils.* +import |import +ansible\.module_utils\.";
    Regex::new(text).expect("a constant expression")
});
static IS_POWERSHELL: LazyLock<Regex> = LazyLock::new(|| {
    let text = r"(?i-u)# POWERSHELL_COMMON|#Requires -(Module|Version)|#AnsibleRequires -(OSVersion|PowerShell|CSharpUtil|Wrapper)";
    Regex::new(text).expect("a constant expression")
});

impl Style {
    /// Protocol of a module with this content.
    pub fn of(content: &[u8]) -> Style {
        let holds = |needle: &str| content.windows(needle.len()).any(|window| window == needle.as_bytes());
        if content.iter().take(1024).any(|byte| is_control(*byte)) {
            Style::Binary
        } else if holds(COMMON) || IMPORTS_MODULE_UTILS.is_match(content) {
            Style::Python
        } else if IS_POWERSHELL.is_match(content) {
            Style::PowerShell
        } else if holds("<<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>") {
            Style::JsonInText
        } else if holds("WANT_JSON") {
            Style::JsonFile
        } else {
            Style::KeyValueFile
        }
    }

    /// Name of the protocol in requests to the executor.
    pub fn name(self) -> &'static str {
        match self {
            Style::Python => "python",
            Style::JsonInText => "json_in_text",
            Style::JsonFile | Style::Binary => "json_file",
            Style::KeyValueFile => "key_value_file",
            Style::PowerShell => "powershell",
        }
    }
}

/// Whether a byte never occurs in text.
fn is_control(byte: u8) -> bool {
    byte == 0x7f || (byte < 0x20 && !matches!(byte, 7..=10 | 12 | 13 | 27))
}

/// Words of a script's first line after `#!`.
pub(super) fn shebang(content: &[u8]) -> Option<Vec<String>> {
    let line = content.split(|byte| *byte == b'\n').next().unwrap_or_default().strip_prefix(b"#!")?;
    let words = shell_words::split(String::from_utf8_lossy(line).trim()).ok()?;
    Some(words).filter(|words| !words.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocol_detected_from_content() {
        let cases: [(&[u8], Style); 8] = [
            (b"#!/usr/bin/python\nfrom ansible.module_utils.basic import AnsibleModule\n", Style::Python),
            (b"#!/usr/bin/python\nfrom ..module_utils.x import y\n", Style::Python),
            (b"#!/usr/bin/python\n#<<INCLUDE_ANSIBLE_MODULE_COMMON>>\n", Style::Python),
            (b"#!/bin/sh\n# WANT_JSON\n", Style::JsonFile),
            (b"#!/usr/bin/perl\nmy $args = '<<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>';\n", Style::JsonInText),
            (b"#!/bin/sh\n. $1\n", Style::KeyValueFile),
            (b"\x7fELF\x02\x01\x01\x00", Style::Binary),
            (b"#!powershell\n#AnsibleRequires -CSharpUtil Ansible.Basic\n", Style::PowerShell),
        ];
        for (content, style) in cases {
            assert_eq!(Style::of(content), style, "{}", String::from_utf8_lossy(content));
        }
    }

    #[test]
    fn shebang_split_into_words() {
        assert_eq!(shebang(b"#! /usr/bin/env -S python3 -u\nx").unwrap(), ["/usr/bin/env", "-S", "python3", "-u"]);
        assert_eq!(shebang(b"echo\n"), None);
    }
}
