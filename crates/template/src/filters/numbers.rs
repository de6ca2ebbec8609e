//! Filters for numbers and for random values.

use minijinja::value::ValueKind;
use minijinja::{State, Value};

use super::call::{Arguments, Outcome};
use crate::python::container::{is_list, list};
use crate::python::number::{self, as_float, integer, to_float};
use crate::python::random::Random;
use crate::python::{text, type_name};

fn is_number(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Number | ValueKind::Bool)
}

fn is_integer(value: &Value) -> bool {
    value.is_integer() || value.kind() == ValueKind::Bool
}

pub(super) fn abs(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = args.value();
    match number::to_int(value) {
        Some(number) if is_integer(value) => Ok(integer(number.abs())),
        _ if is_number(value) => {
            as_float(value).map(|number| Value::from(number.abs())).ok_or_else(|| args.unsuitable("a number"))
        }
        _ => Err(args.unsuitable("a number")),
    }
}

pub(super) fn int(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let base = u32::try_from(args.integer("base")?.unwrap_or(10)).unwrap_or(10);
    let value = args.value();
    let parsed = match value.as_str() {
        Some(text) => {
            number::parse_int(text, base).or_else(|| number::parse_float(text).and_then(number::float_to_int))
        }
        None => number::to_int(value),
    };
    Ok(match parsed {
        Some(number) => integer(number),
        // A float too large for any integer has no fraction.
        None if as_float(value).is_some_and(f64::is_finite) => value.clone(),
        None => args.get("default").cloned().unwrap_or_else(|| Value::from(0)),
    })
}

pub(super) fn float(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    Ok(match to_float(args.value()) {
        Some(number) => Value::from(number),
        None => args.get("default").cloned().unwrap_or_else(|| Value::from(0.0)),
    })
}

pub(super) fn round(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let value = args.value();
    if !is_number(value) {
        return Err(args.unsuitable("a number"));
    }
    let precision = i32::try_from(args.integer("precision")?.unwrap_or(0).clamp(-400, 400)).unwrap_or(0);
    let number = as_float(value).unwrap_or_default();
    let scale = 10f64.powi(precision);
    Ok(match args.text_of("method").as_deref() {
        None | Some("common") => match number::to_int(value) {
            Some(whole) if is_integer(value) => match precision {
                0.. => integer(whole),
                _ => integer(number::float_to_int(number::round(number, precision)).unwrap_or(whole)),
            },
            _ => Value::from(number::round(number, precision)),
        },
        Some("ceil") => Value::from((number * scale).ceil() / scale),
        Some("floor") => Value::from((number * scale).floor() / scale),
        Some(other) => return Err(args.error(format!("rounds by 'common', 'ceil' or 'floor', not by '{other}'"))),
    })
}

pub(super) fn log(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let number = operand(args, "log", args.value())?;
    let base = match args.get("base") {
        Some(base) => Some(operand(args, "log", base)?),
        None => None,
    };
    if number <= 0.0 || base.is_some_and(|base| base <= 0.0 || base == 1.0) {
        return Err(args.failed("there is no such logarithm"));
    }
    Ok(Value::from(match base {
        None => number.ln(),
        Some(10.0) => number.log10(),
        Some(base) => number.ln() / base.ln(),
    }))
}

/// An operand of `function` as a float.
fn operand(args: &Arguments, function: &str, value: &Value) -> Result<f64, minijinja::Error> {
    let wrong = || {
        let class = type_name(value);
        args.failed(format!("{function}() can only be used on numbers: must be real number, not {class}"))
    };
    as_float(value).ok_or_else(wrong)
}

pub(super) fn pow(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let power = operand(args, "pow", args.need("exponent")?)?;
    // `math.pow` always returns a float.
    let number = operand(args, "pow", args.value())?;
    if number < 0.0 && power.fract() != 0.0 {
        return Err(args.failed("a negative number has no such power"));
    }
    Ok(Value::from(number.powf(power)))
}

pub(super) fn root(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let number = operand(args, "root", args.value())?;
    let base = match args.get("base") {
        Some(base) => operand(args, "root", base)?,
        None => 2.0,
    };
    if number < 0.0 || base == 0.0 {
        return Err(args.failed("there is no such root"));
    }
    Ok(Value::from(if base == 2.0 { number.sqrt() } else { number.powf(1.0 / base) }))
}

pub(super) fn filesizeformat(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let size = to_float(args.value()).ok_or_else(|| args.unsuitable("a number"))?;
    let (base, prefixes) = match args.flag("binary", false) {
        true => (1024.0, ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"]),
        false => (1000.0, ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"]),
    };
    if size == 1.0 {
        return Ok(Value::from("1 Byte"));
    }
    if size < base {
        return Ok(Value::from(format!("{} Bytes", size.trunc())));
    }
    let mut unit = base;
    for prefix in prefixes {
        unit *= base;
        if size < unit || prefix.starts_with('Y') {
            return Ok(Value::from(format!("{:.1} {prefix}", base * size / unit)));
        }
    }
    Ok(Value::from(text(args.value())))
}

const UNITS: [(char, f64); 8] = [
    ('Y', 1_208_925_819_614_629_174_706_176.0),
    ('Z', 1_180_591_620_717_411_303_424.0),
    ('E', 1_152_921_504_606_846_976.0),
    ('P', 1_125_899_906_842_624.0),
    ('T', 1_099_511_627_776.0),
    ('G', 1_073_741_824.0),
    ('M', 1_048_576.0),
    ('K', 1024.0),
];

pub(super) fn human_readable(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let bad = || {
        let class = type_name(args.value());
        let sentence = format!("human_readable() failed on bad input: '>=' not supported between '{class}' and 'int'");
        args.failed_of(sentence, "It needs a number of bytes.")
    };
    let size = as_float(args.value()).ok_or_else(bad)?;
    let base = if args.flag("isbits", false) { "bits" } else { "Bytes" };
    let unit = args.text_of("unit").and_then(|unit| unit.chars().next()).map(|unit| unit.to_ascii_uppercase());
    let found = UNITS.iter().find(|(name, limit)| match unit {
        None => size >= *limit,
        Some(unit) => unit == *name,
    });
    let (limit, suffix) = match found {
        Some((name, limit)) => (*limit, format!("{name}{}", if base == "bits" { "b" } else { "B" })),
        None => (1.0, base.to_owned()),
    };
    Ok(Value::from(format!("{:.2} {suffix}", size / limit)))
}

pub(super) fn human_to_bytes(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let isbits = args.flag("isbits", false);
    let value = args.text();
    let trimmed = value.trim_start();
    let digits = trimmed.len() - trimmed.trim_start_matches(|digit: char| digit.is_ascii_digit() || digit == '.').len();
    let (amount, rest) = trimmed.split_at(digits);
    let amount: f64 = match amount.parse() {
        Ok(amount) => amount,
        Err(_) => {
            let sentence = format!("human_to_bytes() can't interpret following string: {value}");
            return Err(args.says_of(sentence, "It does not begin with a number."));
        }
    };
    let unit = match rest.trim() {
        "" => args.text_of("default_unit").unwrap_or_default(),
        unit => unit.to_owned(),
    };
    if unit.is_empty() {
        return Ok(integer(number::float_to_int(number::round(amount, 0)).unwrap_or_default()));
    }
    let kind = if isbits { "bits" } else { "bytes" };
    let unknown = || {
        let sentence = format!("human_to_bytes() can't interpret following string: {value}");
        args.says_of(sentence, &format!("'{unit}' is not a unit of {kind}."))
    };
    let first = unit.chars().next().map(|first| first.to_ascii_uppercase()).unwrap_or_default();
    let (letter, word) = if isbits { ('b', "bit") } else { ('B', "byte") };
    let lower = unit.to_lowercase();
    let factor = if first == letter.to_ascii_uppercase() {
        let plain = unit.chars().count() == 1 && unit.starts_with(letter)
            || unit.chars().count() > 1 && lower.trim_end_matches('s') == word;
        if !plain {
            return Err(unknown());
        }
        1.0
    } else {
        const NAMES: [(char, &str); 8] = [
            ('Y', "yotta"),
            ('Z', "zetta"),
            ('E', "exa"),
            ('P', "peta"),
            ('T', "tera"),
            ('G', "giga"),
            ('M', "mega"),
            ('K', "kilo"),
        ];
        let limit = UNITS.iter().find(|(name, _)| *name == first).map(|(_, limit)| *limit).ok_or_else(unknown)?;
        let name = NAMES.iter().find(|(name, _)| *name == first).map_or("", |(_, name)| *name);
        let short = unit.chars().count() == 2 && unit.ends_with(letter);
        let long = lower.trim_end_matches('s') == format!("{name}{word}");
        if unit.chars().count() > 1 && !short && !long {
            return Err(unknown());
        }
        limit
    };
    Ok(integer(number::float_to_int(number::round(amount * factor, 0)).unwrap_or_default()))
}

pub(super) fn random(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let mut random = Random::new(args.some("seed"));
    let end = args.value();
    if is_integer(end) {
        let end = number::to_int(end).unwrap_or_default();
        let start = args.integer("start")?.unwrap_or(0);
        let step = args.integer("step")?.filter(|step| *step != 0).unwrap_or(1);
        let width = end - start;
        let count = if step > 0 { (width + step - 1).div_euclid(step) } else { (width + step + 1).div_euclid(step) };
        return match u128::try_from(count) {
            Ok(count) if count > 0 => Ok(integer(start + step * random.below(count) as i128)),
            _ => Err(args.failed(format!("there is no number from {start} to below {end} in steps of {step}"))),
        };
    }
    if !is_list(end) && end.as_str().is_none() {
        let given = format!("It was given {}.", super::call::shown(end));
        return Err(args.says_of("random can only be used on sequences and integers", &given));
    }
    if args.some("start").or(args.some("step")).is_some_and(crate::truth) {
        return Err(args.says("start and step can only be used with integer values"));
    }
    let mut items = args.items()?;
    if items.is_empty() {
        return Err(args.failed("the list is empty"));
    }
    Ok(items.swap_remove(random.index(items.len())))
}

pub(super) fn shuffle(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let Ok(mut items) = args.items() else {
        return Ok(args.value().clone());
    };
    Random::new(args.some("seed")).shuffle(&mut items);
    Ok(list(items))
}
