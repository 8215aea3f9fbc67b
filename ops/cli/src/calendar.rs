//! Points in time as people write them, in UTC.

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

/// Year, month and day of a number of days since 1970-01-01: the Gregorian calendar's 400 years are
/// 146,097 days, counted from a first of March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let of_month = of_year - (153 * march + 2) / 5 + 1;
    (era * 400 + year + u64::from(month <= 2), month, of_month)
}

/// Days since 1970-01-01 of a date; `None` where there is no such day.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    let (shifted, march) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let (era, of_era) = (shifted / 400, shifted % 400);
    let of_year = (153 * march + 2) / 5 + day - 1;
    let whole = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    let days = whole.checked_sub(719_468)?;
    (civil(days) == (year, month, day)).then_some(days)
}

/// `2026-11-21`.
#[must_use]
pub fn date(ms: u64) -> String {
    let (year, month, day) = civil(ms / DAY_MS);
    format!("{year:04}-{month:02}-{day:02}")
}

/// `2026-11-21 23:40:02`.
#[must_use]
pub fn moment(ms: u64) -> String {
    let second = ms % DAY_MS / 1_000;
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{} {hour:02}:{minute:02}:{:02}", date(ms), second % 60)
}

/// Reads `2026-11-21`, `2026-11-21T23:40`, `2026-11-21T23:40:02Z` (a space for the T will do) or,
/// before `now`, `90s`, `15m`, `24h`, `7d`.
///
/// # Errors
/// Says what is understood.
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
    let numbers = |text: &str, separator: char| -> Result<Vec<u64>, String> {
        let parts = text.split(separator);
        parts.map(|part| part.parse().map_err(|_| bad())).collect()
    };
    let [year, month, day] = numbers(date, '-')?[..] else {
        return Err(bad());
    };
    let day = days(year, month, day).ok_or_else(bad)?;
    let time = time.map_or(Ok(vec![0]), |time| numbers(time, ':'))?;
    let second = match time[..] {
        [0] => 0,
        [hour, minute] if hour < 24 && minute < 60 => hour * 3_600 + minute * 60,
        [hour, minute, second] if hour < 24 && minute < 60 && second < 60 => {
            hour * 3_600 + minute * 60 + second
        }
        _ => return Err(bad()),
    };
    Ok(day * DAY_MS + second * 1_000)
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
}
