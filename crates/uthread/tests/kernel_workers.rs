//! The limit of the kernel's threads for the operations of a ring.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use uthread::os::unix::fs::FileExt;
use uthread::{Driver, Runtime};

const FIBERS: usize = 40;
const ROUNDS: usize = 10;

/// Returns the number of threads of the kernel that perform operations of this process.
fn kernel_workers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.starts_with("iou-wrk-")).count()
}

/// Writes files and waits for the disk; returns the largest number of such threads that there was.
fn workers_at_most(runtime: &Runtime) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let (has_ended, most) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                most.fetch_max(kernel_workers(), Ordering::Relaxed);
                std::thread::yield_now();
            }
        });
        runtime.run(|| {
            uthread::scope(|scope| {
                for number in 0..FIBERS {
                    let path = folder.path().join(number.to_string());
                    scope.spawn(move || {
                        let file = uthread::fs::File::create(path).unwrap();
                        for _ in 0..ROUNDS {
                            file.write_all_at(&[7; 4096], 0).unwrap();
                            file.sync_data().unwrap();
                        }
                    });
                }
            });
        });
        has_ended.store(true, Ordering::Relaxed);
    });
    most.into_inner()
}

#[test]
fn the_kernel_uses_so_many_threads_at_most() {
    let build = |count| Runtime::builder().workers(1).kernel_workers(count).build();
    let runtime = build(1).unwrap();
    let details = runtime.driver().to_string();
    if runtime.driver().driver() != Driver::Uring {
        let expected = "no limit of kernel workers, which requires io_uring";
        assert!(details.contains(expected), "{details}");
        return;
    }
    if details.contains("limit of kernel workers refused") {
        eprintln!("not checked: {details}");
        return;
    }
    assert!(details.contains("at most 1 kernel workers"), "{details}");
    // One for files, and one for others.
    let few = workers_at_most(&runtime);
    assert!(few <= 2, "{few} threads");
    drop(runtime);
    let many = workers_at_most(&build(64).unwrap());
    assert!(many >= few, "{many} and {few} threads");
}

#[test]
#[should_panic(expected = "no operation on a file would ever end")]
fn none_is_refused() {
    let _ = Runtime::builder().kernel_workers(0);
}
