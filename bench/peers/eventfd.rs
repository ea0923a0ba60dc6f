//! The request whose cost is compared, and how that is taken: the same for each technique.
//!
//! A request reads 8 bytes from an eventfd that holds more than all requests take, each takes one.
//! So it never waits, and does so little that what is left is the cost of asking.
//!
//! The program says that it is ready, with all its threads, and waits for a line on its standard
//! input before the first request, and after the last: a count of system calls from outside begins
//! and ends there. Where there is no such input it does not wait.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use rustix::time::{ClockId, clock_gettime};

/// The value that a request reads.
pub(crate) const ONE: [u8; 8] = 1_u64.to_ne_bytes();

/// Returns an eventfd that as many requests can read as there are numbers of 32 bits.
pub(crate) fn full(flags: EventfdFlags) -> io::Result<OwnedFd> {
    let flags = flags | EventfdFlags::SEMAPHORE | EventfdFlags::CLOEXEC;
    Ok(eventfd(u32::MAX, flags)?)
}

/// Prints that it is ready, and then the nanoseconds of each request: those that passed, and those
/// of all the process's threads together.
pub(crate) fn print_cost(
    requests: u32,
    perform: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    println!("ready");
    wait_for_line()?;
    let (begin, cpu_ns_before) = (Instant::now(), cpu_ns());
    perform()?;
    let wall_ns = begin.elapsed().as_nanos() as f64;
    let cpu_ns = cpu_ns() - cpu_ns_before;
    let each = f64::from(requests);
    println!("{:.1} {:.1}", wall_ns / each, cpu_ns / each);
    wait_for_line()
}

fn wait_for_line() -> io::Result<()> {
    io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// Returns the CPU time of this process, including its threads in the kernel.
pub(crate) fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
