//! `password_hash`: hashes of crypt(3).

use md5::{Digest, Md5};
use minijinja::{State, Value};

use super::call::{Arguments, Outcome};
use crate::python::random::Random;

/// Characters of salts and hashes: crypt(5).
pub const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A method of crypt(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Md5,
    Bcrypt,
    Sha256,
    Sha512,
}

impl Method {
    /// Finds a method by one of Ansible's names.
    pub(crate) fn named(name: &str) -> Option<Method> {
        Some(match name {
            "md5" | "md5_crypt" => Method::Md5,
            "blowfish" | "bcrypt" => Method::Bcrypt,
            "sha256" | "sha256_crypt" => Method::Sha256,
            "sha512" | "sha512_crypt" => Method::Sha512,
            _ => return None,
        })
    }

    /// Length of its salts.
    pub(crate) fn salt_size(self) -> usize {
        match self {
            Method::Md5 => 8,
            Method::Bcrypt => 22,
            Method::Sha256 | Method::Sha512 => 16,
        }
    }
}

/// Parameters of a hash, except the password.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) salt: Option<String>,
    pub(crate) salt_size: Option<usize>,
    pub(crate) rounds: Option<u32>,
    pub(crate) ident: Option<String>,
}

pub(super) fn password_hash(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let name = args.text_of("hashtype").unwrap_or_else(|| "sha512".to_owned());
    let Some(method) = Method::named(&name) else {
        // Passlib knows these methods, but they also need a user name.
        let sentence = match name.as_str() {
            "msdcc" | "msdcc2" | "oracle10" | "postgres_md5" => {
                format!("{name} is not in the list of supported passlib algorithms: md5, blowfish, sha256, sha512")
            }
            _ => format!("passlib does not support '{name}' algorithm"),
        };
        return Err(args.says_of(sentence, "There are sha512, sha256, bcrypt, blowfish and md5."));
    };
    let unsigned = |name: &str| -> Result<Option<u32>, minijinja::Error> {
        let fits = |number| u32::try_from(number).map_err(|_| args.failed(format!("{name} cannot be {number}")));
        args.integer(name)?.map(fits).transpose()
    };
    let settings = Settings {
        salt: args.text_of("salt"),
        salt_size: unsigned("salt_size")?.map(|size| size as usize),
        rounds: unsigned("rounds")?.filter(|rounds| *rounds > 0),
        ident: args.text_of("ident"),
    };
    encrypt(args.string()?, method, &settings).map(Value::from).map_err(|reason| args.failed(reason))
}

/// Hashes a password with its method, rounds and salt. The error is a sentence.
pub(crate) fn encrypt(password: &str, method: Method, settings: &Settings) -> Result<String, String> {
    // Each round reads the password, so a long one would keep a run busy for hours.
    if password.len() > LONGEST_PASSWORD {
        return Err(format!("the password has {} bytes, but at most {LONGEST_PASSWORD} are possible", password.len()));
    }
    let salt = match settings.salt.as_deref().filter(|salt| !salt.is_empty()) {
        Some(salt) => salt.to_owned(),
        None => random_salt(settings.salt_size.unwrap_or(method.salt_size())),
    };
    if let Some(wrong) = salt.bytes().find(|byte| !ALPHABET.contains(byte)) {
        return Err(format!("a salt has letters, digits, '.' and '/', but not '{}'", char::from(wrong)));
    }
    let fits = match method {
        Method::Bcrypt => salt.len() == method.salt_size(),
        _ => salt.len() <= method.salt_size(),
    };
    if !fits {
        let wanted = if method == Method::Bcrypt { "exactly" } else { "at most" };
        return Err(format!("the salt has {} characters, but {wanted} {} are needed", salt.len(), method.salt_size()));
    }
    match method {
        Method::Md5 => Ok(md5_crypt(password.as_bytes(), salt.as_bytes(), &salt)),
        Method::Sha256 => {
            let rounds = settings.rounds.unwrap_or(535_000);
            let digest = sha_crypt::sha256_crypt(password.as_bytes(), salt.as_bytes(), parameters(rounds, password)?);
            // The algorithm rotates each group of three bytes by one place more than the previous one.
            let mut out = String::new();
            for group in 0..10 {
                let places = [group, group + 10, group + 20];
                let at = |place: usize| digest[places[(place + 3 - group % 3) % 3]];
                encode(&[at(0), at(1), at(2)], &mut out);
            }
            encode(&[digest[31], digest[30]], &mut out);
            Ok(modular("5", rounds, &salt, &out))
        }
        Method::Sha512 => {
            let rounds = settings.rounds.unwrap_or(656_000);
            let digest = sha_crypt::sha512_crypt(password.as_bytes(), salt.as_bytes(), parameters(rounds, password)?);
            let mut out = String::new();
            for group in 0..21 {
                let places = [group, group + 21, group + 42];
                let at = |place: usize| digest[places[(place + group) % 3]];
                encode(&[at(0), at(1), at(2)], &mut out);
            }
            encode(&[digest[63]], &mut out);
            Ok(modular("6", rounds, &salt, &out))
        }
        Method::Bcrypt => bcrypt_hash(password, &salt, settings),
    }
}

/// Maximum rounds of SHA-crypt and cost of bcrypt; each takes some ten seconds. The formats allow far more, which would
/// keep a run busy for hours.
const MOST_ROUNDS: u32 = 20_000_000;
const HIGHEST_COST: u32 = 17;
/// Longest password in bytes, as in passlib.
const LONGEST_PASSWORD: usize = 4_096;
/// Bytes of a password in each step of a round.
const STEP: u32 = 64;

fn parameters(rounds: u32, password: &str) -> Result<sha_crypt::Params, String> {
    let most = MOST_ROUNDS / (1 + password.len() as u32 / STEP);
    match sha_crypt::Params::new(rounds) {
        Ok(parameters) if rounds <= most => Ok(parameters),
        _ => Err(format!("the rounds must be from 1000 to {most} for a password of this length, not {rounds}")),
    }
}

/// A hash without a number of rounds means 5000.
fn modular(id: &str, rounds: u32, salt: &str, digest: &str) -> String {
    match rounds {
        5000 => format!("${id}${salt}${digest}"),
        _ => format!("${id}$rounds={rounds}${salt}${digest}"),
    }
}

/// Encodes up to three bytes, last byte lowest, as characters of six bits, lowest first.
fn encode(bytes: &[u8], out: &mut String) {
    let mut bits = bytes.iter().fold(0u32, |bits, byte| (bits << 8) | u32::from(*byte));
    for _ in 0..=bytes.len() {
        out.push(char::from(ALPHABET[(bits & 63) as usize]));
        bits >>= 6;
    }
}

fn bcrypt_hash(password: &str, salt: &str, settings: &Settings) -> Result<String, String> {
    use base64::Engine;
    use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
    const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::RequireNone);
    let version = match settings.ident.as_deref().unwrap_or("2b").trim_matches('$') {
        "2b" => bcrypt::Version::TwoB,
        "2a" => bcrypt::Version::TwoA,
        "2y" => bcrypt::Version::TwoY,
        other => return Err(format!("bcrypt has the identifiers 2b, 2a and 2y, not '{other}'")),
    };
    let raw = GeneralPurpose::new(&base64::alphabet::BCRYPT, LENIENT)
        .decode(salt)
        .ok()
        .and_then(|bytes| <[u8; 16]>::try_from(bytes).ok())
        .ok_or_else(|| format!("'{salt}' is not a salt for bcrypt"))?;
    let cost = settings.rounds.unwrap_or(12);
    if !(4..=HIGHEST_COST).contains(&cost) {
        return Err(format!("the rounds of bcrypt must be from 4 to {HIGHEST_COST}, not {cost}"));
    }
    let hashed = bcrypt::hash_with_salt(password, cost, raw).map_err(|error| format!("bcrypt refused: {error}"))?;
    Ok(hashed.format_for_version(version))
}

/// Generates a random salt.
pub(crate) fn random_salt(size: usize) -> String {
    let mut random = Random::new(None);
    (0..size).map(|_| char::from(ALPHABET[random.index(ALPHABET.len())])).collect()
}

fn md5_crypt(password: &[u8], salt: &[u8], shown_salt: &str) -> String {
    let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut context = Md5::new().chain_update(password).chain_update(b"$1$").chain_update(salt);
    let mut left = password.len();
    while left > 0 {
        context.update(&inner[..left.min(16)]);
        left = left.saturating_sub(16);
    }
    let mut bits = password.len();
    while bits > 0 {
        context.update(if bits & 1 == 1 { &[0u8] } else { &password[..1] });
        bits >>= 1;
    }
    let mut digest = context.finalize();
    for round in 0..1000 {
        let mut context = Md5::new();
        if round % 2 == 1 {
            context.update(password)
        } else {
            context.update(digest)
        }
        if round % 3 != 0 {
            context.update(salt);
        }
        if round % 7 != 0 {
            context.update(password);
        }
        if round % 2 == 1 {
            context.update(digest)
        } else {
            context.update(password)
        }
        digest = context.finalize();
    }
    let mut out = String::new();
    for group in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        encode(&group.map(|place: usize| digest[place]), &mut out);
    }
    encode(&[digest[11]], &mut out);
    format!("$1${shown_salt}${out}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rounds_that_take_hours_are_refused() {
        for (method, rounds) in [(Method::Sha512, 999_999_999), (Method::Sha256, 20_000_001), (Method::Bcrypt, 31)] {
            let settings = Settings { rounds: Some(rounds), ..Settings::default() };
            let refused = encrypt("secret", method, &settings).unwrap_err();
            assert!(refused.contains("must be from"), "{refused}");
        }
    }

    #[test]
    fn passwords_that_take_hours_are_refused() {
        let long = "x".repeat(4_096);
        let hash = |password: &str, rounds| {
            encrypt(password, Method::Sha512, &Settings { rounds: Some(rounds), ..Settings::default() })
        };
        assert!(hash(&long, 1_000).is_ok());
        assert!(hash(&long, 656_000).unwrap_err().contains("must be from 1000 to 307692"));
        assert!(encrypt(&(long + "x"), Method::Md5, &Settings::default()).unwrap_err().contains("4097 bytes"));
    }

    #[test]
    fn hashes_match_crypt() {
        let hash = |method, salt: &str, rounds| {
            let settings = Settings { salt: Some(salt.to_owned()), rounds, ..Settings::default() };
            encrypt("secret", method, &settings).unwrap()
        };
        assert_eq!(
            hash(Method::Sha512, "saltstring", Some(5000)),
            "$6$saltstring$AIsRs/Ee56G/tC8MEHhvReZTfx8u3rXXMl6eYrjCG9ibix19DxoMBLogdTET5Ukw9Sf7eZTITsuk0Ry5qulYz."
        );
        assert_eq!(
            hash(Method::Sha256, "saltstring", Some(1000)),
            "$5$rounds=1000$saltstring$AH5PD0i.riCRu4BNDy9v7OPV7u3dfLBApcXI6khquVA"
        );
        assert_eq!(hash(Method::Md5, "abcdefgh", None), "$1$abcdefgh$cHJi5PXp/ki/ktXzqlk6I1");
        assert_eq!(
            hash(Method::Bcrypt, "abcdefghijklmnopqrstuu", Some(4)),
            "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"
        );
    }
}
