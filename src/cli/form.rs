//! Variables of a form of `windlass serve`, from standard input.

use std::io::Read as _;
use std::sync::Arc;

use windlass_yaml::{Key, Mapping, Node, Span};

use super::options::Inputs;
use crate::error::{Error, Result};
use crate::output::Secrets;
use crate::serve::given::{Given, SIZE};

/// Reads the variables to their end, before anything else may read standard input. Secret ones are masked from now on.
pub(super) fn read() -> Result<Given> {
    let fail = |why: String| Error::usage(format!("the variables on standard input cannot be used: {why}"));
    let mut text = String::new();
    std::io::stdin().take(SIZE + 1).read_to_string(&mut text).map_err(|error| fail(error.to_string()))?;
    if text.len() as u64 > SIZE {
        return Err(fail(format!("they have more than {SIZE} bytes")));
    }
    let given: Given = serde_json::from_str(&text).map_err(|error| fail(error.to_string()))?;
    let masked = Secrets::of_process();
    given.secrets().iter().for_each(|secret| masked.add_password(secret));
    Ok(given)
}

/// Adds the variables to the command line's.
pub(super) fn add(given: &Given, inputs: &mut Inputs) {
    let span = Span::synthetic("form");
    let mut variables: Mapping = (*inputs.extra_vars).clone();
    for (name, value) in &given.variables {
        variables.insert(Key::string(name.as_str(), span.clone()), Node::from_json(value, &span));
    }
    inputs.extra_vars = Arc::new(variables);
}
