//! Child processes: their streams, their ends, and waiting for them.

use std::cell::Cell;
use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;

use crate::harness::child::run_alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, Gap, ON_ONE_WORKER, behaviours};
use crate::support::{Flag, assert_same, errno, eventually, file_of, pattern};
use rustix::io::Errno;
use uthread::io::{BufRead, BufReader, Read, Write, pipe};
use uthread::priority::{self, Priority};
use uthread::process::{Child, Command, Stdio};
use uthread::signal::Signal;
use uthread::{spawn, yield_now};

behaviours![
    (
        EVERYWHERE,
        [
            a_command_is_as_it_was_built,
            output_is_what_both_streams_got,
            output_takes_streams_that_were_chosen,
            much_on_both_streams_does_not_deadlock,
            a_file_in_place_of_a_stream_is_read_too,
            lines_come_through_an_adapter_of_std,
            a_conversation_goes_both_ways,
            streams_of_ours_become_a_childs,
            waiters_learn_of_the_exit,
            waiting_closes_the_input,
            an_end_is_reported_again,
            try_wait_does_not_wait,
            signals_end_a_child_and_are_reported,
            a_dropped_child_goes_on,
            many_children_at_once,
            children_of_std_are_waited_for,
            closures_run_in_the_child,
            a_child_has_the_io_priority_of_the_process
        ]
    ),
    (ON_ONE_WORKER, [waiters_leave_their_worker_to_others]),
    (
        &[Gap(|place| !place.is_of_fibers(), "about workers")],
        [closures_run_in_a_child_of_the_worker]
    ),
];

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Returns a child that ends when its input does, and the writer of that input.
fn waiting_child() -> (Child, uthread::io::PipeWriter) {
    let (reader, writer) = pipe().unwrap();
    let child = Command::new("cat").stdin(reader).spawn().unwrap();
    (child, writer)
}

fn a_command_is_as_it_was_built(place: Place) {
    run_alone(place, || {
        let mut command = shell("echo $0 $A ${HOME-no} $(pwd) $*");
        command
            .arg0("sh")
            .args(["me", "x y"])
            .env_clear()
            .envs([("A", "1")]);
        command.env("PATH", "/usr/bin:/bin").current_dir("/proc");
        assert_eq!(command.get_program(), "sh");
        assert_eq!(command.get_args().count(), 4);
        assert_eq!(command.get_current_dir().unwrap().to_str(), Some("/proc"));
        for _ in 0..2 {
            let output = command.output().unwrap();
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                "me 1 no /proc x y\n"
            );
        }
    });
}

fn output_is_what_both_streams_got(place: Place) {
    run_alone(place, || {
        let output = shell("cat; echo out; echo err >&2; exit 3")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(output.stdout, b"out\n");
        assert_eq!(output.stderr, b"err\n");
    });
}

fn output_takes_streams_that_were_chosen(place: Place) {
    run_alone(place, || {
        let mut command = shell("cat; echo err >&2");
        command.stdin(file_of(b"")).stderr(Stdio::null());
        let output = command.output().unwrap();
        assert_eq!((output.stdout.len(), output.stderr.len()), (0, 0));
        // The pipes that `output` sets by itself are not kept.
        let mut command = shell("exit $(readlink /proc/self/fd/1 | grep -c pipe)");
        let piped = command.output().unwrap().status.code();
        let (reader, writer) = pipe().unwrap();
        let other = command.stdout(writer).status().unwrap().code();
        drop(reader);
        assert_eq!((piped, other), (Some(1), Some(1)));
        let mut child = shell("true").spawn().unwrap();
        assert!(child.stdout.is_none());
        child.wait().unwrap();
        let mut command = shell("true");
        command.output().unwrap();
        let mut child = command.spawn().unwrap();
        assert!(child.stdin.is_none() && child.stdout.is_none() && child.stderr.is_none());
        child.wait().unwrap();
    });
}

fn much_on_both_streams_does_not_deadlock(place: Place) {
    const SCRIPT: &str = "cat >&2; head -c 1000000 /dev/zero; head -c 300000 /dev/zero >&2";
    run_alone(place, || {
        let bytes = pattern(500_000, 3);
        let mut command = shell(SCRIPT);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let sent = bytes.clone();
        let sender = spawn(move || input.write_all(&sent));
        let output = child.wait_with_output().unwrap();
        sender.join().unwrap().unwrap();
        assert!(output.status.success());
        assert_same(&output.stdout, &vec![0; 1_000_000]);
        assert_same(&output.stderr[..500_000], &bytes);
        assert_eq!(output.stderr.len(), 800_000);
    });
}

fn a_file_in_place_of_a_stream_is_read_too(place: Place) {
    run_alone(place, || {
        let mut command = shell("echo err >&2");
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut file = std::fs::File::from(file_of(b"from a file"));
        std::io::Seek::rewind(&mut file).unwrap();
        child.stdout = Some(std::os::fd::OwnedFd::from(file).into());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"from a file");
        assert_eq!(output.stderr, b"err\n");
    });
}

fn lines_come_through_an_adapter_of_std(place: Place) {
    run_alone(place, || {
        let mut command = shell("for i in 1 2 3; do echo line $i; done");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let lines: Vec<_> = lines.map(Result::unwrap).collect();
        assert_eq!(lines, ["line 1", "line 2", "line 3"]);
        assert!(child.wait().unwrap().success());
    });
}

fn a_conversation_goes_both_ways(place: Place) {
    run_alone(place, || {
        let mut command = Command::new("cat");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        for round in 0..50 {
            writeln!(input, "round {round}").unwrap();
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            assert_eq!(line, format!("round {round}\n"));
        }
        drop(input);
        assert_eq!(output.read(&mut [0]).unwrap(), 0);
        assert!(child.wait().unwrap().success());
    });
}

fn streams_of_ours_become_a_childs(place: Place) {
    run_alone(place, || {
        let mut first = shell("echo one two")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut reader, writer) = pipe().unwrap();
        let mut second = Command::new("tr");
        second
            .arg("a-z")
            .arg("A-Z")
            .stdin(first.stdout.take().unwrap())
            .stdout(writer);
        let status = second.status().unwrap();
        drop(second); // It keeps the writer, as that of `std` does.
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), status.code()), ("ONE TWO\n", Some(0)));
        first.wait().unwrap();
    });
}

fn waiters_learn_of_the_exit(place: Place) {
    run_alone(place, || {
        let (mut child, input) = waiting_child();
        let status = place.meanwhile(|| child.wait(), || drop(input)).unwrap();
        assert_eq!(status.code(), Some(0));
        let (child, input) = waiting_child();
        let output = place.meanwhile(|| child.wait_with_output(), || drop(input));
        assert!(output.unwrap().status.success());
        let (reader, input) = pipe().unwrap();
        let mut command = shell("cat; echo done; echo failed >&2");
        let event = move || drop(input);
        command.stdin(reader);
        let output = place.meanwhile(move || command.output(), event).unwrap();
        assert_eq!(
            (output.stdout, output.stderr),
            (b"done\n".to_vec(), b"failed\n".to_vec())
        );
    });
}

fn waiters_leave_their_worker_to_others(place: Place) {
    run_alone(place, || {
        let (mut child, input) = waiting_child();
        let flag = Flag::default();
        let waits = flag.clone();
        let waiting = spawn(move || {
            waits.raise();
            child.wait().unwrap()
        });
        flag.wait();
        (0..100).for_each(|_| yield_now());
        assert!(!waiting.is_finished());
        drop(input);
        assert!(waiting.join().unwrap().success());
    });
}

fn waiting_closes_the_input(place: Place) {
    run_alone(place, || {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(child.wait().unwrap().success());
        assert!(child.stdin.is_none());
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(child.wait_with_output().unwrap().status.success());
    });
}

fn an_end_is_reported_again(place: Place) {
    run_alone(place, || {
        let mut child = shell("exit 5").spawn().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(5));
        assert_eq!(child.wait().unwrap(), status);
        assert_eq!(child.try_wait().unwrap(), Some(status));
        child.kill().unwrap();
        child.send_signal(Signal::TERM).unwrap();
        assert_eq!(child.wait_with_output().unwrap().status, status);
    });
}

fn try_wait_does_not_wait(place: Place) {
    run_alone(place, || {
        let (mut child, input) = waiting_child();
        assert_eq!(child.try_wait().unwrap(), None);
        drop(input);
        let status = std::sync::Mutex::new(None);
        let child = std::sync::Mutex::new(child);
        eventually("the child ends", || {
            *status.lock().unwrap() = child.lock().unwrap().try_wait().unwrap();
            status.lock().unwrap().is_some()
        });
        assert_eq!(status.into_inner().unwrap().unwrap().code(), Some(0));
    });
}

fn signals_end_a_child_and_are_reported(place: Place) {
    run_alone(place, || {
        let (mut child, _input) = waiting_child();
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        for (signal, code) in [(Signal::TERM, 15), (Signal::USR1, 10), (Signal::USR2, 12)] {
            let (mut child, _input) = waiting_child();
            // Not killed by `std`, whose handle knows nothing of it.
            child.send_signal(signal).unwrap();
            let status = child.wait().unwrap();
            assert_eq!(
                (status.signal(), status.code()),
                (Some(code), None),
                "{signal}"
            );
        }
        // One that ended, and that nobody waited for, takes a signal without an error.
        let (mut child, input) = waiting_child();
        drop(input);
        eventually("it ends", || is_zombie(child.id()));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    });
}

fn is_zombie(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().starts_with('Z')
}

fn a_dropped_child_goes_on(place: Place) {
    run_alone(place, || {
        let (reader, mut input) = pipe().unwrap();
        let (mut output, writer) = pipe().unwrap();
        drop(
            Command::new("cat")
                .stdin(reader)
                .stdout(writer)
                .spawn()
                .unwrap(),
        );
        input.write_all(b"still there").unwrap();
        drop(input);
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "still there");
    });
}

fn many_children_at_once(place: Place) {
    run_alone(place, || {
        let children = (0..20).map(|code: i32| {
            spawn(move || {
                let output = shell(&format!("echo $$; exit {code}")).output().unwrap();
                assert_eq!(output.status.code(), Some(code));
                output.stdout
            })
        });
        let children: Vec<_> = children.collect();
        let ids: HashSet<_> = children
            .into_iter()
            .map(|child| child.join().unwrap())
            .collect();
        assert_eq!(ids.len(), 20);
    });
}

fn children_of_std_are_waited_for(place: Place) {
    run_alone(place, || {
        let mut command = std::process::Command::new("cat");
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = Child::from(child);
        child.stdin.take().unwrap().write_all(b"text").unwrap();
        assert_eq!(child.wait_with_output().unwrap().stdout, b"text");
        // One whose status `std` has taken already.
        let mut child = std::process::Command::new("false").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(Child::from(child).wait().unwrap().code(), Some(1));
    });
}

#[allow(unsafe_code, reason = "closures before exec are unsafe by definition")]
fn closures_run_in_the_child(place: Place) {
    run_alone(place, || {
        let mut command = Command::new("true");
        // SAFETY: the closure only makes an error of a number.
        unsafe { command.pre_exec(|| Err(Errno::NOTUNIQ.into())) };
        assert_eq!(errno(command.spawn()), Errno::NOTUNIQ);
        let mut command = shell("echo ran");
        // SAFETY: the closure does nothing.
        unsafe { command.pre_exec(|| Ok(())) };
        assert_eq!(command.output().unwrap().stdout, b"ran\n");
    });
}

thread_local! {
    static MARKED: Cell<bool> = const { Cell::new(false) };
}

#[allow(unsafe_code, reason = "closures before exec are unsafe by definition")]
fn closures_run_in_a_child_of_the_worker(place: Place) {
    run_alone(place, || {
        let mut command = Command::new("true");
        let look = || {
            if MARKED.get() {
                Ok(())
            } else {
                Err(Errno::NOTUNIQ.into())
            }
        };
        // SAFETY: the closure reads a value of the thread, of which the child has a copy.
        unsafe { command.pre_exec(look) };
        // No call between these suspends the fiber.
        MARKED.set(true);
        let child = command.spawn();
        MARKED.set(false);
        assert!(child.unwrap().wait().unwrap().success());
    });
}

#[allow(unsafe_code, reason = "a system call that no crate offers")]
fn io_priority_of(process: u32) -> i64 {
    const WHO_PROCESS: i32 = 1;
    // SAFETY: the call accesses no memory.
    unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, process) }
}

/// Starts children in fibers of each priority, which is that of their reads and writes only.
fn a_child_has_the_io_priority_of_the_process(place: Place) {
    run_alone(place, || {
        let own = io_priority_of(std::process::id());
        for priority in [Priority::Urgent, Priority::Normal, Priority::Background] {
            priority::with(priority, || {
                // A thread for files has it.
                uthread::fs::metadata("/").unwrap();
                let (child, _writer) = waiting_child();
                assert_eq!(io_priority_of(child.id()), own, "{priority:?}");
                let start = || {
                    std::process::Command::new("cat")
                        .stdin(Stdio::piped())
                        .spawn()
                };
                let mut child = uthread::blocking(start).unwrap();
                assert_eq!(io_priority_of(child.id()), own, "{priority:?}, of std");
                drop(child.stdin.take());
                child.wait().unwrap();
            });
        }
    });
}
