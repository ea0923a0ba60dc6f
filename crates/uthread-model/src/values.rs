//! The values of scenarios: durations and numbers, each within the range that it may have.
//!
//! The range is checked while a value is deserialized, because only then its line is known.

use std::fmt::{self, Display, Formatter};
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// Maximum duration, far longer than any call; a sum of many stays within 64 bits.
const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Requests per second. A lower rate simulates years of idleness; at the highest, all arrive at the
/// same time.
const RATES: RangeInclusive<f64> = 0.001..=1e9;
/// Retries per first attempt.
const BUDGETS: RangeInclusive<f64> = 0.0..=1000.0;

/// Parses a duration of at most a year.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text.trim()) {
        Ok(duration) if duration <= DURATION_MAX => Ok(duration),
        Ok(_) => Err(format!("{text:?} is longer than a year")),
        Err(_) => Err(format!("{text:?} is no duration; write 20ms, 30s or 2m")),
    }
}

/// Parses a number of requests per second.
pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>();
    let rate = rate.map_err(|_| format!("{text:?} is no number"))?;
    within(rate, &RATES)
}

/// Converts to nanoseconds. 64 bits have room for 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn within<T: PartialOrd + Display>(value: T, range: &RangeInclusive<T>) -> Result<T, String> {
    if range.contains(&value) {
        Ok(value)
    } else {
        let (least, most) = (range.start(), range.end());
        Err(format!("{value} is not from {least} to {most}"))
    }
}

/// Accepts a value of one type, and describes what it accepts.
struct Accept<T, F> {
    expected: String,
    parse: F,
    result: PhantomData<T>,
}

/// A value as the file has it.
enum Raw<'a> {
    Text(&'a str),
    Integer(i64),
    Float(f64),
}

impl<T, F: FnOnce(Raw<'_>) -> Option<Result<T, String>>> Accept<T, F> {
    /// Deserializes a value that `parse` accepts; it returns `None` for one of another type.
    fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
        expected: String,
        parse: F,
    ) -> Result<T, D::Error> {
        deserializer.deserialize_any(Accept {
            expected,
            parse,
            result: PhantomData,
        })
    }

    fn visit<E: Error>(self, raw: Raw<'_>, found: Unexpected<'_>) -> Result<T, E> {
        let Accept {
            expected, parse, ..
        } = self;
        let parsed = parse(raw).ok_or_else(|| E::invalid_type(found, &expected.as_str()))?;
        parsed.map_err(E::custom)
    }
}

impl<'de, T, F: FnOnce(Raw<'_>) -> Option<Result<T, String>>> Visitor<'de> for Accept<T, F> {
    type Value = T;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        self.visit(Raw::Text(text), Unexpected::Str(text))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        self.visit(Raw::Integer(value), Unexpected::Signed(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        self.visit(Raw::Float(value), Unexpected::Float(value))
    }
}

pub(crate) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let expected = "a duration such as \"20ms\", \"30s\" or \"2m\"".to_owned();
    Accept::deserialize(deserializer, expected, |raw| match raw {
        Raw::Text(text) => Some(parse_duration(text)),
        Raw::Integer(_) | Raw::Float(_) => None,
    })
}

/// Deserializes a duration other than zero.
pub(crate) fn positive_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    match duration(deserializer)? {
        Duration::ZERO => Err(D::Error::custom("the duration must be longer than zero")),
        duration => Ok(duration),
    }
}

pub(crate) fn some_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

pub(crate) fn some_positive_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    positive_duration(deserializer).map(Some)
}

pub(crate) fn count<'de, D: Deserializer<'de>, const MIN: u64, const MAX: u64>(
    deserializer: D,
) -> Result<u64, D::Error> {
    let expected = format!("a whole number from {MIN} to {MAX}");
    Accept::deserialize(deserializer, expected, |raw| match raw {
        Raw::Integer(value) => {
            let value = i128::from(value);
            let value = within(value, &(i128::from(MIN)..=i128::from(MAX)));
            Some(value.map(|value| value as u64))
        }
        Raw::Text(_) | Raw::Float(_) => None,
    })
}

pub(crate) fn some_count<'de, D: Deserializer<'de>, const MIN: u64, const MAX: u64>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    count::<D, MIN, MAX>(deserializer).map(Some)
}

pub(crate) fn some_rate<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    number(deserializer, &RATES).map(Some)
}

pub(crate) fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    number(deserializer, &(0.0..=1.0))
}

pub(crate) fn some_share<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    share(deserializer).map(Some)
}

pub(crate) fn some_budget<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    number(deserializer, &BUDGETS).map(Some)
}

fn number<'de, D: Deserializer<'de>>(
    deserializer: D,
    range: &RangeInclusive<f64>,
) -> Result<f64, D::Error> {
    let expected = format!("a number from {} to {}", range.start(), range.end());
    Accept::deserialize(deserializer, expected, |raw| match raw {
        Raw::Integer(value) => Some(within(value as f64, range)),
        Raw::Float(value) => Some(within(value, range)),
        Raw::Text(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_refused() {
        assert_eq!(parse_duration(" 20ms"), Ok(Duration::from_millis(20)));
        assert!(parse_duration("20").unwrap_err().contains("no duration"));
        let long = parse_duration("1000 years").unwrap_err();
        assert_eq!(long, "\"1000 years\" is longer than a year");
        assert_eq!(parse_rate("2.5"), Ok(2.5));
        for text in ["0", "NaN", "inf", "-1"] {
            let error = parse_rate(text).unwrap_err();
            assert!(error.contains("is not from 0.001 to 1000000000"), "{error}");
        }
        assert_eq!(parse_rate("x").unwrap_err(), "\"x\" is no number");
    }
}
