//! The cost of one request through the runtime: fibers read an eventfd, and each read goes to the
//! driver.

#[path = "../../eventfd.rs"]
mod eventfd;

use std::io::{self, Read};

use anyhow::{Result, ensure};
use rustix::event::EventfdFlags;
use uthread::fs::File;
use uthread::{Runtime, try_scope};

/// Performs this many requests, divided among the fibers, and waits for all.
pub(super) fn perform(runtime: &Runtime, fibers: u32, requests: u32) -> Result<()> {
    let file = File::from(eventfd::full(EventfdFlags::empty())?);
    ensure!(fibers > 0, "no fibers");
    let (each, before) = (requests / fibers, runtime.metrics().total().submissions);
    let all = each * fibers;
    ensure!(all > 0, "{requests} requests are none for {fibers} fibers");
    let read_all = || {
        try_scope(|scope| {
            for _ in 0..fibers {
                scope.spawn(|| (0..each).try_for_each(|_| read(&file)));
            }
            Ok(())
        })
    };
    runtime.run(|| eventfd::print_cost(all, read_all))?;
    let submitted = runtime.metrics().total().submissions - before;
    ensure!(
        submitted >= u64::from(all),
        "only {submitted} of {all} requests went through the driver"
    );
    Ok(())
}

fn read(mut file: &File) -> io::Result<()> {
    let mut value = [0; 8];
    let count = file.read(&mut value)?;
    match (count, value) {
        (8, eventfd::ONE) => Ok(()),
        unexpected => Err(io::Error::other(format!("read {unexpected:?}"))),
    }
}
