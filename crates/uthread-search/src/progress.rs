//! A line on the terminal for searches that take long.

use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::fs::FileType;
use uthread::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use uthread::thread::Scope;

use crate::search::Search;

/// The line appears after so long, and changes as often.
const APPEARS_AFTER: Duration = Duration::from_secs(1);
const CHANGES_AFTER: Duration = Duration::from_millis(200);

/// Shows the progress of a search until the returned value is dropped, if there is a terminal and
/// nobody reads the results through a pipe.
pub(crate) fn show<'scope>(
    scope: &'scope Scope<'scope, '_>,
    search: &'scope Search<'_>,
) -> Option<SyncSender<()>> {
    let stdout = rustix::fs::fstat(rustix::stdio::stdout()).ok()?;
    let is_piped = FileType::from_raw_mode(stdout.st_mode) == FileType::Fifo;
    if is_piped || !std::io::stderr().is_terminal() {
        return None;
    }
    let (until, ended) = mpsc::sync_channel::<()>(0);
    scope.spawn(move || {
        let start = Instant::now();
        let mut wait = APPEARS_AFTER;
        while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            search.output.show_progress(&line(search, start.elapsed()));
            wait = CHANGES_AFTER;
        }
        search.output.show_progress("");
    });
    Some(until)
}

fn line(search: &Search<'_>, elapsed: Duration) -> String {
    let files = search.files.load(Ordering::Relaxed);
    let mebibytes = search.bytes.load(Ordering::Relaxed) as f64 / f64::from(1 << 20);
    let rate = mebibytes / elapsed.as_secs_f64();
    format!("{files} files, {mebibytes:.0} MiB searched, {rate:.0} MiB/s")
}
