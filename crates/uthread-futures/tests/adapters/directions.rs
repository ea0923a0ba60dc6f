//! Tasks whose streams are always ready let others run, and never suspend their fiber in a poll.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures_util::io::AsyncReadExt;
use uthread::{Runtime, block_on, spawn};
use uthread_futures::Async;

use crate::places::{Calls, everywhere, poll_read, poll_read_into, unix};

/// Number of attempts, above those that may succeed in a row.
const MANY: usize = 1000;

#[test]
fn a_task_that_never_waits_lets_others_run() {
    everywhere(|| {
        let (ours, mut theirs) = unix();
        theirs.write_all(&[7; MANY]).unwrap();
        let ours = Async::new(ours);
        let (waker, calls) = Calls::waker();
        let (mut successes, mut yields) = (0, 0);
        while successes < MANY {
            match poll_read(&ours, &waker) {
                Poll::Ready(count) => successes += count.unwrap(),
                Poll::Pending => {
                    calls.try_recv().expect("the task was woken at once");
                    yields += 1;
                }
            }
        }
        assert!((50..=100).contains(&yields), "{yields}");
    });
}

#[test]
fn long_reads_count_by_their_bytes() {
    everywhere(|| {
        let (ours, mut theirs) = unix();
        theirs.set_send_buffer_size(200 << 10).unwrap();
        theirs.write_all(&[7; 160 << 10]).unwrap();
        let ours = Async::new(ours);
        let (waker, calls) = Calls::waker();
        let mut buffer = vec![0; 64 << 10];
        let mut read = || poll_read_into(&mut buffer, &ours, &waker);
        for _ in 0..2 {
            assert!(matches!(read(), Poll::Ready(Ok(count)) if count == 64 << 10));
        }
        assert!(read().is_pending());
        calls.try_recv().expect("the task was woken at once");
        assert!(matches!(read(), Poll::Ready(Ok(count)) if count == 32 << 10));
    });
}

#[test]
fn another_fiber_of_the_only_worker_runs_beside_a_reader_that_never_waits() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let (ours, mut theirs) = unix();
        theirs.write_all(&[7; MANY]).unwrap();
        let has_run = Arc::new(AtomicBool::new(false));
        let sets = Arc::clone(&has_run);
        let other = spawn(move || sets.store(true, Ordering::Release));
        let mut ours = Async::new(ours);
        let mut reads = 0;
        block_on(async {
            while reads < MANY && !has_run.load(Ordering::Acquire) {
                reads += ours.read(&mut [0]).await.unwrap();
            }
        });
        assert!(reads < MANY);
        other.join().unwrap();
    });
}
