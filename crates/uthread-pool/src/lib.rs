//! A fair pool of connections for blocking code.
//!
//! ```
//! use std::io::{self, Read, Write};
//! use std::time::Duration;
//! use uthread::net::{SocketAddr, TcpListener, TcpStream};
//! use uthread_pool::{Manage, Pool};
//!
//! /// Connections to an echo service.
//! struct Echo(SocketAddr);
//!
//! impl Manage for Echo {
//!     type Connection = TcpStream;
//!     type Error = io::Error;
//!
//!     fn connect(&self) -> io::Result<TcpStream> {
//!         TcpStream::connect(self.0)
//!     }
//! }
//!
//! # let listener = TcpListener::bind("127.0.0.1:0")?;
//! # let address = listener.local_addr()?;
//! # let end = listener.try_clone()?;
//! # let server = uthread::spawn(move || {
//! #     uthread::net::serve(&listener, 10, |stream, _| drop(io::copy(&mut &stream, &mut &stream)))
//! # });
//! let pool = Pool::builder(Echo(address)).max(2).wait(Duration::from_secs(1)).build();
//! uthread::scope(|scope| {
//!     for number in 0..10 {
//!         let pool = &pool;
//!         scope.spawn(move || {
//!             let mut stream = pool.get().unwrap();
//!             stream.write_all(&[number]).unwrap();
//!             let mut echo = [0];
//!             stream.read_exact(&mut echo).unwrap();
//!             assert_eq!(echo, [number]);
//!         });
//!     }
//! });
//! assert!(pool.status().opened <= 2);
//! # pool.close();
//! # end.shutdown()?;
//! # server.join().unwrap()?;
//! # Ok::<(), io::Error>(())
//! ```
//!
//! With the feature `r2d2`, managers that were published for that pool are managers of this one.
//!
//! ```text
//!   get     turn (first come, first served) -> an idle connection, checked -> or a new one -> the caller
//!   drop    broken, old, late, or left by a panic -> closed;  otherwise idle -> the turn of the next
//! ```

use std::collections::VecDeque;
use std::error::Error;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, mem};

use uthread::sync::{Semaphore, TryAcquireError};
use uthread::thread;

#[cfg(feature = "r2d2")]
pub use crate::r2d2::R2d2;

#[cfg(feature = "r2d2")]
mod r2d2;

/// How the connections of a pool are made and checked.
pub trait Manage: Send + Sync + 'static {
    /// A connection.
    type Connection: Send + 'static;
    /// Why there is none.
    type Error;

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// Whatever the caller of [`Pool::get`] has to know.
    fn connect(&self) -> Result<Self::Connection, Self::Error>;

    /// Returns `true` if a connection that was idle still works. May ask the other side.
    fn is_usable(&self, connection: &mut Self::Connection) -> bool {
        let _ = connection;
        true
    }

    /// Returns `true` if a connection that comes back is not to be used again. Must not wait.
    fn has_broken(&self, connection: &mut Self::Connection) -> bool {
        let _ = connection;
        false
    }
}

/// How a pool is built.
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder<M> {
    manage: M,
    settings: Settings,
}

#[derive(Debug, Clone)]
struct Settings {
    max: usize,
    wait: Option<Duration>,
    check_after: Duration,
    idle_min: usize,
    idle_time: Duration,
    lifetime: Option<Duration>,
}

impl<M: Manage> Builder<M> {
    /// Sets the number of connections that are lent at the same time: 10 by default.
    ///
    /// # Panics
    ///
    /// [`build`](Builder::build) panics if it is zero.
    pub fn max(mut self, count: usize) -> Builder<M> {
        self.settings.max = count;
        self
    }

    /// Sets how long a caller waits for its turn: by default until its deadline, if it has one.
    pub fn wait(mut self, time: Duration) -> Builder<M> {
        self.settings.wait = Some(time);
        self
    }

    /// Sets after which time without use a connection is [checked](Manage::is_usable): 1 second by
    /// default.
    pub fn check_after(mut self, time: Duration) -> Builder<M> {
        self.settings.check_after = time;
        self
    }

    /// Sets how many connections stay open without use: none by default.
    pub fn idle_min(mut self, count: usize) -> Builder<M> {
        self.settings.idle_min = count;
        self
    }

    /// Sets after which time without use the others are closed: 10 minutes by default.
    pub fn idle_time(mut self, time: Duration) -> Builder<M> {
        self.settings.idle_time = time;
        self
    }

    /// Sets after which time a connection is closed once nobody uses it: never by default.
    pub fn lifetime(mut self, time: Duration) -> Builder<M> {
        self.settings.lifetime = Some(time);
        self
    }

    /// Creates the pool, without connections.
    ///
    /// # Panics
    ///
    /// Panics if no connection may be lent.
    pub fn build(self) -> Pool<M> {
        assert!(self.settings.max > 0, "nobody would ever get a connection");
        Pool(Arc::new(Shared {
            turns: Arc::new(Semaphore::new(self.settings.max)),
            manage: self.manage,
            settings: self.settings,
            idle: Mutex::default(),
            open: Arc::default(),
            waiting: AtomicUsize::new(0),
            opened: AtomicU64::new(0),
            waits: AtomicU64::new(0),
        }))
    }
}

/// A pool of connections. Clones share it. See the example of the [crate](self).
pub struct Pool<M: Manage>(Arc<Shared<M>>);

struct Shared<M: Manage> {
    manage: M,
    settings: Settings,
    /// A permit for each connection that may be lent.
    turns: Arc<Semaphore>,
    /// The one that was used last is at the back.
    idle: Mutex<VecDeque<Member<M::Connection>>>,
    open: Arc<AtomicUsize>,
    waiting: AtomicUsize,
    opened: AtomicU64,
    waits: AtomicU64,
}

/// A connection and its age.
struct Member<C> {
    connection: C,
    since: Instant,
    used: Instant,
    /// Dropped after the connection.
    #[allow(dead_code, reason = "it counts until it is dropped")]
    open: Open,
}

/// Counts a connection.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Numbers of a pool. See the example of the [crate](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Connections that are open, lent or idle.
    pub open: usize,
    /// Connections that nobody uses.
    pub idle: usize,
    /// Callers that wait for their turn.
    pub waiting: usize,
    /// Connections that were opened so far.
    pub opened: u64,
    /// Callers so far that had to wait.
    pub waits: u64,
}

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GetError<E> {
    /// It was not the caller's turn in time.
    TimedOut,
    /// The pool is closed.
    Closed,
    /// A new connection cannot be opened.
    Connect(E),
}

impl<E: fmt::Display> fmt::Display for GetError<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GetError::TimedOut => formatter.write_str("all connections are in use"),
            GetError::Closed => formatter.write_str("the pool of connections is closed"),
            GetError::Connect(error) => error.fmt(formatter),
        }
    }
}

impl<E: Error> Error for GetError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            GetError::Connect(error) => error.source(),
            _ => None,
        }
    }
}

impl<M: Manage> Pool<M> {
    /// Returns a builder of a pool.
    pub fn builder(manage: M) -> Builder<M> {
        Builder {
            manage,
            settings: Settings {
                max: 10,
                wait: None,
                check_after: Duration::from_secs(1),
                idle_min: 0,
                idle_time: Duration::from_secs(600),
                lifetime: None,
            },
        }
    }

    /// Waits for a turn, first come, first served, and takes the connection that was used last, or opens
    /// one. A caller that is cancelled meanwhile, or whose deadline passes, is unwound, as by
    /// [`Semaphore::acquire`], unless the time of [`Builder::wait`] is set.
    ///
    /// # Errors
    ///
    /// [`GetError::TimedOut`] after the time of [`Builder::wait`], or if the caller may not wait; [`GetError::Closed`] once the pool is
    /// closed; [`GetError::Connect`] with the error of [`Manage::connect`].
    pub fn get(&self) -> Result<Pooled<M>, GetError<M::Error>> {
        let mut turn = self.await_turn()?;
        loop {
            // Not locked while the connection is checked.
            let idle = self.0.idle().pop_back();
            let Some(member) = idle else { break };
            let mut lent = Pooled {
                shared: Arc::clone(&self.0),
                member: Some(member),
                turn: Some(turn),
            };
            if lent.is_usable() {
                return Ok(lent);
            }
            turn = lent.close();
        }
        let member = self.0.connect().map_err(GetError::Connect)?;
        Ok(Pooled {
            shared: Arc::clone(&self.0),
            member: Some(member),
            turn: Some(turn),
        })
    }

    fn await_turn(&self) -> Result<Turn, GetError<M::Error>> {
        struct Waiting<'a>(&'a AtomicUsize);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let turns = &self.0.turns;
        let turn = match turns.try_acquire() {
            Ok(turn) => turn,
            Err(TryAcquireError::Closed) => return Err(GetError::Closed),
            Err(TryAcquireError::NoPermits) => {
                self.0.waits.fetch_add(1, Ordering::Relaxed);
                self.0.waiting.fetch_add(1, Ordering::Relaxed);
                let _waiting = Waiting(&self.0.waiting);
                let turn = match self.0.settings.wait {
                    Some(time) => turns.acquire_timeout(time),
                    None => turns.acquire().map_err(|_| TryAcquireError::Closed),
                };
                turn.map_err(|error| match error {
                    TryAcquireError::Closed => GetError::Closed,
                    TryAcquireError::NoPermits => GetError::TimedOut,
                })?
            }
        };
        turn.forget();
        Ok(Turn(Arc::clone(turns)))
    }

    /// Closes connections that are too old or have been idle for too long, and opens those that are to stay
    /// open. A pool does the first whenever a connection comes back; one that nobody may use for long has
    /// a fiber that calls this now and then.
    ///
    /// # Errors
    ///
    /// The error of [`Manage::connect`].
    pub fn tend(&self) -> Result<(), M::Error> {
        drop(self.0.expired());
        while !self.0.turns.is_closed() {
            let (open, idle_min) = (self.status().open, self.0.settings.idle_min);
            if open >= idle_min {
                break;
            }
            let member = self.0.connect()?;
            self.0.idle().push_front(member);
        }
        Ok(())
    }

    /// Closes the pool: the connections that nobody uses at once, and the others when they come back.
    pub fn close(&self) {
        self.0.turns.close();
        let idle = mem::take(&mut *self.0.idle());
        drop(idle);
    }

    /// Returns the numbers of the pool.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            open: self.0.open.load(Ordering::Relaxed),
            idle: self.0.idle().len(),
            waiting: self.0.waiting.load(Ordering::Relaxed),
            opened: self.0.opened.load(Ordering::Relaxed),
            waits: self.0.waits.load(Ordering::Relaxed),
        }
    }
}

impl<M: Manage> Clone for Pool<M> {
    fn clone(&self) -> Pool<M> {
        Pool(Arc::clone(&self.0))
    }
}

impl<M: Manage> fmt::Debug for Pool<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Pool").field(&self.status()).finish()
    }
}

impl<M: Manage> Shared<M> {
    fn idle(&self) -> MutexGuard<'_, VecDeque<Member<M::Connection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self) -> Result<Member<M::Connection>, M::Error> {
        let connection = self.manage.connect()?;
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        Ok(Member {
            connection,
            since: now,
            used: now,
            open: Open(Arc::clone(&self.open)),
        })
    }

    fn is_old(&self, member: &Member<M::Connection>) -> bool {
        let lifetime = self.settings.lifetime;
        lifetime.is_some_and(|lifetime| member.since.elapsed() >= lifetime)
    }

    /// Takes the idle connections that are to be closed.
    fn expired(&self) -> Vec<Member<M::Connection>> {
        let mut idle = self.idle();
        let mut expired = Vec::new();
        while idle.len() > self.settings.idle_min
            && (idle.front()).is_some_and(|oldest| oldest.used.elapsed() >= self.settings.idle_time)
        {
            expired.extend(idle.pop_front());
        }
        let (old, young) = idle.drain(..).partition(|member| self.is_old(member));
        *idle = young;
        expired.extend::<VecDeque<_>>(old);
        expired
    }
}

/// The right to a connection, which the next one gets when it is dropped.
struct Turn(Arc<Semaphore>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

/// A connection of a pool, which gets it back when this is dropped, unless it has broken or is old. If the
/// fiber or thread unwinds, is cancelled, or has passed its deadline, the connection is closed: it may be in
/// the middle of an answer. A caller that goes on after a [`timeout`](uthread::timeout) around one call calls
/// [`discard`](Pooled::discard).
pub struct Pooled<M: Manage> {
    shared: Arc<Shared<M>>,
    /// Until it is closed or given back.
    member: Option<Member<M::Connection>>,
    /// Dropped after the connection was given back.
    turn: Option<Turn>,
}

impl<M: Manage> Pooled<M> {
    /// Closes the connection, which is not in the state in which another caller expects it.
    pub fn discard(mut self) {
        self.close();
    }

    fn close(&mut self) -> Turn {
        self.member = None;
        self.turn.take().expect("it is closed once")
    }

    fn is_usable(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        let Some(member) = &mut self.member else {
            return false;
        };
        let is_fresh = member.used.elapsed() < shared.settings.check_after;
        !shared.is_old(member) && (is_fresh || shared.manage.is_usable(&mut member.connection))
    }
}

impl<M: Manage> Deref for Pooled<M> {
    type Target = M::Connection;

    fn deref(&self) -> &M::Connection {
        &self.member.as_ref().expect("it is open").connection
    }
}

impl<M: Manage> DerefMut for Pooled<M> {
    fn deref_mut(&mut self) -> &mut M::Connection {
        &mut self.member.as_mut().expect("it is open").connection
    }
}

impl<M: Manage> Drop for Pooled<M> {
    fn drop(&mut self) {
        let Some(mut member) = self.member.take() else {
            return;
        };
        let shared = &self.shared;
        // A call that has failed for one of these leaves its answer to the next caller.
        let is_lost = thread::panicking()
            || thread::is_cancelled()
            || shared.is_old(&member)
            || shared.manage.has_broken(&mut member.connection);
        if is_lost {
            return;
        }
        member.used = Instant::now();
        let mut idle = shared.idle();
        // Locked: the pool closes what is idle after it has closed the turns.
        if !shared.turns.is_closed() {
            idle.push_back(member);
            drop(idle);
            drop(shared.expired());
        }
    }
}

impl<M: Manage> fmt::Debug for Pooled<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pooled").finish_non_exhaustive()
    }
}
