//! The guest: a qemu machine without a disk or a network card.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::plan::GUEST_MEMORY_MIB;
use super::results;

/// Interval at which to check the progress of the guest.
const LOOK: Duration = Duration::from_millis(500);

/// Everything that qemu emulates except `cmpxchg16b`: 7.2 sets wrong flags after it, and kernels
/// that use it crash.
const CPU: &str = "max,cx16=off";

/// Kernel parameters: messages on the first serial line, power off at a panic, and no mitigations,
/// which cost time under emulation.
const ARGUMENTS: &str = "console=ttyS0 panic=-1 mitigations=off";

pub(crate) struct Guest<'a> {
    pub(crate) kernel: &'a Path,
    pub(crate) initramfs: &'a Path,
    /// Additional kernel parameters.
    pub(crate) arguments: &'a str,
    pub(crate) execution: Execution,
    /// Time limit from power on to power off.
    pub(crate) limit: Duration,
}

/// How qemu executes the guest's instructions.
#[derive(Clone, Copy)]
pub(crate) enum Execution {
    /// By emulation, on two CPUs.
    Emulated,
    /// By emulation, on one CPU whose clock is their number: a nanosecond each.
    Counted,
}

impl Execution {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Execution::Emulated => &["-accel", "tcg,thread=multi", "-smp", "2"],
            Execution::Counted => &["-accel", "tcg,thread=single", "-icount", "shift=0"],
        }
    }
}

impl Guest<'_> {
    /// Boots the kernel and returns the output of the tests, which is incomplete if the guest had
    /// to be stopped. The output of both serial lines stays in `folder`.
    pub(crate) fn run(&self, folder: &Path) -> io::Result<String> {
        let lines = ["kernel.log", "tests.log"].map(|name| folder.join(name));
        for line in &lines {
            fs::write(line, "")?;
        }
        let mut guest = self.command(&lines).stdin(Stdio::null()).spawn()?;
        let ended = watch(&mut guest, &lines[1], self.limit);
        if !matches!(ended, Ok(true)) {
            guest.kill()?;
            guest.wait()?;
        }
        if !ended? {
            eprintln!("  stopped after {} minutes", self.limit.as_secs() / 60);
        }
        let output = fs::read(&lines[1])?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    fn command(&self, lines: &[PathBuf; 2]) -> Command {
        let mut command = Command::new("qemu-system-x86_64");
        command.args(self.execution.arguments()).args(["-cpu", CPU]);
        command.args(["-m", &GUEST_MEMORY_MIB.to_string()]);
        command.args([
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
        ]);
        for line in lines {
            command
                .arg("-serial")
                .arg(format!("file:{}", line.display()));
        }
        command.arg("-kernel").arg(self.kernel);
        command.arg("-initrd").arg(self.initramfs);
        command
            .arg("-append")
            .arg(format!("{ARGUMENTS} {}", self.arguments));
        command
    }
}

/// Reports each finished program until the guest has ended; returns true if it ended in time.
fn watch(guest: &mut Child, tests: &Path, limit: Duration) -> io::Result<bool> {
    let start = Instant::now();
    let mut reported = 0;
    loop {
        let ended = guest.try_wait()?.is_some();
        let output = fs::read(tests)?;
        let runs = results::ended_runs(&String::from_utf8_lossy(&output));
        for run in &runs[reported..] {
            eprintln!("  {run} after {} s", start.elapsed().as_secs());
        }
        reported = runs.len();
        if ended || start.elapsed() > limit {
            return Ok(ended);
        }
        thread::sleep(LOOK);
    }
}
