//! Python's `datetime` and `timedelta`, as far as templates use them, and `strftime`.

use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, OnceLock};

use jiff::civil;
use jiff::fmt::strtime::{BrokenDownTime, Config};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};
use minijinja::value::{Enumerator, Object, ObjectRepr, from_args};
use minijinja::{Error, ErrorKind, State, Value};

/// A Python `datetime`, naive unless it has an offset, or a `date`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DateTime {
    /// Civil date and time.
    pub(crate) civil: civil::DateTime,
    /// Offset from UTC, if the source has one.
    pub(crate) offset: Option<Offset>,
    /// Whether this is a Python `date`, a day without a time.
    pub(crate) day: bool,
}

/// A Python `timedelta`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TimeDelta(pub(crate) SignedDuration);

/// Whether the value is a [`DateTime`].
pub(crate) fn is_datetime(value: &Value) -> bool {
    value.downcast_object_ref::<DateTime>().is_some()
}

/// Whether the value is a day without a time.
pub(crate) fn is_day(value: &Value) -> bool {
    value.downcast_object_ref::<DateTime>().is_some_and(|date| date.day)
}

/// Whether the value is a [`TimeDelta`].
pub(crate) fn is_timedelta(value: &Value) -> bool {
    value.downcast_object_ref::<TimeDelta>().is_some()
}

/// Formats a date and time as `isoformat()` does; empty for other values.
pub(crate) fn iso_format(value: &Value) -> String {
    value.downcast_object_ref::<DateTime>().map(|time| time.iso('T')).unwrap_or_default()
}

/// Orders two dates or two time spans.
pub(crate) fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    if let (Some(left), Some(right)) = (left.downcast_object_ref::<DateTime>(), right.downcast_object_ref::<DateTime>())
    {
        return Some(left.utc().cmp(&right.utc()));
    }
    let (left, right) = (left.downcast_object_ref::<TimeDelta>()?, right.downcast_object_ref::<TimeDelta>()?);
    Some(left.0.cmp(&right.0))
}

/// `left - right`, if one of them is a date or time span.
pub(crate) fn subtract(left: &Value, right: &Value) -> Option<Value> {
    if let Some(from) = left.downcast_object_ref::<DateTime>() {
        if let Some(other) = right.downcast_object_ref::<DateTime>() {
            return Some(Value::from_object(TimeDelta(from.utc().duration_since(other.utc()))));
        }
        let span = right.downcast_object_ref::<TimeDelta>()?;
        return Some(Value::from_object(DateTime { civil: from.civil.checked_sub(span.0).ok()?, ..from.clone() }));
    }
    let (left, right) = (left.downcast_object_ref::<TimeDelta>()?, right.downcast_object_ref::<TimeDelta>()?);
    Some(Value::from_object(TimeDelta(left.0.checked_sub(right.0)?)))
}

/// `left + right`, if one of them is a date or time span.
pub(crate) fn add(left: &Value, right: &Value) -> Option<Value> {
    let (left, right) = if is_datetime(right) { (right, left) } else { (left, right) };
    let span = right.downcast_object_ref::<TimeDelta>()?;
    if let Some(from) = left.downcast_object_ref::<DateTime>() {
        return Some(Value::from_object(DateTime { civil: from.civil.checked_add(span.0).ok()?, ..from.clone() }));
    }
    Some(Value::from_object(TimeDelta(left.downcast_object_ref::<TimeDelta>()?.0.checked_add(span.0)?)))
}

/// `datetime.strptime(text, format)`: missing parts default to midnight of 1 January 1900.
pub(crate) fn parse(text: &str, format: &str) -> Result<Value, String> {
    let fail = |reason: String| format!("the time '{text}' does not match the format '{format}': {reason}");
    let parsed = BrokenDownTime::parse(format, text).map_err(|error| fail(error.to_string()))?;
    let date = match parsed.to_date() {
        Ok(date) => date,
        Err(_) => {
            let year = parsed.year().unwrap_or(1900);
            civil::Date::new(year, parsed.month().unwrap_or(1), parsed.day().unwrap_or(1))
                .map_err(|error| fail(error.to_string()))?
        }
    };
    let time = parsed.to_time().unwrap_or_else(|_| civil::Time::midnight());
    Ok(Value::from_object(DateTime { civil: date.to_datetime(time), offset: parsed.offset(), day: false }))
}

/// Parses a date, with or without a time, in YAML 1.1's syntax.
pub(crate) fn parse_yaml(text: &str) -> Option<Value> {
    const PATTERN: &str = r"^(\d{4})-(\d\d?)-(\d\d?)(?:[Tt]|[ \t]+)(\d\d?):(\d\d):(\d\d)(?:\.(\d*))?(?:[ \t]*(?:(Z)|([-+]\d\d?)(?::(\d\d))?))?$";
    if let Ok(date) = text.parse::<civil::Date>()
        && text.len() == 10
    {
        return Some(Value::from_object(DateTime { civil: date.at(0, 0, 0, 0), offset: None, day: true }));
    }
    static COMPILED: OnceLock<Option<regex::Regex>> = OnceLock::new();
    let captures = COMPILED.get_or_init(|| regex::Regex::new(PATTERN).ok()).as_ref()?.captures(text)?;
    let number = |group: usize| captures.get(group).and_then(|found| found.as_str().parse::<i32>().ok());
    let small = |group: usize| number(group).and_then(|number| i8::try_from(number).ok());
    let fraction = captures.get(7).map_or("", |found| found.as_str());
    let nanos: i32 = format!("{fraction:0<9.9}").parse().ok()?;
    let year = i16::try_from(number(1)?).ok()?;
    let civil = civil::DateTime::new(year, small(2)?, small(3)?, small(4)?, small(5)?, small(6)?, nanos).ok()?;
    let offset = match (captures.get(8), number(9)) {
        (Some(_), _) => Some(Offset::UTC),
        (None, Some(hours)) => {
            let minutes = number(10).unwrap_or(0);
            let seconds = hours * 3600 + if hours < 0 { -minutes } else { minutes } * 60;
            Some(Offset::from_seconds(seconds).ok()?)
        }
        (None, None) => None,
    };
    Some(Value::from_object(DateTime { civil, offset, day: false }))
}

/// Clock that a time is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    Local,
    Utc,
}

impl Clock {
    /// The clock of an argument `utc`.
    pub(crate) fn of_flag(utc: bool) -> Clock {
        if utc { Clock::Utc } else { Clock::Local }
    }

    fn zone(self) -> TimeZone {
        match self {
            Clock::Local => TimeZone::system(),
            Clock::Utc => TimeZone::UTC,
        }
    }
}

/// `time.strftime(format, ...)` for seconds since 1970, or for the current time.
pub(crate) fn format_seconds(format: &str, seconds: Option<f64>, clock: Clock) -> Result<String, String> {
    let moment = match seconds {
        Some(seconds) => Timestamp::from_second(seconds.floor() as i64).map_err(|error| error.to_string())?,
        None => Timestamp::now(),
    };
    // The result of C's `gmtime` is in a zone named GMT.
    let format = if clock == Clock::Utc { format.replace("%Z", "GMT") } else { format.to_owned() };
    format_zoned(&format, &moment.to_zoned(clock.zone()))
}

/// Converts seconds since 1970 and nanoseconds to local time, with Python's precision of a microsecond.
pub(crate) fn from_seconds(seconds: i64, nanos: i64) -> Value {
    let micros = i32::try_from(nanos / 1000 * 1000).unwrap_or_default();
    let moment = Timestamp::new(seconds, micros).unwrap_or(Timestamp::UNIX_EPOCH);
    Value::from_object(DateTime { civil: moment.to_zoned(TimeZone::system()).datetime(), offset: None, day: false })
}

/// `now(utc)`: the current time as a date without an offset.
pub(crate) fn now(clock: Clock) -> Value {
    let civil = Timestamp::now().to_zoned(clock.zone()).datetime();
    let micros = civil.subsec_nanosecond() / 1000 * 1000;
    let civil = civil.with().subsec_nanosecond(micros).build().unwrap_or(civil);
    Value::from_object(DateTime { civil, offset: None, day: false })
}

fn format_zoned(format: &str, moment: &Zoned) -> Result<String, String> {
    formatted(format, &BrokenDownTime::from(moment))
}

/// Formats a time; text other than directives is kept.
fn formatted(format: &str, time: &BrokenDownTime) -> Result<String, String> {
    let mut out = String::new();
    let config = Config::new().lenient(true);
    time.format_with_config(&config, prepared(format), &mut out).map_err(|error| error.to_string())?;
    Ok(out)
}

/// Rewrites directives that Python reads in another way: the C locale's, and `%f`, which always has six digits.
fn prepared(format: &str) -> String {
    let mut out = String::with_capacity(format.len());
    let mut rest = format;
    while let Some(start) = rest.find('%') {
        out.push_str(&rest[..start]);
        let directive: String = rest[start..].chars().take(2).collect();
        out.push_str(match directive.as_str() {
            "%f" => "%6f",
            "%c" => "%a %b %e %H:%M:%S %Y",
            "%x" => "%m/%d/%y",
            "%X" => "%H:%M:%S",
            other => other,
        });
        rest = &rest[start + directive.len()..];
    }
    out + rest
}

impl DateTime {
    fn utc(&self) -> civil::DateTime {
        match self.offset {
            Some(offset) => {
                self.civil.checked_sub(SignedDuration::from_secs(i64::from(offset.seconds()))).unwrap_or(self.civil)
            }
            None => self.civil,
        }
    }

    fn iso(&self, separator: char) -> String {
        let civil = self.civil;
        let (year, month, day) = (civil.year(), civil.month(), civil.day());
        if self.day {
            return format!("{year:04}-{month:02}-{day:02}");
        }
        let (hour, minute, second) = (civil.hour(), civil.minute(), civil.second());
        let mut out = format!("{year:04}-{month:02}-{day:02}{separator}{hour:02}:{minute:02}:{second:02}");
        let micros = civil.subsec_nanosecond() / 1000;
        if micros > 0 {
            out.push_str(&format!(".{micros:06}"));
        }
        if let Some(offset) = self.offset {
            let seconds = offset.seconds();
            let sign = if seconds < 0 { '-' } else { '+' };
            out.push_str(&format!("{sign}{:02}:{:02}", seconds.abs() / 3600, seconds.abs() / 60 % 60));
        }
        out
    }

    fn zoned(&self) -> Result<Zoned, Error> {
        let zone = self.offset.map_or_else(TimeZone::system, TimeZone::fixed);
        self.civil.to_zoned(zone).map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
    }
}

impl Object for DateTime {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        Some(match key.as_str()? {
            "year" => Value::from(self.civil.year()),
            "month" => Value::from(self.civil.month()),
            "day" => Value::from(self.civil.day()),
            _ if self.day => return None,
            "hour" => Value::from(self.civil.hour()),
            "minute" => Value::from(self.civil.minute()),
            "second" => Value::from(self.civil.second()),
            "microsecond" => Value::from(self.civil.subsec_nanosecond() / 1000),
            _ => return None,
        })
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }

    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, method: &str, args: &[Value]) -> Result<Value, Error> {
        Ok(match method {
            "strftime" => {
                let (format,): (&str,) = from_args(args)?;
                // Without an offset, `%z` and `%Z` are empty, and `%s` assumes local time.
                let shown = match self.offset {
                    Some(_) => format_zoned(format, &self.zoned()?),
                    None => {
                        let moment = self.zoned()?.timestamp().as_second().to_string();
                        formatted(&format.replace("%s", &moment), &BrokenDownTime::from(self.civil))
                    }
                };
                Value::from(shown.map_err(|error| Error::new(ErrorKind::InvalidOperation, error))?)
            }
            "timestamp" => Value::from(self.zoned()?.timestamp().as_duration().as_secs_f64()),
            "isoformat" => Value::from(self.iso('T')),
            "date" if !self.day => {
                Value::from_object(DateTime { civil: self.civil.start_of_day(), offset: None, day: true })
            }
            "time" if !self.day => Value::from(self.iso('T')[11..].to_owned()),
            "weekday" => Value::from(self.civil.weekday().to_monday_zero_offset()),
            "isoweekday" => Value::from(self.civil.weekday().to_monday_one_offset()),
            "toordinal" => {
                let first = civil::date(1, 1, 1);
                Value::from(self.civil.date().duration_since(first).as_hours() / 24 + 1)
            }
            _ => return Err(Error::from(ErrorKind::UnknownMethod)),
        })
    }

    fn custom_cmp(self: &Arc<Self>, other: &minijinja::value::DynObject) -> Option<Ordering> {
        other.downcast_ref::<DateTime>().map(|other| self.utc().cmp(&other.utc()))
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.iso(' '))
    }
}

impl TimeDelta {
    fn parts(&self) -> (i64, i64, i64) {
        let micros = self.0.as_micros();
        let days = micros.div_euclid(86_400_000_000) as i64;
        let rest = micros.rem_euclid(86_400_000_000) as i64;
        (days, rest / 1_000_000, rest % 1_000_000)
    }
}

impl Object for TimeDelta {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let (days, seconds, microseconds) = self.parts();
        Some(Value::from(match key.as_str()? {
            "days" => days,
            "seconds" => seconds,
            "microseconds" => microseconds,
            _ => return None,
        }))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }

    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, method: &str, _: &[Value]) -> Result<Value, Error> {
        match method {
            "total_seconds" => Ok(Value::from(self.0.as_micros() as f64 / 1e6)),
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }

    fn is_true(self: &Arc<Self>) -> bool {
        !self.0.is_zero()
    }

    fn custom_cmp(self: &Arc<Self>, other: &minijinja::value::DynObject) -> Option<Ordering> {
        other.downcast_ref::<TimeDelta>().map(|other| self.0.cmp(&other.0))
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, seconds, micros) = self.parts();
        if days != 0 {
            write!(f, "{days} day{}, ", if days.abs() == 1 { "" } else { "s" })?;
        }
        write!(f, "{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
        if micros > 0 {
            write!(f, ".{micros:06}")?;
        }
        Ok(())
    }
}
