//! Polling devices for completions: direct I/O behaves the same, also if the disk does not support
//! polling.

use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use uthread::fs::{AlignedBuffer, File, OpenOptions};
use uthread::{Driver, Runtime};

const BLOCK: usize = 4096;
const BLOCKS: usize = 64;

/// Names a device to be tried, whose contents are of no use to anybody. By default a file on some
/// disk is.
const DEVICE: &str = "UTHREAD_TEST_DEVICE";

fn polling(workers: usize) -> Runtime {
    let builder = Runtime::builder().workers(workers).io_polling();
    let runtime = builder.build().unwrap();
    let details = runtime.driver().details();
    let expected = match runtime.driver().driver() {
        Driver::Uring => ", I/O polling, wake by",
        _ => ", no I/O polling, which requires io_uring",
    };
    assert!(details.contains(expected), "{details}");
    runtime
}

/// Opens a file past the page cache, or returns `None` where there is no such thing.
fn direct_file() -> Option<(Option<tempfile::TempPath>, File)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).direct(true);
    let (name, opened) = match std::env::var_os(DEVICE) {
        Some(device) => (None, options.open(device)),
        None => {
            let name = tempfile::NamedTempFile::new().unwrap().into_temp_path();
            let opened = options.open(&name);
            (Some(name), opened)
        }
    };
    match opened.and_then(|file| file.direct_alignment().map(|_| file)) {
        Ok(file) => Some((name, file)),
        Err(error) => {
            eprintln!("left out: a file past the page cache: {error}");
            None
        }
    }
}

fn block(file: &File, fill: u8) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::for_file(file, BLOCK).unwrap();
    buffer.fill(fill);
    buffer
}

#[test]
fn many_fibers_write_and_read_their_blocks() {
    for workers in [1, 2] {
        polling(workers).run(|| {
            let Some((_name, file)) = direct_file() else {
                return;
            };
            uthread::scope(|scope| {
                for index in 0..BLOCKS {
                    let file = &file;
                    scope.spawn(move || {
                        let offset = (index * BLOCK) as u64;
                        let mut read = block(file, 0);
                        for round in 0..4 {
                            let written = block(file, index as u8 ^ round);
                            file.write_all_at(&written, offset).unwrap();
                            file.read_exact_at(&mut read, offset).unwrap();
                            assert!(read[..] == written[..], "block {index}, round {round}");
                        }
                    });
                }
            });
        });
    }
}

#[test]
fn the_position_moves_and_a_clone_shares_it() {
    polling(1).run(|| {
        let Some((_name, mut file)) = direct_file() else {
            return;
        };
        let mut clone = file.try_clone().unwrap();
        file.write_all(&block(&file, 1)).unwrap();
        clone.write_all(&block(&file, 2)).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let mut read = block(&file, 0);
        for (file, expected) in [(&mut clone, 1), (&mut file, 2)] {
            file.read_exact(&mut read).unwrap();
            assert!(read.iter().all(|byte| *byte == expected), "{expected}");
        }
    });
}

/// Checks that the kernel itself answers, as for any other file.
#[test]
fn errors_are_the_kernels() {
    polling(1).run(|| {
        let Some((_name, file)) = direct_file() else {
            return;
        };
        file.write_all_at(&block(&file, 1), 0).unwrap();
        let error = file.read_at(&mut block(&file, 0)[1..], 0).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        let far = 1 << 50;
        assert_eq!(file.read_at(&mut block(&file, 0), far).unwrap(), 0);
    });
}

/// Catches a worker that polls and hears nothing else.
#[test]
fn other_operations_go_on() {
    let runtime = polling(1);
    let Some((_name, file)) = direct_file() else {
        return;
    };
    let (sender, receiver) = uthread::sync::mpsc::channel();
    let reads = Arc::new(AtomicUsize::new(0));
    let reader = runtime.spawn({
        let reads = Arc::clone(&reads);
        move || {
            let mut buffer = block(&file, 3);
            file.write_all_at(&buffer, 0).unwrap();
            while receiver.try_recv().is_err() {
                file.read_exact_at(&mut buffer, 0).unwrap();
                reads.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let mut sleeps = 0;
    while !reader.is_finished() && (sleeps < 20 || reads.load(Ordering::Relaxed) < 20) {
        runtime.run(|| uthread::sleep(std::time::Duration::from_millis(1)));
        sleeps += 1;
    }
    let _ = sender.send(());
    reader.join().unwrap();
    assert!(reads.load(Ordering::Relaxed) >= 20);
}

#[test]
fn the_end_of_the_runtime_waits_for_what_is_under_way() {
    for _ in 0..20 {
        let runtime = polling(1);
        let Some((_name, file)) = direct_file() else {
            return;
        };
        let (sender, begun) = std::sync::mpsc::channel();
        let fiber = runtime.spawn(move || {
            let mut buffer = block(&file, 4);
            sender.send(()).unwrap();
            while file.write_all_at(&buffer, 0).is_ok() && file.read_at(&mut buffer, 0).is_ok() {}
        });
        begun.recv().unwrap();
        drop(runtime);
        fiber.join().unwrap();
    }
}

#[test]
fn other_drivers_say_that_it_takes_io_uring() {
    for driver in [Driver::Epoll, Driver::Threads] {
        let builder = Runtime::builder().driver(driver).io_polling();
        let runtime = builder.workers(1).build().unwrap();
        let details = runtime.driver().details();
        assert!(
            details.ends_with(", no I/O polling, which requires io_uring"),
            "{details}"
        );
    }
}
