//! A program with `#[uthread::main]`, which is this one. It runs itself once for each way in which
//! a program ends, and checks the exit code and the output.

use std::error::Error;
use std::os::unix::process::ExitStatusExt;
use std::panic::resume_unwind;
use std::process::{Command, Stdio};
use std::{env, process, thread};

use uthread::sync::mpsc::{Receiver, channel};
use uthread::thread::park;
use uthread::{current, spawn, yield_now};

/// Says in a child how to end.
const CASE: &str = "UTHREAD_TEST_CASE";

/// The cases, with the exit code, and what the standard error stream says or begins with.
const CASES: [(&str, i32, &str); 6] = [
    ("returns", 0, ""),
    ("fails", 1, "Error: ParseIntError { kind: InvalidDigit }\n"),
    ("exits", 7, ""),
    ("leaves a fiber", 0, ""),
    ("panics", 101, "uthread: fiber "),
    ("cannot start", 1, "uthread: the runtime cannot start: "),
];

/// Returns an error that is not `Send`: `Box<dyn Error>`.
#[uthread::main(workers = 2, stack_size = KIB << 7)]
fn main() -> Result<(), Box<dyn Error>> {
    #![allow(clippy::unnecessary_wraps, reason = "stays inside of the braces")]
    assert_eq!(current().name(), Some("main"));
    assert_ne!(
        thread::current().name(),
        Some("main"),
        "the caller is not a fiber"
    );
    match env::var(CASE).as_deref() {
        Ok("fails") => drop("no number".parse::<u32>()?),
        Ok("exits") => process::exit(7),
        Ok("leaves a fiber") => leave_a_fiber(),
        Ok("panics") => panic!("on purpose"),
        Ok(_) => {}
        Err(_) => run_cases(),
    }
    Ok(())
}

/// One KiB, as a constant that the option refers to.
const KIB: usize = 1024;

fn run_cases() {
    for (case, code, said) in CASES {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .env(CASE, case)
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null());
        if case == "cannot start" {
            command.env("UTHREAD_DRIVER", "none");
        }
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        let status = output.status;
        assert_eq!(
            status.code(),
            Some(code),
            "{case}: {:?}\n{error}",
            status.signal()
        );
        let is_whole = said.is_empty() || said.ends_with('\n');
        assert!(
            error.starts_with(said) && (!is_whole || error == said),
            "{case}: {error}"
        );
        assert!(
            !error.contains("RUST_BACKTRACE") || case == "panics",
            "{case}: {error}"
        );
        println!("{case}: ok");
    }
    never_returns_to_its_caller();
}

/// Says that it was dropped: of a fiber that vanishes with the process nothing is.
struct Says;

impl Drop for Says {
    fn drop(&mut self) {
        eprintln!("dropped");
    }
}

fn leave_a_fiber() {
    let (begun, has_begun) = channel();
    spawn(move || {
        let _says = Says;
        begun.send(()).unwrap();
        loop {
            park();
        }
    });
    has_begun.recv().unwrap();
}

/// Covers a function of another name and visibility, with a result that its caller never sees.
fn never_returns_to_its_caller() {
    mod inner {
        use super::*;

        #[uthread::main(driver = "threads")]
        #[must_use]
        pub(super) fn start() -> impl process::Termination {
            let (sender, values): (_, Receiver<u8>) = channel();
            spawn(move || sender.send(5));
            yield_now();
            process::ExitCode::from(values.recv().unwrap())
        }

        #[uthread::main]
        pub(super) fn diverge() -> ! {
            resume_unwind(Box::new("quietly"))
        }
    }
    assert_eq!(inner::start(), process::ExitCode::from(5));
    let diverged = spawn(inner::diverge).join();
    assert_eq!(
        *diverged.unwrap_err().downcast::<&str>().unwrap(),
        "quietly"
    );
    println!("functions of other names: ok");
}
