//! The figures that were published for the stories, and properties of all simulations.
//!
//! The published percentiles are those of the time beyond the call itself: the wait for a thread.
//! The published rates leave out the first two and the last two seconds.

use uthread_model::{Mode, Outcome, Percentile, Scenario, simulate, stories};

fn outcome(story: &str, mode: Mode) -> Outcome {
    simulate(&stories::find(story).unwrap(), mode).unwrap()
}

/// Returns the outcomes of all stories with both services.
fn outcomes() -> impl Iterator<Item = (&'static str, Outcome)> {
    let both = |story| [Mode::Sync, Mode::Async].map(|mode| (story, outcome(story, mode)));
    stories::names().flat_map(both)
}

#[track_caller]
fn assert_near(what: &str, simulated: f64, expected: f64, tolerance: f64) {
    let ratio = simulated / expected;
    assert!(
        (ratio - 1.0).abs() <= tolerance,
        "{what}: {simulated}, expected {expected}"
    );
}

fn steady(outcome: &Outcome) -> f64 {
    outcome.rate_steady.unwrap()
}

fn percentile(outcome: &Outcome, percent: f64) -> Percentile {
    outcome.percentile(percent).unwrap()
}

#[test]
fn fifty_threads_are_enough_for_20_ms() {
    let outcome = outcome("fast", Mode::Sync);
    for rate in [outcome.rate, steady(&outcome)] {
        assert!((987.0..=1000.0).contains(&rate), "{rate}");
    }
    assert_near("p100", percentile(&outcome, 100.0).latency, 0.02, 0.001);
    assert_eq!(outcome.succeeded, 10_000);
}

#[test]
fn fifty_threads_are_not_enough_for_60_ms() {
    let outcome = outcome("slower", Mode::Sync);
    assert_near("rate", steady(&outcome), 833.0, 0.001);
    assert_near("p50", percentile(&outcome, 50.0).wait, 0.99, 0.001);
    assert_near("p99", percentile(&outcome, 99.0).wait, 1.97, 0.001);
    let limit = &outcome.limit;
    assert!(limit.starts_with("The 50 threads limit it"), "{limit}");
}

#[test]
fn one_call_in_ten_that_hangs_takes_all_threads() {
    let sync = outcome("one-in-ten-hangs", Mode::Sync);
    assert_near("rate", steady(&sync), 14.5, 0.001);
    assert_near("p50", percentile(&sync, 50.0).wait, 208.8, 0.002);
    assert_near("p99", percentile(&sync, 99.0).wait, 445.8, 0.002);
    assert_near("demand", sync.demand, 3018.0, 1e-6);
    let fibers = outcome("one-in-ten-hangs", Mode::Async);
    assert_near("rate", steady(&fibers), 900.0, 0.001);
    assert_near("p100", percentile(&fibers, 100.0).latency, 0.02, 0.001);
    assert_eq!((fibers.succeeded, fibers.failed[0].requests), (7200, 800));
}

#[test]
fn as_many_threads_as_littles_law_demands_are_enough() {
    let outcome = outcome("one-in-ten-hangs-3100-threads", Mode::Sync);
    assert_near("p100", percentile(&outcome, 100.0).latency, 0.02, 0.001);
    assert_near("in progress", outcome.in_progress.max as f64, 3018.0, 0.005);
}

/// Checks what holds for each simulation: every request ends once, and Little's law.
#[test]
fn no_request_is_lost() {
    for (story, outcome) in outcomes() {
        let failed: u64 = outcome.failed.iter().map(|failed| failed.requests).sum();
        assert_eq!(outcome.succeeded + failed, outcome.requests, "{story}");
        let (mut arrived, mut succeeded, mut lost) = (0, 0, 0);
        for interval in &outcome.series.intervals {
            arrived += interval.arrived;
            succeeded += interval.succeeded;
            lost += interval.failed;
        }
        let expected = (outcome.requests, outcome.succeeded, failed);
        assert_eq!((arrived, succeeded, lost), expected, "{story}");
        // The mean number in progress is the rate times the time in progress.
        let rate = outcome.accepted as f64 / outcome.seconds;
        let law = rate * outcome.seconds_in_progress;
        assert_near(story, law, outcome.in_progress.mean, 1e-6);
    }
}

#[test]
fn a_simulation_repeats_with_its_seed() {
    let [first, second] = [0, 1].map(|_| outcome("retry-storm", Mode::Sync));
    assert_eq!(first.attempts, second.attempts);
    assert_eq!(first.percentiles, second.percentiles);
}

#[test]
fn protection_helps() {
    let success = |story| outcome(story, Mode::Sync).success();
    assert!(success("outage-breaker") > success("outage") + 0.05);
    assert!(success("retry-budget") > success("retry-storm") + 0.2);
    let retries = outcome("retry-budget", Mode::Sync);
    assert!(retries.attempts as f64 <= 1.1 * retries.requests as f64);
}

#[test]
fn a_full_queue_refuses() {
    let sync = outcome("bursts", Mode::Sync);
    assert_eq!(sync.waiting.max, 1000);
    let mut causes = sync.failed.iter().map(|failed| failed.cause);
    assert!(causes.any(|cause| cause == "the queue was full"));
    assert_eq!(outcome("bursts", Mode::Async).succeeded, 30_000);
}

#[test]
fn an_endless_simulation_is_refused() {
    let text = "requests = 1000
        arrivals = { kind = \"leaky-bucket\", rate = 1000 }
        dependencies = [{ latency = \"100days\", timeout = \"365days\" }]
        sync = { threads = 1 }";
    let error = simulate(&Scenario::parse(text).unwrap(), Mode::Sync).unwrap_err();
    assert!(error.to_string().contains("a hundred years"), "{error}");
}

#[test]
fn hedging_makes_the_slowest_calls_faster() {
    let [slow, hedged] =
        ["slow-server", "slow-server-hedge"].map(|story| outcome(story, Mode::Async));
    let p99 = |outcome| percentile(outcome, 99.0).latency;
    assert!(
        p99(&slow) > 0.2 && p99(&hedged) < 0.1,
        "{} {}",
        p99(&slow),
        p99(&hedged)
    );
    assert_eq!(slow.hedged, 0);
    let share = hedged.hedged as f64 / hedged.requests as f64;
    assert!((0.01..=0.2).contains(&share), "{share}");
}

#[test]
fn an_unhealthy_server_concerns_few_clients_or_few_calls() {
    let stories = [
        "unhealthy-server",
        "unhealthy-server-shards",
        "unhealthy-server-breaker",
    ];
    let [all, shards, breaker] = stories.map(|story| outcome(story, Mode::Async));
    assert_eq!((all.clients, all.clients_failed), (100, 100));
    assert!(
        (15..50).contains(&shards.clients_failed),
        "{}",
        shards.clients_failed
    );
    assert!(all.success() < 0.9, "{}", all.success());
    assert!(breaker.success() > 0.995, "{}", breaker.success());
}

/// A second call that waits for its turn, or is cancelled, leaves no trace.
#[test]
fn hedged_calls_keep_the_limit_of_calls() {
    let text = "requests = 2000
        arrivals = { kind = \"poisson\", rate = 100 }
        dependencies = [{
            latency = \"10ms*9,1s\", concurrent = 30, hedge = { after = \"30ms\" },
            endpoints = [{ count = 3 }], breaker = { failures = 1, open = \"1h\" },
        }]
        async = {}";
    let outcome = simulate(&Scenario::parse(text).unwrap(), Mode::Async).unwrap();
    assert_eq!(outcome.succeeded, 2000);
    assert!(outcome.hedged >= 150, "{}", outcome.hedged);
    let p99 = percentile(&outcome, 99.0).latency;
    assert!(p99 < 0.5, "{p99}");
}

#[test]
fn a_breaker_ends_a_cascade() {
    for mode in [Mode::Sync, Mode::Async] {
        let [cascade, breaker] = ["cascade", "cascade-breaker"].map(|story| outcome(story, mode));
        let (without, with) = (cascade.success(), breaker.success());
        assert!(with > without + 0.15, "{mode:?}: {without}, {with}");
        let [orders, stock] = [0, 1].map(|tier| &cascade.tiers[tier]);
        assert_eq!([&*orders.name, &*stock.name], ["orders", "orders/stock"]);
        assert!(stock.wasted > 1000, "{}", stock.wasted);
    }
    let [cascade, breaker] = ["cascade", "cascade-breaker"].map(|story| outcome(story, Mode::Sync));
    // The threads of all services, and the queue of the first.
    let levels = cascade.tiers.iter().map(|tier| tier.in_progress.max);
    assert_eq!(Vec::from_iter(levels), [100, 20]);
    assert_eq!(cascade.in_progress.max, 200);
    assert!(cascade.waiting.max > 5000 && breaker.waiting.max < 1000);
}

#[test]
fn callers_wait_for_the_threads_of_a_tier() {
    let simulated = |keys: &str| {
        let text = format!(
            "requests = 10
            arrivals = {{ kind = \"bursts\", size = 10, every = \"1h\" }}
            sync = {{ threads = 100 }}
            [[dependencies]]
            name = \"orders\"
            {keys}
            [dependencies.tier]
            sync = {{ threads = 1 }}
            service = {{ work = \"40ms\", queue = 8 }}
            dependencies = [{{ latency = \"60ms\" }}]"
        );
        simulate(&Scenario::parse(&text).unwrap(), Mode::Sync).unwrap()
    };
    let one = simulated("");
    // One of ten finds the queue full.
    assert_eq!((one.succeeded, one.tiers[0].waiting.max), (9, 8));
    assert_near("p100", percentile(&one, 100.0).latency, 0.9, 0.001);
    assert_near("by itself", one.service_seconds, 0.1, 1e-9);
    let limit = &one.limit;
    assert!(limit.starts_with("Nothing limits it"), "{limit}");
    let two = simulated("endpoints = [{ count = 2 }]");
    assert_near("p100", percentile(&two, 100.0).latency, 0.5, 0.001);
    assert_eq!((two.succeeded, two.tiers[0].in_progress.max), (10, 2));
    let impatient = simulated("timeout = \"250ms\"");
    assert_eq!((impatient.succeeded, impatient.tiers[0].wasted), (2, 7));
    let mixed = simulated("endpoints = [{}, { latency = \"10ms\" }]");
    assert!(mixed.succeeded == 10 && mixed.tiers[0].in_progress.max == 1);
}

#[test]
fn a_tier_may_limit_the_service() {
    let text = "requests = 2000
        arrivals = { kind = \"leaky-bucket\", rate = 200 }
        async = {}
        [[dependencies]]
        name = \"orders\"
        endpoints = [{ count = 2 }]
        tier = { service = { work = \"20ms\" }, async = {} }";
    let limit = simulate(&Scenario::parse(text).unwrap(), Mode::Async)
        .unwrap()
        .limit;
    let expected = "The CPUs of orders limit it: 20.0 ms of work for each request allow 50.0/s";
    assert!(limit.starts_with(expected), "{limit}");
}

#[test]
fn a_contended_task_queue_lowers_the_rate() {
    let simulated = |pool: &str| {
        let text = format!(
            "requests = 40_000
            arrivals = {{ kind = \"leaky-bucket\", rate = 2000 }}
            dependencies = [{{ latency = \"20ms*10\" }}]
            sync = {{ threads = 50{pool} }}"
        );
        simulate(&Scenario::parse(&text).unwrap(), Mode::Sync).unwrap()
    };
    assert_near("free", steady(&simulated("")), 2000.0, 1e-9);
    let contended = simulated(", queue_cost = \"501030ns\"");
    assert_near("contended", steady(&contended), 1995.9, 1e-4);
    let limit = &contended.limit;
    assert!(limit.starts_with("The task queue limits it"), "{limit}");
}
