//! Wakers: those of other executors and threads, those that are replaced, and runtimes that end.

use std::future::poll_fn;
use std::io::Write;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use futures_io::AsyncRead;
use futures_util::future::join;
use futures_util::io::{AsyncReadExt, AsyncWriteExt};
use rustix::io::Errno;
use uthread::runtime::Shutdown;
use uthread::sync::mpsc::{self, Receiver, Sender};
use uthread::{Driver, Runtime, block_on, shield, spawn};
use uthread_futures::Async;

use crate::places::{Calls, LONG, everywhere, poll_read, runtimes, tcp, unix};

/// Sends a byte to a task that waits, and expects a call of its waker, and then the byte.
#[track_caller]
fn expect_byte<S>(ours: &Async<S>, theirs: &mut impl Write, waker: &Waker, calls: &Receiver<()>)
where
    for<'a> &'a Async<S>: AsyncRead,
{
    // Those that came before are of other events.
    while calls.try_recv().is_ok() {}
    theirs.write_all(b"x").unwrap();
    calls.recv_timeout(LONG).unwrap();
    assert!(matches!(poll_read(ours, waker), Poll::Ready(Ok(1))));
}

#[test]
fn another_executor_on_a_thread_outside_of_any_runtime() {
    let (ours, theirs) = unix();
    let (mut ours, mut theirs) = (Async::new(ours), Async::new(theirs));
    let (data, mut received) = (vec![3; 1 << 20], Vec::new());
    let writer = async {
        ours.write_all(&data).await?;
        ours.close().await
    };
    let results = futures_executor::block_on(join(writer, theirs.read_to_end(&mut received)));
    results.0.unwrap();
    results.1.unwrap();
    assert!(received == data);
}

#[test]
fn another_executor_inside_a_fiber_and_its_peer_in_a_task() {
    everywhere(|| {
        let (ours, theirs) = tcp();
        let other = thread::spawn(move || {
            let mut theirs = Async::new(theirs);
            futures_executor::block_on(async {
                let mut text = String::new();
                theirs.read_to_string(&mut text).await.unwrap();
                theirs.write_all(text.as_bytes()).await.unwrap();
            });
        });
        let mut ours = Async::new(ours);
        let echo = block_on(async {
            ours.write_all(b"there and back").await?;
            ours.close().await?;
            let mut echo = String::new();
            ours.read_to_string(&mut echo).await?;
            Ok::<_, std::io::Error>(echo)
        });
        assert_eq!(echo.unwrap(), "there and back");
        uthread::blocking(|| other.join()).unwrap();
    });
}

#[test]
fn only_the_last_waker_is_called() {
    everywhere(|| {
        let (ours, mut theirs) = unix();
        let ours = Async::new(ours);
        let (first, first_calls) = Calls::waker();
        let (second, second_calls) = Calls::waker();
        assert!(poll_read(&ours, &first).is_pending());
        assert!(poll_read(&ours, &second).is_pending());
        spawn(move || theirs.write_all(b"x").unwrap());
        second_calls.recv_timeout(LONG).unwrap();
        assert!(first_calls.try_recv().is_err());
        assert!(matches!(poll_read(&ours, &second), Poll::Ready(Ok(1))));
    });
}

#[test]
fn a_waker_of_a_thread_is_called_though_the_stream_was_polled_in_a_fiber() {
    everywhere(|| {
        let (ours, mut theirs) = unix();
        let ours = Async::new(ours);
        let (waker, calls) = Calls::waker();
        assert!(poll_read(&ours, &waker).is_pending());
        let other = thread::spawn(move || {
            let nothing = poll_read(&ours, &waker).is_pending();
            theirs.write_all(b"x").unwrap();
            calls.recv_timeout(LONG).unwrap();
            nothing && matches!(poll_read(&ours, &waker), Poll::Ready(Ok(1)))
        });
        assert!(uthread::blocking(|| other.join()).unwrap());
    });
}

#[test]
fn the_end_of_a_runtime_wakes_the_task_which_goes_on_elsewhere() {
    for builder in runtimes() {
        let runtime = builder.build().unwrap();
        let (ours, mut theirs) = unix();
        let ours = Async::new(ours);
        let (waker, calls) = Calls::waker();
        assert!(runtime.run(|| poll_read(&ours, &waker)).is_pending());
        drop(runtime);
        calls.recv_timeout(LONG).unwrap();
        assert!(poll_read(&ours, &waker).is_pending());
        expect_byte(&ours, &mut theirs, &waker, &calls);
    }
}

#[test]
fn a_waker_that_yields_is_called_at_the_end_of_a_runtime() {
    struct Yielding(Sender<()>);

    impl Wake for Yielding {
        fn wake(self: Arc<Self>) {
            uthread::yield_now();
            let _ = self.0.send(());
        }
    }

    for builder in runtimes() {
        let runtime = builder.build().unwrap();
        let (ours, _theirs) = unix();
        let ours = Async::new(ours);
        let (sender, calls) = mpsc::channel();
        let waker = Waker::from(Arc::new(Yielding(sender)));
        assert!(runtime.run(|| poll_read(&ours, &waker)).is_pending());
        drop(runtime);
        calls.recv_timeout(LONG).unwrap();
    }
}

#[test]
fn a_task_goes_on_elsewhere_after_its_runtime_has_abandoned_its_fibers() {
    for builder in runtimes() {
        for has_started in [false, true] {
            let runtime = builder.clone().build().unwrap();
            let (ours, mut theirs) = unix();
            let ours = Async::new(ours);
            let (waker, calls) = Calls::waker();
            runtime.run(|| {
                assert!(poll_read(&ours, &waker).is_pending());
                // Time for the helper fiber to start. Without that, it is the other case.
                if has_started {
                    uthread::sleep(Duration::from_millis(1));
                }
            });
            // The task waits in another place before the fibers of the first one are abandoned.
            assert!(poll_read(&ours, &waker).is_pending());
            runtime.shutdown(Shutdown::Abandon);
            expect_byte(&ours, &mut theirs, &waker, &calls);
        }
    }
}

#[test]
fn a_task_that_is_polled_after_its_runtime_has_abandoned_its_fibers_goes_on() {
    for builder in runtimes() {
        let runtime = builder.build().unwrap();
        let (ours, mut theirs) = unix();
        let ours = Async::new(ours);
        let (waker, calls) = Calls::waker();
        assert!(runtime.run(|| poll_read(&ours, &waker)).is_pending());
        runtime.shutdown(Shutdown::Abandon);
        let other = Runtime::builder().workers(1).build().unwrap();
        other.run(move || {
            assert!(poll_read(&ours, &waker).is_pending());
            expect_byte(&ours, &mut theirs, &waker, &calls);
        });
    }
}

#[test]
fn a_shield_waits_for_bytes_beyond_the_end_of_its_runtime() {
    for builder in runtimes() {
        let runtime = builder.build().unwrap();
        let (ours, mut theirs) = unix();
        let (started, start) = mpsc::channel();
        let (sender, read) = mpsc::channel();
        runtime.spawn(move || {
            shield(|| {
                let ours = Async::new(ours);
                let (waker, calls) = Calls::waker();
                assert!(poll_read(&ours, &waker).is_pending());
                started.send(()).unwrap();
                // The end of the runtime ends the helper fiber, and no other one starts.
                calls.recv_timeout(LONG).unwrap();
                let mut polls = 0;
                let read = block_on(poll_fn(|context| {
                    polls += 1;
                    let read = poll_read(&ours, context.waker());
                    // The bytes come after a wait.
                    let _ = started.send(());
                    read
                }));
                sender.send((read.unwrap(), polls)).unwrap();
            });
        });
        start.recv_timeout(LONG).unwrap();
        let ending = thread::spawn(move || runtime.shutdown(Shutdown::Cancel));
        start.recv_timeout(LONG).unwrap();
        theirs.write_all(b"x").unwrap();
        let (count, polls) = read.recv_timeout(LONG).unwrap();
        assert_eq!(count, 1);
        assert!(polls <= 3, "{polls}: it waits without polling");
        ending.join().unwrap();
    }
}

#[test]
fn a_poll_on_an_ordinary_thread_needs_no_runtime_of_its_caller() {
    let (ours, mut theirs) = tcp();
    let ours = Async::new(ours);
    let (waker, calls) = Calls::waker();
    assert!(poll_read(&ours, &waker).is_pending());
    expect_byte(&ours, &mut theirs, &waker, &calls);
    assert!(matches!(poll_read(&ours, Waker::noop()), Poll::Pending));
}

#[test]
fn a_file_that_is_no_socket_is_refused() {
    let runtime = Runtime::builder().driver(Driver::Epoll).build().unwrap();
    runtime.run(|| {
        let (reader, _writer) = std::io::pipe().unwrap();
        let error = block_on(Async::new(reader).read(&mut [0])).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::NOTSOCK));
    });
}
