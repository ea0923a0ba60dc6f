//! Context of a fiber that a program keeps in thread-locals of the worker while the fiber runs.

use std::any::Any;

use super::Control;

/// Context that belongs to a fiber, and that code which does not know of fibers keeps in
/// thread-locals, such as the spans of a tracing library.
///
/// A runtime that is [built with](crate::runtime::Builder::context) one calls it at each switch
/// between fibers. It is called only where fibers are [lean](crate::runtime::Builder::lean): others
/// have thread-locals of their own. Programs implement the trait for types of their own.
///
/// ```
/// use std::cell::RefCell;
/// use std::mem;
///
/// thread_local! {
///     static REQUEST: RefCell<String> = const { RefCell::new(String::new()) };
/// }
///
/// /// Each fiber sees the request that it has set.
/// struct Request;
///
/// impl uthread::runtime::FiberContext for Request {
///     type Saved = String;
///
///     fn suspend(&self) -> Option<String> {
///         let request = REQUEST.take();
///         (!request.is_empty()).then_some(request)
///     }
///
///     fn resume(&self, request: String) {
///         REQUEST.set(request);
///     }
/// }
///
/// let runtime = uthread::Runtime::builder().workers(1).lean().context(Request).build()?;
/// runtime.run(|| {
///     REQUEST.set("first".to_owned());
///     let second = uthread::spawn(|| {
///         assert!(REQUEST.with_borrow(String::is_empty));
///         REQUEST.set("second".to_owned());
///         uthread::yield_now();
///         REQUEST.take()
///     });
///     uthread::yield_now();
///     assert_eq!(REQUEST.with_borrow(String::clone), "first");
///     assert_eq!(second.join().unwrap(), "second");
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait FiberContext: Send + Sync + 'static {
    /// Context of a suspended fiber.
    type Saved: Send + 'static;

    /// Takes the context of the fiber that has run out of the thread-locals, so that the next fiber
    /// finds none. Returns `None` if there is none to restore. Called after a fiber has been
    /// suspended, and after it has ended; then the result is dropped.
    ///
    /// The caller is the loop of the worker, not a fiber: a call that waits blocks the worker. A
    /// panic ends the process. See the example of [`FiberContext`].
    fn suspend(&self) -> Option<Self::Saved>;

    /// Restores the context of a fiber that is about to be resumed, on the same worker. Called as
    /// [`suspend`](FiberContext::suspend) is. See the example of [`FiberContext`].
    fn resume(&self, saved: Self::Saved);
}

/// A [`FiberContext`] of any type.
pub(crate) trait AnyContext: Send + Sync {
    /// Saves the context of a fiber that has left its stack.
    fn save(&self, control: &Control);

    /// Restores the context of a fiber that is about to be resumed.
    fn restore(&self, control: &Control);
}

/// The saved context of a fiber.
pub(super) type Saved = Box<dyn Any + Send>;

impl<C: FiberContext> AnyContext for C {
    fn save(&self, control: &Control) {
        if let Some(saved) = self.suspend() {
            control.set_context(Box::new(saved));
        }
    }

    fn restore(&self, control: &Control) {
        let saved = control.take_context();
        if let Some(saved) = saved.and_then(|saved| saved.downcast().ok()) {
            self.resume(*saved);
        }
    }
}
