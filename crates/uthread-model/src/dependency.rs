//! A dependency of the simulated service: its servers, and the policies for calling them.
//!
//! The policies nest as in a program, the outermost first: hedging, the limit of calls, the choice of
//! a server, its circuit breaker. What they decide is decided by `uthread-resilience`.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use fastrand::Rng;
use uthread_resilience::{Budget, Endpoints};

use crate::scenario;
use crate::server::{Drawn, Server};
use crate::times::{Call, Times};
use crate::values::nanos;

/// The state of a dependency.
pub(crate) struct Dependency {
    servers: Vec<Server>,
    /// The services of those that are tiers.
    services: Vec<Option<usize>>,
    timeout: u64,
    /// The choice among these, in simulated time.
    endpoints: Endpoints<()>,
    start: Instant,
    /// Number of servers of each client, if not all.
    shard: Option<usize>,
    /// The servers of clients that have called, if they have not all.
    shards: HashMap<u64, Vec<usize>>,
    everyone: Vec<usize>,
    /// Maximum number of calls in progress.
    concurrent: u64,
    in_progress: u64,
    /// Calls that wait for another one to end; the service bounds their number, or nothing does.
    waiting: VecDeque<Waiting>,
    hedge: Option<Hedge>,
}

/// A second call in place of one that takes long.
struct Hedge {
    after: u64,
    budget: Option<Budget>,
}

/// A call that waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Its place among the calls, which another call may have by now.
    pub(crate) call: usize,
    pub(crate) number: u64,
}

/// The result of beginning a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Began {
    /// A server is called, and answers after this time, unless the service does that before.
    Runs {
        server: usize,
        latency: u64,
        fails: bool,
        service: Option<usize>,
    },
    /// All breakers are open.
    Refused,
    /// The server is down.
    Fails,
    /// There are too many calls.
    Waits,
}

impl Dependency {
    /// Prepares the first call. `add` adds the service of a server that is a tier, and returns its
    /// index.
    ///
    /// # Errors
    ///
    /// The errors of reading a file of latencies, and those of `add`.
    pub(crate) fn new(
        given: &scenario::Dependency,
        mut add: impl FnMut(&scenario::Tier) -> anyhow::Result<usize>,
    ) -> anyhow::Result<Dependency> {
        let servers = Server::all(given)?;
        let everyone = (0..servers.len()).collect();
        let services = servers.iter().map(|server| {
            let tier = given.tier.as_ref().filter(|_| server.is_tier());
            tier.map(&mut add).transpose()
        });
        let services = services.collect::<anyhow::Result<_>>()?;
        let mut endpoints = Endpoints::new(servers.iter().map(|_| ()));
        if let Some(breaker) = &given.breaker {
            endpoints = endpoints.breaker(breaker.failures, breaker.open);
        }
        Ok(Dependency {
            shard: given.shard.map(|shard| shard as usize),
            servers,
            services,
            timeout: nanos(given.timeout),
            endpoints,
            start: Instant::now(),
            shards: HashMap::new(),
            everyone,
            concurrent: given.concurrent.unwrap_or(u64::MAX),
            in_progress: 0,
            waiting: VecDeque::new(),
            hedge: given.hedge.as_ref().map(|hedge| Hedge {
                after: nanos(hedge.after),
                budget: hedge.budget.map(Budget::new),
            }),
        })
    }

    /// Returns the time of a call outside of spikes; `of_tier` has the times of a service.
    pub(crate) fn times(&self, of_tier: impl Fn(usize) -> Times) -> Call {
        let tiers = self.services.iter().map(|tier| tier.map(&of_tier));
        let tiers = Vec::from_iter(tiers);
        let timeout = self.timeout as f64 / 1e9;
        let seconds = self.servers.iter().zip(&tiers);
        let seconds = seconds.map(|(server, tier)| match tier {
            Some(tier) => tier.seconds.min(timeout),
            None => server.mean_seconds(),
        });
        Call {
            seconds: seconds.sum::<f64>() / self.servers.len() as f64,
            servers: self.servers.len(),
            tier: tiers.into_iter().flatten().next(),
        }
    }

    /// Counts a call, not its hedge. Returns after how long it is made again, if it may be.
    pub(crate) fn hedge_after(&self) -> Option<u64> {
        let hedge = self.hedge.as_ref()?;
        if let Some(budget) = &hedge.budget {
            budget.add();
        }
        Some(hedge.after)
    }

    /// Takes a hedge from the budget; returns `false` if there is none.
    pub(crate) fn take_hedge(&self) -> bool {
        let budget = self.hedge.as_ref().and_then(|hedge| hedge.budget.as_ref());
        budget.is_none_or(Budget::take)
    }

    /// Begins a call of a client.
    pub(crate) fn begin(&mut self, call: Waiting, client: u64, now: u64, rng: &mut Rng) -> Began {
        if self.in_progress >= self.concurrent {
            self.waiting.push_back(call);
            return Began::Waits;
        }
        let random = match self.servers.len() {
            1 => 0.0,
            _ => rng.f64(),
        };
        let among = match self.shard {
            None => &self.everyone,
            Some(count) => {
                let shard = || self.endpoints.shard(client, count);
                self.shards.entry(client).or_insert_with(shard)
            }
        };
        let at = self.start + Duration::from_nanos(now);
        let Ok(server) = self.endpoints.admit(among, call.number, at, random) else {
            return Began::Refused;
        };
        match self.servers[server].draw(now, rng) {
            Some(drawn) => {
                self.in_progress += 1;
                let Drawn {
                    latency,
                    fails,
                    is_served,
                } = drawn;
                Began::Runs {
                    server,
                    latency,
                    fails,
                    service: self.services[server].filter(|_| is_served),
                }
            }
            None => {
                self.endpoints.record(server, call.number, at, true);
                Began::Fails
            }
        }
    }

    /// Ends a call; `has_failed` is `None` if nobody waits for the result.
    pub(crate) fn end(&mut self, server: usize, number: u64, now: u64, has_failed: Option<bool>) {
        self.in_progress -= 1;
        let at = self.start + Duration::from_nanos(now);
        match has_failed {
            Some(has_failed) => self.endpoints.record(server, number, at, has_failed),
            None => self.endpoints.abandon(server, number, at),
        }
    }

    /// Returns a call that has waited and may begin now.
    pub(crate) fn take_waiting(&mut self) -> Option<Waiting> {
        if self.in_progress < self.concurrent {
            self.waiting.pop_front()
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependency(text: &str) -> Dependency {
        Dependency::new(&toml::from_str(text).unwrap(), |_| unreachable!()).unwrap()
    }

    fn call(number: u64) -> Waiting {
        let call = number as usize;
        Waiting { call, number }
    }

    #[test]
    fn calls_wait_for_a_turn() {
        let mut rng = Rng::with_seed(1);
        let mut limited = dependency("latency = \"1s\"\nconcurrent = 1");
        let began = limited.begin(call(1), 0, 0, &mut rng);
        assert!(matches!(began, Began::Runs { server: 0, .. }), "{began:?}");
        assert_eq!(limited.begin(call(2), 0, 0, &mut rng), Began::Waits);
        assert_eq!(limited.take_waiting(), None);
        limited.end(0, 1, 0, None);
        assert_eq!(limited.take_waiting(), Some(call(2)));
    }

    #[test]
    fn a_client_has_its_servers_and_those_that_fail_are_spared() {
        let mut rng = Rng::with_seed(1);
        let mut sharded = dependency(
            "latency = \"1s\"\nendpoints = [{ count = 10 }]\nshard = 2\n\
             breaker = { failures = 1, open = \"1h\" }",
        );
        let mut servers = Vec::new();
        for number in 0..100 {
            if let Began::Runs { server, .. } = sharded.begin(call(number), 7, 0, &mut rng) {
                servers.push(server);
            }
        }
        servers.sort_unstable();
        servers.dedup();
        let [one, other] = servers[..] else {
            panic!("{servers:?}");
        };
        sharded.end(one, 0, 0, Some(true));
        let began = sharded.begin(call(100), 7, 0, &mut rng);
        assert!(
            matches!(began, Began::Runs { server, .. } if server == other),
            "{began:?}"
        );
        sharded.end(other, 100, 0, Some(true));
        assert_eq!(sharded.begin(call(101), 7, 0, &mut rng), Began::Refused);
    }
}
