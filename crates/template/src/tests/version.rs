//! `version`: compares version numbers.

use minijinja::State;

use crate::filters::call::{Arguments, Verdict};
use crate::python::version::{Scheme, compare};

pub(super) fn version(_: &mut State<'_, '_>, args: &Arguments) -> Verdict {
    let (left, right) = (args.text(), args.need_text("version")?);
    if !crate::truth(args.value()) {
        return Err(args.error("failed: the version value cannot be empty"));
    }
    if right.is_empty() {
        return Err(args.error("failed: the version to compare against cannot be empty"));
    }
    let scheme = match (args.some("strict"), args.text_of("version_type").as_deref()) {
        (Some(_), Some(_)) => return Err(args.error("takes 'strict' or 'version_type', not both")),
        (Some(strict), None) if crate::truth(strict) => Scheme::Strict,
        (_, None | Some("loose")) => Scheme::Loose,
        (_, Some("strict")) => Scheme::Strict,
        (_, Some("semver" | "semantic")) => Scheme::Semantic,
        (_, Some("pep440")) => Scheme::Pep440,
        (_, Some(other)) => {
            return Err(
                args.error(format!("knows the types loose, strict, semver, semantic and pep440, not '{other}'"))
            );
        }
    };
    let operator = args.text_of("operator").unwrap_or_else(|| "eq".to_owned());
    let ordering = compare(&left, &right, scheme).map_err(|reason| args.failed(reason))?;
    Ok(match operator.as_str() {
        "==" | "=" | "eq" => ordering.is_eq(),
        "!=" | "<>" | "ne" => ordering.is_ne(),
        "<" | "lt" => ordering.is_lt(),
        "<=" | "le" => ordering.is_le(),
        ">" | "gt" => ordering.is_gt(),
        ">=" | "ge" => ordering.is_ge(),
        other => return Err(args.error(format!("knows the operators ==, !=, <, <=, > and >=, not '{other}'"))),
    })
}
