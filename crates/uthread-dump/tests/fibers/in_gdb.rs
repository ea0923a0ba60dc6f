//! The same fibers in gdb.

use std::env;
use std::process::Command;

use uthread::root::VERSION;
use uthread_dump::Report;

use crate::child::EACH;
use crate::support::{PARKED, WAITING_FOR_THE_KERNEL, Waiting, abort_in, group};

/// Runs gdb with the script of this program, which it finds by itself, and returns what it prints.
pub(crate) fn gdb(place: &[&str], commands: &[&str]) -> String {
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
    assert!(parts[2].contains("::outermost"), "{output}");
    assert!(output.contains("there is no fiber 1: "), "{output}");
    assert!(output.contains("Undefined command: \"wrong\""), "{output}");
}

/// Such a file lacks what is in the files of the program. It also lacks stacks if their guards are
/// regions of the same mapping, at which gdb stops to read.
#[test]
fn a_core_file_that_gdb_writes_is_read() {
    let waiting = Waiting::start("uring");
    let before = waiting.dump_waiting("uring");
    let folder = tempfile::tempdir().unwrap();
    let core = folder.path().join("core");
    let pid = waiting.pid().to_string();
    let write = format!("gcore {}", core.display());
    let output = gdb(&["-p", &pid], &[&write]);
    let report = uthread_dump::dump_core(&core, None);
    let report = report.unwrap_or_else(|error| panic!("{error:#}\n{output}"));
    let missing = report.problems.iter().map(|problem| {
        let (count, rest) = problem.split_once(' ').unwrap();
        assert!(rest.starts_with("fibers are missing: "), "{report}");
        count.parse::<usize>().unwrap()
    });
    let missing: usize = missing.sum();
    assert_eq!(report.fibers() + missing, before.fibers(), "{report}");
    assert!(
        missing == 0 || output.contains("Memory read failed"),
        "{output}"
    );
}
