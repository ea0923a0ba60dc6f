//! The plan of a load. Everything is checked here, before anything starts.

use std::net::{SocketAddr, ToSocketAddrs};
use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use uthread::Driver;

use crate::Error;
use crate::exchange::Exchange;
use crate::http;

/// Bytes in flight on one connection. A server's socket accepts this much while the server itself reads nothing, so a
/// closed loop never waits to send while the server waits for it to receive.
const IN_FLIGHT_BYTES_MAX: usize = 64 * 1024;
/// More workers than any machine has CPUs are a mistake in the argument.
const WORKERS_MAX: usize = 1024;
/// Longer than any measurement, and within the range of latencies.
const TIME_MAX: Duration = Duration::from_secs(3600);

/// The server to load, and the requests to send.
///
/// ```
/// use uthread_load::Target;
///
/// let echo = Target::tcp("127.0.0.1:7000", 16)?;
/// assert_eq!(echo.to_string(), "tcp 127.0.0.1:7000, 16 bytes");
/// let page = Target::http("http://127.0.0.1:8080/index.html")?;
/// assert_eq!(page.to_string(), "http://127.0.0.1:8080/index.html");
/// assert!(Target::http("https://127.0.0.1/").is_err());
/// # Ok::<(), uthread_load::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Echo {
        bytes: usize,
    },
    Get {
        host: String,
        path: String,
        body: Option<Vec<u8>>,
    },
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.what {
            What::Echo { bytes } => write!(formatter, "tcp {}, {bytes} bytes", self.address),
            What::Get { host, path, .. } => write!(formatter, "http://{host}{path}"),
        }
    }
}

impl Target {
    /// Sends messages of this size to the echo server at `HOST:PORT`. See the example of [`Target`].
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the address is invalid or cannot be resolved, and for messages of zero bytes.
    pub fn tcp(address: &str, message_bytes: usize) -> Result<Target, Error> {
        if message_bytes == 0 {
            return Err(Error::Usage("a message needs at least one byte".to_owned()));
        }
        Ok(Target {
            address: resolve(address)?,
            what: What::Echo {
                bytes: message_bytes,
            },
        })
    }

    /// Requests `HOST:PORT/PATH` over HTTP/1.1, with or without a leading `http://`. The port defaults to 80, the path
    /// to `/`. See the example of [`Target`].
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the address is invalid or cannot be resolved.
    pub fn http(url: &str) -> Result<Target, Error> {
        let rest = match url.split_once("://") {
            Some(("http", rest)) => rest,
            Some((scheme, _)) => {
                return Err(Error::Usage(format!(
                    "{scheme}:// is not supported, only http://"
                )));
            }
            None => url,
        };
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_text = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_text(rest) || rest.contains('#') {
            return Err(Error::Usage(format!(
                "{url:?} contains a byte that a request cannot contain: encode it, such as a blank as %20"
            )));
        }
        // The last colon of `[::1]` does not separate a port.
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.ends_with(']'));
        let address = match has_port {
            true => resolve(host)?,
            false => resolve(&format!("{host}:80"))?,
        };
        let path = if path.is_empty() { "/" } else { path };
        Ok(Target {
            address,
            what: What::Get {
                host: host.to_owned(),
                path: path.to_owned(),
                body: None,
            },
        })
    }

    /// Sets the expected body of every HTTP response. By default it is that of the first response.
    ///
    /// ```
    /// use uthread_load::Target;
    ///
    /// let page = Target::http("127.0.0.1:8080/hello")?.expecting(b"hello\n".to_vec());
    /// # drop(page);
    /// # Ok::<(), uthread_load::Error>(())
    /// ```
    #[must_use]
    pub fn expecting(mut self, expected: Vec<u8>) -> Target {
        if let What::Get { body, .. } = &mut self.what {
            *body = Some(expected);
        }
        self
    }

    /// Returns the exchange, if it is known without a first request.
    pub(crate) fn exchange(&self) -> Result<Exchange, Vec<u8>> {
        match &self.what {
            What::Echo { bytes } => Ok(Exchange::Echo { bytes: *bytes }),
            What::Get { host, path, body } => {
                let request = http::request(host, path);
                match body {
                    Some(body) => Ok(Exchange::Get {
                        request,
                        body: body.clone(),
                    }),
                    None => Err(request),
                }
            }
        }
    }
}

fn resolve(address: &str) -> Result<SocketAddr, Error> {
    let mut addresses = address
        .to_socket_addrs()
        .map_err(|error| Error::Usage(format!("{address:?} is not HOST:PORT: {error}")))?;
    let first = addresses.next();
    first.ok_or_else(|| Error::Usage(format!("{address:?} has no address")))
}

/// The rule by which connections send.
///
/// ```
/// use uthread_load::Pattern;
///
/// let one_at_a_time = Pattern::Closed { depth: 1.try_into().unwrap() };
/// let thousand_a_second = Pattern::Open { per_second: 1000.try_into().unwrap() };
/// assert_ne!(one_at_a_time, thousand_a_second);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Sends when a response has arrived.
    Closed {
        /// Requests in flight per connection.
        depth: NonZeroUsize,
    },
    /// Sends when a request is due, by a Poisson process, whether or not earlier ones were answered.
    Open {
        /// Requests per second, over all connections.
        per_second: NonZeroU64,
    },
}

/// Options of a load. [`Plan::new`] has the defaults.
///
/// ```
/// use std::time::Duration;
/// use uthread_load::{Plan, Target};
///
/// let plan = Plan {
///     connections: 4.try_into().unwrap(),
///     duration: Duration::from_millis(100),
///     ..Plan::new(Target::tcp("127.0.0.1:7000", 16)?)
/// };
/// assert_eq!(plan.workers.get(), 1);
/// # Ok::<(), uthread_load::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    /// Server and requests.
    pub target: Target,
    /// Number of connections. Default: 50.
    pub connections: NonZeroUsize,
    /// Rule by which connections send. Default: one request at a time.
    pub pattern: Pattern,
    /// Duration of the measurement. Default: 10 s.
    pub duration: Duration,
    /// Duration of the load before the measurement. Default: 1 s.
    pub warm_up: Duration,
    /// Time after which a request or a connection attempt fails. Default: 10 s.
    pub timeout: Duration,
    /// Threads of the generator, which share the connections evenly. Default: one, which leaves the most to the server.
    pub workers: NonZeroUsize,
    /// Never sleep: for a generator with CPUs of its own whose wake-ups should not be measured.
    pub spin: bool,
    /// I/O driver of the generator. Default: that of [`uthread::Builder::driver`].
    pub driver: Option<Driver>,
}

impl Plan {
    /// Creates a plan with the defaults. See the example of [`Plan`].
    pub fn new(target: Target) -> Plan {
        Plan {
            target,
            connections: NonZeroUsize::MIN.saturating_add(49),
            pattern: Pattern::Closed {
                depth: NonZeroUsize::MIN,
            },
            duration: Duration::from_secs(10),
            warm_up: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
            workers: NonZeroUsize::MIN,
            spin: false,
            driver: None,
        }
    }

    /// Returns the number of workers that have a connection.
    pub(crate) fn workers(&self) -> usize {
        self.workers.min(self.connections).get()
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::Usage(text));
        if self.workers.get() > WORKERS_MAX {
            return refuse(format!("too many workers: at most {WORKERS_MAX}"));
        }
        let times = [self.duration, self.warm_up, self.timeout];
        if self.duration.is_zero()
            || self.timeout.is_zero()
            || times.iter().any(|time| *time > TIME_MAX)
        {
            return refuse(format!(
                "duration and timeout must be longer than zero, and no time longer than {TIME_MAX:?}"
            ));
        }
        Ok(())
    }

    pub(crate) fn check_flight(&self, exchange: &Exchange) -> Result<(), Error> {
        let bytes = exchange.message_bytes();
        let depth = match self.pattern {
            Pattern::Closed { depth } => depth.get(),
            Pattern::Open { .. } => 1,
        };
        match bytes.checked_mul(depth) {
            Some(all) if all <= IN_FLIGHT_BYTES_MAX => Ok(()),
            _ => Err(Error::Usage(format!(
                "{depth} x {bytes} bytes in flight per connection is more than {IN_FLIGHT_BYTES_MAX}: both sides could \
                 wait for each other to read"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_a_port_and_a_path_or_their_defaults() {
        let check = |url: &str, address: &str, expected_host: &str, expected_path: &str| {
            let target = Target::http(url).unwrap();
            assert_eq!(target.address.to_string(), address, "{url}");
            let What::Get { host, path, .. } = target.what else {
                panic!("{url}");
            };
            assert_eq!(
                (host.as_str(), path.as_str()),
                (expected_host, expected_path),
                "{url}"
            );
        };
        check(
            "127.0.0.1:81/a/b?c=d",
            "127.0.0.1:81",
            "127.0.0.1:81",
            "/a/b?c=d",
        );
        check("http://127.0.0.1:81", "127.0.0.1:81", "127.0.0.1:81", "/");
        check("http://127.0.0.1/x", "127.0.0.1:80", "127.0.0.1", "/x");
        check("http://[::1]:81/", "[::1]:81", "[::1]:81", "/");
        check("[::1]/", "[::1]:80", "[::1]", "/");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in [
            "https://127.0.0.1/",
            "127.0.0.1:x/",
            "127.0.0.1/a b",
            "127.0.0.1/#x",
            "127.0.0.1/\r\nA:b",
            "/",
        ] {
            assert!(matches!(Target::http(url), Err(Error::Usage(_))), "{url}");
        }
        assert!(Target::tcp("127.0.0.1", 16).is_err());
        assert!(Target::tcp("127.0.0.1:1", 0).is_err());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let plan = Plan::new(Target::tcp("127.0.0.1:1", 1024).unwrap());
        let exchange = Exchange::Echo { bytes: 1024 };
        let with_depth = |depth: usize| Plan {
            pattern: Pattern::Closed {
                depth: depth.try_into().unwrap(),
            },
            ..plan.clone()
        };
        assert!(with_depth(64).check_flight(&exchange).is_ok());
        assert!(with_depth(65).check_flight(&exchange).is_err());
        assert!(with_depth(usize::MAX).check_flight(&exchange).is_err());
        assert!(plan.check().is_ok());
        let never = Plan {
            duration: Duration::ZERO,
            ..plan.clone()
        };
        assert!(never.check().is_err());
        let many = Plan {
            workers: 1025.try_into().unwrap(),
            ..plan
        };
        assert!(many.check().is_err());
    }
}
