//! The kernel command line.

use serde_json::{Value, json};

use super::{Facts, Root};
use crate::Map;

/// `cmdline` and `proc_cmdline`: words of the kernel command line; words without a value become `true`.
pub(crate) fn collect(root: &Root, facts: &mut Facts) {
    let Some(line) = root.line("/proc/cmdline") else { return };
    let mut once = Map::new();
    let mut all = Map::new();
    for word in shell_words::split(&line).unwrap_or_else(|_| line.split_whitespace().map(str::to_owned).collect()) {
        match word.split_once('=') {
            Some((key, value)) => {
                once.insert(key.to_owned(), value.into());
                match all.get_mut(key) {
                    Some(Value::Array(values)) => values.push(value.into()),
                    Some(earlier) => *earlier = json!([earlier.clone(), value]),
                    None => _ = all.insert(key.to_owned(), value.into()),
                }
            }
            None => {
                once.insert(word.clone(), true.into());
                all.insert(word, true.into());
            }
        }
    }
    facts.set("cmdline", once);
    facts.set("proc_cmdline", all);
}

#[cfg(test)]
mod tests {
    use super::{super::root::tests::tree, *};

    #[test]
    fn kernel_command_line_parsed() {
        let (_folder, root) = tree(&[("/proc/cmdline", "root=UUID=ab ro console=tty0 console=ttyS0\n")]);
        let mut facts = Facts::default();
        collect(&root, &mut facts);
        assert_eq!(facts.value("cmdline"), Some(&json!({"root": "UUID=ab", "ro": true, "console": "ttyS0"})));
        assert_eq!(facts.value("proc_cmdline").and_then(|all| all.get("console")), Some(&json!(["tty0", "ttyS0"])));
    }
}
