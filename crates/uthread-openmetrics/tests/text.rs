//! The text that Prometheus reads.

use std::time::Duration;

use uthread::{Driver, Runtime, blocking};
use uthread_openmetrics::prometheus_client::encoding::text::encode;
use uthread_openmetrics::prometheus_client::registry::Registry;

fn text() -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(uthread_openmetrics::Collector));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}

/// Returns the value in the line that begins so.
fn value(text: &str, begin: &str) -> f64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(begin));
    let value = lines
        .next()
        .unwrap_or_else(|| panic!("no {begin} in {text}"));
    value.trim().parse().unwrap()
}

#[test]
fn metrics_of_workers_and_pools_have_labels() {
    for driver in [None, Some(Driver::Epoll)] {
        let mut builder = Runtime::builder().workers(2).lean();
        if let Some(driver) = driver {
            builder = builder.driver(driver);
        }
        let runtime = builder.build().unwrap();
        let text = runtime.run(|| {
            blocking(|| ());
            uthread::sleep(Duration::from_millis(5));
            uthread::spawn(text).join().unwrap()
        });
        let of_workers = |name: &str| -> f64 {
            [0, 1]
                .map(|worker| value(&text, &format!("{name}{{worker=\"{worker}\"}}")))
                .iter()
                .sum()
        };
        assert_eq!(of_workers("uthread_fibers_started_total"), 2.0);
        assert!(of_workers("uthread_switches_total") >= 3.0);
        assert!(of_workers("uthread_idle_seconds_total") > 0.0, "{text}");
        assert_eq!(
            value(&text, "uthread_pool_calls_total{pool=\"blocking\"}"),
            1.0
        );
        assert_eq!(value(&text, "uthread_pool_threads{pool=\"blocking\"}"), 1.0);
        assert!(value(&text, "uthread_pool_wait_seconds_total{pool=\"blocking\"}") > 0.0);
        assert!(
            text.contains("# TYPE uthread_pool_queued_calls gauge\n"),
            "{text}"
        );
        assert!(
            text.contains("# UNIT uthread_idle_seconds seconds\n"),
            "{text}"
        );
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}

#[test]
fn queues_are_gauges_and_delays_a_histogram() {
    for driver in [None, Some(Driver::Epoll)] {
        let mut builder = Runtime::builder().workers(1).lean();
        if let Some(driver) = driver {
            builder = builder.driver(driver);
        }
        let runtime = builder
            .sample_delays(Duration::from_millis(1))
            .on_stall(|_| ())
            .build()
            .unwrap();
        let text = runtime.run(|| {
            let others = [(); 3].map(|()| uthread::spawn(|| ()));
            while uthread::runtime::Metrics::current()
                .unwrap()
                .total()
                .delays
                .count
                == 0
            {
                std::thread::sleep(Duration::from_millis(20));
                uthread::yield_now();
            }
            others.into_iter().for_each(|other| other.join().unwrap());
            let _new = [(); 2].map(|()| uthread::spawn(|| ()));
            text()
        });
        assert_eq!(value(&text, "uthread_fibers_ready{worker=\"0\"}"), 0.0);
        assert_eq!(value(&text, "uthread_fibers_new{worker=\"0\"}"), 2.0);
        assert_eq!(value(&text, "uthread_fibers_injected "), 0.0);
        let of_delay = |suffix: &str| {
            let name = format!("uthread_scheduling_delay_seconds_{suffix}");
            value(&text, &name)
        };
        let count = of_delay("count{worker=\"0\"}");
        assert!(
            count >= 1.0 && of_delay("sum{worker=\"0\"}") > 0.0,
            "{text}"
        );
        assert_eq!(of_delay("bucket{le=\"+Inf\",worker=\"0\"}"), count);
        assert!(of_delay("bucket{le=\"0.0025\",worker=\"0\"}") <= count);
        for line in [
            "# TYPE uthread_fibers_ready gauge\n",
            "# TYPE uthread_scheduling_delay_seconds histogram\n",
            "# UNIT uthread_scheduling_delay_seconds seconds\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}

#[test]
fn fibers_that_are_threads_are_counted_too() {
    let runtime = Runtime::builder().driver(Driver::Threads).build().unwrap();
    let text = runtime.run(|| uthread::spawn(text).join().unwrap());
    // The spawning fiber is a thread, too.
    assert_eq!(
        value(&text, "uthread_fibers_started_total{worker=\"0\"}"),
        2.0
    );
}

#[test]
fn outside_of_runtimes_there_are_none() {
    assert_eq!(text(), "# EOF\n");
}
