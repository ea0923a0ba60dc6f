//! The techniques by which a program can ask the kernel for something, without a runtime.
//! `bench/peers/README.md` tells what each command does.

#[path = "../../eventfd.rs"]
mod eventfd;
mod linux_aio;
mod posix_aio;
mod ring;
mod value;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{EventfdFlags, epoll};

use eventfd::print_cost;
use ring::BATCH;
use value::check;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let requests = arguments[1].parse().expect("a number");
    let flags = match arguments[0].as_str() {
        "epoll" => EventfdFlags::NONBLOCK,
        _ => EventfdFlags::empty(),
    };
    let eventfd = eventfd::full(flags)?;
    let fd = eventfd.as_fd();
    match arguments[0].as_str() {
        "blocking" => print_cost(requests, || (0..requests).try_for_each(|_| read(fd))),
        "epoll" => wait_and_read(fd, requests),
        "posix-aio" => print_cost(requests, || posix_aio::read(fd, requests)),
        "linux-aio" => linux_aio::read(fd, requests),
        "ring" => ring::read(fd, requests, 1),
        "ring-batched" => ring::read(fd, requests, BATCH),
        unknown => panic!("unknown command {unknown}"),
    }
}

fn read(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut value = [0; 8];
    rustix::io::read(fd, &mut value)?;
    check(value)
}

/// Asks each time whether there is something, as a loop around readiness does, and then reads it.
fn wait_and_read(fd: BorrowedFd<'_>, requests: u32) -> io::Result<()> {
    let readable = epoll::EventFlags::IN;
    let instance = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&instance, fd, epoll::EventData::new_u64(0), readable)?;
    let mut events = Vec::with_capacity(1);
    print_cost(requests, || {
        (0..requests).try_for_each(|_| {
            events.clear();
            epoll::wait(&instance, rustix::buffer::spare_capacity(&mut events), None)?;
            assert!(
                events
                    .iter()
                    .any(|event| { event.flags }.contains(readable))
            );
            read(fd)
        })
    })
}
