//! Tests a driver with typical operations: echoes over loopback, file reads and timeouts.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;
use uthread::fs::File;
use uthread::net::{SocketAddr, TcpListener, TcpStream};
use uthread::{Driver, Runtime};

use super::refusal;

/// Number of connections, enough to keep the workers of most machines busy.
const CONNECTIONS: usize = 16;
const MESSAGE: &[u8; 16] = b"uthread's doctor";
/// Share of the duration for each part, in percent.
const ECHO_SHARE: u32 = 60;
const FILE_SHARE: u32 = 20;
const TIMER_SHARE: u32 = 20;
const TIMEOUT: Duration = Duration::from_millis(1);

/// Time limit of a step, which only a fault exceeds, also on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Remedy for faults of unknown cause.
const OTHER_DRIVER: &str =
    "use another driver (--driver or UTHREAD_DRIVER), and please report this";

/// The self-test of one driver.
#[derive(Debug, Serialize)]
pub(crate) struct Test {
    pub(crate) driver: String,
    #[serde(flatten)]
    pub(crate) verdict: Verdict,
}

#[derive(Debug, Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub(crate) enum Verdict {
    Passed(Rates),
    /// The kernel refuses this driver.
    Unavailable {
        error: String,
    },
    Failed {
        error: String,
        /// Command that may help.
        #[serde(skip)]
        command: &'static str,
    },
}

#[derive(Debug, Serialize)]
pub(crate) struct Rates {
    pub(crate) echoes_per_second: u64,
    pub(crate) file_reads_per_second: u64,
    /// Median.
    pub(crate) timer_lateness_us: u64,
}

/// Tests a driver for about `duration`.
pub(crate) fn run(driver: Driver, duration: Duration) -> Test {
    let builder = Runtime::builder()
        .driver(driver)
        // Stalls on a busy machine are not part of this test.
        .on_stall(|_| ());
    let verdict = match builder.build() {
        Err(error) => Verdict::Unavailable {
            error: error.to_string(),
        },
        Ok(runtime) => match watched(runtime, duration) {
            Ok(rates) => Verdict::Passed(rates),
            Err(error) => Verdict::Failed {
                error: format!("{error:#}"),
                command: error
                    .downcast_ref()
                    .and_then(refusal::command)
                    .unwrap_or(OTHER_DRIVER),
            },
        },
    };
    Test {
        driver: driver.to_string(),
        verdict,
    }
}

/// Runs the test with a time limit, and abandons a test that exceeds it.
fn watched(runtime: Runtime, duration: Duration) -> anyhow::Result<Rates> {
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        let tested = runtime.run(|| test(duration));
        drop(runtime);
        // The receiver may have given up.
        let _ = sender.send(tested);
    })?;
    match receiver.recv_timeout(duration + PATIENCE) {
        Ok(tested) => tested,
        Err(mpsc::RecvTimeoutError::Timeout) => bail!("it did not finish in time"),
        Err(mpsc::RecvTimeoutError::Disconnected) => bail!("it panicked"),
    }
}

fn test(duration: Duration) -> anyhow::Result<Rates> {
    let share = |percent| duration * percent / 100;
    Ok(Rates {
        echoes_per_second: echoes(share(ECHO_SHARE)).context("echoes over loopback")?,
        file_reads_per_second: file_reads(share(FILE_SHARE)).context("reading /proc/self/exe")?,
        timer_lateness_us: timers(share(TIMER_SHARE)).context("timeouts")?,
    })
}

fn echoes(duration: Duration) -> io::Result<u64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let addr = listener.local_addr()?;
    let server = uthread::spawn(move || {
        for _ in 0..CONNECTIONS {
            let (stream, _) = listener.accept()?;
            uthread::spawn(move || serve(stream));
        }
        io::Result::Ok(())
    });
    let (count, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    let result = uthread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|_| scope.spawn(|| client(addr, &count, &ended)))
            .collect();
        uthread::sleep(duration);
        ended.store(true, Ordering::Relaxed);
        // Join all clients before reporting an error: the scope would panic otherwise.
        let ends: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        ends.into_iter().try_for_each(joined)
    });
    result?;
    joined(server.join())?;
    Ok(per_second(count.into_inner(), start.elapsed()))
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; MESSAGE.len()];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..count])?;
    }
}

fn client(addr: SocketAddr, count: &AtomicU64, ended: &AtomicBool) -> io::Result<()> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    while !ended.load(Ordering::Relaxed) {
        stream.write_all(MESSAGE)?;
        let mut echo = [0; MESSAGE.len()];
        stream.read_exact(&mut echo)?;
        if echo != *MESSAGE {
            return Err(fault("an echo differs from the message"));
        }
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Reads this program's own file, which always exists and is not empty.
fn file_reads(duration: Duration) -> io::Result<u64> {
    let file = File::open("/proc/self/exe")?;
    let pages = file.metadata()?.len() / PAGE_BYTES as u64;
    let mut page = [0; PAGE_BYTES];
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < duration {
        file.read_exact_at(&mut page, count % pages * PAGE_BYTES as u64)?;
        if count % pages == 0 && !page.starts_with(b"\x7fELF") {
            return Err(fault(
                "the program's file does not begin with an ELF header",
            ));
        }
        count += 1;
    }
    Ok(per_second(count, start.elapsed()))
}

const PAGE_BYTES: usize = 4096;

/// Sleeps and times out reads; returns the median lateness.
fn timers(duration: Duration) -> io::Result<u64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut silent = TcpStream::connect(listener.local_addr()?)?;
    silent.set_read_timeout(Some(TIMEOUT))?;
    let mut lateness = Vec::new();
    let start = Instant::now();
    while start.elapsed() < duration || lateness.is_empty() {
        lateness.push(beyond_timeout(|| {
            uthread::sleep(TIMEOUT);
            Ok(())
        })?);
        lateness.push(beyond_timeout(|| match silent.read(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(fault("received data from a silent connection")),
        })?);
    }
    lateness.sort_unstable();
    let median = lateness[lateness.len() / 2];
    Ok(u64::try_from(median.as_micros()).unwrap_or(u64::MAX))
}

/// Returns how much longer than `TIMEOUT` a call takes.
fn beyond_timeout(call: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let start = Instant::now();
    call()?;
    let lateness = start.elapsed().checked_sub(TIMEOUT);
    lateness.ok_or_else(|| fault("a timeout expired early"))
}

fn joined(result: std::thread::Result<io::Result<()>>) -> io::Result<()> {
    result.unwrap_or_else(|payload| {
        // A fiber that got no thread panics with this text.
        let text = payload.downcast_ref::<String>();
        Err(fault(text.map_or("a fiber panicked", String::as_str)))
    })
}

fn per_second(count: u64, duration: Duration) -> u64 {
    (count as f64 / duration.as_secs_f64()) as u64
}

fn fault(text: &str) -> io::Error {
    io::Error::other(text)
}
