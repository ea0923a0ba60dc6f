//! A program that dumps its own fibers.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use uthread::Runtime;
use uthread::sync::{Barrier, Mutex};
use uthread::thread::{Builder, park};
use uthread_dump::{Report, WaitsFor};

/// Dumps the fibers of this process once this holds.
fn dump_when(holds: impl Fn(&Report) -> bool) -> Report {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let report = uthread_dump::dump_running(std::process::id().cast_signed()).unwrap();
        if holds(&report) || Instant::now() >= deadline {
            return report;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn named<'a>(report: &'a Report, name: &str) -> Vec<&'a uthread_dump::Group> {
    let is_named = |member: &uthread_dump::Member| member.name.as_deref() == Some(name);
    let groups = report.groups.iter();
    groups
        .filter(|group| group.fibers.iter().any(is_named))
        .collect()
}

#[inline(never)]
fn lock_both(first: &Mutex<()>, second: &Mutex<()>, both_have_one: &Barrier) {
    let _first = first.lock().unwrap();
    both_have_one.wait();
    let _second = second.lock().unwrap();
}

#[test]
fn fibers_that_wait_for_each_other_are_a_cycle() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let locks = Arc::new(([Mutex::new(()), Mutex::new(())], Barrier::new(2)));
    for (first, second) in [(0, 1), (1, 0)] {
        let locks = Arc::clone(&locks);
        let lock = move || lock_both(&locks.0[first], &locks.0[second], &locks.1);
        drop(runtime.spawn(lock));
    }
    let report = dump_when(|report| !report.cycle().is_empty());
    let cycle = report.cycle();
    let [(one, waits), (other, also)] = cycle[..] else {
        panic!("{report}")
    };
    assert_eq!((waits, also), (WaitsFor::Lock(other), WaitsFor::Lock(one)));
    let lines = format!(
        "\ncycle: fiber {one} waits for a lock of fiber {other}\n   \
         and fiber {other} waits for a lock of fiber {one}\n"
    );
    assert!(report.to_string().contains(&lines), "{report}");
    // Its end would wait for them.
    mem::forget(runtime);
}

#[inline(never)]
#[rustfmt::skip]
fn park_twice() { park(); park(); }

#[test]
fn calls_in_one_line_are_one_group() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let spawn = || {
        runtime.spawn(|| {
            Builder::new()
                .name("parks".into())
                .spawn(park_twice)
                .unwrap()
        })
    };
    let fibers = [spawn().join().unwrap(), spawn().join().unwrap()];
    let all = |report: &Report| {
        let groups = named(report, "parks");
        let fibers: usize = groups.iter().map(|group| group.fibers.len()).sum();
        fibers == 2 && groups.iter().all(|group| !group.frames.is_empty())
    };
    let report = dump_when(all);
    assert_eq!(named(&report, "parks").len(), 1, "{report}");
    fibers[0].thread().unpark();
    // Without lines these are two calls.
    let frames = &named(&report, "parks")[0].frames;
    let has_lines = frames.iter().all(|frame| frame.line.is_some());
    let count = if has_lines { 1 } else { 2 };
    let is_it = |report: &Report| all(report) && named(report, "parks").len() == count;
    let report = dump_when(is_it);
    assert!(is_it(&report), "{report}");
    for fiber in fibers {
        while !fiber.is_finished() {
            fiber.thread().unpark();
            thread::sleep(Duration::from_millis(1));
        }
    }
}
