//! Facts of the present: `date_time` and `loadavg`.

use jiff::{Timestamp, Zoned, tz::TimeZone};

use super::Facts;
use crate::Map;

/// `date_time`: current time in the host's time zone.
pub(crate) fn collect(facts: &mut Facts) {
    facts.set("date_time", date_time(Timestamp::now(), TimeZone::system()));
}

fn date_time(now: Timestamp, zone: TimeZone) -> Map {
    let local = now.to_zoned(zone.clone());
    let utc = now.to_zoned(TimeZone::UTC);
    let write = |format: &str, time: &Zoned| time.strftime(format).to_string();
    let mut map = Map::new();
    for (key, format) in [
        ("year", "%Y"),
        ("month", "%m"),
        ("weekday", "%A"),
        ("weekday_number", "%w"),
        ("weeknumber", "%W"),
        ("day", "%d"),
        ("hour", "%H"),
        ("minute", "%M"),
        ("second", "%S"),
        ("epoch", "%s"),
        ("epoch_int", "%s"),
        ("date", "%Y-%m-%d"),
        ("time", "%H:%M:%S"),
    ] {
        map.insert(key.to_owned(), write(format, &local).into());
    }
    map.insert("iso8601_micro".into(), write("%Y-%m-%dT%H:%M:%S.%6fZ", &utc).into());
    map.insert("iso8601".into(), write("%Y-%m-%dT%H:%M:%SZ", &utc).into());
    map.insert("iso8601_basic".into(), write("%Y%m%dT%H%M%S%6f", &local).into());
    map.insert("iso8601_basic_short".into(), write("%Y%m%dT%H%M%S", &local).into());
    map.insert("tz".into(), write("%Z", &local).into());
    map.insert("tz_dst".into(), daylight_name(&local).into());
    map.insert("tz_offset".into(), write("%z", &local).into());
    map
}

/// The zone's name in summer, or its plain name without daylight saving time.
fn daylight_name(local: &Zoned) -> String {
    let year = local.year();
    let standard = local.strftime("%Z").to_string();
    let in_summer = [1, 4, 7, 10].iter().find_map(|month| {
        let moment = jiff::civil::date(year, *month, 15).at(12, 0, 0, 0).to_zoned(local.time_zone().clone()).ok()?;
        let info = local.time_zone().to_offset_info(moment.timestamp());
        info.dst().is_dst().then(|| info.abbreviation().to_owned())
    });
    in_summer.unwrap_or(standard)
}

/// `loadavg`, which the kernel counts in units of 1/65536.
pub(crate) fn load_average(facts: &mut Facts) {
    let mut map = Map::new();
    for (key, load) in ["1m", "5m", "15m"].into_iter().zip(rustix::system::sysinfo().loads) {
        map.insert(key.to_owned(), (load as f64 / 65536.0).into());
    }
    facts.set("loadavg", map);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_time_reports_local_and_universal_time() {
        let moment = Timestamp::from_second(1_752_580_800).unwrap();
        let map = date_time(moment, TimeZone::fixed(jiff::tz::offset(2)));
        assert_eq!(map["iso8601"], "2025-07-15T12:00:00Z");
        assert_eq!(map["hour"], "14");
        assert_eq!(map["weekday"], "Tuesday");
        assert_eq!(map["weekday_number"], "2");
        assert_eq!(map["tz_offset"], "+0200");
        assert_eq!(map["epoch"], "1752580800");
        assert_eq!(map["iso8601_basic"], "20250715T140000000000");
    }
}
