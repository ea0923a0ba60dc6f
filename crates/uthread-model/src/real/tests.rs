//! Real runs do what the scenario says, on each driver. Counts are exact; times have lower bounds
//! only, as the machine may be busy.

use uthread::Driver;

use super::{default_scale, drivers, measure};
use crate::mode::Mode;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::simulation::simulate;

/// Runs a scenario on each driver, and passes the simulated and the real result to `check`.
fn on_each_driver(text: &str, check: impl Fn(&Outcome, &Outcome)) {
    let services = "sync = { threads = 20 }\nasync = { connections = 20 }\n";
    let scenario = Scenario::parse(&format!("{services}{text}")).unwrap();
    for mode in [Mode::Sync, Mode::Async] {
        let model = simulate(&scenario, mode).unwrap();
        for driver in drivers(mode) {
            match measure(&scenario, &model, driver, 1.0) {
                Ok(real) => check(&model, &real),
                // Containers may forbid it.
                Err(error) if driver == Driver::Uring => eprintln!("no io_uring: {error:#}"),
                Err(error) => panic!("{driver}: {error:#}"),
            }
        }
    }
}

/// Returns the numbers that do not depend on time.
fn counts(outcome: &Outcome) -> (u64, u64, u64, &[crate::Failed]) {
    let Outcome {
        requests,
        attempts,
        succeeded,
        failed,
        ..
    } = outcome;
    (*requests, *attempts, *succeeded, failed)
}

fn latency(outcome: &Outcome, percent: f64) -> f64 {
    outcome.percentile(percent).unwrap().latency
}

#[test]
fn calls_take_their_time_and_time_out() {
    let scenario = "requests = 100
        arrivals = { kind = \"leaky-bucket\", rate = 50 }
        dependencies = [{ latency = \"20ms*4,30s\", timeout = \"1s\" }, { latency = \"5ms\" }]";
    on_each_driver(scenario, |model, real| {
        assert_eq!(counts(real), counts(model));
        assert_eq!(real.accepted, 100);
        assert!(latency(real, 0.0) >= 0.025 && real.seconds >= 2.0);
        let arrived = real.series.intervals.iter();
        let arrived = arrived.map(|interval| interval.arrived);
        assert_eq!(arrived.sum::<u64>(), 100);
        assert_eq!((real.in_progress.max > 0, real.bytes), (true, 0));
    });
}

#[test]
fn a_breaker_opens_after_failures_and_retries_fail() {
    let scenario = "requests = 50
        client = { retries = 2, backoff = \"1ms\" }
        arrivals = { kind = \"poisson\", rate = 1000 }
        [[dependencies]]
        latency = \"1ms\"
        spikes = [{}]
        breaker = { failures = 5, open = \"1h\" }";
    on_each_driver(scenario, |model, real| {
        assert_eq!((real.attempts, real.succeeded), (150, 0));
        assert_eq!(counts(model).2, 0);
        let failed = real.failed.iter().map(|failed| failed.requests);
        assert_eq!(failed.sum::<u64>(), 50);
        // Five attempts have failed by calls, of which at most some were the last one of their
        // request.
        let causes = real.failed.iter();
        let mut causes = causes.filter(|failed| failed.cause.contains("breaker"));
        assert!(causes.any(|failed| failed.requests >= 45));
    });
}

#[test]
fn clients_give_up_and_the_service_works_on() {
    let scenario = "requests = 20
        client = { timeout = \"50ms\" }
        arrivals = { kind = \"bursts\", size = 20, every = \"1h\" }
        dependencies = [{ latency = \"1s\" }]";
    on_each_driver(scenario, |model, real| {
        assert_eq!(counts(real), counts(model));
        assert_eq!((real.wasted, model.wasted), (20, 20));
        assert!(real.seconds >= 1.0, "{}", real.seconds);
    });
}

#[test]
fn requests_beyond_threads_and_queue_are_refused() {
    let scenario = "requests = 50
        arrivals = { kind = \"bursts\", size = 50, every = \"1h\" }
        service = { queue = 20, shed_after = \"0s\" }
        dependencies = [{ latency = \"1s\" }]";
    on_each_driver(scenario, |model, real| {
        // 20 in progress, 20 that wait too long, 10 without a place.
        assert_eq!(counts(real), counts(model));
        let failed = real.failed.iter().map(|failed| failed.requests);
        assert_eq!(Vec::from_iter(failed), [10, 20]);
        assert_eq!((real.in_progress.max, real.waiting.max), (20, 20));
    });
}

#[test]
fn calls_and_work_wait_for_their_turn() {
    let scenario = "requests = 15
        arrivals = { kind = \"bursts\", size = 15, every = \"1h\" }
        service = { work = \"4ms\", cpus = 1 }
        dependencies = [{ latency = \"10ms\", concurrent = 1 }]";
    on_each_driver(scenario, |model, real| {
        assert_eq!(counts(real), counts(model));
        // The work of the first, and the calls of all.
        assert!(latency(real, 100.0) >= 0.154, "{}", latency(real, 100.0));
    });
    let scenario = scenario.replace(", concurrent = 1", "");
    on_each_driver(&scenario, |_, real| {
        // The work of all, and the call of the last.
        assert!(latency(real, 100.0) >= 0.07, "{}", latency(real, 100.0));
    });
}

#[test]
fn more_than_the_pool_waits() {
    let scenario = "requests = 60
        arrivals = { kind = \"bursts\", size = 60, every = \"1h\" }
        dependencies = [{ latency = \"30ms\" }]";
    on_each_driver(scenario, |model, real| {
        assert_eq!(counts(real), counts(model));
        assert!(latency(real, 100.0) >= 0.09, "{}", latency(real, 100.0));
        // Less than two calls, by as much as it arrived after the first requests.
        let waited = real.percentile(100.0).unwrap().wait;
        assert!(waited >= 0.03 && real.in_progress.max == 20, "{waited}");
    });
}

#[test]
fn a_chain_has_no_real_runs() {
    let scenario = crate::stories::find("cascade").unwrap();
    let model = simulate(&scenario, Mode::Async).unwrap();
    let error = measure(&scenario, &model, Driver::Epoll, 1.0).unwrap_err();
    assert!(error.to_string().contains("with tiers"), "{error}");
}

#[test]
fn the_default_scale_makes_long_runs_short() {
    assert_eq!(
        [1.0, 18.0, 18.5, 480.0].map(default_scale),
        [1.0, 1.0, 2.0, 27.0]
    );
}

/// Asserts that two numbers of requests differ by at most so many.
#[track_caller]
fn near(real: u64, model: u64, tolerance: u64) {
    let is_near = real.abs_diff(model) <= tolerance;
    assert!(is_near, "{real} is not within {tolerance} of {model}");
}

/// One call in ten hangs, and so does its hedge in one of ten cases. Successes agree within a
/// twenty-fifth of the requests, where a tenth would fail without hedging; hedged calls within a tenth,
/// as a busy machine hedges more.
#[test]
fn hedging_agrees_with_the_simulation() {
    let scenario = "requests = 200
        arrivals = { kind = \"leaky-bucket\", rate = 200 }
        dependencies = [{ latency = \"5ms*9,30s\", timeout = \"2s\", hedge = { after = \"200ms\" } }]";
    on_each_driver(scenario, |model, real| {
        assert!(model.succeeded >= 195 && real.hedged > 0);
        near(real.succeeded, model.succeeded, 8);
        near(real.hedged, model.hedged, 20);
        assert!(latency(real, 100.0) >= 0.205);
    });
}

/// A server of five is down. Which clients see that with shuffle sharding is the same; how many
/// requests fail agrees within a tenth, and with breakers within a fiftieth.
#[test]
fn the_choice_of_servers_agrees_with_the_simulation() {
    let scenario = "requests = 200
        client = { count = 10 }
        arrivals = { kind = \"leaky-bucket\", rate = 400 }
        [[dependencies]]
        latency = \"5ms\"
        endpoints = [{ count = 4 }, { spikes = [{}] }]\n";
    on_each_driver(&format!("{scenario}shard = 1"), |model, real| {
        assert!((1..10).contains(&model.clients_failed));
        assert_eq!(real.clients_failed, model.clients_failed);
        near(real.succeeded, model.succeeded, 20);
    });
    let breaker = "breaker = { failures = 3, open = \"1h\" }";
    on_each_driver(&format!("{scenario}{breaker}"), |model, real| {
        assert_eq!(model.succeeded, 197);
        near(real.succeeded, model.succeeded, 4);
    });
}
