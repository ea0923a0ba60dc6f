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
    /// The indices of all.
    indices: Vec<usize>,
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
        let indices = (0..all.len()).collect();
        Endpoints { all, indices }
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
        self.call_one(&self.indices, call)
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
        self.call_one(&self.shard(client, count), call)
    }

    /// Returns the indices of the `count` servers that belong to a client.
    ///
    /// ```
    /// use uthread_resilience::Endpoints;
    ///
    /// let endpoints = Endpoints::new(0..10);
    /// assert_eq!(endpoints.shard("one", 2).len(), 2);
    /// assert_eq!(endpoints.shard("one", 2), endpoints.shard("one", 2));
    /// ```
    #[must_use]
    pub fn shard(&self, client: impl Hash, count: usize) -> Vec<usize> {
        let rank = |index: &usize| {
            let mut hasher = DefaultHasher::new();
            (&client, index).hash(&mut hasher);
            hasher.finish()
        };
        let mut ranked = self.indices.clone();
        ranked.sort_by_cached_key(rank);
        ranked.truncate(count.max(1));
        ranked
    }

    /// Begins a call to one of the servers with these indices, which a random number in `[0, 1)` chooses, for
    /// callers whose call is no function: its end is [recorded](Endpoints::record), or it is
    /// [abandoned](Endpoints::abandon). Returns the index of the server. `number` is that of no other call in
    /// progress.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use uthread_resilience::{Endpoints, Refused};
    ///
    /// let endpoints = Endpoints::new(["a", "b"]).breaker(1, Duration::from_secs(1));
    /// let now = Instant::now();
    /// let first = endpoints.admit(&[0, 1], 1, now, 0.7)?;
    /// let second = endpoints.admit(&[0, 1], 2, now, 0.7)?;
    /// assert_ne!(first, second, "the other one has fewer calls in progress");
    /// endpoints.record(first, 1, now, true);
    /// endpoints.record(second, 2, now, false);
    /// assert_eq!(endpoints.admit(&[0, 1], 3, now, 0.7), Ok(second));
    /// endpoints.abandon(second, 3, now);
    /// # Ok::<(), Refused>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused::Open`] if all of their breakers are open.
    pub fn admit(
        &self,
        among: &[usize],
        number: u64,
        now: Instant,
        random: f64,
    ) -> Result<usize, Refused> {
        let index = self.choose(among, now, random)?;
        if let Some(breaker) = &self.all[index].breaker {
            breaker.admit(number, now)?;
        }
        self.all[index].in_progress.fetch_add(1, Ordering::Relaxed);
        Ok(index)
    }

    /// Records the end of a call to the server with this index. See the example of [`admit`](Endpoints::admit).
    pub fn record(&self, index: usize, number: u64, now: Instant, has_failed: bool) {
        self.end(index, |breaker| breaker.record(number, now, has_failed));
    }

    /// Ends a call whose result nobody knows. See the example of [`admit`](Endpoints::admit).
    pub fn abandon(&self, index: usize, number: u64, now: Instant) {
        self.end(index, |breaker| breaker.abandon(number, now));
    }

    fn end(&self, index: usize, end: impl FnOnce(&Breaker)) {
        let endpoint = &self.all[index];
        endpoint.in_progress.fetch_sub(1, Ordering::Relaxed);
        if let Some(breaker) = &endpoint.breaker {
            end(breaker);
        }
    }

    fn call_one<R, E: From<Refused>>(
        &self,
        among: &[usize],
        call: impl FnOnce(&T) -> Result<R, E>,
    ) -> Result<R, E> {
        let endpoint = &self.all[self.choose(among, Instant::now(), fastrand::f64())?];
        endpoint.in_progress.fetch_add(1, Ordering::Relaxed);
        let _call = Call(&endpoint.in_progress);
        match &endpoint.breaker {
            Some(breaker) => breaker.call(|| call(&endpoint.value)),
            None => call(&endpoint.value),
        }
    }

    /// Returns the one with fewer calls of two whose breakers are closed.
    fn choose(&self, among: &[usize], now: Instant, random: f64) -> Result<usize, Refused> {
        let is_open = |index: &usize| {
            let breaker = self.all[*index].breaker.as_ref();
            breaker.is_some_and(|breaker| breaker.is_open(now))
        };
        let mut closed = among.to_vec();
        closed.retain(|index| !is_open(index));
        let load = |index: &usize| self.all[*index].in_progress.load(Ordering::Relaxed);
        // The whole part chooses the first, and the fraction the second.
        let place = random * closed.len() as f64;
        let first = place as usize;
        let others = closed.len().saturating_sub(1);
        let second = first + 1 + (place.fract() * others as f64) as usize;
        let two = match closed[..] {
            [] => return Err(Refused::Open),
            [only] => [only; 2],
            _ => [closed[first], closed[second % closed.len()]],
        };
        Ok(two.into_iter().min_by_key(load).expect("there are two"))
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
