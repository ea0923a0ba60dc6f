//! The columns of the two tables, as text. What a screen of 80 columns shows has the same width on
//! any other: only the places at the end of a line get the rest.

use std::cmp::Ordering;
use std::time::Duration;

use uthread_dump::{Activity, Sample, Site, Worker};

/// The width of a table without the places.
pub(super) const WORKERS_WIDTH: usize = 76;
pub(super) const SITES_WIDTH: usize = 50;

/// The least width of a place that is worth it.
const PLACE_WIDTH_MIN: usize = 20;

/// The columns by which places are sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Fibers,
    Running,
    Ready,
    Parked,
    Operation,
    Busy,
    Waits,
    Place,
}

impl Order {
    /// In the order of the columns.
    const ALL: [Order; 8] = [
        Order::Fibers,
        Order::Running,
        Order::Ready,
        Order::Parked,
        Order::Operation,
        Order::Busy,
        Order::Waits,
        Order::Place,
    ];

    pub(super) fn next(self) -> Order {
        Order::ALL[(self as usize + 1) % Order::ALL.len()]
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Order::Fibers => "fibers",
            Order::Running => "run",
            Order::Ready => "ready",
            Order::Parked => "parked",
            Order::Operation => "in flight",
            Order::Busy => "busy",
            Order::Waits => "waits",
            Order::Place => "spawned at",
        }
    }

    /// Sorts places: the largest number first, or by their names.
    pub(super) fn sort(self, sites: &mut [Site]) {
        let compare = |one: &Site, other: &Site| match self {
            Order::Fibers => one.fibers.sum().cmp(&other.fibers.sum()),
            Order::Running => one.fibers.running.cmp(&other.fibers.running),
            Order::Ready => one.fibers.ready.cmp(&other.fibers.ready),
            Order::Parked => one.fibers.parked.cmp(&other.fibers.parked),
            Order::Operation => one.fibers.operation.cmp(&other.fibers.operation),
            Order::Busy => one.busy.total_cmp(&other.busy),
            Order::Waits => one.longest_wait.cmp(&other.longest_wait),
            Order::Place => Ordering::Equal,
        };
        sites.sort_by(|one, other| {
            compare(other, one).then_with(|| one.spawned_at.cmp(&other.spawned_at))
        });
    }
}

/// Returns the lines above the tables.
pub(super) fn summary(sample: &Sample) -> [String; 2] {
    let all = sample.fibers;
    let first = format!(
        "process {}: {} on {}, {:.2} CPUs",
        sample.pid,
        count(all.sum(), "fiber"),
        count(sample.workers.len(), "worker"),
        sample.cpus
    );
    let mut second = format!(
        "{} running, {} ready, {} parked, {} in flight, {} new",
        all.running, all.ready, all.parked, all.operation, all.new
    );
    if all.abandoned > 0 {
        second += &format!(", {} abandoned", all.abandoned);
    }
    if sample.dropped > 0 {
        second += &format!("; {} missing", sample.dropped);
    }
    [first, second]
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns the title of the table of workers.
pub(super) fn workers_title(width: usize) -> String {
    let cells = [
        "worker", "state", "busy", "idle", "switch/s", "steals/s", "enters/s",
    ];
    let title = worker_line(&cells.map(str::to_owned), ["in flight", "ready", "fibers"]);
    match width.saturating_sub(WORKERS_WIDTH) {
        rest if rest > PLACE_WIDTH_MIN => title + "  runs a fiber of",
        _ => title,
    }
}

fn worker_line(cells: &[String; 7], numbers: [&str; 3]) -> String {
    let [worker, state, busy, idle, switches, steals, enters] = cells;
    let [operation, ready, fibers] = numbers;
    format!(
        "{worker:>6} {state:<7} {busy:>4} {idle:>4} {switches:>8} {steals:>8} {enters:>8} \
        {operation:>9} {ready:>6} {fibers:>7}"
    )
}

/// Returns the lines of the table of workers; the first one is the sum, if there are several.
pub(super) fn workers(sample: &Sample, width: usize) -> Vec<String> {
    let workers = &sample.workers;
    let has_runtimes = workers.iter().any(|worker| worker.runtime > 0);
    let mut lines = Vec::new();
    if workers.len() > 1 {
        lines.push(all_workers(sample));
    }
    lines.extend(
        workers
            .iter()
            .map(|worker| worker_row(worker, has_runtimes, width)),
    );
    lines
}

fn all_workers(sample: &Sample) -> String {
    let workers = &sample.workers;
    let sum = |value: fn(&Worker) -> f64| workers.iter().map(value).sum::<f64>();
    let share = |value: fn(&Worker) -> f64| percent(sum(value) / workers.len() as f64);
    let cells = [
        "all".to_owned(),
        String::new(),
        share(|worker| worker.busy),
        share(|worker| worker.idle),
        short(sum(|worker| worker.per_second.switches)),
        short(sum(|worker| worker.per_second.steals)),
        short(sum(|worker| worker.per_second.enters)),
    ];
    let numbers = [
        sample.fibers.operation,
        sample.fibers.ready,
        sample.fibers.sum(),
    ];
    with_numbers(&cells, numbers)
}

fn worker_row(worker: &Worker, has_runtimes: bool, width: usize) -> String {
    let rates = worker.per_second;
    let state = match worker.activity {
        Activity::Running => "running",
        Activity::Awake => "awake",
        Activity::Asleep => "asleep",
    };
    let cells = [
        if has_runtimes {
            format!("{}.{}", worker.runtime, worker.index)
        } else {
            worker.index.to_string()
        },
        state.to_owned(),
        percent(worker.busy),
        percent(worker.idle),
        short(rates.switches),
        short(rates.steals),
        short(rates.enters),
    ];
    let numbers = [
        worker.fibers.operation,
        worker.fibers.ready,
        worker.fibers.sum(),
    ];
    let line = with_numbers(&cells, numbers);
    let rest = width.saturating_sub(WORKERS_WIDTH + 2);
    match &worker.spawned_at {
        Some(place) if rest >= PLACE_WIDTH_MIN => format!("{line}  {}", end_of(place, rest)),
        _ => line,
    }
}

fn with_numbers(cells: &[String; 7], numbers: [usize; 3]) -> String {
    let numbers = numbers.map(|number| short(number as f64));
    worker_line(cells, numbers.each_ref().map(String::as_str))
}

/// Returns the title of the table of places. That of the column of the order is in capitals.
pub(super) fn sites_title(order: Order) -> String {
    let cells = Order::ALL.map(|column| {
        if column == order {
            column.title().to_uppercase()
        } else {
            column.title().to_owned()
        }
    });
    site_line(&cells)
}

/// Returns the lines of the table of places.
pub(super) fn sites(sites: &[Site], width: usize) -> Vec<String> {
    sites.iter().map(|site| site_row(site, width)).collect()
}

fn site_row(site: &Site, width: usize) -> String {
    let fibers = site.fibers;
    let number = |number: usize| short(number as f64);
    let rest = width.saturating_sub(SITES_WIDTH + 2).max(PLACE_WIDTH_MIN);
    site_line(&[
        number(fibers.sum()),
        number(fibers.running),
        number(fibers.ready),
        number(fibers.parked),
        number(fibers.operation),
        percent(site.busy),
        site.longest_wait.map_or_else(String::new, duration),
        end_of(&site.spawned_at, rest),
    ])
}

fn site_line(cells: &[String; 8]) -> String {
    let [
        fibers,
        running,
        ready,
        parked,
        operation,
        busy,
        waits,
        place,
    ] = cells;
    format!(
        "{fibers:>7} {running:>5} {ready:>6} {parked:>6} {operation:>9} {busy:>5} {waits:>6}  {place}"
    )
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// Returns a number in at most six characters.
fn short(number: f64) -> String {
    match number {
        _ if number <= 0.0 => "0".to_owned(),
        _ if number < 9.95 && number.fract() != 0.0 => format!("{number:.1}"),
        _ if number < 999_999.5 => format!("{number:.0}"),
        _ if number < 99_999_500.0 => format!("{:.0}k", number / 1e3),
        _ => format!("{:.0}M", number / 1e6),
    }
}

/// Returns a duration in at most six characters.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{}ms", time.as_millis()),
        1..100 => format!("{:.1}s", time.as_secs_f64()),
        100..6_000 => format!("{}m", seconds / 60),
        6_000..360_000 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns the end of a place, in at most this number of characters: it has the line.
fn end_of(place: &str, width: usize) -> String {
    let length = place.chars().count();
    if length <= width {
        return place.to_owned();
    }
    let end = place.chars().skip(length - width.saturating_sub(2));
    "..".chars().take(width).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, expected) in [
            (0.0, "0"),
            (0.26, "0.3"),
            (3.0, "3"),
            (9.96, "10"),
            (999_999.0, "999999"),
            (1_234_567.0, "1235k"),
            (123_456_789.0, "123M"),
        ] {
            assert_eq!(short(number), expected);
        }
    }

    #[test]
    fn durations_are_short() {
        for (ms, expected) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_250, "1.2s"),
            (100_000, "1m"),
            (7_200_000, "2h"),
            (400_000_000, "4d"),
        ] {
            assert_eq!(duration(Duration::from_millis(ms)), expected);
        }
    }

    #[test]
    fn a_place_keeps_its_end() {
        assert_eq!(end_of("src/main.rs:13:1", 16), "src/main.rs:13:1");
        assert_eq!(end_of("src/main.rs:13:1", 10), "...rs:13:1");
    }
}
