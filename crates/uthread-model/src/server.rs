//! A server of a dependency: how long its calls take, and which of them fail.

use fastrand::Rng;

use crate::latency::{Draws, Latency};
use crate::scenario;
use crate::values::nanos;

pub(crate) struct Server {
    /// `None` if it is a tier, which takes as long as it takes.
    draws: Option<Draws>,
    failures: f64,
    spikes: Vec<Spike>,
    timeout: u64,
}

struct Spike {
    from: u64,
    to: u64,
    share: f64,
    /// `None` if it is down.
    draws: Option<Draws>,
}

/// The time that a call takes, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drawn {
    /// Nanoseconds: at most the timeout.
    pub(crate) latency: u64,
    pub(crate) fails: bool,
    /// A tier answers, unless it takes longer than that.
    pub(crate) is_served: bool,
}

impl Server {
    /// Prepares the first call of each server of a dependency.
    ///
    /// # Errors
    ///
    /// The errors of reading a file of latencies.
    pub(crate) fn all(given: &scenario::Dependency) -> anyhow::Result<Vec<Server>> {
        if given.endpoints.is_empty() {
            return Ok(vec![Server::new(given, &scenario::Endpoint::default())?]);
        }
        let repeated = given.endpoints.iter().flat_map(|endpoint| {
            let count = endpoint.count as usize;
            std::iter::repeat_with(|| Server::new(given, endpoint)).take(count)
        });
        repeated.collect()
    }

    /// Prepares the first call of a server with what differs from the others of its dependency.
    fn new(given: &scenario::Dependency, own: &scenario::Endpoint) -> anyhow::Result<Server> {
        let spike = |spike: &scenario::Spike| {
            let from = nanos(spike.from);
            let lasts = spike.lasts.map_or(u64::MAX, nanos);
            anyhow::Ok(Spike {
                from,
                to: from.saturating_add(lasts),
                share: spike.share,
                draws: spike.latency.as_ref().map(Latency::draws).transpose()?,
            })
        };
        let latency = own.latency.as_ref().or(given.latency.as_ref());
        let spikes = own.spikes.as_ref().unwrap_or(&given.spikes);
        Ok(Server {
            draws: latency.map(Latency::draws).transpose()?,
            failures: own.failures.unwrap_or(given.failures),
            spikes: spikes.iter().map(spike).collect::<anyhow::Result<_>>()?,
            timeout: nanos(given.timeout),
        })
    }

    pub(crate) fn is_tier(&self) -> bool {
        self.draws.is_none()
    }

    /// Returns the mean time that a call takes outside of spikes, in seconds; zero if it is a tier.
    pub(crate) fn mean_seconds(&self) -> f64 {
        let mean = |draws: &Draws| draws.mean_up_to(self.timeout) / 1e9;
        self.draws.as_ref().map_or(0.0, mean)
    }

    /// Draws a call that begins now; returns `None` if the server is down.
    pub(crate) fn draw(&mut self, now: u64, rng: &mut Rng) -> Option<Drawn> {
        let spike = self.spikes.iter_mut().find(|spike| {
            let is_now = (spike.from..spike.to).contains(&now);
            is_now && (spike.share >= 1.0 || rng.f64() < spike.share)
        });
        let draws = match spike {
            None => self.draws.as_mut(),
            Some(spike) => Some(spike.draws.as_mut()?),
        };
        let is_served = draws.is_none();
        let latency = draws.map_or(self.timeout, |draws| draws.next(rng));
        let fails = latency >= self.timeout || self.failures > 0.0 && rng.f64() < self.failures;
        Some(Drawn {
            latency: latency.min(self.timeout),
            fails,
            is_served,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn servers(text: &str) -> Vec<Server> {
        Server::all(&toml::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn calls_fail_and_take_longer() {
        let mut rng = Rng::with_seed(1);
        let mut servers = servers(
            "latency = \"1s\"\ntimeout = \"2s\"\n\
             spikes = [{ from = \"1s\", lasts = \"1s\" }, { from = \"3s\", latency = \"5s\" }]",
        );
        let mut draw = |at| servers[0].draw(at * SECOND, &mut rng);
        let drawn = |seconds, fails| {
            let latency = seconds * SECOND;
            let is_served = false;
            Some(Drawn {
                latency,
                fails,
                is_served,
            })
        };
        assert_eq!(draw(0), drawn(1, false));
        assert_eq!(draw(1), None);
        assert_eq!(draw(2), drawn(1, false));
        assert_eq!(draw(3), drawn(2, true));
    }

    #[test]
    fn each_server_has_its_own_values_or_those_of_all() {
        let mut rng = Rng::with_seed(1);
        let mut servers = servers(
            "latency = \"1s\"\nfailures = 1\n\
             endpoints = [{ count = 2 }, { latency = \"2s\", failures = 0 }, { spikes = [{}] }]",
        );
        let mut drawn = servers.iter_mut().map(|server| server.draw(0, &mut rng));
        let call = |seconds, fails| {
            let latency = seconds * SECOND;
            let is_served = false;
            Some(Some(Drawn {
                latency,
                fails,
                is_served,
            }))
        };
        let expected = [call(1, true), call(1, true), call(2, false), Some(None)];
        assert_eq!([0; 4].map(|_| drawn.next()), expected);
        assert_eq!(drawn.next(), None);
    }
}
