//! Faults of child processes are reported as by the kernel and `std`.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::harness::child::{alone, run_alone};
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, behaviours, lacks};
use crate::support::{errno, kind};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, WaitOptions, getrlimit, setrlimit, waitpid};
use uthread::io::{ErrorKind, PipeReader, Read, Write, pipe};
use uthread::process::{Command, Stdio};
use uthread::timeout;

behaviours![
    (
        EVERYWHERE,
        [
            a_program_that_is_not_there,
            a_program_that_may_not_be_run,
            a_program_that_is_open_for_writing,
            too_many_arguments,
            a_nul_byte,
            a_shortage_of_descriptors,
            a_child_that_does_not_read,
            a_child_that_was_already_reaped,
            a_number_that_means_another_process,
            a_kernel_without_pidfds
        ]
    ),
    (
        IN_FIBERS,
        [
            a_wait_ends_with_the_runtime_and_not_the_child,
            nothing_starts_once_the_runtime_ends,
            a_wait_ends_in_time_and_not_the_child,
            a_program_that_is_closed_meanwhile_is_run
        ]
    ),
];

fn a_program_that_is_not_there(place: Place) {
    run_alone(place, || {
        assert_eq!(
            errno(Command::new("/no/such/program").spawn()),
            Errno::NOENT
        );
        // The error depends on the directories of PATH.
        let of_std = errno(std::process::Command::new("no-such-program").spawn());
        assert_eq!(errno(Command::new("no-such-program").spawn()), of_std);
        assert_eq!(errno(Command::new("no-such-program").output()), of_std);
        let nowhere = Command::new("true").current_dir("/no/such").status();
        assert_eq!(errno(nowhere), Errno::NOENT);
    });
}

fn a_program_that_may_not_be_run(place: Place) {
    run_alone(place, || {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.into_temp_path();
        assert_eq!(errno(Command::new(&path).spawn()), Errno::ACCESS);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(&path, b"\x7fELF, but not really").unwrap();
        assert_eq!(errno(Command::new(&path).spawn()), Errno::NOEXEC);
    });
}

/// Writes a program, and returns its path and a writer that has it open.
fn written_program() -> (tempfile::TempPath, std::fs::File) {
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    std::fs::copy("/bin/true", &path).unwrap();
    let writer = std::fs::OpenOptions::new().append(true).open(&path);
    (path, writer.unwrap())
}

fn a_program_that_is_open_for_writing(place: Place) {
    run_alone(place, || {
        let (path, _writer) = written_program();
        assert_eq!(errno(Command::new(&path).spawn()), Errno::TXTBSY);
    });
}

/// Closes the program while the fiber that runs it waits.
fn a_program_that_is_closed_meanwhile_is_run(place: Place) {
    run_alone(place, || {
        let (path, writer) = written_program();
        let closes = uthread::spawn(move || drop(writer));
        assert!(Command::new(&path).status().unwrap().success());
        closes.join().unwrap();
    });
}

fn too_many_arguments(place: Place) {
    run_alone(place, || {
        let result = Command::new("true").arg("x".repeat(10_000_000)).spawn();
        assert_eq!(errno(result), Errno::TOOBIG);
    });
}

fn a_nul_byte(place: Place) {
    run_alone(place, || {
        let result = Command::new("true").arg("a\0b").spawn();
        assert_eq!(kind(result), ErrorKind::InvalidInput);
    });
}

fn a_shortage_of_descriptors(place: Place) {
    run_alone(place, || {
        let limit = Rlimit {
            current: Some(64),
            ..getrlimit(Resource::Nofile)
        };
        setrlimit(Resource::Nofile, limit).unwrap();
        let mut taken = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            taken.push(file);
        }
        assert_eq!(errno(Command::new("true").output()), Errno::MFILE);
        // None is needed to start it, and none is left to know the child by: its number serves.
        assert_eq!(errno(pipe()), Errno::MFILE);
        assert!(Command::new("true").status().unwrap().success());
        drop(taken);
    });
}

fn a_child_that_does_not_read(place: Place) {
    run_alone(place, || {
        let mut child = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        child.wait().unwrap();
        assert_eq!(errno(input.write(b"text")), Errno::PIPE);
    });
}

fn a_child_that_was_already_reaped(place: Place) {
    run_alone(place, || {
        let (reader, input) = pipe().unwrap();
        let mut child = Command::new("cat").stdin(reader).spawn().unwrap();
        let id = Pid::from_raw(child.id().cast_signed());
        drop(input);
        waitpid(id, WaitOptions::empty()).unwrap();
        assert_eq!(errno(child.wait()), Errno::CHILD);
        assert_eq!(errno(child.try_wait()), Errno::CHILD);
        // The number may mean another process by now, which must not be killed.
        assert_eq!(errno(child.kill()), Errno::SRCH);
    });
}

fn a_number_that_means_another_process(place: Place) {
    run_alone(place, || {
        let (reader, _input) = pipe().unwrap();
        let mut child = Command::new("true").spawn().unwrap();
        waitpid(
            Pid::from_raw(child.id().cast_signed()),
            WaitOptions::empty(),
        )
        .unwrap();
        let mut other = child_with_number(child.id(), &reader);
        assert_eq!(errno(child.kill()), Errno::SRCH);
        assert_eq!(errno(child.wait()), Errno::CHILD);
        assert_eq!(
            other.try_wait().unwrap(),
            None,
            "the other process was killed"
        );
    });
}

/// Starts another child with the number of one that has gone. Others take numbers too, so it takes
/// some tries.
fn child_with_number(number: u32, input: &PipeReader) -> std::process::Child {
    for _ in 0..1000 {
        if std::fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).is_err() {
            lacks("it takes a right to choose the number of a process");
        }
        let mut command = std::process::Command::new("cat");
        let mut child = command.stdin(input.try_clone().unwrap()).spawn().unwrap();
        if child.id() == number {
            return child;
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    lacks("too many processes start");
}

fn a_kernel_without_pidfds(place: Place) {
    run_alone(place, || {
        forbid_pidfds();
        let (reader, input) = pipe().unwrap();
        let mut child = Command::new("cat").stdin(reader).spawn().unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        let status = place.meanwhile(|| child.wait(), || drop(input)).unwrap();
        assert_eq!(status.code(), Some(0));
        assert_eq!(child.try_wait().unwrap(), Some(status));
        let (reader, _input) = pipe().unwrap();
        let mut child = Command::new("cat").stdin(reader).spawn().unwrap();
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        let output = Command::new("echo").arg("text").output().unwrap();
        assert_eq!(output.stdout, b"text\n");
    });
}

/// Forbids pidfds to all threads of the process, and to those that start later, as a sandbox does.
fn forbid_pidfds() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter_all_threads};
    let Ok(architecture) = std::env::consts::ARCH.try_into() else {
        lacks("filters are not known for this architecture");
    };
    let calls = [(libc::SYS_pidfd_open, vec![])].into();
    let refused = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, refused, architecture).unwrap();
    let program = BpfProgram::try_from(filter).unwrap();
    apply_filter_all_threads(&program).unwrap();
}

fn a_wait_ends_with_the_runtime_and_not_the_child(place: Place) {
    alone(|| {
        let (reader, mut input) = pipe().unwrap();
        let (mut output, writer) = pipe().unwrap();
        let runtime = place.runtime_of(1);
        let child = runtime.run(|| Command::new("cat").stdin(reader).stdout(writer).spawn());
        let mut child = child.unwrap();
        let waiting = place.spawn_waiting(&runtime, move || (child.wait(), child));
        let mut command = Command::new("cat");
        let (other_reader, other_input) = pipe().unwrap();
        command.stdin(other_reader);
        let reading = place.spawn_waiting(&runtime, move || command.output());
        drop(runtime);
        let (result, mut child) = waiting.join().unwrap();
        assert_eq!(errno(result), Errno::CANCELED);
        assert_eq!(errno(reading.join().unwrap()), Errno::CANCELED);
        input.write_all(b"still there").unwrap();
        drop((input, other_input));
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "still there");
        assert!(child.wait().unwrap().success());
    });
}

fn nothing_starts_once_the_runtime_ends(place: Place) {
    alone(|| {
        let runtime = place.runtime_of(1);
        let (reader, _writer) = pipe().unwrap();
        let waiting = place.spawn_waiting(&runtime, move || {
            let refused = (&reader).read(&mut [0]).is_err();
            (refused, Command::new("true").spawn())
        });
        drop(runtime);
        let (refused, child) = waiting.join().unwrap();
        assert!(refused);
        assert_eq!(errno(child), Errno::CANCELED);
    });
}

fn a_wait_ends_in_time_and_not_the_child(place: Place) {
    run_alone(place, || {
        let soon = Duration::from_millis(5);
        let (reader, input) = pipe().unwrap();
        let mut child = Command::new("cat").stdin(reader).spawn().unwrap();
        assert_eq!(
            errno(timeout(soon, || child.wait()).unwrap()),
            Errno::TIMEDOUT
        );
        assert_eq!(child.try_wait().unwrap(), None);
        drop(input);
        assert!(child.wait().unwrap().success());
        let (reader, _input) = pipe().unwrap();
        let mut command = Command::new("cat");
        command.stdin(reader);
        assert_eq!(
            errno(timeout(soon, || command.output()).unwrap()),
            Errno::TIMEDOUT
        );
    });
}
