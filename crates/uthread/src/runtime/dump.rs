//! A list of all fibers on `SIGQUIT`.

use std::sync::{Arc, Mutex, Weak};
use std::{io, thread};

use signal_hook::consts::SIGQUIT;
use signal_hook::iterator::Signals;

use super::LIST_TIME_MAX;
use crate::atomic::lock;
use crate::driver::native::standard_error;
use crate::driver::native::stillness;
use crate::fiber::Grouped;
use crate::forked::{self, PerProcess};
use crate::pool::Job;
use crate::sched::features::listing;
use crate::sched::shared::Shared;

/// The runtimes whose fibers are listed. `None` until there is a thread that does.
type Listed = Mutex<Option<Vec<Weak<Shared>>>>;

static LISTED: PerProcess<Listed> = PerProcess::new(Mutex::new(None), Mutex::default);

/// Lists the fibers of a runtime on `SIGQUIT`, too.
///
/// # Errors
///
/// Any error with which the kernel refuses the handler or its thread.
pub(super) fn on_quit(shared: &Arc<Shared>) -> io::Result<()> {
    let mut listed = lock(LISTED.get());
    if listed.is_none() {
        let mut signals = Signals::new([SIGQUIT])?;
        let body: Job = Box::new(move || {
            stillness::expect(SIGQUIT);
            signals.forever().for_each(|_| print());
        });
        let thread = thread::Builder::new().name("uthread-dump".into());
        forked::spawn(thread, body)?;
    }
    let runtimes = listed.get_or_insert_default();
    runtimes.retain(|runtime| runtime.strong_count() > 0);
    runtimes.push(Arc::downgrade(shared));
    Ok(())
}

fn print() {
    let runtimes = lock(LISTED.get()).clone().unwrap_or_default();
    for shared in runtimes.iter().filter_map(Weak::upgrade) {
        let workers = shared.workers();
        match listing::fibers(&shared, LIST_TIME_MAX) {
            Some(fibers) => standard_error::print(format_args!(
                "uthread: fibers: {}, workers: {workers}\n{}",
                fibers.len(),
                Grouped(&fibers)
            )),
            None => standard_error::print(format_args!("uthread: {}\n", super::NO_LIST)),
        }
    }
}
