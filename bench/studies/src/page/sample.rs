//! Results as a whole run would give them, made up from a seed: to look at the page, and to test it.

use crate::measure::quiet::Usage;
use crate::results::{Better, Facts, Limit, Metric, Panel, Point, Results, Round, Study, Subject};
use uthread_load::SplitMix;

/// How large the sample is.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) points: usize,
    pub(super) rounds: usize,
}

/// As much as a whole run.
pub(super) const WHOLE: Size = Size {
    points: 7,
    rounds: 7,
};
/// What a test draws at once.
pub(super) const SMALL: Size = Size {
    points: 3,
    rounds: 2,
};

const CONNECTIONS: [f64; 7] = [1.0, 10.0, 100.0, 1_000.0, 5_000.0, 10_000.0, 15_000.0];

const SUBJECTS: [(&str, f64); 13] = [
    ("uthread", 8.4),
    ("uthread migrating", 9.2),
    ("uthread polling", 8.9),
    ("uthread epoll", 8.8),
    ("uthread threads", 12.9),
    ("tokio", 9.3),
    ("go", 11.8),
    ("monoio", 8.9),
    ("compio", 10.4),
    ("may", 10.1),
    ("threads", 12.5),
    ("floor", 8.1),
    ("rust-absent", 0.0),
];

pub(super) fn results(size: Size) -> Results {
    let mut random = SplitMix::new(42);
    Results {
        summary: Vec::new(),
        studies: vec![
            echo(size, &mut random),
            http(size, &mut random),
            disk(size, &mut random),
        ],
    }
}

/// The same for all.
fn facts() -> Facts {
    [
        ("date", "2026-11-22"),
        ("CPU", "AMD EPYC 9R14, 2 of 2 CPUs, virtual"),
        ("kernel", "6.18.5"),
        ("memory", "15.6 GiB"),
        ("commit", "132ec17"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

fn subjects() -> Vec<Subject> {
    let subjects = SUBJECTS.iter().map(|&(name, _)| match name {
        "rust-absent" => Subject::peer(
            name,
            None,
            Some("not installed; `apt-get install rust-absent`".to_owned()),
        ),
        ours if ours.starts_with("uthread") => Subject::ours(ours),
        peer => Subject::peer(peer, Some("1.2.3".to_owned()), None),
    });
    subjects.collect()
}

fn echo(size: Size, random: &mut SplitMix) -> Study {
    let metrics = vec![
        Metric::new("rate", "1/s", Better::More).drawn(),
        Metric::new("CPU", "us per operation", Better::Less).drawn(),
        Metric::new("CPU user", "us per operation", Better::Neither),
        Metric::new("p50", "us", Better::Less),
        Metric::new("p99.9", "us", Better::Less).drawn(),
        Metric::new("fairness", "times", Better::Less).drawn(),
    ];
    let points: Vec<Point> = CONNECTIONS
        .iter()
        .take(size.points)
        .map(|&value| Point::number(value))
        .collect();
    let mut panel = Panel::new("16-byte echo, 1 worker", "connections", points, metrics);
    for (index, connections) in CONNECTIONS.iter().take(size.points).enumerate() {
        let cell = |&(name, base): &(&str, f64)| match (name, index) {
            ("rust-absent", _) => Vec::new(),
            ("threads" | "uthread threads", 6) => {
                vec![
                    Round::Cannot("no answer from 3,012 of 15,000 connections in 10 s".to_owned());
                    size.rounds
                ]
            }
            _ => {
                let base =
                    base * (1.0 + 3.0 / (1.0 + connections)) * (1.0 + connections.ln() / 40.0);
                (0..size.rounds)
                    .map(|_| echo_round(name, base, *connections, random))
                    .collect()
            }
        };
        panel.rounds.push(SUBJECTS.iter().map(cell).collect());
    }
    panel.limits.push(Limit {
        name: "Little's law".to_owned(),
        metric: 0,
        figures: CONNECTIONS
            .iter()
            .take(size.points)
            .map(|value| (value * 40e3_f64).min(160e3))
            .collect(),
    });
    Study {
        name: "echo".to_owned(),
        title: "Echo".to_owned(),
        question: "What does one message and its answer cost, from one connection to 15,000?"
            .to_owned(),
        facts: facts(),
        notes: vec![
            "Messages of 16 bytes in a closed loop; one worker on a CPU of its own.".to_owned(),
            "`floor` is a loop around epoll with nothing else, in which all buffers are shared."
                .to_owned(),
        ],
        subjects: subjects(),
        panels: vec![panel],
    }
}

fn echo_round(name: &str, base: f64, connections: f64, random: &mut SplitMix) -> Round {
    let noise = 0.95 + 0.1 * random.fraction();
    let cpu = base * noise;
    let fairness = 1.2
        + if name == "tokio" {
            connections / 100.0
        } else {
            random.fraction() / 2.0
        };
    let tail = 30.0 + connections * cpu * (1.1 + random.fraction() / 2.0);
    Round::Taken {
        figures: vec![
            Some((connections * 30e3).min(0.98e6 / cpu)),
            Some(cpu),
            Some(cpu * 0.2),
            Some(20.0 + connections * cpu),
            Some(tail),
            (connections > 1.0).then_some(fairness),
        ],
        usage: Usage {
            quiet_before: random.below(60) > 0,
            ..Usage::default()
        },
    }
}

/// Points that are names.
fn http(size: Size, random: &mut SplitMix) -> Study {
    let metrics = vec![
        Metric::new("CPU", "us per operation", Better::Less).drawn(),
        Metric::new("rate", "1/s", Better::More).drawn(),
    ];
    let names = ["1 KiB", "16 KiB", "1 MiB"].map(Point::name).to_vec();
    let mut panel = Panel::new("files by size, 64 connections", "file", names, metrics);
    let subjects = [
        ("uthread", 10.8),
        ("uthread epoll", 11.5),
        ("nginx", 14.6),
        ("static-web-server", 16.8),
    ];
    for weight in [1.0, 1.1, 1.6] {
        let mut cell = |&(_, base): &(&str, f64)| -> Vec<Round> {
            let mut round = || {
                let cpu = base * weight * (0.98 + 0.04 * random.fraction());
                Round::Taken {
                    figures: vec![Some(cpu), Some(1e6 / cpu)],
                    usage: Usage {
                        quiet_before: true,
                        ..Usage::default()
                    },
                }
            };
            (0..size.rounds).map(|_| round()).collect()
        };
        panel.rounds.push(subjects.iter().map(&mut cell).collect());
    }
    panel.rounds[2][3] = vec![Round::Cannot("413 <too large>".to_owned()); size.rounds];
    panel.limits.push(Limit {
        name: "the loopback's copy alone".to_owned(),
        metric: 0,
        figures: vec![4.0, 5.0, 9.0],
    });
    let subject = |&(name, _): &(&str, f64)| match name.starts_with("uthread") {
        true => Subject::ours(name),
        false => Subject::peer(name, Some("1.26".to_owned()), None),
    };
    Study {
        name: "http".to_owned(),
        title: "Static files".to_owned(),
        question: "How much CPU does a file over HTTP take?".to_owned(),
        facts: facts(),
        notes: Vec::new(),
        subjects: subjects.iter().map(subject).collect(),
        panels: vec![panel],
    }
}

/// One point, and figures that span too much for bars.
fn disk(size: Size, random: &mut SplitMix) -> Study {
    let metrics = vec![Metric::new("rate", "1/s", Better::More).drawn()];
    let mut panel = Panel::new(
        "random reads of 4 KiB",
        "deep",
        vec![Point::number(32.0)],
        metrics,
    );
    let subjects = ["uthread", "fio psync", "fio io_uring"];
    let bases = [48e3, 900.0, 47e3];
    let mut cell = |base: f64| -> Vec<Round> {
        (0..size.rounds)
            .map(|_| crate::results::tests::taken(&[base * (0.9 + random.fraction() / 5.0)]))
            .collect()
    };
    panel.rounds.push(bases.map(&mut cell).to_vec());
    Study {
        name: "disk".to_owned(),
        title: "Disk".to_owned(),
        question: "How near do reads past the page cache come to what fio makes of the same disk?"
            .to_owned(),
        facts: facts(),
        notes: Vec::new(),
        subjects: subjects
            .map(|name| {
                if name == "uthread" {
                    Subject::ours(name)
                } else {
                    Subject::peer(name, None, None)
                }
            })
            .to_vec(),
        panels: vec![panel],
    }
}
