//! The simulated machines: nodes with a directory each, and a link between each two of them.

use std::io;
use std::sync::{Arc, PoisonError};

use tempfile::TempDir;
use uthread::sync::Mutex;
use uthread::thread::{self, JoinHandle};
use uthread_simulation::{Direction, Link};

use crate::bug::Bug;
use crate::node::{self, Config};
use crate::witness::Witness;

pub(crate) struct World {
    directories: TempDir,
    addresses: Vec<String>,
    /// By the number of the node that connects, and of the one that listens.
    links: Vec<Vec<Option<Link>>>,
    running: Vec<Mutex<Option<JoinHandle<io::Result<()>>>>>,
    bug: Option<Bug>,
    witness: Arc<Witness>,
}

impl World {
    /// Creates a world in which so many nodes run.
    pub(crate) fn new(nodes: usize, bug: Option<Bug>, witness: Arc<Witness>) -> World {
        let network = uthread::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = network.local_addr().expect("bound").port();
        let [high, low] = port.to_be_bytes();
        let addresses: Vec<_> = (1..=nodes)
            .map(|node| format!("127.{high}.{low}.{node}:7000"))
            .collect();
        let link = |from, to: usize| {
            let address = addresses[to].parse().expect("an address");
            (from != to).then(|| Link::to(address).expect("a free port"))
        };
        let links = (0..nodes).map(|from| (0..nodes).map(|to| link(from, to)).collect());
        let world = World {
            directories: tempfile::tempdir().expect("a directory"),
            links: links.collect(),
            addresses,
            running: (0..nodes).map(|_| Mutex::new(None)).collect(),
            bug,
            witness,
        };
        (0..nodes).for_each(|node| world.restart(node));
        world
    }

    pub(crate) fn nodes(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().flatten().flatten()
    }

    pub(crate) fn set_latency(&self, latency: std::ops::Range<std::time::Duration>) {
        self.links()
            .for_each(|link| link.set_latency(latency.clone()));
    }

    /// Lets nothing pass from a node to another.
    pub(crate) fn cut(&self, from: usize, to: usize) {
        for (from, to, direction) in [
            (from, to, Direction::ToServer),
            (to, from, Direction::ToClient),
        ] {
            self.links[from][to]
                .as_ref()
                .expect("two nodes")
                .cut(direction);
        }
    }

    pub(crate) fn heal(&self) {
        self.links().for_each(Link::heal);
    }

    pub(crate) fn reset(&self) {
        self.links().for_each(Link::reset);
    }

    /// Ends a node, if it runs.
    pub(crate) fn crash(&self, node: usize) {
        let mut running = self.running[node]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.take() {
            running.cancel();
            let _ = running.join();
        }
    }

    /// Starts a node, if it does not run.
    pub(crate) fn restart(&self, node: usize) {
        let mut running = self.running[node]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if running.is_some() {
            return;
        }
        let peers = self.links[node].iter().flatten();
        let directory = self.directories.path().join(node.to_string());
        std::fs::create_dir_all(&directory).expect("a directory");
        let config = Config {
            name: node.to_string(),
            listen: self.addresses[node].clone(),
            peers: peers.map(|link| link.address().to_string()).collect(),
            directory,
            bug: self.bug,
            witness: Arc::clone(&self.witness),
        };
        *running = Some(thread::spawn(move || node::run(config)));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        (0..self.nodes()).for_each(|node| self.crash(node));
    }
}
