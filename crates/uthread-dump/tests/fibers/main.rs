//! The fibers of a process that waits in many ways, seen from outside.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod child;

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use uthread::root::VERSION;
use uthread::{Driver, Runtime};
use uthread_dump::{Group, Report, State, WaitsFor};

use crate::child::{BUSY, EACH};

/// Selects the driver and the kind of fibers of the child, which is this test itself.
const CHILD: &str = "UTHREAD_DUMP_CHILD";

/// The size that a core file of the child may have: its slabs of stacks, of which few are used.
const CORE_BYTES_MAX: u64 = 1 << 32;

/// The names of fibers that wait for others or for a time, and functions that they are in.
const PARKED: [(&str, &str); 15] = [
    ("mutex", "Mutex"),
    ("read-lock", "RwLock"),
    ("condvar", "Condvar"),
    ("barrier", "Barrier"),
    ("semaphore", "Semaphore"),
    // Inlined, and named where there are line tables.
    ("receiver", "wait_in_channels"),
    ("sender", "wait_in_channels"),
    ("oneshot", "recv"),
    ("watch", "changed"),
    ("join", "join"),
    ("park", "park"),
    ("sleep", "sleep"),
    ("connected", "sleep"),
    ("scope", "scope"),
    ("select", "select"),
];

/// The same of fibers that wait for an operation, and parts of what their descriptors
/// refer to.
const WAITING_FOR_THE_KERNEL: [(&str, &str, [&str; 2]); 6] = [
    ("read", "read", ["tcp 127.0.0.1:", " -> 127.0.0.1:"]),
    ("accept", "accept", ["tcp 127.0.0.1:", " (listening)"]),
    ("datagram", "recv_from", ["udp 127.0.0.1:", ""]),
    ("unix", "accept", ["unix @uthread-dump-", " (listening)"]),
    ("pipe", "read", ["pipe:[", "]"]),
    ("fifo", "read", ["/", "/fifo (deleted)"]),
];

/// A process whose fibers all wait. Ended when it is dropped.
struct Waiting(Child);

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a child of this kind, in this folder.
fn child(folder: &Path, kind: &str) -> Command {
    let mut child = Command::new(env::current_exe().unwrap());
    child
        .args(["--exact", "waits_in_many_ways", "--nocapture"])
        .env(CHILD, kind)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    child
}

impl Waiting {
    fn start(kind: &str) -> Waiting {
        Waiting::start_in(&env::current_dir().unwrap(), kind)
    }

    /// Starts it in this folder, where it leaves a core file if it is aborted.
    fn start_in(folder: &Path, kind: &str) -> Waiting {
        let mut waiting = Waiting(child(folder, kind).spawn().unwrap());
        let lines = BufReader::new(waiting.0.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        assert!(
            lines.any(|line| line == "all are spawned"),
            "the child has ended"
        );
        waiting
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// Dumps the fibers once all wait, or as they are when that takes too long.
    fn dump_waiting(&self, kind: &str) -> Report {
        let kinds = PARKED.len() + WAITING_FOR_THE_KERNEL.len();
        // Two kinds have a child each, and one has a thread each. Then there is the first fiber, and the one that computes.
        let all = (kinds + 3) * EACH + 1 + usize::from(kind != "lean");
        let waits = |group: &Group| !matches!(group.state, State::Ready | State::New);
        // It connects first, which also is an operation.
        let reads = |group: &Group| is_named(group, "read") && is_in(group, "read");
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let report = uthread_dump::dump(self.pid()).unwrap();
            let all_wait = report.fibers() == all
                && report.groups.iter().all(waits)
                && report.groups.iter().any(reads);
            if all_wait || Instant::now() >= deadline {
                return report;
            }
            std::thread::yield_now();
        }
    }
}

fn is_named(group: &Group, name: &str) -> bool {
    let mut fibers = group.fibers.iter();
    fibers.any(|fiber| fiber.name.as_deref() == Some(name))
}

fn is_in(group: &Group, function: &str) -> bool {
    let mut frames = group.frames.iter();
    frames.any(|frame| frame.function.contains(function))
}

/// Returns the group of fibers with this name.
#[track_caller]
fn group<'a>(report: &'a Report, name: &str) -> &'a Group {
    let groups = report.groups.iter();
    let found: Vec<_> = groups.filter(|group| is_named(group, name)).collect();
    assert_eq!(found.len(), 1, "{name}\n{report}");
    found[0]
}

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

/// Returns `true` if an aborted process leaves a core file in its folder.
fn leaves_core_files() -> bool {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let limit = getrlimit(Resource::RLIMIT_CORE).unwrap();
    let leaves = pattern.trim() == "core" && limit.1 >= CORE_BYTES_MAX;
    if !leaves {
        println!("not tested: this system writes core files elsewhere: {pattern}");
    }
    leaves
}

fn only_file_in(folder: &Path) -> PathBuf {
    let mut files = fs::read_dir(folder).unwrap();
    files.next().unwrap().unwrap().path()
}

/// Aborts a process whose fibers all wait. Returns them, and its core file in this folder; `None`
/// where there is none.
fn abort_in(folder: &Path) -> Option<(Report, PathBuf)> {
    if !leaves_core_files() {
        return None;
    }
    let mut waiting = Waiting::start_in(folder, "uring");
    let before = waiting.dump_waiting("uring");
    kill(Pid::from_raw(waiting.pid()), Signal::SIGABRT).unwrap();
    waiting.0.wait().unwrap();
    Some((before, only_file_in(folder)))
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
    let read = |report: &Report| group(report, "read").fibers[0].descriptor.unwrap();
    let shown = group(&report, "read");
    assert!(shown.fibers.iter().all(|fiber| fiber.target.is_none()));
    let line = format!("  waiting on fd {}, ", read(&before));
    assert!(shown.to_string().contains(&line), "{shown}");
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

/// Runs gdb with the script of this program, which it finds by itself, and returns what it prints.
fn gdb(place: &[&str], commands: &[&str]) -> String {
    let program = env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    let is_safe = format!("add-auto-load-safe-path {program}");
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-iex", &is_safe, "-iex", "set width 0"]);
    gdb.arg(program).args(place);
    for command in commands {
        gdb.args(["-ex", command]);
    }
    let output = gdb.output().expect("these tests need gdb");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !errors.contains("ptrace: "),
        "gdb may not trace here: {errors}"
    );
    String::from_utf8_lossy(&output.stdout).into_owned() + &errors
}

/// Checks that gdb shows fibers with this name, each of them in this state and in this function.
#[track_caller]
fn assert_gdb_shows(output: &str, name: &str, count: usize, state: &str, function: &str) {
    let sections = output.split("\n\nFiber ").skip(1);
    let named = format!("\"{name}\", ");
    let shown: Vec<_> = sections
        .filter(|section| section.contains(&named))
        .collect();
    assert_eq!(shown.len(), count, "{name}\n{output}");
    for section in shown {
        let (title, frames) = section.split_once(":\n#").unwrap();
        assert!(title.contains(state), "{section}");
        assert!(title.contains("spawned at "), "{section}");
        assert!(title.contains("tests/fibers/child.rs:"), "{section}");
        assert!(frames.contains(function), "{function}: {section}");
        assert!(frames.contains("fibers::"), "{section}");
        assert!(frames.contains("run_fibers"), "not to its base: {section}");
    }
}

fn assert_gdb_shows_all(output: &str) {
    for (name, function) in PARKED {
        assert_gdb_shows(output, name, EACH, "parked", function);
    }
    for (name, function, _) in WAITING_FOR_THE_KERNEL {
        assert_gdb_shows(
            output,
            name,
            EACH,
            "waiting for an operation on fd ",
            function,
        );
    }
    assert_gdb_shows(output, "computes", 1, "running on thread ", "compute");
    for (name, state) in [
        ("mutex", "parked, waiting for a lock of fiber "),
        ("read-lock", "parked, waiting for a lock of fiber "),
        ("join", "parked, waiting for the end of fiber "),
    ] {
        assert_gdb_shows(output, name, EACH, state, "");
    }
    let dedicated = output.split("\n\nFiber ").skip(1);
    let dedicated = dedicated.filter(|section| section.contains(" of its own, spawned at "));
    let is_in = |section: &&str| section.contains("wait_on_a_thread");
    assert_eq!(dedicated.filter(is_in).count(), EACH, "{output}");
}

/// Returns the id of a fiber with this name.
fn id_of(report: &Report, name: &str) -> u64 {
    group(report, name).fibers[0].id
}

#[test]
fn gdb_shows_every_fiber_of_a_process() {
    let waiting = Waiting::start("uring");
    let report = waiting.dump_waiting("uring");
    let pid = waiting.pid().to_string();
    let output = gdb(&["-p", &pid], &["info fibers", "fiber apply all bt"]);
    assert_gdb_shows_all(&output);
    for fiber in &group(&report, "scope").fibers {
        let scope = format!(" in the scope of fiber {}:\n", fiber.id);
        assert_eq!(output.matches(&scope).count(), 1, "{output}");
    }
    let rows = output.lines().filter(|line| line.contains("tests/fibers/"));
    let rows: Vec<_> = rows.filter(|line| !line.starts_with("Fiber ")).collect();
    assert_eq!(rows.len(), report.fibers(), "{output}");
    for fiber in &group(&report, "sleep").fibers {
        let fields = format!("{} {} parked sleep ", fiber.id, fiber.worker);
        let is_it = |row: &&str| {
            row.split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .starts_with(&fields)
        };
        assert!(rows.iter().any(is_it), "{fields}\n{output}");
    }
    // The process goes on.
    let again = uthread_dump::dump(waiting.pid()).unwrap();
    assert_eq!(again.fibers(), report.fibers());
}

#[test]
fn gdb_shows_every_fiber_of_a_core_file() {
    let folder = tempfile::tempdir().unwrap();
    let Some((report, core)) = abort_in(folder.path()) else {
        return;
    };
    let core = core.to_str().unwrap();
    let id = id_of(&report, "mutex");
    let one = format!("fiber {id} bt");
    let output = gdb(&["-core", core], &["fiber apply all bt"]);
    assert_gdb_shows_all(&output);
    let output = gdb(&["-core", core], &[&one]);
    assert_gdb_shows(&output, "mutex", 1, "parked", "Mutex");
}

#[test]
fn gdb_refuses_another_layout() {
    let waiting = Waiting::start("uring");
    let pid = waiting.pid().to_string();
    let (known, other) = (VERSION, VERSION + 1);
    let version = format!("next(uthread_roots()) + 8, ({other}).to_bytes(4, 'little')");
    let change = format!("python gdb.selected_inferior().write_memory({version})");
    let output = gdb(&["-p", &pid], &[&change, "info fibers"]);
    let reason =
        format!("the program's uthread has layout {other}, and this script knows layout {known}: ");
    assert!(output.contains(&reason), "{output}");
}

/// Also where the command fails. A part of a stack is one of a suspended fiber only.
#[test]
fn gdb_selects_what_was_selected_before() {
    let waiting = Waiting::start("uring");
    let report = waiting.dump_waiting("uring");
    let pid = waiting.pid().to_string();
    let id = id_of(&report, "sleep");
    let [part, up, end, wrong] =
        ["bt 2", "up 3", "bt -1", "wrong"].map(|command| format!("fiber {id} {command}"));
    let mark = "echo \\n--\\n";
    let place = ["thread", "frame", "info registers rip rsp rbp rbx", "bt"];
    let commands = [
        &["thread 2", "frame 1", mark][..],
        &place,
        &[mark, &part, &up, &end, &wrong, "fiber 1 bt", mark],
        &place,
        &[mark],
    ]
    .concat();
    let output = gdb(&["-p", &pid], &commands);
    let parts: Vec<_> = output.split("\n--\n").collect();
    assert!(parts[1].contains("#1 "), "{output}");
    assert_eq!(parts[1], parts[3], "{output}");
    let numbers = parts[2].lines().filter_map(|line| line.split(' ').next());
    let numbers: Vec<_> = numbers.filter(|word| word.starts_with('#')).collect();
    assert_eq!(numbers[..3], ["#1", "#2", "#4"], "{output}");
    assert!(parts[2].contains("stack_init_trampoline"), "{output}");
    assert!(output.contains("there is no fiber 1: "), "{output}");
    assert!(output.contains("Undefined command: \"wrong\""), "{output}");
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

/// The child: all its fibers wait, but for one that computes.
#[test]
fn waits_in_many_ways() {
    let Ok(kind) = env::var(CHILD) else { return };
    let (_, limit) = getrlimit(Resource::RLIMIT_CORE).unwrap();
    setrlimit(Resource::RLIMIT_CORE, limit.min(CORE_BYTES_MAX), limit).unwrap();
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
