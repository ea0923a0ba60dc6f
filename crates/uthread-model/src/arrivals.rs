//! The times at which requests arrive, one after the other.

use std::fs::File;
use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;

use anyhow::{Context, bail};
use fastrand::Rng;

use crate::scenario::Arrivals;
use crate::values::nanos;

/// Time after which the leaky bucket releases the requests that have accumulated, in nanoseconds.
const TICK: u64 = 10_000_000;
/// Nanoseconds in a second.
const SECOND: f64 = 1e9;
/// Maximum recorded time in seconds: a hundred years.
const RECORDED_MAX: f64 = 100.0 * 365.0 * 86400.0;

/// Arrivals in ascending order, in nanoseconds from the beginning.
pub(crate) struct Source {
    kind: Kind,
    rng: Rng,
    now: u64,
}

enum Kind {
    LeakyBucket {
        per_tick: f64,
        /// Number of requests that have accumulated, with its fraction.
        level: f64,
    },
    Poisson {
        mean: f64,
    },
    Bursts {
        /// Mean time between single requests; infinite if there are none.
        mean: f64,
        next_single: f64,
        every: u64,
        size: u64,
        /// Number of requests of the current burst that have not arrived.
        left: u64,
        next_burst: u64,
    },
    Trace {
        lines: Lines<BufReader<File>>,
        path: PathBuf,
        number: u64,
        /// The time of the first line.
        begin: Option<u64>,
    },
}

impl Source {
    /// Prepares the first arrival.
    ///
    /// # Errors
    ///
    /// The errors of opening the file of recorded times.
    pub(crate) fn new(arrivals: &Arrivals, seed: u64) -> anyhow::Result<Source> {
        let mut rng = Rng::with_seed(seed);
        let kind = match arrivals {
            Arrivals::LeakyBucket { rate } => Kind::LeakyBucket {
                per_tick: rate * TICK as f64 / SECOND,
                level: 0.0,
            },
            Arrivals::Poisson { rate } => Kind::Poisson {
                mean: SECOND / rate,
            },
            Arrivals::Bursts { rate, size, every } => {
                let mean = rate.map_or(f64::INFINITY, |rate| SECOND / rate);
                Kind::Bursts {
                    mean,
                    next_single: exponential(mean, &mut rng),
                    every: nanos(*every),
                    size: *size,
                    left: 0,
                    next_burst: 0,
                }
            }
            Arrivals::Trace { file } => {
                let opened =
                    File::open(file).with_context(|| format!("open {}", file.display()))?;
                Kind::Trace {
                    lines: BufReader::new(opened).lines(),
                    path: file.clone(),
                    number: 0,
                    begin: None,
                }
            }
        };
        Ok(Source { kind, rng, now: 0 })
    }

    /// Returns the time of the next arrival, or `None` at the end of a recording.
    ///
    /// # Errors
    ///
    /// The file of recorded times cannot be read, or has a line that is no time or earlier than the
    /// line above.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<u64>> {
        match &mut self.kind {
            Kind::LeakyBucket { per_tick, level } => {
                // A sum of tenths may be just below one.
                let missing = 1.0 - 1e-9 - *level;
                if missing > 0.0 {
                    let ticks = (missing / *per_tick).ceil();
                    *level += ticks * *per_tick;
                    self.now += ticks as u64 * TICK;
                }
                *level -= 1.0;
            }
            Kind::Poisson { mean } => self.now += exponential(*mean, &mut self.rng) as u64,
            Kind::Bursts {
                mean,
                next_single,
                every,
                size,
                left,
                next_burst,
            } => {
                if *left == 0 && *next_single < *next_burst as f64 {
                    self.now = *next_single as u64;
                    *next_single += exponential(*mean, &mut self.rng);
                } else {
                    if *left == 0 {
                        *left = *size;
                        self.now = *next_burst;
                        *next_burst += *every;
                    }
                    *left -= 1;
                }
            }
            Kind::Trace {
                lines,
                path,
                number,
                begin,
            } => {
                let Some(line) = lines.next() else {
                    return Ok(None);
                };
                *number += 1;
                let place = || format!("{}:{number}", path.display());
                let line = line.with_context(place)?;
                let Ok(seconds @ 0.0..=RECORDED_MAX) = line.trim().parse::<f64>() else {
                    bail!("{}: {line:?} is no time in seconds", place());
                };
                let time = (seconds * SECOND) as u64;
                let time = time.checked_sub(*begin.get_or_insert(time));
                let Some(time) = time.filter(|time| *time >= self.now) else {
                    bail!("{}: the time is before that of the line above", place());
                };
                self.now = time;
            }
        }
        Ok(Some(self.now))
    }
}

fn exponential(mean: f64, rng: &mut Rng) -> f64 {
    -mean * (1.0 - rng.f64()).ln()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    fn first(arrivals: &Arrivals, count: usize) -> Vec<u64> {
        let mut source = Source::new(arrivals, 1).unwrap();
        (0..count)
            .map(|_| source.next().unwrap().unwrap())
            .collect()
    }

    #[test]
    fn a_leaky_bucket_gives_out_what_has_accumulated() {
        let ms = |rate, count| {
            let times = first(&Arrivals::LeakyBucket { rate }, count);
            Vec::from_iter(times.into_iter().map(|time| time / 1_000_000))
        };
        assert_eq!(ms(300.0, 7), [10, 10, 10, 20, 20, 20, 30]);
        assert_eq!(ms(50.0, 3), [20, 40, 60]);
        assert_eq!(ms(150.0, 4), [10, 20, 20, 30]);
    }

    #[test]
    fn random_arrivals_have_their_rate() {
        for arrivals in [
            Arrivals::Poisson { rate: 1000.0 },
            Arrivals::Bursts {
                rate: Some(500.0),
                size: 1000,
                every: Duration::from_secs(2),
            },
        ] {
            let times = first(&arrivals, 100_000);
            assert!(times.is_sorted());
            let rate = 1e5 / (times[99_999] as f64 / SECOND);
            assert!((rate / 1000.0 - 1.0).abs() < 0.02, "{arrivals:?}: {rate}");
        }
    }

    #[test]
    fn recorded_times_begin_with_the_first_and_ascend() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"100.5\n100.75\n101\n100\nx\n").unwrap();
        let file = file.path().to_owned();
        let mut source = Source::new(&Arrivals::Trace { file }, 1).unwrap();
        for expected in [0, 250_000_000, 500_000_000] {
            assert_eq!(source.next().unwrap(), Some(expected));
        }
        let error = source.next().unwrap_err().to_string();
        assert!(error.contains(":4: the time is before"), "{error}");
        let error = source.next().unwrap_err().to_string();
        assert!(error.contains(":5") && error.contains("\"x\""), "{error}");
        assert_eq!(source.next().unwrap(), None);
    }
}
