//! The server: one thread per connection, which answers each line with a line.

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::ParseIntError;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::store::{Change, Store};

/// Maximum number of connections, each with a thread; further clients are turned away.
const CONNECTIONS_MAX: usize = 1000;

/// Maximum length of a client's line, including its end.
const LINE_MAX: u64 = 64 * 1024;

/// Maximum time for which an expired entry uses memory.
const SWEEP_PERIOD: Duration = Duration::from_millis(50);

struct Server {
    store: Store,
    idle: Duration,
    commands: AtomicU64,
    /// The open connections; `None` when the server stops.
    connections: Mutex<Option<HashMap<SocketAddr, TcpStream>>>,
}

/// Serves until a client sends `STOP`. Closes connections that are silent for `idle_ms`.
pub(crate) fn serve(address: &str, folder: &Path, idle_ms: &str) -> Result<(), Box<dyn Error>> {
    let server = Server {
        store: Store::open(folder)?,
        idle: milliseconds(idle_ms)?,
        commands: AtomicU64::new(0),
        connections: Mutex::new(Some(HashMap::new())),
    };
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    thread::scope(|scope| {
        let (stop, stopped) = mpsc::channel::<()>();
        let store = &server.store;
        scope.spawn(move || {
            while stopped.recv_timeout(SWEEP_PERIOD) == Err(RecvTimeoutError::Timeout) {
                store.sweep();
            }
        });
        for stream in listener.incoming() {
            let admitted =
                stream.and_then(|stream| server.admit(&stream).map(|peer| (stream, peer)));
            match admitted {
                Ok((stream, Some(peer))) => {
                    let (server, listener) = (&server, &listener);
                    scope.spawn(move || server.converse(&stream, peer, listener));
                }
                Ok((_, None)) => break,
                Err(error) => {
                    eprintln!("keep: a connection failed: {error}");
                    thread::sleep(SWEEP_PERIOD); // descriptors or memory are short: retry later
                }
            }
        }
        drop(stop);
    });
    server.store.close();
    Ok(())
}

impl Server {
    /// Records a connection under the address of its peer; returns `None` when the server stops.
    fn admit(&self, mut stream: &TcpStream) -> io::Result<Option<SocketAddr>> {
        let peer = stream.peer_addr()?;
        stream.set_read_timeout(Some(self.idle))?;
        stream.set_nodelay(true)?;
        let mut connections = self.connections.lock().unwrap();
        let Some(connections) = &mut *connections else {
            return Ok(None);
        };
        if connections.len() >= CONNECTIONS_MAX {
            writeln!(stream, "ERROR too many connections")?;
            return Err(io::Error::other("too many connections"));
        }
        connections.insert(peer, stream.try_clone()?);
        Ok(Some(peer))
    }

    fn converse(&self, mut stream: &TcpStream, peer: SocketAddr, listener: &TcpListener) {
        let result = self.answer_all(stream);
        let mut connections = self.connections.lock().unwrap();
        if let Some(connections) = &mut *connections {
            connections.remove(&peer);
        }
        // From here on, a failure concerns only this client, which may have disconnected.
        let _ = match result {
            Ok(true) => {
                for (_, stream) in connections.take().into_iter().flatten() {
                    let _ = stream.shutdown(Shutdown::Read); // a client that waits for a command gets none
                }
                self.store.wake_watchers(true);
                listener.local_addr().and_then(TcpStream::connect).map(drop) // to wake the accepting thread
            }
            Ok(false) => Ok(()),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                writeln!(stream, "ERROR idle")
            }
            Err(error) => writeln!(stream, "ERROR {error}"),
        };
    }

    /// Answers every line; returns true if the server should stop.
    fn answer_all(&self, stream: &TcpStream) -> io::Result<bool> {
        let (mut reader, mut writer) = (BufReader::new(stream), BufWriter::new(stream));
        let mut line = String::new();
        loop {
            if reader.buffer().is_empty() {
                writer.flush()?; // several commands sent at once get their answers together
            }
            line.clear();
            if reader.by_ref().take(LINE_MAX).read_line(&mut line)? == 0 {
                return Ok(false);
            }
            let Some(command) = line.strip_suffix('\n') else {
                return Err(io::Error::other("no whole line"));
            };
            self.commands.fetch_add(1, Ordering::Relaxed);
            match self.answer(command) {
                Ok(answer) => writeln!(writer, "{answer}")?,
                Err(error) => writeln!(writer, "ERROR {error}")?,
            }
            if ["QUIT", "STOP"].contains(&command) {
                writer.flush()?;
                return Ok(command == "STOP");
            }
        }
    }

    fn answer(&self, command: &str) -> Result<String, Box<dyn Error>> {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        let (key, argument) = rest.split_once(' ').unwrap_or((rest, ""));
        Ok(match (verb, key, argument) {
            ("QUIT" | "STOP", "", "") => "BYE".to_owned(),
            ("SAVE", "", "") => format!("SAVED {}", self.store.save()),
            ("COUNT", "", "") => format!("COMMANDS {}", self.commands.load(Ordering::Relaxed)),
            (_, "", _) => return Err("no such command".into()),
            ("GET", _, "") => value(self.store.get(key)),
            ("SET", ..) => {
                self.store.update(key, |_| Change::put(argument, None));
                "OK".to_owned()
            }
            ("BRIEF", ..) => {
                let (duration_ms, value) = argument.split_once(' ').ok_or("no value")?;
                let expires = SystemTime::now() + milliseconds(duration_ms)?;
                self.store
                    .update(key, |_| Change::put(value, Some(expires)));
                "OK".to_owned()
            }
            ("DELETE", _, "") => {
                let was_there = self.store.update(key, |old| old.map(|_| Change::Remove));
                if was_there { "OK" } else { "NONE" }.to_owned()
            }
            ("ADD", ..) => {
                let (number, mut sum) = (argument.parse::<i64>()?, None);
                self.store.update(key, |old| {
                    let old = old.map_or(Ok(0), |entry| entry.value.parse::<i64>());
                    sum = old.ok().and_then(|old| old.checked_add(number));
                    Change::put(&sum?.to_string(), None)
                });
                value(Some(sum.ok_or("no sum")?.to_string()))
            }
            ("WATCH", ..) => {
                let (timeout_ms, seen) = argument.split_once(' ').ok_or("no value")?;
                let new = self.store.watch(key, seen, milliseconds(timeout_ms)?);
                new.map_or_else(|| "SAME".to_owned(), value)
            }
            _ => return Err("no such command".into()),
        })
    }
}

fn value(value: Option<String>) -> String {
    value.map_or_else(|| "NONE".to_owned(), |value| format!("VALUE {value}"))
}

fn milliseconds(text: &str) -> Result<Duration, ParseIntError> {
    let number: u32 = text.parse()?;
    Ok(Duration::from_millis(number.into()))
}
