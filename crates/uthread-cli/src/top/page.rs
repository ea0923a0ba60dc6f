//! A sample as text of any width, for `--once`.

use std::io::{self, Write};

use uthread_dump::Sample;

use super::columns::{self, Order};

/// No line is cut.
const WIDTH: usize = usize::MAX;

pub(super) fn write(out: &mut Vec<u8>, sample: &Sample) -> io::Result<()> {
    let mut line = |line: &str| writeln!(out, "{}", line.trim_end());
    for text in columns::summary(sample) {
        line(&text)?;
    }
    for problem in &sample.problems {
        line(&format!("incomplete: {problem}"))?;
    }
    line("")?;
    line(&columns::workers_title(WIDTH))?;
    for text in columns::workers(sample, WIDTH) {
        line(&text)?;
    }
    line("")?;
    line(&columns::sites_title(Order::default()))?;
    for text in columns::sites(&sample.sites, WIDTH) {
        line(&text)?;
    }
    Ok(())
}
