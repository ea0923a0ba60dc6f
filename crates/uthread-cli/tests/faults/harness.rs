//! A server of the program on a host of a world.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::panic;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use uthread::sync::mpmc::{self, Sender};
use uthread_simulation::{Host, World};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The worlds in which a fiber of a host has panicked, which ends nothing else if it is that of a connection.
static PANICS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Returns the address of the caller's world, which no other one has meanwhile.
fn world_of_caller() -> Option<usize> {
    let world = uthread::interposition::world()?;
    Some(Arc::as_ptr(&world).cast::<()>().addr())
}

/// A server, which shows its counters on port 9000.
pub(crate) struct Server {
    pub(crate) host: Host,
    stops: Sender<()>,
    code: Arc<AtomicU8>,
}

impl Server {
    /// Starts a server with these arguments on the host `server`.
    pub(crate) fn start(world: &World, arguments: &[&str]) -> Server {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let previous = panic::take_hook();
            panic::set_hook(Box::new(move |panic| {
                if uthread::interposition::host().is_some() {
                    PANICS.lock().unwrap().extend(world_of_caller());
                }
                previous(panic);
            }));
        });
        let own = ["--log=off", "--counters=0.0.0.0:9000"];
        let arguments = ["uthread"].iter().chain(arguments).chain(&own);
        let arguments: Vec<String> = arguments.map(|&text| text.to_owned()).collect();
        let (stops, requests) = mpmc::channel();
        let code = Arc::new(AtomicU8::new(u8::MAX));
        let own = Arc::clone(&code);
        let host = world.host("server", move || {
            let requests = requests.clone();
            let requests = std::iter::from_fn(move || requests.recv().ok());
            own.store(
                uthread_cli::serve_in_place(&arguments, requests),
                Ordering::Relaxed,
            );
            Ok(())
        });
        // Until it listens.
        uthread::sleep(MS);
        Server { host, stops, code }
    }

    /// Asks it to stop: at first after its connections have ended, and then at once.
    pub(crate) fn stop(&self) {
        self.stops.send(()).unwrap();
    }

    /// Waits for its end. Returns its exit code, and how long that has taken.
    pub(crate) fn wait(&self) -> (u8, Duration) {
        let begin = Instant::now();
        self.host.wait().unwrap();
        let own = world_of_caller().unwrap();
        assert!(
            !PANICS.lock().unwrap().contains(&own),
            "a fiber has panicked"
        );
        (self.code.load(Ordering::Relaxed), begin.elapsed())
    }

    /// Returns one of its counters.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let text = counters().unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let value = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        value.trim().parse().unwrap()
    }
}

/// Asks from outside of the network, at once.
fn counters() -> io::Result<String> {
    let mut stream = TcpStream::connect("server:9000")?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Checks that something has taken this time.
#[track_caller]
pub(crate) fn assert_takes(expected: Duration, taken: Duration) {
    assert!(
        (expected..expected + MS).contains(&taken),
        "{taken:?} instead of {expected:?}"
    );
}

/// Returns bytes that look random, the same ones each time.
pub(crate) fn content(length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(length as u64);
    std::iter::repeat_with(|| random.u8(..))
        .take(length)
        .collect()
}
