//! The shell command that finds, verifies, receives and starts the executor. The binary is compressed with xz if the
//! host can unpack it, else with gzip. A line with its length precedes it.
//!
//! The login shell may be sh, csh or fish, so the script is one word in single quotes without line breaks, single
//! quotes or exclamation marks. A random word marks every line meant for the controller.

use super::Image;

/// Prefix of a request for the binary, followed by the random word.
pub(super) const NEED: &str = "windlass-need-";
/// Prefix of an error, followed by the random word and a message.
pub(super) const FAIL: &str = "windlass-fail-";
/// Compression formats of the executor.
pub(super) const XZ: &str = "xz";
const GZIP: &str = "gzip";

/// `usable` creates our directory below a base and checks that only this user can write to it. Another user may have
/// created it first, or a link in a shared directory. Files of the script are private, while tasks keep the login's
/// umask. The script searches all directories for the executor before it chooses one for the upload, because a file
/// system may have been remounted.
///
/// In `remote_tmp` only `$HOME`, `$USER`, `$LOGNAME` (also in braces) and a leading `~` or `~user` are replaced. A
/// shell never evaluates it.
const SCRIPT: &str = r##"
w=$1; t=$2; k=$3; c=$4;
l=$(umask); umask 077; HOME=${HOME:-/nonexistent};
PATH="$PATH:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"; export PATH;
fail() { printf "\nwindlass-fail-%s %s\n" "$w" "$*"; exit 97; };
u=$(id -u); m=$(uname -m);
case $m in @CASES@ *) fail "there is no executor for the architecture $m of this host, only for @KNOWN@";; esac;
n="executor-$h";
put() {
  case $2 in *"\$"*) return;; esac;
  while :; do case $t in *"$1"*) t="${t%%"$1"*}$2${t#*"$1"}";; *) return;; esac; done;
};
me=$(id -un 2>/dev/null); me=${me:-${USER:-$u}};
put "\${HOME}" "$HOME"; put "\$HOME" "$HOME"; put "\${USER}" "$me"; put "\$USER" "$me"; put "\${LOGNAME}" "$me"; put "\$LOGNAME" "$me";
case $t in "~/"*) t="$HOME/${t#??}";; "~") t=$HOME;;
  "~"*) r=${t#"~"}; e=$(getent passwd "${r%%/*}" 2>/dev/null | cut -d: -f6);
    if [ -n "$e" ]; then case $r in */*) t="$e/${r#*/}";; *) t=$e;; esac; fi;;
esac;
tried=;
usable() {
  d=; case $1 in /*) ;; *) return 1;; esac;
  case ":$k:" in *":$1:"*) return 1;; esac;
  case $1 in "$HOME"/*) [ -d "$HOME" ] || return 1; mkdir -p "$1" 2>/dev/null;; "$t") mkdir -p "$1" 2>/dev/null;; esac;
  [ -d "$1" ] || return 1;
  mkdir "$1/.windlass-$u" 2>/dev/null;
  set -- "$1" $(ls -ldn "$1/.windlass-$u" 2>/dev/null);
  if [ -z "$2" ]; then tried="$tried $1 (not writable)"; return 1; fi;
  case "$2 $4" in "drwx------ $u"|"drwx------. $u") d="$1/.windlass-$u";; *) tried="$tried $1 (.windlass-$u is not private to user id $u)"; return 1;; esac;
};
right() {
  if command -v sha256sum >/dev/null 2>&1; then s=$(sha256sum <"$1");
  elif command -v openssl >/dev/null 2>&1; then s=$(openssl dgst -sha256 -r <"$1");
  else s=$h; fi;
  [ "${s%% *}" = "$h" ];
};
start() { umask "$l"; exec "$d/$n" serve "$w"; };
places() { for b in "$t" "$HOME/.cache" /var/tmp /tmp "$XDG_RUNTIME_DIR" "/run/user/$u" /dev/shm; do "$1" "$b" && return 0; done; return 1; };
cached() { [ -d "$1/.windlass-$u" ] && usable "$1" && [ -f "$d/$n" ] && [ -x "$d/$n" ] && right "$d/$n"; };
fit() {
  usable "$1" || return 1;
  p="$d/.probe-$$-$w";
  if { printf "#%s/bin/sh\nexit 0\n" "$(printf "\041")" >"$p"; } 2>/dev/null && chmod 700 "$p"; then
    "$p" 2>/dev/null && s=0 || s=1; rm -f "$p"; [ $s = 0 ] && return 0; tried="$tried $1 (noexec)";
  else rm -f "$p"; tried="$tried $1 (cannot be written)"; fi;
  rmdir "$d" 2>/dev/null;
  return 1;
};
if places cached; then start; fi;
tried=;
places fit || fail "no directory takes and executes the executor; tried:$tried";
f="$d/.upload-$$-$w";
command -v "$c" >/dev/null 2>&1 || c=gzip;
printf "\nwindlass-need-%s %s %s %s\n" "$w" "$m" "$c" "$b";
read z;
e=$( { head -c "$z" | "$c" -dc >"$f"; } 2>&1 ) || { rm -f "$f"; rmdir "$d" 2>/dev/null; fail "the executor could not be written to $d: ${e:-the program that unpacks it gave no reason} (df: $(df -Pk "$d" 2>/dev/null | tail -n 1))"; };
chmod 700 "$f";
right "$f" || { rm -f "$f"; fail "the executor did not arrive whole in $d"; };
mv -f "$f" "$d/$n" || fail "the executor could not be renamed in $d";
find "$d" "(" -name "executor-*" -mtime +30 -o "(" -name ".upload-*" -o -name ".probe-*" ")" -mtime +1 ")" -exec rm -f "{}" ";" 2>/dev/null;
start
"##;

/// Command for an SSH channel. `excluded` lists directories where it failed before; a retry also avoids xz, which may
/// have been the cause.
pub(super) fn command(images: &[Image], word: &str, remote_tmp: &str, excluded: &[String]) -> String {
    let cases: String =
        images.iter().map(|image| format!("{}) h={};; ", names(image.architecture), image.sha256)).collect();
    let known: Vec<&str> = images.iter().map(|image| image.architecture).collect();
    let script: Vec<&str> = SCRIPT.lines().map(str::trim).collect();
    let script = script.join(" ").replace("@CASES@", &cases).replace("@KNOWN@", &known.join(" and "));
    let packer = if excluded.is_empty() { XZ } else { GZIP };
    let words = [script.trim(), "sh", word, remote_tmp, &excluded.join(":"), packer];
    let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
    format!("exec /bin/sh -c {}", quoted.join(" "))
}

/// Names that `uname -m` prints for an architecture.
fn names(architecture: &str) -> &str {
    match architecture {
        "x86_64" => "x86_64|amd64",
        "aarch64" => "aarch64|arm64",
        other => other,
    }
}

/// Whether an image runs on a host with this `uname -m`.
pub(super) fn runs_on(image: &Image, machine: &str) -> bool {
    names(image.architecture).split('|').any(|name| name == machine)
}

fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Extent;

    #[test]
    fn every_login_shell_can_quote_the_script() {
        let image = Image { architecture: "x86_64", extent: Extent::All, sha256: "00", xz: b"" };
        let command = command(&[image], "word", "~/it's", &[]);
        let (script, rest) = command.strip_prefix("exec /bin/sh -c '").unwrap().split_once('\'').unwrap();
        assert!(!script.contains(['\n', '!']), "{script}");
        assert_eq!(rest, r" 'sh' 'word' '~/it'\''s' '' 'xz'");
    }
}
