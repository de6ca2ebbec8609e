//! `password`: generates a password once and keeps it in a file.

use std::fs;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use minijinja::Value;

use super::call::{Answer, Call};
use super::key_value;
use crate::filters::crypt::{Method, Settings, encrypt, random_salt};
use crate::filters::paths::{home_expanded, normalized};
use crate::python::random::Random;
use crate::python::{number, text};
use crate::reads::Read;

/// Options of one term.
struct Wanted {
    path: PathBuf,
    length: usize,
    characters: Vec<char>,
    seed: Option<Value>,
    encrypt: Option<String>,
    ident: Option<String>,
}

/// Content of the file.
#[derive(Default)]
struct Stored {
    password: String,
    salt: Option<String>,
    ident: Option<String>,
}

pub(super) fn password(call: &Call<'_>) -> Answer {
    // Hosts in parallel must agree on the password.
    static LOCK: Mutex<()> = Mutex::new(());
    let _held = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    call.texts().iter().map(|term| one(call, &wanted(call, term)?).map(Value::from)).collect()
}

fn wanted(call: &Call<'_>, term: &str) -> Result<Wanted, crate::Error> {
    let (path, given) = key_value::parse(term);
    const KNOWN: [&str; 5] = ["length", "encrypt", "chars", "ident", "seed"];
    if let Some((unknown, _)) = given.iter().find(|(name, _)| !KNOWN.contains(&name.as_str())) {
        return Err(call.error(format!("has no option '{unknown}'; it takes {}", KNOWN.join(", "))));
    }
    let option = |name: &str| {
        let inline = given.iter().rev().find(|(known, _)| known == name).map(|(_, value)| Value::from(value.as_str()));
        inline.or_else(|| call.option(name).cloned())
    };
    let length = match option("length") {
        None => 20,
        Some(length) => count(call, "length", &length)?,
    };
    let characters: Vec<char> = match option("chars") {
        None => sets(&["ascii_letters", "digits", ".,:-_"]),
        Some(chars) => match chars.as_str() {
            Some(chars) => {
                // A doubled comma stands for a literal comma.
                let comma = if chars.contains(",,") { Some(",") } else { None };
                let single = chars.replace(",,", ",");
                let parts: Vec<&str> =
                    comma.into_iter().chain(single.split(',').filter(|part| !part.is_empty())).collect();
                sets(&parts)
            }
            None => {
                let parts: Vec<String> = chars.try_iter().into_iter().flatten().map(|part| text(&part)).collect();
                sets(&parts.iter().map(String::as_str).collect::<Vec<_>>())
            }
        },
    };
    if characters.is_empty() {
        return Err(call.error("has no characters to make a password of"));
    }
    let path = home_expanded(&path);
    let path = match path.starts_with('/') {
        true => PathBuf::from(path),
        false => {
            let joined = call.context.engine().options().playbook_dir.join(path);
            PathBuf::from(normalized(&joined.to_string_lossy()))
        }
    };
    let word = |name: &str| option(name).map(|value| text(&value)).filter(|value| !value.is_empty());
    Ok(Wanted { path, length, characters, seed: option("seed"), encrypt: word("encrypt"), ident: word("ident") })
}

/// A number of characters in an option. It may be data of a host, so it is bounded.
fn count(call: &Call<'_>, option: &str, value: &Value) -> Result<usize, crate::Error> {
    const LARGEST: usize = 65_536;
    let number = number::to_int(value).and_then(|number| usize::try_from(number).ok());
    number.filter(|number| *number <= LARGEST).ok_or_else(|| {
        call.error(format!("needs a number as its option '{option}', at most {LARGEST}, not '{}'", text(value)))
    })
}

/// Expands names such as `digits`, and literal characters, to a set of characters without quotes.
fn sets(parts: &[&str]) -> Vec<char> {
    const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
    const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const DIGITS: &str = "0123456789";
    const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    let expand = |part: &str| match part {
        "ascii_letters" => format!("{LOWER}{UPPER}"),
        "ascii_lowercase" => LOWER.to_owned(),
        "ascii_uppercase" => UPPER.to_owned(),
        "digits" => DIGITS.to_owned(),
        "hexdigits" => format!("{DIGITS}abcdefABCDEF"),
        "octdigits" => "01234567".to_owned(),
        "punctuation" => PUNCTUATION.to_owned(),
        "printable" => format!("{DIGITS}{LOWER}{UPPER}{PUNCTUATION} \t\n\r\u{b}\u{c}"),
        "whitespace" => " \t\n\r\u{b}\u{c}".to_owned(),
        literal => literal.to_owned(),
    };
    parts.iter().flat_map(|part| expand(part).chars().collect::<Vec<_>>()).filter(|c| *c != '"' && *c != '\'').collect()
}

fn one(call: &Call<'_>, wanted: &Wanted) -> Result<String, crate::Error> {
    let kept = wanted.path != Path::new("/dev/null");
    let mut changed = false;
    let unread = |error| call.error(format!("cannot read '{}': {error}", wanted.path.display()));
    let found = if kept { read(&wanted.path).map_err(unread)? } else { None };
    let is_new = found.is_none();
    let mut stored = match found {
        Some(content) => parse(String::from_utf8_lossy(&content).trim_end()),
        None => {
            changed = true;
            let mut random = Random::new(wanted.seed.as_ref());
            let draw = |_| wanted.characters[random.index(wanted.characters.len())];
            Stored { password: (0..wanted.length).map(draw).collect(), ..Stored::default() }
        }
    };
    let method = match &wanted.encrypt {
        None => None,
        Some(name) => {
            Some(Method::named(name).ok_or_else(|| call.error(format!("does not know the encryption '{name}'")))?)
        }
    };
    if let (Some(stored), Some(asked)) = (&stored.ident, &wanted.ident)
        && stored != asked
    {
        return Err(call.error(format!("was asked for the ident '{asked}', but '{stored}' is stored")));
    }
    if let Some(method) = method {
        if stored.salt.is_none() {
            changed = true;
            stored.salt = Some(random_salt(method.salt_size()));
        }
        if stored.ident.is_none() {
            stored.ident = wanted.ident.clone().or_else(|| (method == Method::Bcrypt).then(|| "2b".to_owned()));
            changed |= stored.ident.is_some();
        }
    }
    if changed && kept {
        match write(&wanted.path, &stored, is_new) {
            Ok(()) => {}
            // Another process has stored a password meanwhile, which counts.
            Err(error) if is_new && error.kind() == std::io::ErrorKind::AlreadyExists => return one(call, wanted),
            Err(error) => return Err(call.error(format!("cannot write '{}': {error}", wanted.path.display()))),
        }
    }
    if kept {
        call.reads().note(Read::File(wanted.path.clone()));
    }
    match method {
        None => Ok(stored.password),
        Some(method) => {
            let settings = Settings { salt: stored.salt, ident: stored.ident, ..Settings::default() };
            encrypt(&stored.password, method, &settings).map_err(|reason| call.error(format!("failed: {reason}")))
        }
    }
}

/// Reads the stored password; `None` if nobody has stored one yet.
fn read(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => Ok(None),
        Err(error) => Err(error),
        // A new password would replace it.
        Ok(found) if !found.is_file() => Err(std::io::Error::other("it is not a file")),
        Ok(_) => windlass_bounds::read(path).map(Some),
    }
}

/// Parses `password salt=... ident=...`.
fn parse(content: &str) -> Stored {
    let Some((password, rest)) = content.rsplit_once(" salt=") else {
        return Stored { password: content.to_owned(), ..Stored::default() };
    };
    let (salt, ident) = match rest.rsplit_once(" ident=") {
        Some((salt, ident)) => (salt, Some(ident.to_owned())),
        None => (rest, None),
    };
    Stored { password: password.to_owned(), salt: Some(salt.to_owned()), ident }
}

/// Stores a password. A new one replaces none.
fn write(path: &Path, stored: &Stored, is_new: bool) -> std::io::Result<()> {
    let mut content = stored.password.clone();
    if let Some(salt) = &stored.salt {
        content.push_str(&format!(" salt={salt}"));
        if let Some(ident) = &stored.ident {
            content.push_str(&format!(" ident={ident}"));
        }
    }
    content.push('\n');
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    // A concurrent reader must see the old or the new password, never a part. Nobody else chooses the name.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(content.as_bytes())?;
    file.as_file().sync_all()?;
    let persisted = if is_new { file.persist_noclobber(path) } else { file.persist(path) };
    persisted.map(drop).map_err(|error| error.error)
}

/// A random text with a minimum number of characters of each kind.
pub(super) fn random_string(call: &Call<'_>) -> Answer {
    const KINDS: [(&str, &str, &str); 4] = [
        ("upper", "min_upper", "ascii_uppercase"),
        ("lower", "min_lower", "ascii_lowercase"),
        ("numbers", "min_numeric", "digits"),
        ("special", "min_special", "punctuation"),
    ];
    let option = |name: &str, default| call.option(name).map_or(Ok(default), |value| count(call, name, value));
    let similar = match call.flag("ignore_similar_chars", false) {
        true => call.text("similar_chars", "il1LoO0"),
        false => String::new(),
    };
    let usable = |set: &str| {
        let mut characters = sets(&[set]);
        characters.retain(|character| !similar.contains(*character));
        characters
    };
    let mut random = Random::new(call.option("seed"));
    let mut all: Vec<char> = Vec::new();
    let mut chosen: Vec<char> = Vec::new();
    for (kind, minimum, set) in KINDS {
        let set = if kind == "special" { call.text("override_special", set) } else { set.to_owned() };
        let characters = usable(&set);
        if call.flag(kind, true) && !characters.is_empty() {
            for _ in 0..option(minimum, 0)? {
                chosen.push(characters[random.index(characters.len())]);
            }
            all.extend(characters);
        }
    }
    if let Some(only) = call.option("override_all") {
        all = usable(&text(only));
        chosen.clear();
    }
    let length = option("length", 8)?;
    if all.is_empty() || chosen.len() > length {
        return Err(call.error("cannot make such a text: there are too few characters, or it is too short"));
    }
    while chosen.len() < length {
        chosen.push(all[random.index(all.len())]);
    }
    random.shuffle(&mut chosen);
    let made: String = chosen.into_iter().collect();
    Ok(vec![Value::from(match call.flag("base64", false) {
        true => base64::engine::general_purpose::STANDARD.encode(made),
        false => made,
    })])
}
