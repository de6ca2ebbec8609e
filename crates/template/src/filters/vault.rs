//! `vault` and `unvault`.

use minijinja::{State, Value};
use windlass_vault::{DEFAULT_LABEL, Secret, Secrets, decrypt, encrypt, encrypt_with_salt, is_encrypted};

use super::call::{Arguments, Outcome};
use crate::context::Context;
use crate::plain::Wrapped;
use crate::registry::compat;

/// The secret in the arguments, with its label.
fn secret(args: &Arguments) -> Result<Secret, minijinja::Error> {
    let password = args.need("secret")?;
    let Some(password) = password.as_str() else {
        return Err(args.wrong("secret", "text", password));
    };
    let label = args.text_of("vault_id").unwrap_or_else(|| "filter_default".to_owned());
    let label = if label.is_empty() { DEFAULT_LABEL.to_owned() } else { label };
    Ok(Secret::new(label, password.as_bytes()))
}

pub(super) fn vault(state: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let (plain, secret) = (args.string()?, secret(args)?);
    if args.flag("wrap_object", false) && compat(state).wraps_vaulted_text() {
        return Ok(Value::from_object(Wrapped(plain.to_owned())));
    }
    match args.text_of("salt").filter(|salt| !salt.is_empty()) {
        Some(salt) => Ok(Value::from(encrypt_with_salt(plain.as_bytes(), &secret, salt.as_bytes()))),
        None => encrypt(plain.as_bytes(), &secret).map(Value::from).map_err(|error| args.failed(error.to_string())),
    }
}

pub(super) fn unvault(state: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = args.string()?;
    if !is_encrypted(value.as_bytes()) {
        return Ok(args.value().clone());
    }
    // The observer also receives this decrypted text.
    let of_run = Context::from_state(state).map(|context| context.engine().options().secrets.emptied());
    let mut secrets: Secrets = of_run.unwrap_or_default();
    secrets.push(secret(args)?);
    let plain = decrypt(value.as_bytes(), &secrets).map_err(|error| args.failed(error.to_string()))?;
    Ok(Value::from(String::from_utf8_lossy(&plain).into_owned()))
}
