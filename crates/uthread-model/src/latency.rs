//! The time that a call takes: a list in turn, a distribution, or recorded samples.

use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use fastrand::Rng;
use serde::de::{Deserialize, Deserializer, Error as _};

use crate::values::{nanos, parse_duration};

/// Maximum number of latencies in a list or file: some millions describe any service, and take 80
/// MB.
const COUNT_MAX: usize = 10_000_000;
/// Maximum size of a file: as many latencies, and space for any way to write one.
const BYTES_MAX: u64 = 20 * COUNT_MAX as u64;
/// Size of the sample that gives the mean of a distribution, to a percent or better.
const SAMPLE_COUNT: usize = 100_000;
/// Maximum deviation of the logarithm: at one of 10, a value in a thousand is 10^13 times the
/// median.
const DEVIATION_MAX: f64 = 10.0;

/// The source of the latencies of calls.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Latency {
    /// One after the other, then from the beginning: `20ms*9,30s`, or in milliseconds `20*9,30000`.
    Cycle(Vec<(Duration, usize)>),
    /// Log-normal with this median and this standard deviation of the logarithm:
    /// `lognormal(20ms, 0.5)`.
    LogNormal(Duration, f64),
    /// One of the lines of a file, chosen at random: `file:latencies.txt`.
    Samples(PathBuf),
}

impl Latency {
    /// Prepares drawing.
    ///
    /// # Errors
    ///
    /// The file of samples cannot be read, has none or too many, or has a line that is no duration.
    pub(crate) fn draws(&self) -> anyhow::Result<Draws> {
        Ok(match self {
            Latency::Cycle(list) => {
                let repeat = |&(latency, count)| std::iter::repeat_n(nanos(latency), count);
                Draws::Cycle {
                    list: list.iter().flat_map(repeat).collect(),
                    next: 0,
                }
            }
            &Latency::LogNormal(median, deviation) => Draws::LogNormal {
                median: nanos(median) as f64,
                deviation,
            },
            Latency::Samples(path) => Draws::Samples(read_samples(path)?),
        })
    }
}

/// A state from which latencies are drawn.
#[derive(Debug)]
pub(crate) enum Draws {
    Cycle { list: Vec<u64>, next: usize },
    LogNormal { median: f64, deviation: f64 },
    Samples(Vec<u64>),
}

impl Draws {
    /// Returns the next latency in nanoseconds.
    pub(crate) fn next(&mut self, rng: &mut Rng) -> u64 {
        match self {
            Draws::Cycle { list, next } => {
                let latency = list[*next];
                *next += 1;
                if *next == list.len() {
                    *next = 0;
                }
                latency
            }
            &mut Draws::LogNormal { median, deviation } => log_normal(median, deviation, rng),
            Draws::Samples(samples) => samples[rng.usize(..samples.len())],
        }
    }

    /// Returns the mean of what [`next`](Draws::next) returns if no value exceeds `max`, in
    /// nanoseconds.
    pub(crate) fn mean_up_to(&self, max: u64) -> f64 {
        let mean = |list: &[u64]| {
            let sum: f64 = list.iter().map(|&latency| latency.min(max) as f64).sum();
            sum / list.len() as f64
        };
        match self {
            Draws::Cycle { list, .. } => mean(list),
            Draws::Samples(samples) => mean(samples),
            // By a sample of its own, as the bound leaves no simple formula.
            &Draws::LogNormal { median, deviation } => {
                let mut rng = Rng::with_seed(0);
                let sample = (0..SAMPLE_COUNT).map(|_| log_normal(median, deviation, &mut rng));
                mean(&Vec::from_iter(sample))
            }
        }
    }
}

fn log_normal(median: f64, deviation: f64, rng: &mut Rng) -> u64 {
    (median * (deviation * normal(rng)).exp()) as u64
}

/// Returns a value of the standard normal distribution, by the method of Box and Muller.
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

fn read_samples(path: &Path) -> anyhow::Result<Vec<u64>> {
    let text = read_bounded(path).with_context(|| format!("read {}", path.display()))?;
    let lines = text
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty());
    let sample = |(line, number): (&str, usize)| match parse_duration(line) {
        Ok(latency) => Ok(nanos(latency)),
        Err(error) => Err(anyhow!("{}:{number}: {error}", path.display())),
    };
    let samples = lines.map(sample).collect::<Result<Vec<u64>, _>>()?;
    ensure!(
        (1..=COUNT_MAX).contains(&samples.len()),
        "{} has {} latencies, not 1 to {COUNT_MAX}",
        path.display(),
        samples.len()
    );
    Ok(samples)
}

/// Reads a file that may be a device or a pipe without an end.
fn read_bounded(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?;
    file.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    ensure!(
        text.len() as u64 <= BYTES_MAX,
        "it has more than {BYTES_MAX} bytes"
    );
    Ok(text)
}

impl FromStr for Latency {
    type Err = String;

    fn from_str(text: &str) -> Result<Latency, String> {
        if let Some(path) = text.strip_prefix("file:") {
            return Ok(Latency::Samples(path.into()));
        }
        match text.strip_prefix("lognormal(") {
            Some(rest) => parse_log_normal(rest),
            None => parse_cycle(text),
        }
    }
}

fn parse_log_normal(rest: &str) -> Result<Latency, String> {
    let inside = rest.strip_suffix(')');
    let Some((median, deviation)) = inside.and_then(|inside| inside.split_once(',')) else {
        return Err("write lognormal(MEDIAN, DEVIATION), such as lognormal(20ms, 0.5)".to_owned());
    };
    match deviation.trim().parse::<f64>() {
        Ok(deviation @ 0.0..=DEVIATION_MAX) => {
            Ok(Latency::LogNormal(parse_duration(median)?, deviation))
        }
        _ => Err(format!(
            "the deviation {deviation:?} is no number from 0 to {DEVIATION_MAX}"
        )),
    }
}

fn parse_cycle(text: &str) -> Result<Latency, String> {
    let mut list = Vec::new();
    let mut total = 0_usize;
    for part in text.split(',') {
        let (latency, count) = part.split_once('*').unwrap_or((part, "1"));
        let count = match count.trim().parse::<usize>() {
            Ok(count @ 1..=COUNT_MAX) => count,
            _ => return Err(format!("{count:?} in {part:?} is no number of calls")),
        };
        total += count;
        if total > COUNT_MAX {
            return Err(format!("a list has at most {COUNT_MAX} latencies"));
        }
        list.push((parse_latency(latency)?, count));
    }
    Ok(Latency::Cycle(list))
}

/// Parses a duration. A number without a unit has milliseconds.
fn parse_latency(text: &str) -> Result<Duration, String> {
    match text.trim().parse::<u32>() {
        Ok(millis) => parse_duration(&format!("{millis}ms")),
        Err(_) => parse_duration(text),
    }
}

impl Display for Latency {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Latency::Cycle(list) => {
                for (index, (latency, count)) in list.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(formatter, "{comma}{}", humantime::format_duration(*latency))?;
                    if *count > 1 {
                        write!(formatter, "*{count}")?;
                    }
                }
                Ok(())
            }
            Latency::LogNormal(median, deviation) => {
                let median = humantime::format_duration(*median);
                write!(formatter, "lognormal({median}, {deviation})")
            }
            Latency::Samples(path) => write!(formatter, "file:{}", path.display()),
        }
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Latency, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn texts_become_latencies_and_texts_again() {
        for text in [
            "20ms",
            "20ms*9,30s",
            "1us*2,3s,5ms*4",
            "lognormal(20ms, 0.5)",
            "file:x/y",
        ] {
            let latency: Latency = text.parse().unwrap();
            assert_eq!(latency.to_string(), text);
        }
        for (text, expected) in [
            ("", "no duration"),
            ("20 x", "no duration"),
            ("-20", "no duration"),
            ("20ms*0", "no number of calls"),
            ("20ms*x", "no number of calls"),
            ("20ms*9000000,1ms*2000000", "at most 10000000"),
            ("20ms,,", "no duration"),
            ("lognormal(20ms)", "MEDIAN, DEVIATION"),
            ("lognormal(20ms, 1", "MEDIAN, DEVIATION"),
            ("lognormal(20ms, -1)", "no number from 0 to 10"),
            ("lognormal(20ms, NaN)", "no number from 0 to 10"),
        ] {
            let error = text.parse::<Latency>().unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn numbers_without_a_unit_are_milliseconds() {
        let latency: Latency = "200*9, 30000".parse().unwrap();
        assert_eq!(latency.to_string(), "200ms*9,30s");
    }

    fn draws(text: &str) -> anyhow::Result<Draws> {
        text.parse::<Latency>().unwrap().draws()
    }

    #[test]
    fn lists_are_drawn_in_turn() {
        let mut draws = draws("1ms*2,5ms").unwrap();
        let mut rng = Rng::with_seed(1);
        let drawn = Vec::from_iter((0..4).map(|_| draws.next(&mut rng) / 1_000_000));
        assert_eq!(drawn, [1, 1, 5, 1]);
        assert_eq!(draws.mean_up_to(2_000_000), 4.0e6 / 3.0);
    }

    #[test]
    fn a_lognormal_has_its_median_and_its_mean() {
        let mut draws = draws("lognormal(20ms, 0.5)").unwrap();
        let mut rng = Rng::with_seed(1);
        let mut drawn = Vec::from_iter((0..100_001).map(|_| draws.next(&mut rng)));
        drawn.sort_unstable();
        let median = drawn[50_000] as f64 / 20e6;
        assert!((median - 1.0).abs() < 0.01, "{median}");
        let mean = draws.mean_up_to(u64::MAX) / (20e6 * (0.5_f64.powi(2) / 2.0).exp());
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn samples_are_drawn_from_a_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = format!("file:{}", file.path().display());
        let error = draws(&text).unwrap_err().to_string();
        assert!(error.contains("has 0 latencies"), "{error}");
        file.write_all(b"1ms\n\n3ms\n").unwrap();
        let mut samples = draws(&text).unwrap();
        assert_eq!(samples.mean_up_to(u64::MAX), 2e6);
        let mut rng = Rng::with_seed(1);
        assert!((0..9).all(|_| [1_000_000, 3_000_000].contains(&samples.next(&mut rng))));
        file.write_all(b"x\n").unwrap();
        let error = draws(&text).unwrap_err().to_string();
        assert!(error.contains(":4: \"x\" is no duration"), "{error}");
    }
}
