//! Small filters of community.general.

use minijinja::{State, Value};

use crate::filters::call::{Arguments, Outcome};
use crate::python::container::list;
use crate::python::random::Random;
use crate::python::text;
use crate::python::version::{Scheme, compare};

pub(in crate::filters) fn version_sort(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let mut versions = args.items()?;
    crate::python::order::sort_by(&mut versions, |left, right| compare(&text(left), &text(right), Scheme::Loose))
        .map_err(|reason| args.failed(reason))?;
    if args.flag("reverse", false) {
        versions.reverse();
    }
    Ok(list(versions))
}

pub(in crate::filters) fn crc32(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let mut sum = u32::MAX;
    for byte in args.string()?.bytes() {
        sum ^= u32::from(byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg());
        }
    }
    Ok(Value::from(format!("{:x}", !sum)))
}

pub(in crate::filters) fn random_mac(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    const BYTES: usize = 6;
    let prefix = args.string()?.to_lowercase();
    let mut parts: Vec<String> = prefix.split(':').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let is_byte = |part: &String| part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
    if parts.is_empty() || parts.len() >= BYTES || !parts.iter().all(is_byte) {
        return Err(args.failed(format!("'{prefix}' is not the beginning of a hardware address")));
    }
    let mut random = Random::new(args.some("seed"));
    // The first random digit of the address must not be 0.
    const LOWEST: u128 = 68_719_476_736;
    const HIGHEST: u128 = 1_099_511_627_775;
    let digits = format!("{:x}", LOWEST + random.below(HIGHEST - LOWEST + 1));
    let missing = BYTES - parts.len();
    parts.extend(digits.as_bytes().chunks(2).take(missing).map(|pair| String::from_utf8_lossy(pair).into_owned()));
    Ok(Value::from(parts.join(":")))
}

pub(in crate::filters) fn accumulate(_: &mut State<'_, '_>, args: &Arguments) -> Outcome {
    let mut totals: Vec<Value> = Vec::new();
    for item in args.items()? {
        let total = match totals.last() {
            None => item,
            Some(last) => match (last.as_str(), item.as_str()) {
                (Some(last), Some(item)) => Value::from(format!("{last}{item}")),
                _ => plus(args, last, &item)?,
            },
        };
        totals.push(total);
    }
    Ok(list(totals))
}

fn plus(args: &Arguments, left: &Value, right: &Value) -> Outcome {
    crate::filters::plus(left, right)
        .ok_or_else(|| args.failed(format!("{} and {} cannot be added", text(left), text(right))))
}
