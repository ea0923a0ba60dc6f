//! Threads that run the initializer, and threads that wait for it. A lost wake-up is a deadlock
//! here, which loom reports.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use crate::check;
use crate::sync::progress::Progress;

/// Three threads: some seconds.
const PREEMPTIONS_MAX: usize = 3;

struct Done {
    progress: Progress,
    /// Relaxed: that others see it is the matter of the protocol.
    times: AtomicU32,
}

impl Done {
    fn come(&self) {
        self.progress.run(false, &mut |_| self.count());
    }

    fn count(&self) {
        let times = self.times.load(Ordering::Relaxed);
        self.times.store(times + 1, Ordering::Relaxed);
    }
}

/// Catches an initialization that is done twice, and a caller that goes on before it is done, or
/// waits after.
#[test]
fn initialization_runs_once_before_any_caller_returns() {
    let comings: [fn(&Done); 3] = [
        Done::come,
        |done| done.progress.wait(false),
        |done| done.progress.wait(true),
    ];
    for coming in comings {
        check(PREEMPTIONS_MAX, move || {
            let done = Arc::new(Done {
                progress: Progress::new(AtomicU32::new(0)),
                times: AtomicU32::new(0),
            });
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let done = Arc::clone(&done);
                    thread::spawn(move || {
                        coming(&done);
                        assert_eq!(done.times.load(Ordering::Relaxed), 1);
                    })
                })
                .collect();
            done.come();
            assert_eq!(done.times.load(Ordering::Relaxed), 1);
            assert!(done.progress.is_complete());
            for other in others {
                other.join().unwrap();
            }
        });
    }
}
