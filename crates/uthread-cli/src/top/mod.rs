//! `uthread top`: the workers and the fibers of a running program, over time.
//!
//! | module | contents |
//! | --- | --- |
//! | [`screen`] | the screen, and the keys |
//! | [`page`] | the sample as text |
//! | [`columns`] | the columns of both |

mod columns;
mod page;
mod screen;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use uthread::signal::{Signal, Signals};
use uthread_dump::{Report, Sample, Watch};

use crate::args::TopArgs;
use crate::exit::Exit;
use crate::output::{print, tell};
use screen::{Screen, Wish};

/// The pauses between two looks at the workers, on average 4 ms. They differ, so that they have no
/// rhythm in common with the process.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_SPREAD: Duration = Duration::from_millis(4);

/// The golden ratio, whose multiples are spread evenly.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// The time until the first sample on the screen, so that it is not empty for long.
const FIRST_MAX: Duration = Duration::from_millis(300);

pub(crate) fn run(args: &TopArgs) -> Exit {
    if !args.once && !io::stdout().is_terminal() {
        tell("stdout is no terminal: use --once");
        return Exit::CouldNotStart;
    }
    let done = if args.once { once(args) } else { show(args) };
    done.unwrap_or_else(|error| {
        tell(format_args!("{error:#}"));
        Exit::FailedRunning
    })
}

/// Prints one sample.
fn once(args: &TopArgs) -> anyhow::Result<Exit> {
    let mut watch = Watch::open(args.pid)?;
    let mut pauses = Pauses::default();
    let end = Instant::now() + args.interval;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        thread::sleep(pauses.next().min(left));
        watch.look()?;
    }
    let sample = watch.sample()?;
    Ok(print(|out| write_sample(out, &sample, args.json)))
}

fn write_sample(out: &mut Vec<u8>, sample: &Sample, json: bool) -> io::Result<()> {
    if json {
        serde_json::to_writer_pretty(&mut *out, sample)?;
        return writeln!(out);
    }
    page::write(out, sample)
}

/// Shows samples on the terminal until the user quits, a signal arrives or the process ends.
fn show(args: &TopArgs) -> anyhow::Result<Exit> {
    let mut watch = Watch::open(args.pid)?;
    // Before the terminal changes: they would end the program without restoring it.
    let mut signals =
        Signals::new([Signal::TERM, Signal::INT]).context("cannot watch for signals")?;
    let mut terminal = ratatui::try_init().context("the terminal cannot be prepared")?;
    let done = repeat(args, &mut watch, &mut terminal, &mut signals);
    ratatui::try_restore().context("the terminal cannot be restored")?;
    done.map(|()| Exit::Done)
}

fn repeat(
    args: &TopArgs,
    watch: &mut Watch,
    terminal: &mut DefaultTerminal,
    signals: &mut Signals,
) -> anyhow::Result<()> {
    let mut screen = Screen::default();
    let mut pauses = Pauses::default();
    let mut next = Instant::now() + args.interval.min(FIRST_MAX);
    let mut is_changed = true;
    // A pause is shorter than anybody notices.
    while signals.try_recv().is_none() {
        if is_changed {
            terminal.draw(|frame| screen.draw(frame))?;
            is_changed = false;
        }
        let left = next.saturating_duration_since(Instant::now());
        if event::poll(pauses.next().min(left))? {
            is_changed = true;
            let wish = match event::read()? {
                Event::Key(key) => screen.press(key),
                _ => None,
            };
            match wish {
                Some(Wish::Quit) => return Ok(()),
                Some(Wish::Dump(place)) => screen.show_dump(dump(args.pid, &place)),
                None => {}
            }
        }
        watch.look()?;
        if Instant::now() >= next {
            // Also while the screen is frozen, so that the rates afterwards are those of an interval.
            is_changed |= screen.update(watch.sample()?);
            next = Instant::now() + args.interval;
        }
    }
    Ok(())
}

/// Returns the fibers that were spawned at a place.
fn dump(pid: i32, place: &str) -> anyhow::Result<Report> {
    let mut report = uthread_dump::dump(pid)?;
    report.keep_spawned_at(place);
    Ok(report)
}

/// The pauses between looks.
#[derive(Default)]
struct Pauses(u32);

impl Pauses {
    fn next(&mut self) -> Duration {
        self.0 = self.0.wrapping_add(1);
        PAUSE_MIN + PAUSE_SPREAD.mul_f64((f64::from(self.0) * GOLDEN).fract())
    }
}
