//! Points in time as people write them, in UTC.

use time::{Date, Month, OffsetDateTime};

/// Milliseconds of a day.
pub const DAY_MS: u64 = 86_400_000;

/// Milliseconds since 1970, now.
#[must_use]
pub fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// The second that contains this many milliseconds since 1970.
fn second(ms: u64) -> OffsetDateTime {
    let second = i64::try_from(ms / 1_000).ok();
    let second = second.and_then(|it| OffsetDateTime::from_unix_timestamp(it).ok());
    second.unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// The date, as in `2026-11-21`.
#[must_use]
pub fn date(ms: u64) -> String {
    second(ms).date().to_string()
}

/// The date and time, as in `2026-11-21 23:40:02`.
#[must_use]
pub fn moment(ms: u64) -> String {
    let at = second(ms);
    let (hour, minute, second) = at.to_hms();
    format!("{} {hour:02}:{minute:02}:{second:02}", at.date())
}

/// [`moment`] with milliseconds: `2026-11-21 23:40:02.125`.
#[must_use]
pub fn precise(ms: u64) -> String {
    format!("{}.{:03}", moment(ms), ms % 1_000)
}

/// Parses `2026-11-21`, `2026-11-21T23:40` or `2026-11-21T23:40:02Z` (a space may replace the T).
/// Also parses times before `now`: `90s`, `15m`, `24h`, `7d`.
///
/// # Errors
/// A text that names the accepted forms.
pub fn parse(text: &str, now: u64) -> Result<u64, String> {
    let bad = || {
        format!("{text:?} is no point in time: write 2026-11-21, 2026-11-21T23:40:02Z, 24h or 7d")
    };
    let units = [('s', 1_000), ('m', 60_000), ('h', 3_600_000), ('d', DAY_MS)];
    for (unit, scale) in units {
        if let Some(digits) = text.strip_suffix(unit) {
            let count: u64 = digits.parse().map_err(|_| bad())?;
            return Ok(now.saturating_sub(count.saturating_mul(scale)));
        }
    }
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text
        .split_once(['T', ' '])
        .map_or((text, None), |(date, time)| (date, Some(time)));
    let numbers = |text: &str, separator: char| -> Result<Vec<u16>, String> {
        let parts = text.split(separator);
        parts.map(|part| part.parse().map_err(|_| bad())).collect()
    };
    let [year, month, day] = numbers(date, '-')?[..] else {
        return Err(bad());
    };
    let (hour, minute, second) = match time.map_or(Ok(vec![0, 0]), |time| numbers(time, ':'))?[..] {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return Err(bad()),
    };
    let moment = || {
        let [month, day, hour, minute, second] =
            [month, day, hour, minute, second].map(|it| u8::try_from(it).unwrap_or(u8::MAX));
        let month = Month::try_from(month).ok()?;
        let date = Date::from_calendar_date(year.into(), month, day).ok()?;
        let moment = date.with_hms(hour, minute, second).ok()?.assume_utc();
        u64::try_from(moment.unix_timestamp()).ok()
    };
    moment().map(|second| second * 1_000).ok_or_else(bad)
}

/// Parses the start and the end of a stretch of time, each as [`parse`] does. An absent one is `None`.
///
/// # Errors
/// The name of the wrong one, `since` or `until`, and a text as [`parse`] has.
pub fn bounds(
    since: Option<&str>,
    until: Option<&str>,
) -> Result<[Option<u64>; 2], (&'static str, String)> {
    let now = now_ms();
    let time = |name, text: Option<&str>| {
        let time = text.map(|text| parse(text, now)).transpose();
        time.map_err(|why| (name, why))
    };
    Ok([time("since", since)?, time("until", until)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_four_centuries_reads_back() {
        for day in 0..146_097 + 366 {
            let ms = day * DAY_MS + 86_399_000;
            let text = moment(ms);
            assert_eq!(parse(&text, 0), Ok(ms), "{text}");
            assert_eq!(parse(&date(ms), 0), Ok(day * DAY_MS));
        }
        assert_eq!(date(951_782_400_000), "2000-02-29");
        assert_eq!(moment(1_795_304_402_000), "2026-11-21 23:40:02");
    }

    #[test]
    fn what_is_no_time_is_said_with_what_is() {
        assert_eq!(parse("24h", 100_000_000), Ok(100_000_000 - DAY_MS));
        assert_eq!(parse("7d", 5), Ok(0));
        assert_eq!(
            parse("2026-11-21T23:40:02Z", 0),
            parse("2026-11-21 23:40:02", 0)
        );
        for bad in [
            "",
            "yesterday",
            "2026-02-29",
            "2026-13-01",
            "2026-11-21T24:00",
            "d",
            "2026-11",
            "1969-12-31",
        ] {
            let said = parse(bad, 0).unwrap_err();
            assert!(said.contains("2026-11-21"), "{said}");
        }
    }

    #[test]
    fn of_two_bounds_the_wrong_one_is_named() {
        assert_eq!(bounds(None, None), Ok([None, None]));
        let day = Some("1970-01-02");
        assert_eq!(bounds(day, None), Ok([Some(DAY_MS), None]));
        assert_eq!(bounds(None, Some("d")).unwrap_err().0, "until");
        assert_eq!(bounds(Some("d"), day).unwrap_err().0, "since");
    }
}
