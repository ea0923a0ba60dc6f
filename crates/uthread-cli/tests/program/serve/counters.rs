//! The counters of a server and of its runtime, for Prometheus.

use crate::harness::{Program, wait_until};
use crate::restrict::has_ring;

#[test]
fn counters_are_served_at_an_address_of_their_own() {
    let mut drivers = vec!["epoll", "threads"];
    if has_ring("the driver uring") {
        drivers.push("uring");
    }
    for driver in drivers {
        let args = ["--counters", "127.0.0.1:0", "--driver", driver];
        let program = Program::serve(&[("a", "hello")], &args);
        assert_eq!(program.get("/a").text(), "hello");
        assert_eq!(
            program.get("/metrics").status,
            404,
            "the counters are public"
        );

        let counted = program.counted();
        assert_eq!(counted.status, 200);
        let content_type = counted.field("content-type").unwrap();
        assert!(content_type.starts_with("application/openmetrics-text;"));
        let text = counted.text();
        assert!(text.ends_with("# EOF\n"), "{text}");
        for line in [
            "# TYPE uthread_serve_connections_open gauge",
            "# TYPE uthread_serve_requests counter",
            "# TYPE uthread_fibers_started counter",
            "# TYPE uthread_fibers_ready gauge",
            "# TYPE uthread_scheduling_delay_seconds histogram",
            "uthread_fibers_injected 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        // The requests of a connection are counted at its end.
        let ended = |text: &str| {
            text.contains("\nuthread_serve_requests_total 2\n")
                && text.contains("\nuthread_serve_connections_open 0\n")
        };
        wait_until(|| ended(program.counted().text()));
    }
}

#[test]
fn delays_of_a_busy_worker_are_counted() {
    let args = [
        "--counters",
        "127.0.0.1:0",
        "--workers",
        "1",
        "--driver",
        "epoll",
    ];
    let program = Program::serve(&[("a", "hello")], &args);
    let is_sampled = |line: &str| {
        line.strip_prefix("uthread_scheduling_delay_seconds_count{worker=\"0\"} ")
            .is_some_and(|count| count != "0")
    };
    wait_until(|| {
        (0..50).for_each(|_| assert_eq!(program.get("/a").status, 200));
        program.counted().text().lines().any(is_sampled)
    });
}
