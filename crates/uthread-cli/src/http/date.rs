//! Dates in HTTP, such as `Sun, 06 Nov 1994 08:49:37 GMT`.

use std::cell::Cell;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A date in the only form that HTTP sends.
pub(crate) type DateText = [u8; 29];

/// Last second of the year 9999, the last that four digits can represent.
const SECONDS_MAX: i64 = 253_402_300_799;

thread_local! {
    /// The current second as text, formatted once per second instead of once per response.
    static CURRENT: Cell<(i64, DateText)> = Cell::new((0, format(0)));
}

/// Returns the current date. Never inlined: a fiber may be on another thread after a blocking call,
/// so the address of a thread-local must not be cached across one.
#[inline(never)]
pub(crate) fn now() -> DateText {
    let now_s = now_s();
    let (cached_s, text) = CURRENT.get();
    if cached_s == now_s {
        return text;
    }
    let text = format(now_s);
    CURRENT.set((now_s, text));
    text
}

/// Returns the current time in seconds since 1970.
pub(crate) fn now_s() -> i64 {
    unix_seconds(SystemTime::now())
}

/// Formats a time in seconds since 1970. Files may have any time: those that HTTP cannot represent
/// are clamped.
pub(crate) fn format(unix_s: i64) -> DateText {
    let clamped_s = unix_s.clamp(0, SECONDS_MAX).unsigned_abs();
    let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(clamped_s));
    let mut text = [0; 29];
    write!(&mut text[..], "{date}").expect("an HTTP date has 29 bytes");
    text
}

/// Parses a date in any of the three forms that HTTP accepts, into seconds since 1970.
pub(crate) fn parse(text: &[u8]) -> Option<i64> {
    let time = httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()?;
    Some(unix_seconds(time))
}

fn unix_seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs().cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_there_and_back() {
        for (unix_s, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (SECONDS_MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(format(unix_s), *text.as_bytes());
            assert_eq!(parse(text.as_bytes()), Some(unix_s));
        }
    }

    #[test]
    fn times_http_cannot_write_are_clamped() {
        assert_eq!(format(-1), format(0));
        assert_eq!(format(i64::MAX), format(SECONDS_MAX));
    }

    #[test]
    fn other_texts_are_no_dates() {
        for text in ["", "yesterday", "Sun, 99 Nov 1994 08:49:37 GMT", "\u{e9}"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
