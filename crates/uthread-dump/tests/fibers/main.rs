//! The fibers of a process that waits in many ways, seen from outside.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod child;
mod in_gdb;
mod support;

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use uthread::{Driver, Runtime};
use uthread_dump::{Group, Report, State, WaitsFor};

use crate::child::{BUSY, EACH, EACH_IN_ENVIRONMENT, EACH_WITH_FILES_MAX};
use crate::in_gdb::gdb;
use crate::support::{
    CHILD, CORE_BYTES_MAX, CORE_BYTES_OF_MANY, PARKED, WAITING_FOR_THE_KERNEL, Waiting, abort_in,
    child, group, is_in, is_named, leaves_core_files, only_file_in,
};

/// Checks that the fibers with this name are in one group, in this state and in this function.
#[track_caller]
fn assert_waits(report: &Report, name: &str, state: State, function: &str) {
    let group = group(report, name);
    assert_eq!(group.fibers.len(), EACH, "{name}\n{report}");
    assert_eq!(group.state, state, "{name}\n{report}");
    assert!(!group.is_cut, "{name}\n{report}");
    assert!(is_in(group, function), "{name}: {function}\n{report}");
    assert!(
        is_in(group, "fibers::"),
        "{name}: the function of the program\n{report}"
    );
    for fiber in &group.fibers {
        let site = fiber.spawned_at.as_deref().unwrap();
        assert!(site.contains("tests/fibers/child.rs:"), "{site}");
        assert!(
            fiber.stack_bytes > 0 && fiber.stack_bytes < 64 * 1024,
            "{name}: {fiber:?}"
        );
    }
}

fn every_fiber_is_shown(kind: &str) {
    let waiting = Waiting::start(kind);
    let report = waiting.dump_waiting(kind);
    assert_all_wait(&report, kind);
    // The process goes on.
    let again = uthread_dump::dump(waiting.pid()).unwrap();
    assert_eq!(again.fibers(), report.fibers());
    assert_targets_are_shown(report);
}

/// Checks what the descriptors refer to that fibers wait for.
fn assert_targets_are_shown(mut report: Report) {
    for (name, _, parts) in WAITING_FOR_THE_KERNEL {
        let group = group(&report, name);
        for fiber in &group.fibers {
            let (number, target) = (fiber.descriptor.unwrap(), fiber.target.as_deref().unwrap());
            assert!(target.starts_with(parts[0]), "{fiber:?}");
            assert!(target.contains(parts[1]), "{fiber:?}");
            let line = format!("\n  waiting on fd {number}: {target}\n");
            assert_eq!(group.to_string().matches(&line).count(), 1, "{group}");
        }
        let different: HashSet<_> = group.fibers.iter().map(|one| one.descriptor).collect();
        let expected = if name == "unix" { 1 } else { EACH };
        assert_eq!(different.len(), expected, "{group}");
    }
    let one = group(&report, "datagram").fibers[0].target.clone().unwrap();
    report.keep_waiting_on(&one);
    let left: Vec<_> = report
        .groups
        .iter()
        .flat_map(|group| &group.fibers)
        .collect();
    assert_eq!(left.len(), 1, "{report}");
}

fn assert_all_wait(report: &Report, kind: &str) {
    assert_eq!(report.problems, [""; 0], "{report}");
    for (name, function) in PARKED {
        assert_waits(report, name, State::Parked, function);
    }
    for (name, function, _) in WAITING_FOR_THE_KERNEL {
        assert_waits(report, name, State::Operation, function);
    }
    for fiber in report.groups.iter().flat_map(|group| &group.fibers) {
        let name = fiber.name.as_deref().unwrap_or_default();
        let waits = WAITING_FOR_THE_KERNEL.iter().any(|kind| kind.0 == name);
        assert_eq!(fiber.descriptor.is_some(), waits, "{fiber:?}");
        assert_eq!(fiber.scope_of.is_some(), name == "in-scope", "{fiber:?}");
    }
    assert_scopes_are_shown(report);
    assert_awaited_fibers_are_shown(report);
    if kind == "lean" {
        return;
    }
    let computes = group(report, "computes");
    assert!(matches!(computes.state, State::Running { .. }), "{report}");
    assert!(is_in(computes, "compute"), "{report}");
}

/// Checks that each fiber with a scope is shown as that of a fiber of its own.
fn assert_scopes_are_shown(report: &Report) {
    let fibers = report.groups.iter().flat_map(|group| &group.fibers);
    let parents: HashSet<_> = fibers.filter_map(|fiber| fiber.scope_of).collect();
    let scopes = &group(report, "scope").fibers;
    assert_eq!(parents, scopes.iter().map(|fiber| fiber.id).collect());
    let shown = report.to_string();
    assert!(shown.contains("\n  in the scope of fiber "), "{shown}");
}

/// Checks that each fiber that waits for another one is shown with that, and dedicated ones with
/// their threads.
fn assert_awaited_fibers_are_shown(report: &Report) {
    let fibers = report.groups.iter().flat_map(|group| &group.fibers);
    let main = fibers.clone().map(|fiber| fiber.id).min().unwrap();
    let joined = fibers.clone().filter(|fiber| fiber.name.is_none());
    let joined: HashSet<_> = joined.map(|fiber| fiber.id).collect();
    for fiber in fibers {
        let name = fiber.name.as_deref().unwrap_or_default();
        match (fiber.waits_for, name) {
            (Some(WaitsFor::Lock(holder)), "mutex" | "read-lock") => assert_eq!(holder, main),
            (Some(WaitsFor::End(id)), "join") => assert!(joined.contains(&id), "{report}"),
            (waits_for, _) => assert_eq!(waits_for, None, "{fiber:?}"),
        }
    }
    let mutex = group(report, "mutex").to_string();
    let line = format!("\n  waiting for a lock of fiber {main}\n");
    assert!(mutex.contains(&line), "{mutex}");
    let dedicated = group(report, "dedicated");
    assert_eq!(
        (dedicated.fibers.len(), dedicated.state),
        (EACH, State::Dedicated)
    );
    assert!(is_in(dedicated, "wait_on_a_thread"), "{dedicated}");
    let threads = dedicated.fibers.iter().map(|fiber| fiber.thread.unwrap());
    assert_eq!(threads.collect::<HashSet<_>>().len(), EACH);
}

#[test]
fn every_fiber_of_a_core_file_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let Some((before, core)) = abort_in(folder.path()) else {
        return;
    };
    let report = uthread_dump::dump_core(&core, None).unwrap();
    assert_all_wait(&report, "uring");
    assert_eq!((report.pid, report.fibers()), (before.pid, before.fibers()));
    // In any order: a core file does not tell which one has waited for longest.
    let read = |report: &Report| -> HashSet<_> {
        let fibers = group(report, "read").fibers.iter();
        fibers.map(|fiber| fiber.descriptor.unwrap()).collect()
    };
    let shown = group(&report, "read");
    assert!(shown.fibers.iter().all(|fiber| fiber.target.is_none()));
    assert_eq!(read(&report), read(&before), "{shown}");
    assert!(shown.to_string().contains("\n  waiting on fd "), "{shown}");
    let program = env::current_exe().unwrap();
    let moved = folder.path().join("moved");
    fs::copy(program, &moved).unwrap();
    let report = uthread_dump::dump_core(&core, Some(&moved)).unwrap();
    assert_all_wait(&report, "uring");
}

/// Its thread is in the report of the overflow, which has a stack of its own.
#[test]
fn a_fiber_whose_stack_overflowed_is_shown() {
    if !leaves_core_files() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = child(folder.path(), "overflow").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("stack overflow in fiber"));
    let core = only_file_in(folder.path());
    let report = uthread_dump::dump_core(&core, None).unwrap();
    let overflown = group(&report, "overflows");
    assert!(matches!(overflown.state, State::Running { .. }), "{report}");
    assert!(is_in(overflown, "descend"), "{report}");
    let backtrace = format!("fiber {} bt 20", overflown.fibers[0].id);
    let output = gdb(&["-core", core.to_str().unwrap()], &[&backtrace]);
    let is_shown = output.contains("running on thread") && output.contains("child::descend");
    assert!(is_shown, "{output}");
}

#[test]
fn another_file_is_no_core_file() {
    let program = env::current_exe().unwrap();
    let error = uthread_dump::dump_core(&program, None).unwrap_err();
    assert!(
        format!("{error:#}").contains("is no core file"),
        "{error:#}"
    );
    let error = uthread_dump::dump_core(Path::new("/dev/null"), None).unwrap_err();
    assert!(
        format!("{error:#}").contains("/dev/null is no core file"),
        "{error:#}"
    );
}

#[test]
fn every_fiber_of_a_ring_is_shown() {
    every_fiber_is_shown("uring");
}

#[test]
fn every_fiber_of_epoll_is_shown() {
    every_fiber_is_shown("epoll");
}

#[test]
fn every_lean_fiber_is_shown() {
    every_fiber_is_shown("lean");
}

#[test]
fn fibers_that_have_waited_for_long_come_first() {
    let waiting = Waiting::start("uring");
    let started = Instant::now();
    waiting.dump_waiting("uring");
    std::thread::sleep(Duration::from_millis(300));
    let mut report = uthread_dump::dump(waiting.pid()).unwrap();
    let times = |group: &Group| -> Vec<_> {
        group
            .fibers
            .iter()
            .map(|fiber| fiber.suspended_for)
            .collect()
    };
    let waited: Vec<_> = report.groups.iter().flat_map(times).collect();
    let least = waited.iter().flatten().min();
    // All that wait, which began before the first dump; not those with threads.
    assert!(least >= Some(&Duration::from_millis(200)), "{report}");
    let most = waited.iter().flatten().max().unwrap();
    assert!(
        *most <= started.elapsed() + Duration::from_secs(5),
        "{report}"
    );
    let longest = report.groups.iter().map(|group| times(group)[0]);
    assert!(longest.is_sorted_by(|one, next| one >= next), "{report}");
    for group in &report.groups {
        let runs = matches!(group.state, State::Running { .. } | State::Dedicated);
        assert_eq!(times(group).contains(&None), runs, "{group}");
    }
    assert!(report.to_string().contains("parked for "), "{report}");
    let count = report.fibers();
    report.keep_older_than(Duration::from_millis(200));
    assert_eq!(report.fibers(), count - 1 - EACH, "{report}");
    report.keep_older_than(Duration::from_secs(3600));
    assert_eq!(report.fibers(), 0, "{report}");
}

#[test]
fn the_fibers_of_a_process_that_runs_on_are_shown() {
    let waiting = Waiting::start("uring");
    let dump = || uthread_dump::dump_running(waiting.pid()).unwrap();
    let report = waiting.dump_waiting_by("uring", dump);
    for (name, function) in PARKED {
        assert_waits(&report, name, State::Parked, function);
    }
    for (name, function, _) in WAITING_FOR_THE_KERNEL {
        assert_waits(&report, name, State::Operation, function);
    }
    let computes = group(&report, "computes");
    assert_eq!((computes.state, computes.frames.len()), (State::Moving, 0));
    assert!(
        report.to_string().contains(" workers, not stopped\n"),
        "{report}"
    );
    assert_targets_are_shown(report);
}

/// None of them is shown as it never was: in one function with the state of the other.
#[test]
fn fibers_that_run_all_the_time_are_moving_or_right() {
    let busy = Waiting::start("busy");
    let mut shown = 0;
    for _ in 0..20 {
        let report = uthread_dump::dump_running(busy.pid()).unwrap();
        for group in report.groups.iter().filter(|group| is_named(group, "busy")) {
            let is_moving = matches!(group.state, State::Moving | State::New);
            let is_whole = is_in(group, "turn_left") != is_in(group, "turn_right");
            assert_eq!(is_moving, group.frames.is_empty(), "{group}");
            assert!(is_moving || is_whole && !group.is_cut, "{group}");
            shown += if is_moving { 0 } else { group.fibers.len() };
        }
    }
    assert!(shown > 0);
}

/// Stacks that are copied before the process is stopped change meanwhile.
#[test]
fn fibers_that_run_all_the_time_are_shown_as_they_are() {
    let busy = Waiting::start("busy");
    let mut shown = 0;
    for _ in 0..20 {
        let report = uthread_dump::dump(busy.pid()).unwrap();
        for group in &report.groups {
            // A fiber that runs is stopped anywhere, also in the code that switches.
            let runs = matches!(group.state, State::Running { .. });
            assert!(!group.is_cut || runs, "{report}");
            if is_named(group, "busy") && !matches!(group.state, State::New) {
                let (left, right) = (is_in(group, "turn_left"), is_in(group, "turn_right"));
                assert!(left != right || runs, "{report}");
                shown += group.fibers.len();
            }
        }
    }
    assert!(shown as u64 >= 20 * BUSY, "{shown}");
}

#[test]
fn a_process_without_fibers_is_refused() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let error = uthread_dump::dump(child.id() as i32).unwrap_err();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        error.to_string().contains("does not use uthread"),
        "{error}"
    );
}

#[test]
fn a_missing_process_is_named() {
    let error = format!("{:#}", uthread_dump::dump(i32::MAX).unwrap_err());
    assert!(error.contains(&i32::MAX.to_string()), "{error}");
}

/// A test of speed: `cargo test --release -p uthread-dump --test fibers -- --ignored --nocapture`.
#[test]
#[ignore = "takes a quiet machine, and some gigabytes of memory and of the disk"]
fn a_hundred_thousand_fibers_are_shown() {
    const MANY: usize = 6_400;
    const DUMPS: usize = 5;
    let folder = tempfile::tempdir().unwrap();
    let mut command = child(folder.path(), "uring");
    command.env(EACH_IN_ENVIRONMENT, MANY.to_string());
    let mut waiting = Waiting::of(command);
    let kinds = PARKED.map(|kind| (kind.0, State::Parked));
    let operations = WAITING_FOR_THE_KERNEL.map(|kind| (kind.0, State::Operation));
    let check = |report: &Report| {
        assert_eq!(report.problems, [""; 0]);
        for (name, state) in kinds.into_iter().chain(operations) {
            let group = group(report, name);
            let with_files = state == State::Operation || name == "connected";
            let count = if with_files {
                EACH_WITH_FILES_MAX
            } else {
                MANY
            };
            assert_eq!((group.fibers.len(), group.state), (count, state), "{name}");
        }
        assert!(report.fibers() >= 100_000, "{}", report.fibers());
    };
    let is_still = |group: &Group| matches!(group.state, State::Parked | State::Operation);
    let still = |report: &Report| -> usize {
        let groups = report.groups.iter().filter(|group| is_still(group));
        groups.map(|group| group.fibers.len()).sum()
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    // All but the dedicated ones and the one that computes.
    while Instant::now() < deadline {
        let report = uthread_dump::dump(waiting.pid()).unwrap();
        if still(&report) + EACH + 1 == report.fibers() {
            break;
        }
    }
    for _ in 0..DUMPS {
        let begin = Instant::now();
        let report = uthread_dump::dump(waiting.pid()).unwrap();
        let took = begin.elapsed();
        let (fibers, groups) = (report.fibers(), report.groups.len());
        let stopped = report.stopped_ms.unwrap();
        println!("{fibers} fibers in {groups} groups: {took:.2?}, stopped for {stopped:.1} ms");
        check(&report);
    }
    if !leaves_core_files() {
        return;
    }
    kill(Pid::from_raw(waiting.pid()), Signal::SIGABRT).unwrap();
    waiting.0.wait().unwrap();
    let begin = Instant::now();
    let report = uthread_dump::dump_core(&only_file_in(folder.path()), None).unwrap();
    println!(
        "{} fibers of a core file: {:.2?}",
        report.fibers(),
        begin.elapsed()
    );
    check(&report);
}

/// The child: all its fibers wait, but for one that computes.
#[test]
fn waits_in_many_ways() {
    let Ok(kind) = env::var(CHILD) else { return };
    let (_, limit) = getrlimit(Resource::RLIMIT_CORE).unwrap();
    let bytes = match env::var(EACH_IN_ENVIRONMENT) {
        Ok(_) => CORE_BYTES_OF_MANY,
        Err(_) => CORE_BYTES_MAX,
    };
    setrlimit(Resource::RLIMIT_CORE, limit.min(bytes), limit).unwrap();
    let builder = Runtime::builder().workers(2);
    let builder = match &*kind {
        "epoll" => builder.driver(Driver::Epoll),
        "lean" => builder.lean(),
        _ => builder,
    };
    // A lean fiber that computes would keep the worker from the others.
    let computes = kind != "lean";
    let runtime = builder.build().unwrap();
    runtime.run(|| match &*kind {
        "overflow" => child::overflow(),
        "busy" => child::turn_all_the_time(),
        _ => child::wait_in_many_ways(computes),
    });
}
