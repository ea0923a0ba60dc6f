//! `uthread model plan`: how many threads a bound on p99 takes, by simulating pools of many sizes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use uthread_report::page::{Page, draw};
use uthread_report::plot::{Curve, Plot, Scale};
use uthread_report::results::{Facts, Results, Study, Subject};

use crate::mode::Mode;
use crate::outcome::Outcome;
use crate::scenario::{CONCURRENCY_MAX, Fibers, Scenario, Threads};
use crate::simulation::simulate;
use crate::table::aligned;
use crate::words::{count, number, rate, size, time};

/// The percentile with a bound.
const PERCENT: f64 = 99.0;
/// Sizes of further pools in the table, in parts of the fewest threads that keep the bound.
const PARTS: [f64; 7] = [0.5, 0.75, 0.9, 1.1, 1.25, 1.5, 2.0];

const LEAD: &str = "Pools of threads of many sizes and a fiber for each request under the same load, simulated in virtual time.";

/// The figures of a pool.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Pool {
    threads: u64,
    rate: f64,
    success: f64,
    /// Seconds.
    p50: f64,
    p99: f64,
    bytes: u64,
}

/// Pools by their sizes, and the verdict.
#[derive(Debug, Serialize)]
pub(crate) struct Plan {
    /// Seconds.
    bound: f64,
    /// The fewest threads that keep the bound, if any number does.
    fewest: Option<u64>,
    pools: Vec<Pool>,
    /// One fiber for each request.
    fibers: Pool,
}

impl Plan {
    /// Searches for the smallest pool whose p99 is within the bound.
    ///
    /// # Errors
    ///
    /// The errors of a simulation.
    pub(crate) fn new(scenario: &Scenario, bound: Duration) -> anyhow::Result<Plan> {
        let mut plans = Search {
            scenario: scenario.clone(),
            bound: bound.as_secs_f64(),
            pools: BTreeMap::new(),
        };
        let fibers = plans.fibers()?;
        let fewest = if fibers.keeps(plans.bound) {
            plans.fewest()?
        } else {
            // Calls alone take longer.
            None
        };
        for part in PARTS {
            let threads = fewest.unwrap_or(fibers.threads) as f64 * part;
            plans.at((threads.round() as u64).clamp(1, CONCURRENCY_MAX))?;
        }
        Ok(Plan {
            bound: plans.bound,
            fewest,
            pools: plans.pools.into_values().collect(),
            fibers,
        })
    }

    /// Returns the verdict in a sentence or two.
    pub(crate) fn verdict(&self) -> String {
        let Plan { bound, fibers, .. } = self;
        let bound = time(*bound);
        let Some(fewest) = self.fewest else {
            let p99 = time(fibers.p99);
            return format!(
                "No number of threads keeps p99 within {bound}: even without any wait for a thread it is {p99}."
            );
        };
        let mut pools = self.pools.iter();
        let chosen = pools.clone().find(|pool| pool.threads == fewest);
        let memory = chosen.map_or(0, |pool| pool.bytes);
        let below = pools.rfind(|pool| pool.threads < fewest);
        let below = below.map_or(String::new(), |pool| {
            let threads = count(pool.threads, "thread");
            format!(" With {threads} it is {}.", time(pool.p99))
        });
        format!(
            "{} keep p99 within {bound}, in {} of memory.{below} With fibers it is {}, in {} for at most {} at a time.",
            count(fewest, "thread"),
            size(memory as f64),
            time(fibers.p99),
            size(fibers.bytes as f64),
            number(fibers.threads)
        )
    }

    /// Returns the pools as a table.
    pub(crate) fn text(&self) -> String {
        let head = ["threads", "rate", "successes", "p50", "p99", "memory", ""];
        let mut rows = vec![Vec::from(head.map(str::to_owned))];
        let fewest = self.fewest;
        for pool in &self.pools {
            let mark = if fewest == Some(pool.threads) {
                "the fewest within the bound"
            } else {
                ""
            };
            rows.push(pool.cells(&number(pool.threads), mark));
        }
        rows.push(self.fibers.cells("fibers", ""));
        aligned(&rows)
    }

    /// Draws p99 and memory by the number of threads, on a page with these facts.
    pub(crate) fn page(&self, title: &str, command: &str, facts: &Facts) -> String {
        let curve = |name: &str, figure: &dyn Fn(&Pool) -> f64| Curve {
            name: name.to_owned(),
            points: self
                .pools
                .iter()
                .map(|pool| (pool.threads as f64, figure(pool)))
                .collect(),
        };
        let fibers = self.fibers;
        let p99 = vec![
            curve("fibers", &|_| fibers.p99),
            curve("threads", &|pool| pool.p99),
            curve("bound", &|_| self.bound),
        ];
        let mib = |bytes: u64| bytes as f64 / 1024.0 / 1024.0;
        let memory = vec![
            curve("fibers", &|_| mib(fibers.bytes)),
            curve("threads", &|pool| mib(pool.bytes)),
        ];
        let scale = |name: &str, is_log| Scale {
            name: name.to_owned(),
            is_log,
        };
        let plot = |title: &str, unit, is_log, curves| Plot {
            title: title.to_owned(),
            x: scale("threads", false),
            y: scale(unit, is_log),
            is_scatter: false,
            curves,
        };
        let slowest = self.pools.iter().map(|pool| pool.p99);
        let is_log = slowest.fold(0.0, f64::max) > 10.0 * self.bound && fibers.p99 > 0.0;
        let subjects = vec![
            Subject::ours("fibers"),
            Subject::peer("threads", None, None),
        ];
        let study = Study {
            facts: facts.clone(),
            plots: vec![
                plot("p99 of successes", "seconds", is_log, p99),
                plot("memory", "MiB", false, memory),
            ],
            ..Study::new(
                [command, title, "How many threads does the bound take?"],
                vec![self.verdict()],
                subjects,
                Vec::new(),
            )
        };
        let page = Page {
            title: "uthread model plan",
            lead: LEAD,
            command: "uthread model",
            sections: Vec::new(),
        };
        let results = Results {
            studies: vec![study],
        };
        draw(&page, &results)
    }
}

struct Search {
    scenario: Scenario,
    /// Seconds.
    bound: f64,
    pools: BTreeMap<u64, Pool>,
}

impl Search {
    fn fibers(&mut self) -> anyhow::Result<Pool> {
        self.scenario.fibers = Some(Fibers::default());
        let outcome = simulate(&self.scenario, Mode::Async)?;
        Ok(Pool::of(outcome.in_progress.max, &outcome))
    }

    /// Simulates a pool of this size, once.
    fn at(&mut self, threads: u64) -> anyhow::Result<Pool> {
        if let Some(pool) = self.pools.get(&threads) {
            return Ok(*pool);
        }
        let pool = self.scenario.sync.unwrap_or_else(|| Threads::new(threads));
        self.scenario.sync = Some(Threads { threads, ..pool });
        let pool = Pool::of(threads, &simulate(&self.scenario, Mode::Sync)?);
        self.pools.insert(threads, pool);
        Ok(pool)
    }

    /// Doubles the number of threads until the bound is kept, and halves the interval then.
    fn fewest(&mut self) -> anyhow::Result<Option<u64>> {
        let (mut too_few, mut enough) = (0, 1);
        while !self.at(enough)?.keeps(self.bound) {
            if enough == CONCURRENCY_MAX {
                return Ok(None);
            }
            (too_few, enough) = (enough, (2 * enough).min(CONCURRENCY_MAX));
        }
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            if self.at(middle)?.keeps(self.bound) {
                enough = middle;
            } else {
                too_few = middle;
            }
        }
        Ok(Some(enough))
    }
}

impl Pool {
    fn of(threads: u64, outcome: &Outcome) -> Pool {
        let at = |percent| {
            let found = outcome.percentile(percent);
            found.map_or(f64::INFINITY, |found| found.latency)
        };
        Pool {
            threads,
            rate: outcome.rate_steady.unwrap_or(outcome.rate),
            success: outcome.success(),
            p50: at(50.0),
            p99: at(PERCENT),
            bytes: outcome.bytes,
        }
    }

    fn keeps(&self, bound: f64) -> bool {
        self.p99 <= bound
    }

    fn cells(&self, name: &str, mark: &str) -> Vec<String> {
        vec![
            name.to_owned(),
            rate(self.rate),
            format!("{:.1} %", 100.0 * self.success),
            time(self.p50),
            time(self.p99),
            size(self.bytes as f64),
            mark.to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(latency: &str, bound: u64) -> Plan {
        let text = format!(
            "requests = 10000
            arrivals = {{ kind = \"leaky-bucket\", rate = 1000 }}
            dependencies = [{{ latency = \"{latency}\" }}]
            sync = {{ threads = 1 }}"
        );
        let scenario = Scenario::parse(&text).unwrap();
        Plan::new(&scenario, Duration::from_millis(bound)).unwrap()
    }

    #[test]
    fn the_fewest_threads_are_those_of_littles_law_where_nothing_is_random() {
        let plan = plan("60ms", 61);
        assert_eq!(plan.fewest, Some(60));
        let verdict = plan.verdict();
        assert!(
            verdict.starts_with("60 threads keep p99 within 61.0 ms"),
            "{verdict}"
        );
        assert!(verdict.contains(" With 59 threads it is "), "{verdict}");
        let text = plan.text();
        let marked = text
            .lines()
            .find(|line| line.ends_with("the fewest within the bound"));
        assert!(marked.is_some_and(|line| line.starts_with("60 ")), "{text}");
        assert!(
            plan.page("a", "b", &Facts::new())
                .contains("60 threads keep p99")
        );
    }

    /// Pools of other sizes are otherwise as in the scenario.
    #[test]
    fn a_pool_keeps_its_memory_and_the_cost_of_its_queue() {
        let text = "requests = 1000
            arrivals = { kind = \"leaky-bucket\", rate = 100 }
            dependencies = [{ latency = \"10ms\" }]
            sync = { threads = 9, bytes_each = 1000, queue_cost = \"5ms\" }";
        let scenario = Scenario::parse(text).unwrap();
        let plan = Plan::new(&scenario, Duration::from_millis(20)).unwrap();
        let pool = plan.pools.iter().find(|pool| pool.threads == 1).unwrap();
        assert_eq!((plan.fewest, pool.bytes), (Some(1), 1000));
        assert!((pool.p50 - 0.015).abs() < 1e-5, "{}", pool.p50);
    }

    #[test]
    fn a_bound_below_the_call_is_never_kept() {
        let plan = plan("60ms", 59);
        assert_eq!(plan.fewest, None);
        let verdict = plan.verdict();
        assert!(
            verdict.contains("even without any wait for a thread it is 60.0 ms"),
            "{verdict}"
        );
    }
}
