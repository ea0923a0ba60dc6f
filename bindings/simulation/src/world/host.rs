//! Hosts, as a test starts, ends and restarts them.

use std::any::Any;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::panic;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use uthread::interposition;
use uthread::thread::{Builder, Cancelled, JoinHandle};

use super::clock::DRIFT_PPM_MAX;
use super::subnet::HOSTS_MAX;
use super::trace::{Event, OfHost};
use super::{Shared, State, sockets};

/// Number of times that the fibers of a host may run after their calls have begun to fail.
const LAST_TURNS: u32 = 200;

type Program = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// A host as its world keeps it.
pub(super) struct Machine {
    pub(super) name: Arc<str>,
    pub(super) is_down: bool,
    program: Program,
    fibers: interposition::Host,
    /// `None` once it was waited for.
    main: Option<JoinHandle<io::Result<()>>>,
    /// What its connections have left when it crashed: the other sides find out once it restarts.
    pub(super) left: Vec<OwnedFd>,
}

/// A host of a [`World`](super::World), whose example shows it. Dropping this changes nothing.
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
    number: u32,
}

impl Host {
    pub(super) fn new(shared: &Arc<Shared>, number: u32) -> Host {
        Host {
            shared: Arc::clone(shared),
            number,
        }
    }

    #[track_caller]
    pub(super) fn start(shared: &Arc<Shared>, name: &str, program: Program) -> Host {
        let mut state = shared.state();
        assert!(state.number(name).is_none(), "there is a host `{name}`");
        let number = state.machines.len() as u32 + 1;
        assert!(number <= HOSTS_MAX, "a world has at most {HOSTS_MAX} hosts");
        state.machines.push(Machine {
            name: name.into(),
            is_down: true,
            program,
            fibers: interposition::Host::new(number),
            main: None,
            left: Vec::new(),
        });
        drop(state);
        let host = Host::new(shared, number);
        host.boot();
        host
    }

    /// Returns the name.
    ///
    /// ```
    /// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
    /// # runtime.run(|| -> std::io::Result<()> {
    /// let world = uthread_simulation::World::new()?;
    /// let host = world.host("a", || Ok(()));
    /// assert_eq!(host.name(), "a");
    /// assert!(host.address().is_loopback());
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> String {
        self.with(|machine| machine.name.to_string())
    }

    /// Returns the address. See the example of [`name`](Host::name).
    #[must_use]
    pub fn address(&self) -> IpAddr {
        IpAddr::V4(self.ip())
    }

    pub(super) fn ip(&self) -> Ipv4Addr {
        self.shared.subnet.address(self.number)
    }

    /// Waits until the program returns. After a crash it has failed with `ECANCELED`; without a program that
    /// nobody has waited for, this returns at once.
    ///
    /// # Errors
    ///
    /// Those of the program.
    ///
    /// # Panics
    ///
    /// Panics if the program has panicked, with the same payload.
    ///
    /// ```
    /// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
    /// # runtime.run(|| -> std::io::Result<()> {
    /// let world = uthread_simulation::World::new()?;
    /// let host = world.host("a", || Err(std::io::ErrorKind::NotFound.into()));
    /// assert!(host.wait().is_err());
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn wait(&self) -> io::Result<()> {
        let Some(main) = self.with(|machine| machine.main.take()) else {
            return Ok(());
        };
        main.join()
            .unwrap_or_else(|payload| panic::resume_unwind(payload))
    }

    /// Ends the host at once, as a power failure does. What it has not synced to its disk
    /// ([files](super::World#files)) is lost, and nothing that is sent to it arrives, or is answered. Its fibers end as their calls fail with `ECANCELED`, and
    /// what they still send is lost; those that do not are stopped where they are, and what they hold is
    /// leaked.
    ///
    /// ```
    /// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
    /// # runtime.run(|| -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use uthread_simulation::World;
    ///
    /// let world = World::new()?;
    /// let host = world.host("a", || {
    ///     uthread::sleep(Duration::from_secs(3600));
    ///     Ok(())
    /// });
    /// uthread::sleep(Duration::from_secs(60));
    /// host.crash();
    /// assert!(!host.is_up());
    /// host.restart();
    /// assert!(world.trace().contains("a: crashes"));
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn crash(&self) {
        if !self.is_up() || !self.has_fault(OfHost::Crashes) {
            return;
        }
        uthread::shield(|| self.stop());
        let mut state = self.shared.state();
        let directory = self.shared.directory.join(&*state.machines[self.at()].name);
        let lost = state.disk(&directory).map(super::Disk::crash);
        self.lose_entries(&mut state, &directory);
        drop(state);
        if let Some(Err(error)) = lost {
            panic!("the disk of `{}` cannot be changed: {error}", self.name());
        }
    }

    /// Loses the last changes to directories that were not synced.
    fn lose_entries(&self, state: &mut State, directory: &Path) {
        let Some(disk) = state.disk(directory) else {
            return;
        };
        let lost = disk.entries.choose_lost();
        let fault = (lost > 0).then(|| state.trace.fault()).flatten();
        let lost = if fault.is_some() { lost } else { 0 };
        let Some(disk) = state.disk(directory) else {
            return;
        };
        let lost = disk.entries.crash(lost, directory);
        if !lost.is_empty() {
            let event = format!("loses what was not synced: {}", lost.join(", "));
            state.note(Event::Host(self.number, OfHost::Other(event)), fault);
        }
    }

    /// Starts the program again, of a host that has crashed or whose program has returned; one that is up, or
    /// [paused](Host::pause), crashes first. Those who were connected to it get `ECONNRESET`. See the example of
    /// [`crash`](Host::crash).
    pub fn restart(&self) {
        self.crash();
        self.resume();
        if self.is_up() {
            let is_running = |main: &JoinHandle<_>| !main.is_finished();
            if self.with(|machine| machine.main.as_ref().is_some_and(is_running)) {
                // The crash was left out.
                return;
            }
            uthread::shield(|| self.stop());
        }
        self.boot();
    }

    /// Stops the host until it is [resumed](Host::resume), as `SIGSTOP`, a long pause of a garbage collector, or
    /// a suspended virtual machine does: none of its fibers runs. Time goes on, for its clocks as well.
    ///
    /// The kernel goes on, too: connections to it are made, what is sent to it arrives in the buffers of its
    /// sockets, and what it has sent before still travels. A call that waits ends in time, by what arrives or
    /// by its timeout, and returns after the resume; timers expire late. What its fibers hold stays so, such as a
    /// lock that the test shares with them. If one of them calls this, it returns after the resume.
    ///
    /// A host that is down or paused is not changed.
    ///
    /// ```
    /// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
    /// # runtime.run(|| -> std::io::Result<()> {
    /// use std::time::{Duration, Instant};
    /// use uthread_simulation::World;
    ///
    /// let world = World::new()?;
    /// let leader = world.host("leader", || {
    ///     let lease_ends = Instant::now() + Duration::from_secs(10);
    ///     std::thread::sleep(Duration::from_secs(1));
    ///     assert!(Instant::now() > lease_ends, "another leader was elected meanwhile");
    ///     Ok(())
    /// });
    /// uthread::sleep(Duration::from_millis(500));
    /// leader.pause();
    /// uthread::sleep(Duration::from_secs(60));
    /// leader.resume();
    /// leader.wait()
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn pause(&self) {
        let fibers = self.with(|machine| machine.fibers.clone());
        if !self.is_up() || fibers.is_paused() || !self.has_fault(OfHost::Pauses) {
            return;
        }
        fibers.pause();
        if interposition::host() == Some(self.number) {
            uthread::yield_now();
        }
    }

    /// Ends a [`pause`](Host::pause), whose example shows it.
    pub fn resume(&self) {
        let fibers = self.with(|machine| machine.fibers.clone());
        if fibers.is_paused() {
            self.note(OfHost::Resumes, None);
            fibers.resume();
        }
    }

    /// Returns `false` from a crash to the restart. See the example of [`crash`](Host::crash).
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.with(|machine| !machine.is_down)
    }

    /// Sets how far the host's clocks of the date are ahead of the time, as `clock_settime(2)` does. Timers and
    /// [`Instant`](std::time::Instant) are not changed.
    ///
    /// ```
    /// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
    /// # runtime.run(|| -> std::io::Result<()> {
    /// use std::time::{Duration, SystemTime};
    ///
    /// let world = uthread_simulation::World::new()?;
    /// let before = SystemTime::now();
    /// let host = world.host("a", move || {
    ///     uthread::sleep(Duration::from_secs(1));
    ///     assert!(SystemTime::now() > before + Duration::from_secs(3600));
    ///     Ok(())
    /// });
    /// host.set_clock_ahead(Duration::from_secs(3600));
    /// host.wait()
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_clock_ahead(&self, ahead: Duration) {
        self.set_clock((ahead, Duration::ZERO));
    }

    /// Sets how far they are behind, like [`set_clock_ahead`](Host::set_clock_ahead).
    pub fn set_clock_behind(&self, behind: Duration) {
        self.set_clock((Duration::ZERO, behind));
    }

    fn set_clock(&self, clock: (Duration, Duration)) {
        let is_right = clock == (Duration::ZERO, Duration::ZERO);
        if is_right || self.has_fault(other("the clock jumps")) {
            self.shared.set_date(self.number, clock);
        }
    }

    /// Sets by how many parts per million the host's clocks are faster than time, or slower if negative, as its
    /// oscillator is off: all clocks but those of CPU time, and with them what the host waits for by sleeps, timeouts
    /// and deadlines, also those that have begun. No clock goes back. Latencies of links and of the resolver do not
    /// change. It stays so over restarts.
    ///
    /// Real clocks are off by up to some 100 ppm, and NTP corrects up to 500 (`adjtimex(2)`). A clock of a virtual
    /// machine that was moved, or is overloaded, may be off by far more for a while.
    ///
    /// A timer whose rate changes while it runs expires up to 262 us late.
    ///
    /// # Panics
    ///
    /// Panics beyond 100,000 ppm in both directions, as far as the kernel's `tick` goes.
    ///
    /// ```
    /// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
    /// # runtime.run(|| -> std::io::Result<()> {
    /// use std::time::{Duration, Instant};
    /// use uthread_simulation::World;
    ///
    /// let world = World::new()?;
    /// let host = world.host("a", || {
    ///     let begin = Instant::now();
    ///     std::thread::sleep(Duration::from_secs(10));
    ///     assert_eq!(begin.elapsed().as_secs(), 10); // By its clock.
    ///     Ok(())
    /// });
    /// host.set_clock_drift(100_000);
    /// let begin = Instant::now();
    /// host.wait()?;
    /// assert_eq!(begin.elapsed().as_millis() / 10, 909);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn set_clock_drift(&self, ppm: i32) {
        let is_possible = ppm.unsigned_abs() <= DRIFT_PPM_MAX;
        assert!(
            is_possible,
            "a clock is off by 100,000 ppm at most, not {ppm}"
        );
        if ppm == self.shared.drift(self.number)
            || ppm != 0 && !self.has_fault(OfHost::Other(format!("the clock drifts by {ppm} ppm")))
        {
            return;
        }
        let change = self.shared.set_drift(self.number, super::now(), ppm);
        let fibers = self.with(|machine| machine.fibers.clone());
        fibers.drift(change);
    }

    /// Notes a fault. Returns `false` if it is left out.
    fn has_fault(&self, what: OfHost) -> bool {
        let fault = self.shared.fault();
        if fault.is_some() {
            self.note(what, fault);
        }
        fault.is_some()
    }

    /// Sets the number of bytes that can still be written to the host's disk: then writes fail with `ENOSPC`.
    /// `None` is no limit, as at first.
    ///
    /// # Panics
    ///
    /// Panics if the host has no [directory](super::World::directory).
    ///
    /// ```
    /// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
    /// # runtime.run(|| -> std::io::Result<()> {
    /// use std::io::ErrorKind;
    ///
    /// let world = uthread_simulation::World::new()?;
    /// let directory = world.directory("a")?;
    /// let host = world.host("a", move || {
    ///     uthread::sleep(std::time::Duration::from_secs(1));
    ///     std::fs::write(directory.join("log"), "12345")
    /// });
    /// host.set_free_bytes(Some(4));
    /// assert_eq!(host.wait().unwrap_err().kind(), ErrorKind::StorageFull);
    /// host.set_disk_fails(true);
    /// host.restart();
    /// assert_eq!(host.wait().unwrap_err().raw_os_error(), Some(5)); // EIO
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_free_bytes(&self, free_bytes: Option<u64>) {
        let free_bytes = free_bytes.filter(|_| self.has_fault(other("the disk becomes full")));
        self.change_disk(|disk| disk.free_bytes = free_bytes);
    }

    /// Sets whether writes and syncs fail with `EIO`. See the example of
    /// [`set_free_bytes`](Host::set_free_bytes).
    ///
    /// # Panics
    ///
    /// Panics if the host has no [directory](super::World::directory).
    pub fn set_disk_fails(&self, fails: bool) {
        let fails = fails && self.has_fault(other("the disk fails"));
        self.change_disk(|disk| disk.fails = fails);
    }

    fn change_disk(&self, change: impl FnOnce(&mut super::Disk)) {
        let directory = self.shared.directory.join(self.name());
        let mut state = self.shared.state();
        let disk = state.disk(&directory);
        change(disk.expect("the host has a directory: ask the world for it first"));
    }

    fn at(&self) -> usize {
        self.number as usize - 1
    }

    fn with<R>(&self, action: impl FnOnce(&mut Machine) -> R) -> R {
        action(&mut self.shared.state().machines[self.at()])
    }

    fn note(&self, event: OfHost, fault: Option<u64>) {
        let event = Event::Host(self.number, event);
        self.shared.state().note(event, fault);
    }

    /// Starts the program.
    fn boot(&self) {
        let left = self.with(|machine| std::mem::take(&mut machine.left));
        left.iter().for_each(sockets::reset);
        self.shared.note_sent();
        left.into_iter().for_each(sockets::close);
        let fibers = interposition::Host::new(self.number);
        if self.shared.has_drifted(self.number) {
            fibers.drift(|left| left);
        }
        let (program, name) = self.with(|machine| {
            machine.is_down = false;
            machine.fibers = fibers.clone();
            (Arc::clone(&machine.program), machine.name.to_string())
        });
        self.note(OfHost::Starts, None);
        let number = self.number;
        let main = move || {
            fibers.enter();
            let panics = NotePanic(number);
            let result = program();
            std::mem::forget(panics);
            note_end(
                number,
                match &result {
                    Ok(()) => OfHost::Ends,
                    Err(error) => OfHost::Fails(error.to_string()),
                },
            );
            // The process ends.
            fibers.cancel();
            result
        };
        let main = Builder::new().name(name.clone()).spawn(main);
        let main = main.unwrap_or_else(|error| panic!("`{name}` cannot be started: {error}"));
        self.with(|machine| machine.main = Some(main));
    }

    /// Ends the fibers, of which nobody hears.
    fn stop(&self) {
        self.with(|machine| machine.is_down = true);
        let is_to = |pair: (u32, u32)| pair.1 == self.number;
        let forgotten = self.shared.state().network.forget(is_to);
        drop(forgotten);
        self.end_fibers();
        let main = self.with(|machine| machine.main.take());
        // It has not if it was halted.
        if let Some(main) = main.filter(JoinHandle::is_finished) {
            keep_panic(main.join());
        }
    }

    fn end_fibers(&self) {
        let fibers = self.with(|machine| machine.fibers.clone());
        // They end by themselves.
        fibers.resume();
        for _ in 0..LAST_TURNS {
            // Again, as those that end may have created others.
            fibers.cancel();
            self.with(|machine| {
                // One that has not started belongs to no host.
                if let Some(main) = &machine.main {
                    main.cancel();
                }
            });
            if fibers.is_empty() {
                return;
            }
            uthread::yield_now();
        }
        // They may wait in code that takes no error, such as that of `std::sync`.
        fibers.halt();
        self.shared.take_sockets(self.number);
    }

    /// Ends the host with its world. Returns how its program has failed by itself, if it has.
    pub(super) fn end(&self) -> Option<String> {
        // One that has not ended does not fail.
        let ended = self.with(|machine| machine.main.take_if(|main| main.is_finished()));
        let failure = ended.and_then(|main| match main.join() {
            Ok(Err(error)) => Some(format!("failed: {error}")),
            Err(payload) if !payload.is::<Cancelled>() => Some("panicked".to_owned()),
            Ok(Ok(())) | Err(_) => None,
        });
        self.with(|machine| machine.is_down = true);
        self.end_fibers();
        // Both may keep the world, which keeps them.
        let (left, main, program) = self.with(|machine| {
            let program = std::mem::replace(&mut machine.program, Arc::new(|| Ok(())));
            let left = std::mem::take(&mut machine.left);
            (left, machine.main.take(), program)
        });
        drop((main, program));
        left.into_iter().for_each(sockets::close);
        failure.map(|failure| format!("the program of `{}` has {failure}", self.name()))
    }
}

/// Notes how a program has ended, which is the caller, unless its host has crashed.
fn note_end(number: u32, how: OfHost) {
    if let Some(shared) = Shared::current() {
        let mut state = shared.state();
        if !state.is_down(number) {
            state.note(Event::Host(number, how), None);
        }
    }
}

/// Notes that the program of a host has panicked, once it is dropped.
struct NotePanic(u32);

impl Drop for NotePanic {
    fn drop(&mut self) {
        note_end(self.0, OfHost::Panics);
    }
}

fn other(what: &str) -> OfHost {
    OfHost::Other(what.to_owned())
}

/// Panics if a program has panicked by itself.
fn keep_panic(ended: Result<io::Result<()>, Box<dyn Any + Send>>) {
    if let Err(payload) = ended
        && !payload.is::<Cancelled>()
        && !std::thread::panicking()
    {
        panic::resume_unwind(payload);
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.name();
        formatter.debug_struct("Host").field("name", &name).finish()
    }
}

impl State {
    /// Keeps a descriptor that a host closes while it crashes, so that its peer does not hear of that.
    pub(super) fn keep(&mut self, number: u32, socket: OwnedFd) {
        if let Some(machine) = self.machine(number) {
            machine.left.push(socket);
        }
    }
}
