//! Resolves the names of targets, and connects to them.
//!
//! `getaddrinfo` cannot be interrupted, so each lookup has a fiber of its own, which outlives a
//! client that has given up. Its answer is shared by all clients that ask meanwhile, and for
//! some time afterwards.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use uthread::net::{TcpStream, ToSocketAddrs};
use uthread::sync::OnceLock;
use uthread::{spawn, timeout};

use super::failure::Failure;
use super::race;
use super::settings::Settings;
use crate::targets::{Host, Target};

/// Names to remember: a name and its addresses take less than a KiB.
const NAMES_MAX: usize = 1024;
/// Time for which a failed lookup is not repeated.
const FAILURE_AGE_MAX: Duration = Duration::from_secs(1);

type Answer = Result<Vec<IpAddr>, String>;

#[derive(Debug, Default)]
pub(crate) struct Connector {
    names: Mutex<HashMap<String, Lookup>>,
}

#[derive(Clone, Debug)]
struct Lookup {
    start: Instant,
    answer: Arc<OnceLock<Answer>>,
}

impl Lookup {
    fn is_usable(&self, age_max: Duration) -> bool {
        self.start.elapsed()
            < match self.answer.get() {
                Some(Err(_)) => FAILURE_AGE_MAX,
                Some(Ok(_)) | None => age_max,
            }
    }
}

impl Connector {
    /// Connects to the address of the target that accepts first, within the time for all of it.
    pub(super) fn connect(
        &self,
        settings: &Settings,
        target: &Target,
    ) -> Result<(TcpStream, SocketAddr), Failure> {
        if let Some(allowed) = &settings.allowed
            && !allowed.allows(target)
        {
            return Err(Failure::NotAllowed);
        }
        let deadline = Instant::now() + settings.connect_timeout;
        let connect = || self.connect_once(settings, target, deadline);
        settings.policies.connect(target, deadline, connect)
    }

    fn connect_once(
        &self,
        settings: &Settings,
        target: &Target,
        deadline: Instant,
    ) -> Result<(TcpStream, SocketAddr), Failure> {
        let time_left = || deadline.saturating_duration_since(Instant::now());
        let found = match &target.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolve(settings.name_age_max, name, time_left())?,
        };
        let is_allowed = |&address: &IpAddr| match &settings.allowed {
            Some(allowed) => allowed.allows_at(target, address),
            None => true,
        };
        let addresses: Vec<_> = found.into_iter().filter(is_allowed).collect();
        race::connect_first(addresses, target.port, time_left())
    }

    fn resolve(
        &self,
        age_max: Duration,
        name: &str,
        time_max: Duration,
    ) -> Result<Vec<IpAddr>, Failure> {
        let answer = self.lookup(age_max, name).answer;
        match timeout(time_max, || answer.wait().clone()) {
            Ok(answer) => answer.map_err(Failure::NoAddress),
            Err(_) => Err(Failure::LookupTimedOut),
        }
    }

    /// Returns the lookup of a name, and starts one if there is none in use.
    fn lookup(&self, age_max: Duration, name: &str) -> Lookup {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lookup) = names.get(name)
            && lookup.is_usable(age_max)
        {
            return lookup.clone();
        }
        if names.len() >= NAMES_MAX {
            names.retain(|_, lookup| lookup.is_usable(age_max));
        }
        let lookup = Lookup {
            start: Instant::now(),
            answer: Arc::default(),
        };
        // With as many names in use, further ones are looked up each time.
        if names.len() < NAMES_MAX {
            names.insert(name.to_owned(), lookup.clone());
        }
        drop(names);
        let answer = Arc::clone(&lookup.answer);
        let name = name.to_owned();
        spawn(move || {
            let found = (name.as_str(), 0).to_socket_addrs();
            let _ = answer.set(match found {
                Ok(addresses) => Ok(addresses.map(|address| address.ip()).collect()),
                Err(error) => Err(error.to_string()),
            });
        });
        lookup
    }
}
