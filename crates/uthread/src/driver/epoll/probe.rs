//! The kernel features that this driver uses, tested by the driver's own attempts.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;

use rustix::event::epoll::{self, CreateFlags};
use rustix::fs::OFlags;

use super::file::{Attempt, try_file};
use crate::driver::events;
use crate::driver::feature::{Feature, Usage};
use crate::driver::interest_table::InterestTable;
use crate::op::Operation;
use crate::op::fs::{FileOperation, OpenHow};
use crate::resource::descriptor::{Descriptor, FdState};

/// Runs all tests.
pub(crate) fn probe() -> [Feature; 4] {
    let used = |name, available, instead| Feature {
        name,
        available,
        usage: Usage::Used,
        instead,
    };
    const THREAD: &str = "a thread of the pool";
    [
        used(
            "epoll waits of less than 1 ms",
            Some(events::has_precise_waits()),
            "timers of whole milliseconds",
        ),
        used("epoll opens if cached", opens_cached(), THREAD),
        used("epoll reads files if cached", reads_cached(), THREAD),
        used("epoll reads pipes", reads_pipes(), THREAD),
    ]
}

/// Tests with a path that is always cached.
fn opens_cached() -> Option<bool> {
    let mut open = FileOperation::Open {
        directory: None,
        path: c"/",
        how: OpenHow {
            flags: u64::from((OFlags::PATH | OFlags::CLOEXEC).bits()),
            ..OpenHow::default()
        },
    };
    let mut interests = interests()?;
    match try_file(&mut open, &mut interests) {
        Attempt::Done(Ok(result)) => {
            drop(Operation::File(open).descriptor(result));
            Some(true)
        }
        Attempt::Blocks(_) => Some(false),
        _ => None,
    }
}

/// Tests with the file of this program, whose first page is in memory.
fn reads_cached() -> Option<bool> {
    let file = File::open("/proc/self/exe").ok()?;
    reads_at_once(&file, Some(0))
}

fn reads_pipes() -> Option<bool> {
    let (reader, mut writer) = std::io::pipe().ok()?;
    writer.write_all(b"x").ok()?;
    reads_at_once(&reader, None)
}

/// Returns `true` if an available byte is read without a pool thread.
fn reads_at_once(file: &impl AsFd, offset: Option<u64>) -> Option<bool> {
    let state = FdState::new();
    let mut read = FileOperation::Read {
        file: Descriptor {
            fd: file.as_fd(),
            state: &state,
        },
        buffer: &mut [0],
        offset,
    };
    match try_file(&mut read, &mut interests()?) {
        Attempt::Done(Ok(1)) => Some(true),
        Attempt::Blocks(_) => Some(false),
        _ => None,
    }
}

fn interests() -> Option<InterestTable<Operation<'static>>> {
    let epoll = epoll::create(CreateFlags::CLOEXEC).ok()?;
    Some(InterestTable::new(epoll))
}
