//! Where the tests run, and what they run with.

use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_io::AsyncRead;
use uthread::net::{TcpListener, TcpStream, UnixStream};
use uthread::runtime::Builder;
use uthread::sync::mpsc::{self, Receiver, Sender};
use uthread::{Driver, Runtime};
use uthread_futures::Async;

/// How long a test waits for an event that has to occur.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Runs a test in a fiber of each kind of runtime, which ends afterwards.
#[track_caller]
pub(crate) fn everywhere(test: impl Fn() + Sync) {
    for runtime in runtimes() {
        let runtime = runtime.build().unwrap();
        let test = &test;
        runtime.run(|| {
            // A test that hangs fails instead.
            uthread::timeout(LONG, test).expect("the test ends in time");
        });
    }
}

/// Returns the builders of all kinds of runtimes that this machine allows.
pub(crate) fn runtimes() -> impl Iterator<Item = Builder> {
    let has_ring = Runtime::builder().driver(Driver::Uring).build().is_ok();
    let mut drivers = vec![Driver::Epoll, Driver::Threads];
    if has_ring {
        drivers.push(Driver::Uring);
    } else {
        eprintln!("not tested: the driver uring is not available");
    }
    drivers.into_iter().flat_map(|driver| {
        let builder = move |workers| Runtime::builder().driver(driver).workers(workers);
        let lean = (driver != Driver::Threads).then(|| builder(2).lean());
        [builder(1), builder(2)].into_iter().chain(lean)
    })
}

/// Returns the two ends of a TCP connection.
pub(crate) fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (stream, listener.accept().unwrap().0)
}

pub(crate) fn unix() -> (UnixStream, UnixStream) {
    UnixStream::pair().unwrap()
}

/// A waker that counts its calls, as messages.
pub(crate) struct Calls(Sender<()>);

impl Calls {
    /// Returns the waker, and a receiver of its calls.
    pub(crate) fn waker() -> (Waker, Receiver<()>) {
        let (sender, calls) = mpsc::channel();
        (Waker::from(Arc::new(Calls(sender))), calls)
    }
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        // An error means that nobody counts any more.
        let _ = self.0.send(());
    }
}

/// Polls a read of one byte once.
pub(crate) fn poll_read<S>(stream: &Async<S>, waker: &Waker) -> Poll<io::Result<usize>>
where
    for<'a> &'a Async<S>: AsyncRead,
{
    poll_read_into(&mut [0], stream, waker)
}

/// Polls a read once.
pub(crate) fn poll_read_into<S>(
    buffer: &mut [u8],
    mut stream: &Async<S>,
    waker: &Waker,
) -> Poll<io::Result<usize>>
where
    for<'a> &'a Async<S>: AsyncRead,
{
    Pin::new(&mut stream).poll_read(&mut Context::from_waker(waker), buffer)
}
