//! Spans of the crate `tracing` that belong to the fiber which has entered them.
//!
//! `tracing` keeps the entered spans of a thread in a thread-local. Fibers that share a worker
//! share that, so that the lines of one fiber appear inside the span of another. The [`layer()`]
//! records the spans that a fiber enters, and [`Spans`] leaves them when the fiber is suspended,
//! and enters them again when it is resumed:
//!
//! ```
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let subscriber = tracing_subscriber::registry().with(uthread_tracing::layer());
//! // Such as: .with(tracing_subscriber::fmt::layer())
//! tracing::subscriber::set_global_default(subscriber)?;
//!
//! let runtime = uthread::Runtime::builder().workers(1).context(uthread_tracing::Spans).build()?;
//! runtime.run(|| {
//!     let _request = tracing::info_span!("request", id = 1).entered();
//!     let other = uthread::spawn(|| assert!(tracing::Span::current().is_none()));
//!     uthread::yield_now();
//!     assert_eq!(tracing::Span::current().metadata().unwrap().name(), "request");
//!     other.join().unwrap();
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Other layers see a span exited and entered at each switch, as they do at each poll of an
//! instrumented future: the time that a layer counts as busy is that in which the fiber runs. A
//! fiber that has entered no span pays for a check.
//!
//! A new fiber is in no span, as a new thread. Give it one by `let span = Span::current();` before
//! `spawn(move || span.in_scope(..))`. A subscriber that is set for a scope, by `with_default`, is
//! that of the worker, and of all fibers that it runs meanwhile.
//!
//! A layer of `tracing-opentelemetry` gets the right parents, and `opentelemetry::Context::current` is
//! that of the span. A context that is attached without a span (`Context::attach`) is another matter: its
//! guard names a place in a stack of the thread, which nothing else can restore. So do not hold one across
//! a wait; give the context to a span, by `OpenTelemetrySpanExt::set_parent`, or pass it on.
//!
//! All this is for [lean](uthread::runtime::Builder::lean) fibers. Others have thread-locals of
//! their own, as threads have, and need none of it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, OnceLock};

use tracing_core::dispatcher::WeakDispatch;
use tracing_core::span::Id;
use tracing_core::{Dispatch, Subscriber};
use tracing_subscriber::layer::Context;

thread_local! {
    /// The spans that the running fiber has entered, the innermost last.
    static ENTERED: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
    /// `true` while spans are left and entered because of a switch.
    static SWITCHES: Cell<bool> = const { Cell::new(false) };
}

/// The subscriber of a layer. It is set once there is one.
type SharedDispatch = Arc<OnceLock<WeakDispatch>>;

struct Entered {
    dispatch: SharedDispatch,
    id: Id,
}

/// Creates the layer that records which spans a fiber has entered. See the example of the
/// [crate](self).
#[must_use]
pub fn layer() -> Layer {
    Layer {
        dispatch: SharedDispatch::default(),
    }
}

/// The layer that records which spans a fiber has entered. See the example of the [crate](self).
#[derive(Debug)]
pub struct Layer {
    dispatch: SharedDispatch,
}

impl<S: Subscriber> tracing_subscriber::Layer<S> for Layer {
    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        let _is_first = self.dispatch.set(subscriber.downgrade());
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        let entered = Entered {
            dispatch: Arc::clone(&self.dispatch),
            id: id.clone(),
        };
        change(|spans| spans.push(entered));
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        change(|spans| {
            let is_left = |entered: &Entered| {
                entered.id == *id && Arc::ptr_eq(&entered.dispatch, &self.dispatch)
            };
            if let Some(index) = spans.iter().rposition(is_left) {
                spans.remove(index);
            }
        });
    }
}

/// Changes the spans of the running fiber, which a switch does not.
fn change(change: impl FnOnce(&mut Vec<Entered>)) {
    // Neither thread-local is accessible at the end of a thread, when it runs no fiber.
    if SWITCHES.try_with(Cell::get) == Ok(false) {
        let _has_ended = ENTERED.try_with(|spans| change(&mut spans.borrow_mut()));
    }
}

/// Leaves the entered spans of a fiber when it is suspended, and enters them again when it is
/// resumed. See the example of the [crate](self).
#[derive(Debug, Clone, Copy, Default)]
pub struct Spans;

impl uthread::runtime::FiberContext for Spans {
    type Saved = Saved;

    fn suspend(&self) -> Option<Saved> {
        let entered = ENTERED.take();
        if entered.is_empty() {
            return None;
        }
        let held: Vec<_> = entered.iter().map(Held::new).collect();
        switch(|| {
            for held in held.iter().rev().flatten() {
                held.subscriber.exit(&held.id);
            }
        });
        Some(Saved { entered, held })
    }

    fn resume(&self, saved: Saved) {
        switch(|| {
            for held in saved.held.iter().flatten() {
                held.subscriber.enter(&held.id);
            }
        });
        ENTERED.set(saved.entered);
    }
}

/// Makes a switch, which the layers do not record.
fn switch(switch: impl FnOnce()) {
    SWITCHES.set(true);
    switch();
    SWITCHES.set(false);
}

/// The spans that a suspended fiber has entered. See the example of the [crate](self).
pub struct Saved {
    entered: Vec<Entered>,
    /// References to the same spans, in the same order. `None` for one that is closed, or whose
    /// subscriber is gone.
    held: Vec<Option<Held>>,
}

impl fmt::Debug for Saved {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.entered.iter().map(|entered| &entered.id);
        formatter.debug_list().entries(ids).finish()
    }
}

/// A reference to a span, which keeps it open.
struct Held {
    subscriber: Dispatch,
    id: Id,
}

impl Held {
    fn new(entered: &Entered) -> Option<Held> {
        let subscriber = entered.dispatch.get()?.upgrade()?;
        // Panics if the guard that had entered the span was forgotten, and the span was dropped.
        let id = panic::catch_unwind(AssertUnwindSafe(|| subscriber.clone_span(&entered.id)));
        Some(Held {
            id: id.ok()?,
            subscriber,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.subscriber.try_close(self.id.clone());
    }
}
