//! Traces of OpenTelemetry: a span has the parent that its fiber has entered, and a context that is
//! attached without a span is that of a fiber with thread-locals of its own.

use std::mem;
use std::sync::{Arc, Mutex};

use opentelemetry::trace::{SpanId, TraceContextExt, TracerProvider};
use opentelemetry::{Context, Value};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tracing::info_span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;
use uthread::runtime::Builder;
use uthread::{Driver, Runtime, scope, yield_now};

const FIBERS: i64 = 20;

const CHILDREN: usize = 3;

#[derive(Debug, Default, Clone)]
struct Exporter(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch);
        Ok(())
    }
}

fn builders() -> [Builder; 3] {
    let builder = || Runtime::builder().driver(Driver::Epoll);
    [
        builder().workers(1),
        builder().lean().workers(1),
        builder().lean().workers(2),
    ]
}

/// Returns the identity of the span that the current context has, as a client would send it.
fn current() -> SpanId {
    Context::map_current(|context| context.span().span_context().span_id())
}

/// Returns `true` if the current context has the value of a fiber.
fn has_value(fiber: i64) -> bool {
    Context::map_current(|context| context.get() == Some(&fiber))
}

/// Enters a span, and others in it, between switches. Returns `true` if the current context is always
/// that of the span.
fn trace(fiber: i64) -> bool {
    let root = info_span!("root", fiber);
    root.set_parent(Context::new().with_value(fiber)).unwrap();
    let _root = root.entered();
    let is_kept = |_| {
        yield_now();
        let _child = info_span!("child", fiber).entered();
        let before = current();
        yield_now();
        has_value(fiber) && current() == before
    };
    (0..CHILDREN).all(is_kept)
}

/// Attaches a context between switches. Returns `true` if it is always the current one.
fn attach(fiber: i64) -> bool {
    yield_now();
    let _attached = Context::current_with_value(fiber).attach();
    let is_kept = |_| {
        yield_now();
        has_value(fiber)
    };
    (0..CHILDREN).all(is_kept)
}

/// Returns the fibers in which a check fails.
fn failures(runtime: &Runtime, check: fn(i64) -> bool) -> usize {
    runtime.run(|| {
        scope(|scope| {
            let spawn = |fiber| scope.spawn(move || check(fiber));
            let fibers: Vec<_> = (0..FIBERS).map(spawn).collect();
            let kept = fibers.into_iter().map(|fiber| fiber.join().unwrap());
            kept.filter(|is_kept| !is_kept).count()
        })
    })
}

/// Returns the fibers whose spans have other parents than they should have.
fn wrong_parents(spans: &[SpanData]) -> usize {
    let is_wrong = |fiber: &i64| {
        let value = Value::I64(*fiber);
        let is_own = |span: &&SpanData| span.attributes.iter().any(|it| it.value == value);
        let own: Vec<_> = spans.iter().filter(is_own).collect();
        let root = own.iter().find(|span| span.name == "root").unwrap();
        let id = root.span_context.span_id();
        let children = own.iter().filter(|span| span.parent_span_id == id);
        root.parent_span_id != SpanId::INVALID || children.count() != CHILDREN
    };
    (0..FIBERS).filter(is_wrong).count()
}

#[test]
fn a_span_has_the_parent_that_its_fiber_has_entered() {
    let exporter = Exporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let traces = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    // Their attributes are numbers as well.
    let traces = traces.with_location(false).with_threads(false);
    let subscriber = tracing_subscriber::registry().with(traces);
    tracing::subscriber::set_global_default(subscriber.with(uthread_tracing::layer())).unwrap();
    let counts = |builder: Builder| {
        let failures = failures(&builder.build().unwrap(), trace);
        (
            failures,
            wrong_parents(&mem::take(&mut *exporter.0.lock().unwrap())),
        )
    };
    for builder in builders() {
        assert_eq!(counts(builder.context(uthread_tracing::Spans)), (0, 0));
    }
    // Shows that these can fail.
    let (failures, wrong_parents) = counts(Runtime::builder().lean().workers(1));
    assert!(failures > 0 && wrong_parents > 0);
}

/// A guard names a place in the stack of its thread, so that nothing else can restore a context.
#[test]
fn a_context_without_a_span_belongs_to_a_fiber_with_thread_locals() {
    let [own, lean, _] = builders();
    assert_eq!(failures(&own.build().unwrap(), attach), 0);
    let lean = lean.context(uthread_tracing::Spans);
    assert!(failures(&lean.build().unwrap(), attach) > 0);
}
