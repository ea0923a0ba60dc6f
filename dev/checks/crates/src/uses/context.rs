//! Crates that keep context per thread: two fibers wait in it by turns.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use rand::RngExt;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use super::{Use, WAIT, both, overlap};

pub(super) const USES: &[Use] = &[
    Use::new("tracing", "spans of two fibers that wait in them", tracing).single(),
    Use::new(
        "scoped-tls",
        "values of two fibers that wait with them",
        scoped,
    ),
    Use::new(
        "env_logger",
        "a value that waits while it is formatted",
        logger,
    )
    .single(),
    Use::new(
        "arc-swap",
        "guards held across a wait while another fiber stores",
        arc_swap,
    ),
    Use::new(
        "rand",
        "the generator of the thread, kept across waits",
        rand,
    ),
];

/// How often each fiber waits.
const ROUNDS: u32 = 10;

const STEP: Duration = Duration::from_millis(10);

/// Compares the target of each event with the spans around it.
#[derive(Default, Clone)]
struct Spans(Arc<Counts>);

#[derive(Default)]
struct Counts {
    right: AtomicU32,
    mixed: AtomicU32,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let around = context.event_scope(event).into_iter().flatten();
        let around: Vec<&str> = around.map(|span| span.name()).collect();
        let counter = if around[..] == [event.metadata().target(), "outer"] {
            &self.0.right
        } else {
            &self.0.mixed
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn tracing() {
    let spans = Spans::default();
    let subscriber = Registry::default().with(spans.clone());
    tracing::subscriber::set_global_default(subscriber).expect("the first subscriber");
    both(
        || {
            let _outer = tracing::info_span!("outer").entered();
            for _ in 0..ROUNDS {
                let _span = tracing::info_span!("left").entered();
                tracing::info!(target: "left", "before");
                uthread::sleep(STEP);
                tracing::info!(target: "left", "after");
            }
        },
        || {
            let _outer = tracing::info_span!("outer").entered();
            for _ in 0..ROUNDS {
                let _span = tracing::info_span!("right").entered();
                tracing::info!(target: "right", "before");
                uthread::sleep(STEP);
                tracing::info!(target: "right", "after");
            }
        },
    );
    let counts = [&spans.0.right, &spans.0.mixed].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(
        counts,
        [4 * ROUNDS, 0],
        "events in their own spans, and in others"
    );
}

scoped_tls::scoped_thread_local!(static NUMBER: u32);

fn scoped() {
    let keep = |number: u32| {
        for _ in 0..ROUNDS {
            NUMBER.set(&number, || {
                uthread::sleep(STEP);
                assert!(NUMBER.is_set(), "the value is gone");
                NUMBER.with(|found| assert_eq!(*found, number));
            });
            assert!(!NUMBER.is_set(), "a value is left");
        }
    };
    both(|| keep(1), || keep(2));
}

/// A value that waits while it is formatted.
struct Slow(&'static str);

impl fmt::Display for Slow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)?;
        uthread::sleep(STEP);
        out.write_str(self.0)
    }
}

/// A log in memory.
#[derive(Default, Clone)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logger() {
    let log = Log::default();
    env_logger::Builder::new()
        .target(env_logger::Target::Pipe(Box::new(log.clone())))
        .filter_level(log::LevelFilter::Info)
        .format(|out, record| writeln!(out, "{}", record.args()))
        .init();
    let write = |name| {
        for _ in 0..ROUNDS {
            log::info!("{}", Slow(name));
        }
    };
    both(|| write("left."), || write("right."));
    let text = log.0.lock().expect("no panic").clone();
    let text = String::from_utf8(text).expect("text");
    let count = |expected: &str| text.lines().filter(|line| *line == expected).count();
    let counts = [
        count("left.left."),
        count("right.right."),
        text.lines().count(),
    ];
    assert_eq!(
        counts,
        [ROUNDS as usize, ROUNDS as usize, 2 * ROUNDS as usize]
    );
}

/// Number of guards, above those that arc-swap keeps for a thread without counting references.
const GUARDS: usize = 12;

fn arc_swap() {
    let first = Arc::new(1);
    let shared = ArcSwap::new(Arc::clone(&first));
    overlap(
        |begun| {
            let guards: Vec<_> = (0..GUARDS).map(|_| shared.load()).collect();
            begun();
            uthread::sleep(WAIT);
            assert!(guards.iter().all(|guard| ***guard == 1));
        },
        || {
            for number in 2..1000 {
                shared.store(Arc::new(number));
                assert_eq!(**shared.load(), number);
            }
        },
    );
    assert_eq!((Arc::strong_count(&first), **shared.load()), (1, 999));
}

fn rand() {
    let draw = |drawn: &Mutex<BTreeSet<u64>>| {
        for _ in 0..ROUNDS {
            let mut generator = rand::rng();
            let number = generator.random::<u64>();
            uthread::sleep(STEP);
            let numbers = [number, generator.clone().random(), generator.random()];
            drawn.lock().expect("no panic").extend(numbers);
        }
    };
    let drawn = Mutex::new(BTreeSet::new());
    both(|| draw(&drawn), || draw(&drawn));
    let distinct = drawn.into_inner().expect("no panic").len();
    assert_eq!(distinct, 6 * ROUNDS as usize, "numbers repeat");
}
