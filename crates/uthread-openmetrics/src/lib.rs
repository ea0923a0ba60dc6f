//! Metrics of uthread's runtime in the format of [OpenMetrics](https://openmetrics.io), which
//! Prometheus reads.
//!
//! The [`Collector`] adds the [metrics](uthread::runtime::Metrics) of the runtime to a registry of
//! [`prometheus_client`], beside those of the program:
//!
//! ```
//! use uthread_openmetrics::prometheus_client::encoding::text::encode;
//! use uthread_openmetrics::prometheus_client::registry::Registry;
//!
//! let mut registry = Registry::default();
//! registry.register_collector(Box::new(uthread_openmetrics::Collector));
//!
//! // In the fiber that answers a request for the metrics:
//! let text = uthread::spawn(move || {
//!     let mut text = String::new();
//!     encode(&mut text, &registry).map(|()| text)
//! });
//! let text = text.join().unwrap()?;
//! assert!(text.contains("\nuthread_fibers_started_total{worker=\"0\"} "));
//! # Ok::<(), std::fmt::Error>(())
//! ```
//!
//! The registry has to be of version 0.26 of `prometheus-client`. This crate re-exports it, so that a
//! program needs no dependency of its own. One that derives `EncodeLabelSet` does, on `"0.26"`: the code
//! of the macro names the crate.
//!
//! | metric | labels | meaning |
//! | --- | --- | --- |
//! | `uthread_fibers_started`, `uthread_fibers_ended` | `worker` | fibers |
//! | `uthread_switches` | `worker` | switches to a fiber |
//! | `uthread_steals` | `worker` | times that it stole fibers from another worker |
//! | `uthread_system_calls` | `worker` | system calls of the driver |
//! | `uthread_operations_submitted`, `uthread_operations_completed` | `worker` | operations of the kernel |
//! | `uthread_stalls` | `worker` | times that a fiber kept the worker for too long |
//! | `uthread_idle_seconds` | `worker` | time without work |
//! | `uthread_fibers_ready`, `uthread_fibers_new` | `worker` | fibers that wait for the worker now |
//! | `uthread_fibers_injected` | | fibers that wait for any worker now |
//! | `uthread_scheduling_delay_seconds` | `worker` | how long a fiber that becomes ready waits until it runs |
//! | `uthread_pool_threads`, `uthread_pool_idle_threads`, `uthread_pool_queued_calls` | `pool` | threads for blocking calls, and calls that wait for one |
//! | `uthread_pool_calls`, `uthread_pool_wait_seconds` | `pool` | calls that a thread has begun, and how long they were queued |
//!
//! The numbers of fibers that wait, of threads and of queued calls are gauges. The scheduling delay
//! is a histogram, which is empty unless
//! [`Builder::sample_delays`](uthread::runtime::Builder::sample_delays) asks for it. The others are
//! counters, to which the format adds `_total`. The fields of [`WorkerMetrics`] and [`PoolMetrics`]
//! say more.

use std::fmt::Error;
use std::time::Duration;

pub use prometheus_client;
use prometheus_client::collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use uthread::runtime::{Delays, Metrics, PoolMetrics, WorkerMetrics};

/// Adds the metrics of the runtime whose fiber encodes a registry. Adds nothing outside of
/// runtimes. See the example of the [crate](self).
#[derive(Debug, Clone, Copy, Default)]
pub struct Collector;

/// A counter of a worker.
type OfWorker = (&'static str, &'static str, fn(&WorkerMetrics) -> u64);

const OF_WORKERS: [OfWorker; 8] = [
    ("fibers_started", "Fibers started", |worker| worker.fibers),
    ("fibers_ended", "Fibers ended", |worker| worker.ended),
    ("switches", "Switches to a fiber", |worker| worker.switches),
    (
        "steals",
        "Times that fibers were stolen from another worker",
        |worker| worker.steals,
    ),
    ("system_calls", "System calls of the driver", |worker| {
        worker.enters
    }),
    (
        "operations_submitted",
        "Operations submitted to the kernel",
        |worker| worker.submissions,
    ),
    (
        "operations_completed",
        "Operations whose results were collected",
        |worker| worker.completions,
    ),
    (
        "stalls",
        "Times that a fiber kept the worker for too long",
        |worker| worker.stalls,
    ),
];

/// A number of fibers that wait for a worker.
type QueueOfWorker = (&'static str, &'static str, fn(&WorkerMetrics) -> usize);

const QUEUES: [QueueOfWorker; 2] = [
    (
        "fibers_ready",
        "Fibers that are ready to run on the worker",
        |worker| worker.ready,
    ),
    (
        "fibers_new",
        "New fibers that are queued at the worker",
        |worker| worker.new,
    ),
];

/// A number of a pool of threads.
type OfPool = (&'static str, &'static str, fn(&PoolMetrics) -> usize);

const OF_POOLS: [OfPool; 3] = [
    ("pool_threads", "Threads for blocking calls", |pool| {
        pool.threads
    }),
    (
        "pool_idle_threads",
        "Threads that wait for a call",
        |pool| pool.idle,
    ),
    (
        "pool_queued_calls",
        "Calls that wait for a thread",
        |pool| pool.queued,
    ),
];

impl collector::Collector for Collector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let Some(metrics) = Metrics::current() else {
            return Ok(());
        };
        for (name, help, read) in OF_WORKERS {
            let values = metrics
                .workers
                .iter()
                .map(|worker| ConstCounter::new(read(worker)));
            encode(&mut encoder, (name, help, None), of_workers(values))?;
        }
        let idle = metrics
            .workers
            .iter()
            .map(|worker| ConstCounter::new(worker.idle.as_secs_f64()));
        encode(
            &mut encoder,
            ("idle", "Time without work", Some(&Unit::Seconds)),
            of_workers(idle),
        )?;

        encode_queues(&mut encoder, &metrics)?;

        let pools = [
            ("blocking", metrics.blocking),
            ("files", metrics.files),
            ("waits", metrics.waits),
        ];
        for (name, help, read) in OF_POOLS {
            let values = pools.map(|(label, pool)| (label, ConstGauge::new(read(&pool) as i64)));
            encode(&mut encoder, (name, help, None), of_pools(values))?;
        }
        let calls = pools.map(|(label, pool)| (label, ConstCounter::new(pool.calls)));
        encode(
            &mut encoder,
            ("pool_calls", "Calls that a thread has begun", None),
            of_pools(calls),
        )?;
        let waits =
            pools.map(|(label, pool)| (label, ConstCounter::new(pool.waited.as_secs_f64())));
        let name = (
            "pool_wait",
            "Time for which these calls were queued",
            Some(&Unit::Seconds),
        );
        encode(&mut encoder, name, of_pools(waits))
    }
}

/// Encodes the lengths of queues, and how long fibers wait in them.
fn encode_queues(encoder: &mut DescriptorEncoder<'_>, metrics: &Metrics) -> Result<(), Error> {
    let gauge = |length: usize| ConstGauge::new(length as i64);
    for (name, help, read) in QUEUES {
        let values = metrics.workers.iter().map(|worker| gauge(read(worker)));
        encode(encoder, (name, help, None), of_workers(values))?;
    }
    let injected = encoder.encode_descriptor(
        "uthread_fibers_injected",
        "Fibers that wait for any worker",
        None,
        MetricType::Gauge,
    )?;
    gauge(metrics.injector).encode(injected)?;
    let delays = metrics
        .workers
        .iter()
        .map(|worker| Histogram(worker.delays));
    let description = (
        "scheduling_delay",
        "Time from becoming ready until running",
        Some(&Unit::Seconds),
    );
    encode(encoder, description, of_workers(delays))
}

/// The scheduling delays of a worker.
#[derive(Debug)]
struct Histogram(Delays);

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), Error> {
        let Histogram(delays) = self;
        let in_seconds = |(bound, count)| match bound {
            Duration::MAX => (f64::INFINITY, count),
            bound => (bound.as_secs_f64(), count),
        };
        let buckets: Vec<_> = delays.buckets().map(in_seconds).collect();
        encoder.encode_histogram::<NoLabelSet>(
            delays.total.as_secs_f64(),
            delays.count,
            &buckets,
            None,
        )
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// Name, description and unit of a metric.
type Description<'a> = (&'a str, &'a str, Option<&'a Unit>);

/// A label and its value.
type Label = (&'static str, String);

fn of_workers<M>(values: impl Iterator<Item = M>) -> impl Iterator<Item = (Label, M)> {
    values
        .enumerate()
        .map(|(index, value)| (("worker", index.to_string()), value))
}

fn of_pools<M, const COUNT: usize>(
    values: [(&'static str, M); COUNT],
) -> impl Iterator<Item = (Label, M)> {
    values
        .into_iter()
        .map(|(name, value)| (("pool", name.to_owned()), value))
}

/// Encodes a metric with a value for each label.
fn encode<M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit): Description<'_>,
    values: impl Iterator<Item = (Label, M)>,
) -> Result<(), Error> {
    let mut values = values.peekable();
    let Some((_, first)) = values.peek() else {
        return Ok(());
    };
    let name = format!("uthread_{name}");
    let mut family = encoder.encode_descriptor(&name, help, unit, first.metric_type())?;
    for (label, value) in values {
        value.encode(family.encode_family(&[label])?)?;
    }
    Ok(())
}
