//! The same cluster without a simulated world, for comparison: processes, in real time.
//!
//! ```text
//!   clients --+--> Link --> node, a process  -- standard output --> Witness
//!   nodes   --+
//! ```
//!
//! The nodes are this program again, with other arguments, and all connections go through [`Link`]s of the
//! test. A crash is `SIGKILL`. The choices of faults are those of [`scenario`](crate::scenario), without what a
//! test cannot do to processes: segments are not lost, disks do not fail, and a crash loses nothing that was
//! written, synced or not.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{array, env, process};

use uthread::process::{Child, Command, Stdio};
use uthread::thread::{self, JoinHandle};
use uthread::time;
use uthread_simulation::{Direction, Link};

use crate::bug::{self, Bug};
use crate::history::History;
use crate::node::{self, Config};
use crate::random::{random, random_ms};
use crate::scenario::{CLIENTS, FAULTS, NODES, TIME_MAX, judge, pause, use_store};
use crate::witness::Witness;

/// The first argument of a node.
pub(crate) const NODE: &str = "node";

/// The row of [`Links`] that clients use.
const CLIENT: usize = NODES.len();

/// From each node, and from clients, to each node.
type Links = [[Link; NODES.len()]; NODES.len() + 1];

struct Cluster {
    nodes: [Node; NODES.len()],
    links: Links,
}

struct Node {
    /// The arguments of its process.
    arguments: Vec<OsString>,
    witness: Arc<Witness>,
    running: Option<(Child, JoinHandle<()>)>,
}

/// Runs clusters with each bug, and without one, for this time, and prints how many fail.
pub(crate) fn search(time: Duration) {
    uthread::run(|| {
        uthread::scope(|scope| {
            for (number, bug) in bug::variants().enumerate() {
                scope.spawn(move || println!("{}", repeat(number, bug, time)));
            }
        });
    });
}

/// Runs clusters one after the other. Returns how many have failed, and how the first did.
fn repeat(number: usize, bug: Option<Bug>, time: Duration) -> String {
    let start = Instant::now();
    let (mut runs, mut failures, mut first) = (0, 0, String::new());
    while start.elapsed() < time {
        runs += 1;
        let Err(fault) = run(number, bug) else {
            continue;
        };
        failures += 1;
        if first.is_empty() {
            first = format!(", run {runs} after {:.0?}: {fault}", start.elapsed());
        }
    }
    let (name, time) = (bug::name(bug), start.elapsed());
    format!("{name}: {failures} of {runs} runs fail in {time:.0?}{first}")
}

/// Runs a cluster, one at a time with this number. Fails with what was wrong.
fn run(number: usize, bug: Option<Bug>) -> Result<(), String> {
    let (history, witness) = (History::default(), Arc::default());
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = Cluster::start(number, bug, directory.path(), &witness);
    let mut cluster = cluster.expect("a cluster");
    let links = cluster.links[CLIENT].iter();
    let addresses: Vec<_> = links.map(|link| link.address().to_string()).collect();
    let end: io::Result<()> = time::try_timeout(TIME_MAX, || {
        uthread::try_scope(|scope| {
            for client in 0..CLIENTS {
                let (history, addresses) = (&history, addresses.clone());
                scope.spawn(move || {
                    use_store(client, addresses, history);
                    Ok(())
                });
            }
            cluster.play_faults();
            Ok(())
        })
    });
    // What the nodes have written is read to its end.
    drop(cluster);
    judge(&witness, &history, end)
}

/// Runs a node, whose arguments these are, until its disk fails or the test ends.
pub(crate) fn node(mut arguments: impl Iterator<Item = String>) -> io::Result<()> {
    // Standard input ends with the test, however that ends.
    std::thread::spawn(|| {
        let _ = io::stdin().read(&mut [0]);
        process::exit(0)
    });
    let mut argument = || arguments.next().expect("an argument of a node");
    let (name, directory, bug, listen) = (argument(), argument(), argument(), argument());
    let config = Config {
        name,
        listen,
        peers: arguments.collect(),
        directory: PathBuf::from(directory),
        bug: Bug::ALL.into_iter().find(|other| other.to_string() == bug),
        witness: Arc::new(Witness::printing()),
    };
    uthread::run(|| {
        loop {
            match node::run(&config) {
                // The kernel may close the sockets of a killed process shortly after its end.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    thread::sleep(Duration::from_millis(1));
                }
                end => return end,
            }
        }
    })
}

impl Cluster {
    fn start(
        number: usize,
        bug: Option<Bug>,
        directory: &Path,
        witness: &Arc<Witness>,
    ) -> io::Result<Cluster> {
        // Addresses of its own, as a port that was free a moment ago may be taken.
        let [high, low] = (process::id() as u16).to_be_bytes();
        let address = |node| format!("127.{high}.{low}.{}:7000", 1 + number * NODES.len() + node);
        let link = |to| Link::to(address(to).parse().expect("an address")).expect("a link");
        let links: Links = array::from_fn(|_| array::from_fn(link));
        for name in NODES {
            std::fs::create_dir(directory.join(name))?;
        }
        let nodes = array::from_fn(|node| {
            let name = NODES[node];
            let bug = bug::name(bug);
            let own = [NODE.into(), name.into(), directory.join(name).into()];
            let own = own.into_iter().chain([bug.into(), address(node).into()]);
            let peers = (0..NODES.len()).filter(|peer| *peer != node);
            let peers = peers.map(|peer| links[node][peer].address().to_string().into());
            Node {
                arguments: own.chain(peers).collect(),
                witness: Arc::clone(witness),
                running: None,
            }
        });
        let mut cluster = Cluster { nodes, links };
        cluster.repair();
        Ok(cluster)
    }

    /// Does harm at random times, and repairs everything at last.
    fn play_faults(&mut self) {
        for _ in 0..FAULTS {
            pause();
            let one = random(0..3) as usize;
            let [next, other] = [1, 2].map(|more| (one + more) % 3);
            match random(0..8) {
                0 => self.cut(one, next),
                1 => self.separate(one, next),
                2 => {
                    self.separate(one, next);
                    self.separate(one, other);
                }
                3 => self.all_links().for_each(Link::reset),
                4 => self.set_latency_ms(1..50),
                5 => self.nodes[one].crash(),
                6 => self.nodes[one].fail_repeatedly(),
                _ => self.repair(),
            }
        }
        pause();
        self.repair();
    }

    fn all_links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().flatten()
    }

    fn separate(&self, one: usize, other: usize) {
        self.cut(one, other);
        self.cut(other, one);
    }

    /// Lets nothing pass from a node to another, on the connections of either.
    fn cut(&self, from: usize, to: usize) {
        self.links[from][to].cut(Direction::ToServer);
        self.links[to][from].cut(Direction::ToClient);
    }

    fn set_latency_ms(&self, Range { start, end }: Range<u64>) {
        let latency = Duration::from_millis(start)..Duration::from_millis(end);
        self.all_links()
            .for_each(|link| link.set_latency(latency.clone()));
    }

    fn repair(&mut self) {
        self.all_links().for_each(Link::heal);
        self.set_latency_ms(1..5);
        let down = self.nodes.iter_mut().filter(|node| node.running.is_none());
        down.for_each(Node::restart);
    }
}

impl Node {
    fn restart(&mut self) {
        self.crash();
        let program = env::current_exe().expect("the path of this program");
        let mut command = Command::new(program);
        command.args(&self.arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let witness = Arc::clone(&self.witness);
        // The last line is not whole if the node is killed as it writes.
        let hear = move || {
            let events = output.lines().map_while(Result::ok);
            let events = events.map_while(|line| serde_json::from_str(&line).ok());
            events.for_each(|event| witness.hear(event));
        };
        self.running = Some((child, uthread::spawn(hear)));
    }

    fn crash(&mut self) {
        if let Some((mut child, hearing)) = self.running.take() {
            child.kill().expect("the process is ours");
            child.wait().expect("the process ends");
            hearing.join().expect("no panic");
        }
    }

    fn fail_repeatedly(&mut self) {
        for _ in 0..random(1..8) {
            self.crash();
            thread::sleep(random_ms(0..50));
            self.restart();
            thread::sleep(random_ms(0..150));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.crash();
    }
}
