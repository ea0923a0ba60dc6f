//! A process: its threads, which stop while it is read or run on, its memory, and the files mapped into it.

use std::collections::HashSet;
use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use crate::memory::{Mapping, Memory, Piece, Registers};

/// The time that a thread has to stop. One that waits for a disk or a network file system does not.
const STOP_TIME_MAX: Duration = Duration::from_secs(1);

/// Maximum number of pieces of memory in one system call: the kernel's `UIO_MAXIOV`.
const PIECES_MAX: usize = 1024;

/// A process whose threads are stopped until they are [resumed](Process::resume), or this is
/// dropped.
pub(crate) struct Process {
    pid: Pid,
    stopped_at: Instant,
    threads: Vec<Thread>,
    /// The threads that could not be stopped.
    moving: Vec<Pid>,
}

struct Thread {
    id: Pid,
    /// The signal that was about to be delivered.
    signal: Option<nix::sys::signal::Signal>,
    registers: Registers,
}

impl Process {
    /// Stops all threads of a process.
    ///
    /// # Errors
    ///
    /// The errors of `ptrace(2)`: mostly that there is no such process, or that it may not be traced.
    pub(crate) fn stop(pid: i32) -> Result<Process> {
        let mut process = Process {
            pid: Pid::from_raw(pid),
            stopped_at: Instant::now(),
            threads: Vec::new(),
            moving: Vec::new(),
        };
        let mut known = HashSet::new();
        // A thread that is not stopped yet may start others.
        loop {
            let listed = process.list_threads()?;
            let new: Vec<_> = listed.into_iter().filter(|id| known.insert(*id)).collect();
            if new.is_empty() {
                break;
            }
            for id in new {
                process.stop_thread(id)?;
            }
        }
        if process.threads.is_empty() {
            bail!("process {pid} has no thread that stops");
        }
        Ok(process)
    }

    fn list_threads(&self) -> Result<Vec<Pid>> {
        let folder = format!("/proc/{}/task", self.pid);
        let entries = fs::read_dir(&folder).with_context(|| format!("process {}", self.pid))?;
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        Ok(ids.map(Pid::from_raw).collect())
    }

    /// Stops a thread, unless it has ended meanwhile.
    fn stop_thread(&mut self, id: Pid) -> Result<()> {
        match ptrace::seize(id, ptrace::Options::empty()) {
            Ok(()) => {}
            Err(Errno::ESRCH) => return Ok(()),
            // The process ends: its first thread waits for the others.
            Err(Errno::EPERM) if self.is_ending(id) => return Ok(()),
            Err(errno) => {
                let reason = denied(errno);
                bail!("stopping process {}: {errno}{reason}", self.pid);
            }
        }
        if ptrace::interrupt(id).is_err() {
            return Ok(());
        }
        let deadline = Instant::now() + STOP_TIME_MAX;
        loop {
            let flags = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
            let signal = match waitpid(id, Some(flags)) {
                Ok(WaitStatus::PtraceEvent(..)) => None,
                Ok(WaitStatus::Stopped(_, signal)) => Some(signal),
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_) => return Ok(()),
                Ok(_) if Instant::now() >= deadline => {
                    self.moving.push(id);
                    return Ok(());
                }
                Ok(_) => {
                    thread::sleep(Duration::from_micros(20));
                    continue;
                }
            };
            if let Ok(registers) = ptrace::getregs(id) {
                let registers = Registers {
                    instruction: registers.rip,
                    stack: registers.rsp,
                    base: registers.rbp,
                };
                self.threads.push(Thread {
                    id,
                    signal,
                    registers,
                });
            }
            return Ok(());
        }
    }

    fn is_ending(&self, id: Pid) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/task/{id}/stat", self.pid));
        stat.is_ok_and(|stat| {
            stat.rsplit(')')
                .next()
                .is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']))
        })
    }

    /// Lets the threads continue. Returns the time for which they were stopped, and the number of
    /// those that were not.
    pub(crate) fn resume(&mut self) -> (Duration, usize) {
        for thread in self.threads.drain(..) {
            // It may have been killed.
            let _ = ptrace::detach(thread.id, thread.signal);
        }
        (self.stopped_at.elapsed(), self.moving.len())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.resume();
    }
}

impl Memory for Process {
    fn read(&self, pieces: &mut [Piece]) {
        read(self.pid, pieces);
    }

    fn registers(&self) -> Vec<(i32, Registers)> {
        let threads = self.threads.iter();
        threads
            .map(|thread| (thread.id.as_raw(), thread.registers))
            .collect()
    }

    fn now_ns(&self) -> Option<u64> {
        monotonic_ns()
    }
}

/// A process that runs while it is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running(pub(crate) i32);

impl Running {
    /// Reads the byte at an address.
    ///
    /// # Errors
    ///
    /// Those of `process_vm_readv(2)`: mostly that there is no such process, or that it may not be
    /// read.
    pub(crate) fn probe(self, address: u64) -> Result<()> {
        let remote = [RemoteIoVec {
            base: address as usize,
            len: 1,
        }];
        let (pid, mut byte) = (self.0, [0]);
        let local = &mut [IoSliceMut::new(&mut byte)];
        match process_vm_readv(Pid::from_raw(pid), local, &remote) {
            Ok(_) => Ok(()),
            Err(errno) => bail!("reading process {pid}: {errno}{}", denied(errno)),
        }
    }
}

impl Running {
    /// Writes a word.
    ///
    /// # Errors
    ///
    /// Those of `process_vm_writev(2)`: mostly that there is no such process, or that it may not be
    /// written.
    pub(crate) fn write(self, address: u64, word: u64) -> Result<()> {
        let bytes = word.to_ne_bytes();
        let remote = [RemoteIoVec {
            base: address as usize,
            len: bytes.len(),
        }];
        match process_vm_writev(Pid::from_raw(self.0), &[IoSlice::new(&bytes)], &remote) {
            Ok(_) => Ok(()),
            Err(errno) => bail!("writing to process {}: {errno}{}", self.0, denied(errno)),
        }
    }
}

impl Memory for Running {
    fn read(&self, pieces: &mut [Piece]) {
        read(Pid::from_raw(self.0), pieces);
    }

    fn registers(&self) -> Vec<(i32, Registers)> {
        Vec::new()
    }

    fn now_ns(&self) -> Option<u64> {
        monotonic_ns()
    }
}

fn monotonic_ns() -> Option<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).ok()?;
    Some(Duration::from(time).as_nanos() as u64)
}

/// Reads pieces of memory of a process.
fn read(pid: Pid, pieces: &mut [Piece]) {
    let mut rest = &mut *pieces;
    while !rest.is_empty() {
        let (now, later) = rest.split_at_mut(rest.len().min(PIECES_MAX));
        let mut done = 0;
        // The call ends before the first piece that cannot be read.
        while done < now.len() {
            done += read_some(pid, &mut now[done..]);
            if let Some(failed) = now.get_mut(done) {
                failed.bytes.clear();
                done += 1;
            }
        }
        rest = later;
    }
}

/// Reads pieces of memory. Returns how many were read, from the first one on.
fn read_some(pid: Pid, pieces: &mut [Piece]) -> usize {
    let remote: Vec<_> = pieces
        .iter()
        .map(|piece| RemoteIoVec {
            base: piece.address as usize,
            len: piece.bytes.len(),
        })
        .collect();
    let lengths: Vec<_> = remote.iter().map(|piece| piece.len).collect();
    let mut local: Vec<_> = pieces
        .iter_mut()
        .map(|piece| IoSliceMut::new(&mut piece.bytes))
        .collect();
    let mut left = process_vm_readv(pid, &mut local, &remote).unwrap_or(0);
    let whole = lengths.iter().take_while(|length| {
        let is_whole = left >= **length;
        left = left.saturating_sub(**length);
        is_whole
    });
    whole.count()
}

/// Returns why a process may not be accessed, to be added to an error.
fn denied(errno: Errno) -> &'static str {
    match errno {
        Errno::EPERM => {
            ": it belongs to another user, a debugger traces it, or \
            /proc/sys/kernel/yama/ptrace_scope forbids it"
        }
        _ => "",
    }
}

/// Returns the mappings of files of a process.
///
/// # Errors
///
/// There is no such process, or it belongs to another user.
pub(crate) fn mappings(pid: i32) -> Result<Vec<Mapping>> {
    let path = format!("/proc/{pid}/maps");
    let text = fs::read_to_string(&path).context(path)?;
    Ok(text.lines().filter_map(|line| mapping(pid, line)).collect())
}

/// Parses a line of `maps`: that of a mapping of a file.
fn mapping(pid: i32, line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let is_executable = fields.next()?.contains('x');
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let file = fields.nth(2)?.trim_start();
    if !file.starts_with('/') {
        return None;
    }
    let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
    // By this name also if the file was replaced, or belongs to a container.
    let link = PathBuf::from(format!("/proc/{pid}/map_files/{start}-{end}"));
    let plain = PathBuf::from(format!("/proc/{pid}/root{file}"));
    let path = if fs::metadata(&link).is_ok() {
        link
    } else {
        plain
    };
    Some(Mapping {
        range,
        offset,
        is_executable,
        name: file.to_owned(),
        path,
    })
}
