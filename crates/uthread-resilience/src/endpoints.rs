//! One of several servers.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::{Breaker, Refused};

/// Chooses one of several servers for each call: of two at random, the one with fewer calls in progress, which
/// balances nearly as well as the best of all ([Mitzenmacher](https://doi.org/10.1109/71.963420)).
///
/// ```
/// use std::io::{self, Read, Write};
/// use uthread::net::{TcpListener, TcpStream};
/// use uthread_resilience::Endpoints;
///
/// let listeners = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
/// let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>()?;
/// let endpoints = Endpoints::new(addresses);
/// let stream = endpoints.call(|address| TcpStream::connect(*address))?;
/// # drop(stream);
/// # io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Endpoints<T> {
    all: Vec<Endpoint<T>>,
}

#[derive(Debug)]
struct Endpoint<T> {
    value: T,
    in_progress: AtomicUsize,
    breaker: Option<Breaker>,
}

/// A call in progress, which ends even if it is unwound.
struct Call<'a>(&'a AtomicUsize);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T> Endpoints<T> {
    /// Creates the choice of these servers. See the example of [`Endpoints`].
    ///
    /// # Panics
    ///
    /// Panics if there is none.
    #[must_use]
    pub fn new(endpoints: impl IntoIterator<Item = T>) -> Endpoints<T> {
        let endpoint = |value| Endpoint {
            value,
            in_progress: AtomicUsize::new(0),
            breaker: None,
        };
        let all: Vec<_> = endpoints.into_iter().map(endpoint).collect();
        assert!(!all.is_empty(), "there is no endpoint to call");
        Endpoints { all }
    }

    /// Gives each of them a [`Breaker`]: calls go to those whose breaker is closed.
    ///
    /// ```
    /// use std::io::{Error, ErrorKind};
    /// use std::time::Duration;
    /// use uthread_resilience::Endpoints;
    ///
    /// let endpoints = Endpoints::new(["up", "down"]).breaker(1, Duration::from_secs(3600));
    /// let call = || endpoints.call(|&name| match name {
    ///     "up" => Ok(name),
    ///     _ => Err(Error::from(ErrorKind::TimedOut)),
    /// });
    /// let failures = (0..100).filter(|_| call().is_err()).count();
    /// assert!(failures <= 1);
    /// ```
    #[must_use]
    pub fn breaker(mut self, failures: u64, open: Duration) -> Endpoints<T> {
        for endpoint in &mut self.all {
            endpoint.breaker = Some(Breaker::new(failures, open));
        }
        self
    }

    /// Makes a call to one of all servers. See the example of [`Endpoints`].
    ///
    /// # Errors
    ///
    /// [`Refused::Open`] if all breakers are open, or the error of the call.
    pub fn call<R, E: From<Refused>>(&self, call: impl FnOnce(&T) -> Result<R, E>) -> Result<R, E> {
        Self::call_one(self.all.iter().collect(), call)
    }

    /// Makes a call to one of `count` servers that belong to a client: shuffle sharding. A client whose requests
    /// bring servers down brings down its own, and few others have the same ones.
    ///
    /// ```
    /// use std::collections::BTreeSet;
    /// use std::io;
    /// use uthread_resilience::Endpoints;
    ///
    /// let endpoints = Endpoints::new(0..10);
    /// let shard = |client: &str| -> BTreeSet<i32> {
    ///     (0..100).map(|_| endpoints.call_of(client, 2, |&server| io::Result::Ok(server)).unwrap()).collect()
    /// };
    /// assert_eq!(shard("one").len(), 2);
    /// assert_eq!(shard("one"), shard("one"));
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused::Open`] if all of their breakers are open, or the error of the call.
    pub fn call_of<R, E: From<Refused>>(
        &self,
        client: impl Hash,
        count: usize,
        call: impl FnOnce(&T) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut ranked: Vec<_> = (self.all.iter().enumerate())
            .map(|(index, endpoint)| {
                let mut hasher = DefaultHasher::new();
                (&client, index).hash(&mut hasher);
                (hasher.finish(), endpoint)
            })
            .collect();
        ranked.sort_unstable_by_key(|(rank, _)| *rank);
        let shard = ranked.into_iter().take(count.max(1));
        Self::call_one(shard.map(|(_, endpoint)| endpoint).collect(), call)
    }

    fn call_one<R, E: From<Refused>>(
        mut among: Vec<&Endpoint<T>>,
        call: impl FnOnce(&T) -> Result<R, E>,
    ) -> Result<R, E> {
        let now = Instant::now();
        among.retain(|endpoint| {
            endpoint
                .breaker
                .as_ref()
                .is_none_or(|breaker| !breaker.is_open(now))
        });
        let endpoint = match among[..] {
            [] => return Err(Refused::Open.into()),
            [only] => only,
            _ => {
                let first = fastrand::usize(..among.len());
                let second = (first + fastrand::usize(1..among.len())) % among.len();
                let load = |index: &usize| among[*index].in_progress.load(Ordering::Relaxed);
                let best = [first, second].into_iter().min_by_key(load);
                among[best.expect("there are two")]
            }
        };
        endpoint.in_progress.fetch_add(1, Ordering::Relaxed);
        let _call = Call(&endpoint.in_progress);
        match &endpoint.breaker {
            Some(breaker) => breaker.call(|| call(&endpoint.value)),
            None => call(&endpoint.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_one_with_fewer_calls_is_chosen() {
        let endpoints = Endpoints::new([0, 1]);
        let chosen = endpoints.call(|&busy| {
            let others: Vec<_> = (0..50)
                .map(|_| endpoints.call(|&other| Ok::<_, Refused>(other)).unwrap())
                .collect();
            Ok::<_, Refused>((busy, others))
        });
        let (busy, others) = chosen.unwrap();
        assert!(others.iter().all(|&other| other != busy));
    }

    #[test]
    fn clients_share_few_servers() {
        let endpoints = Endpoints::new(0..20_u64);
        let shard = |client: u64| {
            let found = Cell::new(0_u64);
            for _ in 0..200 {
                let one = endpoints.call_of(client, 3, |&server| Ok::<_, Refused>(server));
                found.set(found.get() | 1 << one.unwrap());
            }
            found.get()
        };
        let shards: Vec<_> = (0..30).map(shard).collect();
        assert!(
            shards.iter().all(|shard| shard.count_ones() == 3),
            "{shards:?}"
        );
        let same = shards.iter().filter(|&&shard| shard == shards[0]).count();
        assert!(
            same <= 3,
            "{same} of 30 clients have the same three servers"
        );
    }

    #[test]
    fn if_all_breakers_are_open_a_call_is_refused() {
        let endpoints = Endpoints::new([(), ()]).breaker(1, Duration::from_secs(3600));
        let mut failures = (0..3).map(|_| endpoints.call(|()| Err::<(), _>(Refused::Full)));
        assert_eq!(failures.next(), Some(Err(Refused::Full)));
        assert_eq!(failures.next(), Some(Err(Refused::Full)));
        assert_eq!(failures.next(), Some(Err(Refused::Open)));
    }
}
