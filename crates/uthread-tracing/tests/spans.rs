//! Each line appears in the span of its fiber, whatever others run on its worker.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Dispatch, Event, Span, Subscriber, info, info_span};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use uthread::runtime::Builder;
use uthread::{Driver, Runtime, scope, sleep, spawn, yield_now};

const FIBERS: u64 = 20;

/// The field `number` of a span or an event.
#[derive(Default)]
struct Number(Option<u64>);

impl Visit for Number {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "number" {
            self.0 = Some(value);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// The number of each line, and those of the spans around it, the innermost first.
type Lines = Arc<Mutex<Vec<(u64, Vec<u64>)>>>;

#[derive(Default, Clone)]
struct Recorder {
    lines: Lines,
    entered: Arc<AtomicUsize>,
    left: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut number = Number::default();
        attributes.record(&mut number);
        context.span(id).unwrap().extensions_mut().insert(number);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut number = Number::default();
        event.record(&mut number);
        let spans = context.event_scope(event).into_iter().flatten();
        let numbers = spans.map(|span| span.extensions().get::<Number>().unwrap().0.unwrap());
        let line = (number.0.unwrap(), numbers.collect());
        self.lines.lock().unwrap().push(line);
    }

    fn on_enter(&self, _: &Id, _: Context<'_, S>) {
        self.entered.fetch_add(1, Ordering::Relaxed);
    }

    fn on_exit(&self, _: &Id, _: Context<'_, S>) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    fn on_close(&self, _: Id, _: Context<'_, S>) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Installs the recorder for all tests of the process, which run one after the other while they
/// hold the guard.
fn record() -> (Recorder, MutexGuard<'static, Option<Recorder>>) {
    static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);
    let mut guard = RECORDER
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let recorder = guard.get_or_insert_with(|| {
        let recorder = Recorder::default();
        let subscriber = tracing_subscriber::registry()
            .with(recorder.clone())
            .with(uthread_tracing::layer());
        tracing::dispatcher::set_global_default(Dispatch::new(subscriber)).unwrap();
        recorder
    });
    let recorder = recorder.clone();
    recorder.lines.lock().unwrap().clear();
    (recorder, guard)
}

/// Writes lines in two spans, and in one of them, and in none, between waits of each kind.
fn write_lines(number: u64) {
    let line = || {
        yield_now();
        info!(number);
        sleep(Duration::from_micros(number));
        info!(number);
    };
    line();
    let outer = info_span!("outer", number).entered();
    line();
    let inner = info_span!("inner", number = number + 1000).entered();
    line();
    drop(inner);
    line();
    drop(outer);
    line();
}

fn expected(number: u64) -> Vec<Vec<u64>> {
    let spans = [
        vec![],
        vec![number],
        vec![number + 1000, number],
        vec![number],
        vec![],
    ];
    spans
        .into_iter()
        .flat_map(|spans| [spans.clone(), spans])
        .collect()
}

/// Returns the fibers whose lines appear in wrong spans.
fn wrong_fibers(runtime: &Runtime, recorder: &Recorder) -> usize {
    runtime.run(|| {
        scope(|scope| {
            for number in 0..FIBERS {
                scope.spawn(move || write_lines(number));
            }
        });
    });
    let lines = mem::take(&mut *recorder.lines.lock().unwrap());
    let spans_of = |fiber: u64| -> Vec<_> {
        let lines = lines.iter().filter(|(number, _)| *number == fiber);
        lines.map(|(_, spans)| spans.clone()).collect()
    };
    let is_wrong = |fiber: &u64| spans_of(*fiber) != expected(*fiber);
    (0..FIBERS).filter(is_wrong).count()
}

fn builders() -> Vec<Builder> {
    let driver = |driver| Runtime::builder().driver(driver);
    vec![
        Runtime::builder().lean(),
        driver(Driver::Epoll).lean().workers(1),
        driver(Driver::Epoll).lean().workers(2),
        driver(Driver::Epoll).workers(2),
        driver(Driver::Threads),
    ]
}

#[test]
fn lines_appear_in_the_spans_of_their_fiber() {
    let (recorder, _guard) = record();
    for builder in builders() {
        let runtime = builder.context(uthread_tracing::Spans).build().unwrap();
        assert_eq!(wrong_fibers(&runtime, &recorder), 0, "{runtime:?}");
    }
}

/// Shows that the test above can fail.
#[test]
fn without_the_context_lines_appear_in_the_spans_of_others() {
    let (recorder, _guard) = record();
    let builder = Runtime::builder().workers(1).lean();
    assert!(wrong_fibers(&builder.build().unwrap(), &recorder) > 0);
}

#[test]
fn other_layers_see_that_a_suspended_fiber_has_left_its_spans() {
    let (recorder, _guard) = record();
    let count = || {
        let counters = [&recorder.entered, &recorder.left, &recorder.closed];
        counters.map(|counter| counter.load(Ordering::Relaxed))
    };
    let builder = Runtime::builder().workers(1).lean();
    let runtime = builder.context(uthread_tracing::Spans).build().unwrap();
    runtime.run(|| {
        let [entered, left, closed] = count();
        let span = info_span!("span", number = 1_u64).entered();
        assert_eq!(count(), [entered + 1, left, closed]);
        yield_now();
        assert_eq!(count(), [entered + 2, left + 1, closed]);
        drop(span);
        assert_eq!(count(), [entered + 2, left + 2, closed + 1]);
    });
}

#[test]
fn a_span_that_is_never_left_ends_with_its_fiber() {
    let (recorder, _guard) = record();
    let builder = Runtime::builder().workers(1).lean();
    let runtime = builder.context(uthread_tracing::Spans).build().unwrap();
    runtime.run(|| {
        let forgetful = spawn(|| {
            mem::forget(info_span!("span", number = 1_u64).entered());
            yield_now();
            info!(number = 7_u64);
        });
        let careless = spawn(|| {
            let span = info_span!("span", number = 2_u64);
            mem::forget(span.enter());
            // The span is closed, although it was never left.
            drop(span);
            yield_now();
            info!(number = 8_u64);
        });
        forgetful.join().unwrap();
        careless.join().unwrap();
        assert!(Span::current().is_none());
        info!(number = 9_u64);
    });
    let mut lines = mem::take(&mut *recorder.lines.lock().unwrap());
    lines.sort();
    assert_eq!(lines, [(7, vec![1]), (8, vec![]), (9, vec![])]);
}
