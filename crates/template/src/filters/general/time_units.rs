//! `to_seconds`, `to_minutes` and the other units of time.

use minijinja::{State, Value};

use crate::filters::call::{Arguments, Outcome};
use crate::python::number;

/// Seconds per unit, by the first letters of its name.
const UNITS: [(&str, &[&str], f64); 8] = [
    ("ms", &["ms", "msec", "msecs", "millisecond", "milliseconds"], 0.001),
    ("s", &["s", "sec", "secs", "second", "seconds"], 1.0),
    ("m", &["m", "min", "mins", "minute", "minutes"], 60.0),
    ("h", &["h", "hour", "hours"], 3600.0),
    ("d", &["d", "day", "days"], 86_400.0),
    ("w", &["w", "week", "weeks"], 604_800.0),
    ("mo", &["mo", "month", "months"], 2_592_000.0),
    ("y", &["y", "year", "years"], 31_536_000.0),
];

/// Seconds of one unit; the arguments define the days of years and months.
fn seconds_of(args: &Arguments, unit: &str) -> Result<f64, minijinja::Error> {
    let found = UNITS.iter().find(|(_, names, _)| names.contains(&unit));
    let Some((name, _, seconds)) = found else {
        return Err(args.failed(format!("'{unit}' is not a unit of time")));
    };
    let days = |argument: &str, default: f64| -> Result<f64, minijinja::Error> {
        match args.some(argument) {
            None => Ok(default),
            Some(value) => number::to_float(value).ok_or_else(|| args.wrong(argument, "a number of days", value)),
        }
    };
    Ok(match *name {
        "y" => days("year", 365.0)? * 86_400.0,
        "mo" => days("month", 30.0)? * 86_400.0,
        _ => *seconds,
    })
}

/// Sums parts such as `1d 2h`.
fn total(args: &Arguments) -> Result<f64, minijinja::Error> {
    let value = args.text();
    let mut seconds = 0.0;
    for part in value.split_whitespace() {
        let unit_at = part.find(|character: char| character.is_alphabetic()).unwrap_or(part.len());
        let (amount, unit) = part.split_at(unit_at);
        let amount: f64 = match amount.parse() {
            Ok(amount) if !unit.is_empty() => amount,
            _ => return Err(args.failed(format!("'{part}' in '{value}' is not a span of time such as 90s"))),
        };
        seconds += amount * seconds_of(args, unit)?;
    }
    Ok(seconds)
}

fn converted(args: &Arguments, unit: &str) -> Outcome {
    Ok(Value::from(number::round(total(args)? / seconds_of(args, unit)?, 12)))
}

pub(in crate::filters) fn to_time_unit(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let unit = args.text_of("unit").unwrap_or_else(|| "ms".to_owned());
    converted(args, &unit)
}

macro_rules! unit {
    ($($name:ident: $unit:literal),+) => {
        $(pub(in crate::filters) fn $name(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
            converted(args, $unit)
        })+
    };
}

unit!(
    to_milliseconds: "ms",
    to_seconds: "s",
    to_minutes: "m",
    to_hours: "h",
    to_days: "d",
    to_weeks: "w",
    to_months: "mo",
    to_years: "y"
);
