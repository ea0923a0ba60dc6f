//! A node: it knows its name, its peers, and a directory.
//!
//! ```text
//!   a thread for each connection   request -> Raft -> reply
//!   a thread for each peer         what Raft has for it -> reply -> Raft
//!   a thread for elections         waits for silence
//! ```
//!
//! One lock protects the state, and one condition variable wakes those who wait for a change of it.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use uthread::net::{TcpListener, TcpStream};
use uthread::sync::{Condvar, Mutex, MutexGuard};
use uthread::{thread, time};

use crate::bug::Bug;
use crate::log::Log;
use crate::message::{self, Reply, Request};
use crate::raft::{HEARTBEAT, Raft};
use crate::store::Command;
use crate::witness::Witness;

/// A peer that has not replied by then gets the request again, on another connection.
const PEER_TIME_MAX: Duration = Duration::from_millis(100);

/// A client that has no reply by then asks another node.
pub(crate) const CLIENT_TIME_MAX: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) name: String,
    /// The address at which peers and clients connect.
    pub(crate) listen: String,
    /// The addresses of the other nodes.
    pub(crate) peers: Vec<String>,
    /// What is in it survives a crash.
    pub(crate) directory: PathBuf,
    pub(crate) bug: Option<Bug>,
    pub(crate) witness: Arc<Witness>,
}

struct Node {
    raft: Mutex<Raft>,
    changed: Condvar,
}

/// Runs a node until its disk fails.
pub(crate) fn run(config: &Config) -> io::Result<()> {
    let log = Log::open(&config.directory, config.bug)?;
    let (name, witness) = (config.name.clone(), Arc::clone(&config.witness));
    let raft = Raft::new(name, config.peers.len(), log, config.bug, witness);
    let node = &Node {
        raft: Mutex::new(raft),
        changed: Condvar::new(),
    };
    let listener = TcpListener::bind(&config.listen)?;
    thread::try_scope(|scope| {
        scope.spawn(|| node.hold_elections());
        for (peer, address) in config.peers.iter().enumerate() {
            scope.spawn(move || node.lead(peer, address));
        }
        for stream in listener.incoming() {
            let stream = stream?;
            scope.spawn(move || node.serve(&stream));
        }
        Ok(())
    })
}

impl Node {
    /// A panic ends the node, so a poisoned lock is nothing to look after.
    fn lock(&self) -> MutexGuard<'_, Raft> {
        self.raft.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has changed, at most for some time.
    fn wait<'a>(&self, raft: MutexGuard<'a, Raft>, time: Duration) -> MutexGuard<'a, Raft> {
        let waited = self.changed.wait_timeout(raft, time);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn hold_elections(&self) -> io::Result<()> {
        let mut raft = self.lock();
        loop {
            let rest = raft.time_to_election();
            if rest.is_zero() {
                raft.start_election()?;
                self.changed.notify_all();
            }
            raft = self.wait(raft, rest);
        }
    }

    /// Sends a peer what it has to know from a candidate or leader.
    fn lead(&self, peer: usize, address: &str) -> io::Result<()> {
        let mut connection = None;
        loop {
            let request = self.request_for(peer);
            let call = || message::call(&mut connection, address, &request);
            let reply: io::Result<_> = time::try_timeout(PEER_TIME_MAX, call);
            match reply {
                Ok(reply) => {
                    self.lock().on_reply(peer, &request, &reply)?;
                    self.changed.notify_all();
                }
                Err(_) => thread::sleep(HEARTBEAT),
            }
        }
    }

    fn request_for(&self, peer: usize) -> Request {
        let mut raft = self.lock();
        loop {
            match raft.request_for(peer) {
                Ok(request) => return request,
                Err(rest) => raft = self.wait(raft, rest),
            }
        }
    }

    /// Answers the requests of a connection until it ends.
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        while let Ok(request) = message::receive(stream) {
            let reply = match request {
                Request::Execute(command) => self.execute(&command)?,
                request => self.lock().answer(request)?,
            };
            self.changed.notify_all();
            if message::send(stream, &reply).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn execute(&self, command: &Command) -> io::Result<Reply> {
        let end = Instant::now() + CLIENT_TIME_MAX;
        let mut raft = self.lock();
        let Some(pending) = raft.begin(command)? else {
            return Ok(Reply::NotLeader);
        };
        self.changed.notify_all();
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            match raft.reply_to(command, &pending) {
                Some(reply) => return Ok(reply),
                None if rest.is_zero() => return Ok(Reply::NotLeader),
                None => raft = self.wait(raft, rest),
            }
        }
    }
}
