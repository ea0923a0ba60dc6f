//! Blocking calls, one at a time, whatever the depth.

use std::io;
use std::time::Instant;

use super::{Work, call};
use crate::blocks;
use crate::tally::Tally;
use crate::test_files;

pub(super) fn perform(work: &Work) -> io::Result<Tally> {
    let mut buffer = test_files::buffer(&work.file)?;
    let mut tally = Tally::new();
    while let Some(request) = work.walk.next() {
        blocks::prepare(request, &mut buffer);
        let begin = Instant::now();
        let result = call(&work.file, request, &mut buffer);
        let latency = begin.elapsed();
        blocks::check(request, result, &buffer)?;
        tally.record(request, latency);
    }
    tally.calls = Some(tally.requests());
    Ok(tally)
}
