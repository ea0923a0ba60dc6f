//! Links, as a test selects and changes them.

use std::ops::Range;
use std::time::Duration;

use super::links::{Link, Pair};
use super::trace::{Event, OfLinks};
use super::{Shared, State, now, sockets};

/// Some links of a [`World`](super::World), whose example shows it.
#[derive(Clone)]
pub struct Links<'world> {
    shared: &'world Shared,
    /// `None` for all.
    pairs: Option<Vec<Pair>>,
}

impl std::fmt::Debug for Links<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Links")
            .field("pairs", &self.pairs)
            .finish()
    }
}

impl<'world> Links<'world> {
    pub(super) fn new(shared: &'world Shared, pairs: Option<Vec<Pair>>) -> Links<'world> {
        Links { shared, pairs }
    }

    /// Sets how long what is sent from now on takes: a random time of these, or the start of an empty range.
    /// At first it takes no time. See the example of [`World`](super::World).
    pub fn set_latency(&self, latency: Range<Duration>) {
        self.change(format!("latency {latency:?}"), |link| {
            link.latency = latency.clone();
        });
    }

    /// Sets the part of datagrams and of segments that are lost.
    ///
    /// # Panics
    ///
    /// Panics if it is not between zero and one.
    ///
    /// ```
    /// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
    /// # runtime.run(|| -> std::io::Result<()> {
    /// let world = uthread_simulation::World::new()?;
    /// world.links().set_loss(0.01);
    /// world.links().set_rate(Some(1_000_000));
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_loss(&self, loss: f64) {
        assert!(
            (0.0..=1.0).contains(&loss),
            "a part of what is sent is between zero and one, not {loss}"
        );
        self.change(format!("loss {loss}"), |link| link.loss = loss);
    }

    /// Sets the number of bytes that pass in a second, for each connection. `None` is no limit, as at first. See
    /// the example of [`set_loss`](Links::set_loss).
    ///
    /// # Panics
    ///
    /// Panics if the number is zero: [cut](Links::cut) the link instead.
    pub fn set_rate(&self, bytes_per_second: Option<u64>) {
        assert!(
            bytes_per_second != Some(0),
            "a link passes at least one byte a second, unless it is cut"
        );
        self.change(format!("rate {bytes_per_second:?}"), |link| {
            link.bytes_per_second = bytes_per_second;
        });
    }

    /// Lets nothing pass until the links are [healed](Links::heal): what is sent on a connection waits, as TCP
    /// sends it again, and datagrams are lost. See the example of [`World`](super::World).
    pub fn cut(&self) {
        let Some(fault) = self.shared.fault() else {
            return;
        };
        self.change_by(OfLinks::Cut, Some(fault), |link| link.is_cut = true);
    }

    /// Lets everything pass again. See the example of [`World::between`](super::World::between).
    pub fn heal(&self) {
        self.change_by(OfLinks::Healed, None, |link| link.is_cut = false);
        self.shared.state().network.resume(now());
    }

    /// Ends the connections of these links, in both directions: their sides get `ECONNRESET`.
    ///
    /// ```
    /// # let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
    /// # runtime.run(|| -> std::io::Result<()> {
    /// let world = uthread_simulation::World::new()?;
    /// world.links().reset();
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn reset(&self) {
        let Some(fault) = self.shared.fault() else {
            return;
        };
        let is_one = |pair: Pair| match &self.pairs {
            None => true,
            Some(pairs) => pairs.iter().any(|it| [pair, (pair.1, pair.0)].contains(it)),
        };
        let subnet = &self.shared.subnet;
        let is_of_one = |socket| {
            let ends = sockets::local(socket).zip(sockets::peer(socket));
            let pair = ends.and_then(|(local, peer)| subnet.host(local).zip(subnet.host(peer)));
            pair.is_some_and(is_one) && sockets::is_stream(socket)
        };
        for socket in sockets::select(is_of_one) {
            sockets::reset(socket);
        }
        self.shared.note_sent();
        let mut state = self.shared.state();
        let forgotten = state.network.forget(is_one);
        self.note(&mut state, OfLinks::Reset, Some(fault));
        drop(state);
        drop(forgotten);
    }

    fn change(&self, what: String, change: impl Fn(&mut Link)) {
        self.change_by(OfLinks::Other(what), None, change);
    }

    fn change_by(&self, what: OfLinks, fault: Option<u64>, change: impl Fn(&mut Link)) {
        let mut state = self.shared.state();
        state.network.links.change(self.pairs.as_deref(), change);
        self.note(&mut state, what, fault);
    }

    fn note(&self, state: &mut State, what: OfLinks, fault: Option<u64>) {
        state.note(Event::Links(self.pairs.clone(), what), fault);
    }
}
