//! Options in the syntax of ssh's command line, used by Ansible's `ssh_args` and `ansible_ssh_common_args`.

use std::path::PathBuf;

use crate::Error;

/// Options of ssh with a value. The parser needs to know them even where it ignores them.
const WITH_VALUE: &str = "BbcDEeFIiJLlmOoPpQRSWw";
/// Options without a value. Apart from the address families, none affects how this client reaches a host.
const FLAGS: &str = "46AaCfGgKkMNnqsTtVvXxYy";

/// Relevant options, in the order given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// `keyword value` lines, as for `-o`.
    pub(crate) options: Vec<String>,
    /// `-F`: the only configuration file to read.
    pub(crate) config_file: Option<PathBuf>,
}

impl Arguments {
    /// Reads words such as `-o`, `ProxyJump=bastion`, `-p2222`.
    pub(crate) fn parse(words: &[String]) -> Result<Self, Error> {
        let mut arguments = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
                return Err(wrong(word, "an option that begins with `-` is expected here"));
            };
            let mut rest = letters.chars();
            while let Some(letter) = rest.next() {
                if FLAGS.contains(letter) {
                    match letter {
                        '4' => arguments.options.push("AddressFamily inet".into()),
                        '6' => arguments.options.push("AddressFamily inet6".into()),
                        _ => {}
                    }
                    continue;
                }
                if !WITH_VALUE.contains(letter) {
                    return Err(wrong(word, &format!("ssh has no option `-{letter}`")));
                }
                let attached = rest.as_str();
                let value = match attached {
                    "" => words.next().cloned().ok_or_else(|| wrong(word, "its value is missing"))?,
                    _ => attached.to_owned(),
                };
                arguments.add(letter, value);
                break;
            }
        }
        Ok(arguments)
    }

    fn add(&mut self, letter: char, value: String) {
        let keyword = match letter {
            'o' => return self.options.push(value),
            'F' => {
                self.config_file = Some(value.into());
                return;
            }
            'J' => "ProxyJump",
            'i' => "IdentityFile",
            'p' => "Port",
            'l' => "User",
            'b' => "BindAddress",
            'c' => "Ciphers",
            'm' => "MACs",
            _ => return,
        };
        self.options.push(format!("{keyword} \"{value}\""));
    }
}

fn wrong(word: &str, problem: &str) -> Error {
    Error::Configuration { place: format!("ssh option `{word}`"), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Arguments, Error> {
        Arguments::parse(&shell_words::split(text).unwrap())
    }

    #[test]
    fn typical_ansible_arguments_parsed() {
        let arguments =
            parse("-C -o ControlMaster=auto -oStrictHostKeyChecking=no -J me@bastion:22 -p2222 -F ./ssh.cfg -vvv -i '/my keys/id'").unwrap();
        assert_eq!(
            arguments.options,
            [
                "ControlMaster=auto",
                "StrictHostKeyChecking=no",
                "ProxyJump \"me@bastion:22\"",
                "Port \"2222\"",
                "IdentityFile \"/my keys/id\""
            ]
        );
        assert_eq!(arguments.config_file, Some("./ssh.cfg".into()));
    }

    #[test]
    fn invalid_argument_named_in_error() {
        assert!(parse("-o").unwrap_err().to_string().contains("its value is missing"));
        assert!(parse("bastion").unwrap_err().to_string().contains("`bastion`"));
    }
}
