//! Become methods of bare commands: their command lines, and which process asks for a password. The become user's
//! programs share the streams of `sudo`, `su` and `doas`, so they can print every prompt.

use windlass_protocol::{BEGIN_MARKER, Become, BecomeMethod};

/// Precedes the random word and the process that may ask for a password.
const ASKS_MARKER: &str = "windlass-asks-";

/// Succeeds if process `$1` runs as root, for root or the login user, and has never started another one:
/// proc_pid_stat(5). Children that have ended are missing in the list, but their page faults count for the parent. A
/// program that the method has executed in place of itself may be setuid too, but runs for the become user. If it takes
/// the real user 0, as sudo does, it still has the become user's groups.
const ALONE: &str = r#"method=$1
stat() {
    { read -r stat < "/proc/$1/stat"; } 2> /dev/null || return
    set -- ${stat##*) }
    parent=$2 faults=$9
}
stat 1 || exit
for process in /proc/[0-9]*; do
    stat "${process#/proc/}" && [ "$parent" = "$method" ] && exit 1
done
stat "$method" && [ "$faults" = 0 ] || exit 1
credentials() {
    while read -r name first second rest; do
        case $name in
            Uid:) real=$first effective=$second ;;
            Gid:) group=$first ;;
            Groups:) groups="$first $second $rest" ;;
        esac
    done < "/proc/$1/status"
}
credentials $$
user=$real own="$group $groups"
credentials "$method" || exit 1
[ "$effective" = 0 ] || exit 1
case $real in
    0) [ "$group $groups" = "$own" ] ;;
    *) [ "$real" = "$user" ] ;;
esac
"#;

/// The command that succeeds if the process runs as root and has never started another one, so that no program of the
/// become user can have printed anything yet.
pub(super) fn is_alone(method: u32) -> String {
    format!("exec /bin/sh -c {} sh {method}", quote(ALONE))
}

/// Process that may ask for a password, as the shell that starts it reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    Unknown,
    /// sudo, which starts nothing this time.
    Validation,
    /// The become method, and later the become user's program.
    Process(u32),
    /// Nobody: a program of the become user may run.
    Nobody,
}

impl Asker {
    /// Reads the next report and removes it. Reports after a final one are ignored, because the become user can write
    /// them.
    pub(super) fn read(&mut self, stream: &mut Vec<u8>, word: &str) {
        let mark = format!("{ASKS_MARKER}{word} ");
        while matches!(self, Asker::Unknown | Asker::Validation)
            && let Some(at) = find(stream, mark.as_bytes()).map(|at| at + mark.len())
            && let Some(length) = find(&stream[at..], b"\n")
        {
            *self = match std::str::from_utf8(&stream[at..at + length]).unwrap_or_default().trim_end() {
                "validation" => Asker::Validation,
                process => process.parse().map_or(Asker::Nobody, Asker::Process),
            };
            stream.drain(..=at + length);
        }
    }
}

/// The command line that runs a command as the become user, after the mark that begins its output.
pub(super) fn become_command(other: &Become, command: &str, word: &str) -> String {
    let begin = format!("echo {BEGIN_MARKER}{word} $$; {command}");
    let begin = format!("/bin/sh -c {}", quote(&begin));
    let exe = other.exe.as_deref().unwrap_or(other.method.name());
    let user = quote(&other.user);
    let flags = other.flags.as_deref();
    let asks = format!("echo {ASKS_MARKER}{word}");
    let reported = |line: String| match other.password {
        Some(_) => format!("/bin/sh -c {}", quote(&format!("{asks} $$ >&2; exec {line}"))),
        None => line,
    };
    match other.method {
        BecomeMethod::Su => reported(format!("{exe} {} {user} -c {}", flags.unwrap_or_default(), quote(&begin))),
        BecomeMethod::Doas => {
            let flags = flags.unwrap_or(if other.password.is_some() { "" } else { "-n" });
            reported(format!("{exe} {flags} -u {user} {begin}"))
        }
        BecomeMethod::Sudo => {
            let flags = flags.unwrap_or("-H -S -n");
            if other.password.is_none() {
                return format!("{exe} {flags} -u {user} {begin}");
            }
            let kept: Vec<&str> = flags.split_whitespace().filter(|flag| *flag != "-n").collect();
            let (flags, prompt) = (kept.join(" "), quote(&sudo_prompt(word)));
            // Where nobody can see which process asks, sudo asks before it starts anything, and not again. A shell that
            // ends by executing sudo would be another parent, for which sudo has no credentials.
            let script = format!(
                "if {{ read -r stat < /proc/1/stat; }} 2> /dev/null; then\n\
                 {asks} $$ >&2; exec {exe} {flags} -p {prompt} -u {user} {begin}\nfi\n\
                 {asks} validation >&2; {exe} -S -v -p {prompt} -u {user} || exit\n\
                 {asks} nobody >&2; {exe} -n {flags} -u {user} {begin}\nexit $?"
            );
            format!("/bin/sh -c {}", quote(&script))
        }
    }
}

fn sudo_prompt(word: &str) -> String {
    format!("[windlass {word}] password:")
}

/// `su` and `doas` read the password only from a terminal.
pub(super) fn needs_terminal(other: &Become) -> bool {
    other.method != BecomeMethod::Sudo && other.password.is_some()
}

/// Whether the output ends in a prompt, or has that of sudo.
pub(super) fn asks_for_password(output: &[u8], other: &Become, word: &str) -> bool {
    let text = String::from_utf8_lossy(output);
    match other.method {
        // Prompts of `su` and `doas` are in the host's language; all end in a colon, some in a full-width one.
        BecomeMethod::Su | BecomeMethod::Doas => text.trim_end_matches(' ').ends_with([':', '：']),
        BecomeMethod::Sudo => text.contains(&sudo_prompt(word)),
    }
}

/// Position of the first occurrence.
pub(super) fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// Quotes a word for a shell.
pub(super) fn quote(text: &str) -> String {
    shell_words::quote(text).into_owned()
}
