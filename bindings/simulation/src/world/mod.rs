//! A world: hosts, each of which runs a program, and the network and the disks between and below them.
//!
//! | module | contents |
//! | --- | --- |
//! | [`host`] | what a test does with a host |
//! | [`selection`] | what a test does with links |
//! | [`calls`] | what the library asks of a world |
//! | [`escapes`] | what happens outside of it |
//! | [`timeline`] | what has happened, as a picture |
//! | [`network`] | what is on its way between hosts |
//! | [`trace`] | what has happened |
//! | [`links`] | how it travels |
//! | [`disk`] | files |
//! | [`entries`] | directories |
//! | [`sockets`] | what the kernel says of sockets |
//! | [`subnet`] | addresses |
//! | [`clock`] | the clocks of hosts |

mod calls;
mod clock;
mod disk;
mod entries;
mod escapes;
mod host;
mod links;
mod network;
mod selection;
mod sockets;
mod subnet;
mod timeline;
mod trace;

use std::any::Any;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::{OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uthread::interposition;

pub(crate) use self::clock::time;
pub(crate) use self::entries::{At, Change};
pub use self::host::Host;
pub use self::selection::Links;
pub(crate) use self::sockets::{alone, borrow};

use self::clock::Clocks;
use self::disk::Disk;
use self::escapes::Escapes;
use self::host::Machine;
use self::links::Pair;
use self::network::{Key, Network};
use self::subnet::Subnet;
use self::trace::{Event, Trace};
use crate::faults;
use crate::lock::lock;

/// The directory of a world for files that its hosts have removed.
const REMOVED: &str = ".removed";

/// Number of events that a failed test prints.
const EVENTS_SHOWN: usize = 100;

/// Hosts with names and addresses, and a network between them, in a runtime with virtual time.
///
/// Each host runs a program: a function of the test, which uses `std`, `uthread` or any crate as it always
/// does. Its fibers and threads, and those that they create, belong to the host. It binds the wildcard or
/// the loopback address, and gets its host's; it connects to the names of other hosts.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::{TcpListener, TcpStream};
/// use std::time::{Duration, Instant};
/// use uthread_simulation::World;
///
/// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
/// # runtime.run(|| -> std::io::Result<()> {
/// // In a test with virtual time.
/// let world = World::new()?;
/// world.links().set_latency(Duration::from_millis(10)..Duration::from_millis(11));
/// let server = world.host("server", || {
///     let listener = TcpListener::bind("0.0.0.0:7000")?;
///     for stream in listener.incoming() {
///         let mut stream = stream?;
///         std::thread::spawn(move || {
///             let mut byte = [0];
///             while stream.read(&mut byte).is_ok_and(|count| count > 0) {
///                 if stream.write_all(&byte).is_err() {
///                     break;
///                 }
///             }
///         });
///     }
///     Ok(())
/// });
/// let client = world.host("client", || {
///     let mut stream = TcpStream::connect("server:7000")?;
///     let start = Instant::now();
///     stream.write_all(b"1")?;
///     stream.read_exact(&mut [0])?;
///     assert_eq!(start.elapsed().as_millis() / 20, 1);
///     Ok(())
/// });
/// client.wait()?;
///
/// world.link("server", "client").cut(); // In one direction.
/// server.crash(); // What it has not synced to its disk is lost.
/// server.restart();
/// # Ok(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Whoever belongs to no host, as the test itself, is outside of the network: its connections pass at
/// once. A host reaches hosts only; other addresses are unreachable.
///
/// # TCP and UDP
///
/// Sockets are the kernel's, so that a program can wait for them in any way. What one sends to another host
/// is held back for the [latency](Links::set_latency) of the link. A segment that is lost takes as long as
/// TCP takes to send it again; a datagram that is lost does not arrive, and datagrams overtake each other.
/// While a link is [cut](Links::cut), connections neither fail nor end, and a new one takes until it is
/// healed; if the socket is non-blocking, it is never made. Connecting a non-blocking socket takes no time.
///
/// `sendfile` sends like any other call, and `splice` to a socket fails with `EINVAL`: callers write instead.
///
/// Not simulated: the kernel's ports, IPv6 apart from sockets that take IPv4 as well, and requests of
/// [`uthread::ring`] to send. Unix sockets are the kernel's, and connect fibers of one host: that a
/// host uses the path of a socket in the directory of another one is [reported](World::escapes), as are abstract
/// names, which are the same for all worlds.
///
/// # Names
///
/// The names of the hosts, for `std`, `uthread` and the C library; they take
/// [time](World::set_resolver) and can fail.
///
/// # Files
///
/// A host's files are below its [directory](World::directory), of which its program has to be told. A
/// [crash](Host::crash) loses writes, truncations and copies that were not synced, and tears one.
///
/// It also loses some of the last names that were created, renamed, linked or removed, but for those in a
/// directory that was synced since (`File::open(directory)?.sync_all()`). Syncing the file is not enough by POSIX,
/// although some file systems then keep its name as well; a rename from one directory to another takes both. What
/// the test itself writes and creates stays, as do writes to a mapping and by [`uthread::ring`], and all but the last
/// 1,000 changes to directories.
///
/// # The end
///
/// Dropping the world ends its hosts. If the program of one has failed or panicked, and nobody has
/// [waited](Host::wait) for it, the test panics. A test that fails prints its faults and what has happened last.
/// Each cut, reset, crash, pause and loss is a fault, as are the loss of names by a crash, a jump or a drift of a
/// clock, a disk that fails or becomes full, and a resolver that fails. They are
/// [numbered](crate#seeds), so that some can be left out.
pub struct World {
    shared: Arc<Shared>,
}

/// A world, as its runtime uses it.
pub(crate) struct Shared {
    subnet: Subnet,
    directory: PathBuf,
    state: Mutex<State>,
    escapes: Mutex<Escapes>,
    clocks: Mutex<Clocks>,
    /// `true` if the kernel may have sent something since the driver has asked.
    has_sent: AtomicBool,
}

#[derive(Default)]
struct State {
    /// By their numbers, which start from one.
    machines: Vec<Machine>,
    disks: Vec<Disk>,
    network: Network,
    resolver: Resolver,
    trace: Trace,
    /// The connections of descriptors.
    sockets: Sockets,
    nowhere: Option<Nowhere>,
    /// `true` once a failure was reported.
    has_reported: bool,
    /// Holds the addresses until the world ends: a program that never does may keep the state.
    addresses: Option<UdpSocket>,
}

#[derive(Debug, Default)]
struct Resolver {
    latency: Range<Duration>,
    fails: bool,
}

/// The connections between hosts that descriptors are known to be of, until one is closed.
#[derive(Debug, Default)]
struct Sockets {
    known: BTreeMap<RawFd, Connected>,
    /// The number of descriptors that threads outside of any world had closed.
    closed_elsewhere: usize,
}

/// The addresses of a connection, and its hosts.
type Connected = (Key, Pair);

/// The number of descriptors that threads outside of any world have closed since there was one.
static CLOSED_ELSEWHERE: AtomicUsize = AtomicUsize::new(0);

/// A listener that takes no connection, and its address.
struct Nowhere {
    address: SocketAddr,
    _sockets: [OwnedFd; 2],
}

impl World {
    /// Creates a world without hosts for the caller's runtime. See the example of [`World`].
    ///
    /// # Errors
    ///
    /// `Unsupported` if the caller has no virtual time, and `AlreadyExists` if its runtime has had a world;
    /// those of making a directory; `AddrInUse` if 190 other worlds exist.
    pub fn new() -> io::Result<World> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("uthread-world-{}-{number}", std::process::id());
        let (subnet, addresses) = Subnet::take()?;
        let trace = Trace::new(faults::chosen());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory)?;
        let shared = Arc::new(Shared {
            subnet,
            // The kernel names files like that.
            directory: directory.canonicalize()?,
            state: Mutex::new(State {
                addresses: Some(addresses),
                trace,
                ..State::default()
            }),
            escapes: Mutex::default(),
            clocks: Mutex::default(),
            has_sent: AtomicBool::new(false),
        });
        interposition::enter(Arc::clone(&shared) as Arc<dyn interposition::World>)?;
        Ok(World { shared })
    }

    /// Starts a host that runs this program, again after each [restart](Host::restart). See the example of
    /// [`World`].
    ///
    /// # Panics
    ///
    /// Panics if there is a host of this name, or if there are 65,000.
    pub fn host(
        &self,
        name: &str,
        program: impl Fn() -> io::Result<()> + Send + Sync + 'static,
    ) -> Host {
        Host::start(&self.shared, name, Arc::new(program))
    }

    /// Returns the directory of the host that has this name or will have it: its disk.
    ///
    /// # Errors
    ///
    /// Those of making a directory.
    ///
    /// ```
    /// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
    /// # runtime.run(|| -> std::io::Result<()> {
    /// let world = uthread_simulation::World::new()?;
    /// let directory = world.directory("database")?;
    /// let database = world.host("database", move || std::fs::write(directory.join("log"), "1"));
    /// database.wait()
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn directory(&self, name: &str) -> io::Result<PathBuf> {
        self.shared.directory_of(name)
    }

    /// Returns all links, including those of hosts that are started later. See the example of [`World`].
    #[must_use]
    pub fn links(&self) -> Links<'_> {
        Links::new(&self.shared, None)
    }

    /// Returns the link from one host to another. See the example of [`World`].
    ///
    /// # Panics
    ///
    /// Panics if there is no host of one of these names.
    #[must_use]
    pub fn link(&self, from: &str, to: &str) -> Links<'_> {
        let pair = (self.shared.number(from), self.shared.number(to));
        Links::new(&self.shared, Some(vec![pair]))
    }

    /// Returns the links between two groups of hosts, in both directions.
    ///
    /// # Panics
    ///
    /// Panics if there is no host of one of these names.
    ///
    /// ```
    /// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
    /// # runtime.run(|| -> std::io::Result<()> {
    /// let world = uthread_simulation::World::new()?;
    /// let hosts = ["a", "b", "c"].map(|name| world.host(name, || Ok(())));
    /// world.between(&["a"], &["b", "c"]).cut(); // A partition.
    /// world.links().heal();
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn between(&self, group: &[&str], others: &[&str]) -> Links<'_> {
        let number = |name: &&str| self.shared.number(name);
        let others: Vec<_> = others.iter().map(number).collect();
        let pairs = group.iter().map(number).flat_map(|one| {
            let both = |other: &u32| [(one, *other), (*other, one)];
            others.iter().flat_map(both).collect::<Vec<_>>()
        });
        Links::new(&self.shared, Some(pairs.collect()))
    }

    /// Sets how long looking up the name of a host takes, and whether it fails (`EAI_AGAIN`). At first it
    /// takes no time.
    ///
    /// ```
    /// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
    /// # runtime.run(|| -> std::io::Result<()> {
    /// use std::net::ToSocketAddrs;
    /// use std::time::Duration;
    ///
    /// let world = uthread_simulation::World::new()?;
    /// world.set_resolver(Duration::from_secs(5)..Duration::from_secs(6), true);
    /// let client = world.host("client", || {
    ///     assert!("client:80".to_socket_addrs().is_err()); // After five seconds.
    ///     Ok(())
    /// });
    /// client.wait()
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_resolver(&self, latency: Range<Duration>, fails: bool) {
        let mut state = self.shared.state();
        let fault = fails.then(|| state.trace.fault()).flatten();
        let fails = fault.is_some();
        if fails {
            let event = Event::Done("names cannot be looked up".to_owned());
            state.note(event, fault);
        }
        state.resolver = Resolver { latency, fails };
    }

    /// Returns what has happened outside of the world, where no seed decides it: a line for each kind and place,
    /// with the host. It is empty if nothing has.
    ///
    /// These are changes to files outside of the host's [directory](World::directory), reads of random devices,
    /// processes, threads of the system, runtimes, names and addresses that are not those of hosts, and system
    /// calls that a program makes itself by `syscall(2)`. Files that are only read are in the
    /// [trace](World::trace) alone. A test that fails prints both.
    ///
    /// ```
    /// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
    /// # runtime.run(|| -> std::io::Result<()> {
    /// let world = uthread_simulation::World::new()?;
    /// let host = world.host("a", || {
    ///     std::process::Command::new("true").status()?;
    ///     Ok(())
    /// });
    /// host.wait()?;
    /// assert!(world.escapes().starts_with("a: starts a process, at "));
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn escapes(&self) -> String {
        lock(&self.shared.escapes).text()
    }

    /// Reports system calls by the instruction `syscall` as well, which crates such as `rustix` have in the place
    /// of functions of the C library, on the calling thread until the world ends. The kernel sends a signal for
    /// each such call then, also of the library.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the kernel cannot do it, which it can since Linux 5.11; `Unsupported` if the C library is
    /// linked statically, or on another CPU than x86-64.
    ///
    /// ```
    /// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
    /// # runtime.run(|| -> std::io::Result<()> {
    /// let world = uthread_simulation::World::new()?;
    /// let traps = world.trap_system_calls();
    /// let host = world.host("a", || {
    ///     rustix::fs::unlink("/tmp/missing").unwrap_err();
    ///     Ok(())
    /// });
    /// host.wait()?;
    /// if traps.is_ok() {
    ///     assert!(world.escapes().starts_with("a: makes the system call `unlink"));
    /// }
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn trap_system_calls(&self) -> io::Result<()> {
        #[cfg(all(target_env = "gnu", target_arch = "x86_64"))]
        return crate::instructions::begin(|address| {
            Shared::current().is_some_and(|world| world.is_program(address))
        });
        #[cfg(not(all(target_env = "gnu", target_arch = "x86_64")))]
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Denies what [`escapes`](World::escapes) has, from now on: such calls fail with `EPERM`, and dropping the
    /// world panics if there were any.
    ///
    /// ```should_panic
    /// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build().unwrap();
    /// # runtime.run(|| {
    /// let world = uthread_simulation::World::new().unwrap();
    /// world.deny_escapes();
    /// let host = world.host("a", || {
    ///     assert!(std::fs::write("/tmp/a", "1").is_err());
    ///     Ok(())
    /// });
    /// host.wait().unwrap();
    /// # })
    /// ```
    pub fn deny_escapes(&self) {
        lock(&self.shared.escapes).is_denied = true;
    }

    /// Returns what has happened, a line for each event: its time in seconds, the hosts, and what it was. See
    /// [`Host::crash`] for an example.
    ///
    /// It has the last 100,000 events.
    #[must_use]
    pub fn trace(&self) -> String {
        let state = self.shared.state();
        state.trace.text(|number| state.name(number))
    }

    /// Writes a picture of the last `events_max` events to a file, as SVG: with a lane for each host, messages as
    /// arrows, and the times in which hosts are down or paused and links are cut. Some 300 events are easy to read. A
    /// time without events is cut short; what passes at once is not shown.
    ///
    /// A test that fails writes one if `UTHREAD_TIMELINE` names a file, with 300 events or
    /// `UTHREAD_TIMELINE_EVENTS`.
    ///
    /// # Errors
    ///
    /// Those of the file.
    ///
    /// ```
    /// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
    /// # runtime.run(|| -> std::io::Result<()> {
    /// let world = uthread_simulation::World::new()?;
    /// let host = world.host("a", || Ok(()));
    /// host.wait()?;
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("run.svg");
    /// # let path = &path;
    /// world.write_timeline(path, 300)?;
    /// # assert!(std::fs::read_to_string(path)?.starts_with("<svg"));
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn write_timeline(&self, path: impl AsRef<Path>, events_max: usize) -> io::Result<()> {
        let state = self.shared.state();
        timeline::write(&state, path.as_ref(), events_max, timeline::Outcome::Runs)
    }
}

impl Shared {
    /// Returns the world of the caller's runtime.
    pub(crate) fn current() -> Option<Arc<Shared>> {
        let world: Arc<dyn Any + Send + Sync> = interposition::world()?;
        world.downcast().ok()
    }

    /// Notes that the kernel sends something. Relaxed: one worker uses it.
    fn note_sent(&self) {
        self.has_sent.store(true, Ordering::Relaxed);
    }

    /// Returns the number of the next fault, unless that is left out.
    fn fault(&self) -> Option<u64> {
        self.state().trace.fault()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of a host.
    #[track_caller]
    fn number(&self, name: &str) -> u32 {
        let number = self.state().number(name);
        number.unwrap_or_else(|| panic!("there is no host `{name}`"))
    }

    fn remove_directory(&self) {
        // Of no use if it fails.
        let _ = fs::remove_dir_all(&self.directory);
    }

    fn directory_of(&self, name: &str) -> io::Result<PathBuf> {
        let directory = self.directory.join(name);
        fs::create_dir_all(&directory)?;
        let mut state = self.state();
        if !state.disks.iter().any(|disk| disk.directory == directory) {
            let removed = self.directory.join(REMOVED);
            state.disks.push(Disk::new(directory.clone(), removed));
        }
        Ok(directory)
    }
}

impl Drop for Shared {
    /// The world was not made, or was not dropped.
    fn drop(&mut self) {
        self.remove_directory();
    }
}

impl State {
    fn number(&self, name: &str) -> Option<u32> {
        let at = self.machines.iter().position(|it| &*it.name == name)?;
        Some(at as u32 + 1)
    }

    fn name(&self, number: u32) -> &str {
        &self.machines[number as usize - 1].name
    }

    /// Notes what happens, and the number of the fault that it is.
    fn note(&mut self, event: Event, fault: Option<u64>) {
        self.trace.add_with(now(), event, fault);
    }

    fn machine(&mut self, number: u32) -> Option<&mut Machine> {
        self.machines.get_mut(number as usize - 1)
    }

    fn is_down(&self, number: u32) -> bool {
        let machine = self.machines.get(number as usize - 1);
        machine.is_none_or(|machine| machine.is_down)
    }

    /// Returns the disk with a file.
    fn disk(&mut self, path: &std::path::Path) -> Option<&mut Disk> {
        let mut disks = self.disks.iter_mut();
        disks.find(|disk| path.starts_with(&disk.directory))
    }
}

/// Notes that a thread outside of any world closes a descriptor.
pub(crate) fn note_close() {
    // Relaxed: whoever gets the number of the descriptor later is told of it by the kernel.
    CLOSED_ELSEWHERE.fetch_add(1, Ordering::Relaxed);
}

/// Returns the time of the world.
fn now() -> Duration {
    interposition::time(libc::CLOCK_MONOTONIC).unwrap_or_default()
}

impl std::fmt::Debug for World {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.shared.state();
        let names = state.machines.iter().map(|machine| &machine.name);
        let names: Vec<_> = names.collect();
        formatter
            .debug_struct("World")
            .field("hosts", &names)
            .finish()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let count = self.shared.state().machines.len() as u32;
        let ended = uthread::shield(|| {
            let hosts = (1..=count).map(|number| Host::new(&self.shared, number));
            hosts.map(|host| host.end()).collect::<Vec<_>>()
        });
        let (network, addresses) = {
            let mut state = self.shared.state();
            (std::mem::take(&mut state.network), state.addresses.take())
        };
        drop((network, addresses));
        #[cfg(all(target_env = "gnu", target_arch = "x86_64"))]
        crate::instructions::end();
        self.shared.remove_directory();
        let failure = ended.into_iter().flatten().next();
        let failure = failure.or_else(|| self.shared.denied());
        if failure.is_some() || std::thread::panicking() {
            interposition::World::report(&*self.shared);
        }
        if let Some(failure) = failure.filter(|_| !std::thread::panicking()) {
            panic!("{failure}");
        }
    }
}

/// Returns the address of a name of the world.
///
/// # Errors
///
/// `EAI_AGAIN` if the resolver fails.
pub(crate) fn resolve(name: &str) -> Option<Result<IpAddr, i32>> {
    let shared = Shared::current()?;
    let (number, latency, fails) = {
        let state = shared.state();
        let number = state.number(name)?;
        let latency = crate::chance::time(&state.resolver.latency);
        (number, latency, state.resolver.fails)
    };
    // No unwinding at the end of a host: the caller is code of C.
    let is_cancelled =
        interposition::host().is_some() && !latency.is_zero() && !calls::pass(latency);
    if interposition::host().is_some() && (fails || is_cancelled) {
        return Some(Err(libc::EAI_AGAIN));
    }
    Some(Ok(shared.subnet.address(number).into()))
}
