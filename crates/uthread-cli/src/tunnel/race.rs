//! Connects to one of the addresses of a name, as "Happy Eyeballs" (RFC 8305) do.
//!
//! An address that does not answer, as those of IPv6 often do, must not cost a client seconds. So
//! the next attempt begins after a short time, while the earlier ones go on, and the first
//! connection wins.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use uthread::net::TcpStream;
use uthread::scope;
use uthread::sync::mpsc::channel;
use uthread::thread::ScopedJoinHandle;

use super::failure::Failure;

/// Time that an attempt has before the next one begins beside it (RFC 8305, section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Addresses to try, each of which may take a descriptor: more than names of services have.
const ADDRESSES_MAX: usize = 16;

/// Connects to the address that accepts first. Tries them in this order, one family after the
/// other. Fails with the last failure, or when `time_max` has passed.
pub(super) fn connect_first(
    addresses: Vec<IpAddr>,
    port: u16,
    time_max: Duration,
) -> Result<(TcpStream, SocketAddr), Failure> {
    let deadline = Instant::now() + time_max;
    let mut waiting: VecDeque<_> = interleave(addresses)
        .map(|address| SocketAddr::new(address, port))
        .take(ADDRESSES_MAX)
        .collect();
    let Some(&first) = waiting.front() else {
        return Err(Failure::NotAllowed);
    };
    if waiting.len() == 1 {
        return attempt(first, deadline).map(|stream| (stream, first));
    }
    // All attempts begin before the deadline.
    let delay = ATTEMPT_DELAY.min(time_max / waiting.len() as u32);
    scope(|scope| {
        let (sender, outcomes) = channel();
        let mut attempts = Vec::new();
        let mut failures = 0;
        let mut failure = Failure::TimedOut(first);
        while failures < attempts.len() || !waiting.is_empty() {
            let patience = match waiting.pop_front() {
                Some(address) => {
                    let sender = sender.clone();
                    attempts.push(scope.spawn(move || {
                        // An error means that another attempt has won.
                        let _ = sender.send((address, attempt(address, deadline)));
                    }));
                    delay
                }
                None => deadline.saturating_duration_since(Instant::now()) + delay,
            };
            match outcomes.recv_timeout(patience) {
                Ok((address, Ok(stream))) => {
                    attempts.iter().for_each(ScopedJoinHandle::cancel);
                    return Ok((stream, address));
                }
                Ok((_, Err(other))) => {
                    failures += 1;
                    failure = other;
                }
                // The next attempt begins.
                Err(_) => {}
            }
        }
        Err(failure)
    })
}

fn attempt(address: SocketAddr, deadline: Instant) -> Result<TcpStream, Failure> {
    let time = deadline.saturating_duration_since(Instant::now());
    if time.is_zero() {
        return Err(Failure::TimedOut(address));
    }
    TcpStream::connect_timeout(&address, time).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => Failure::TimedOut(address),
        _ => Failure::Refused(address, error),
    })
}

/// Alternates between the two families, beginning with that of the first address, and keeps the
/// order within each (RFC 8305, section 4).
fn interleave(addresses: Vec<IpAddr>) -> impl Iterator<Item = IpAddr> {
    let is_first_v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
    let is_preferred = |address: &IpAddr| address.is_ipv6() == is_first_v6;
    let (preferred, others): (VecDeque<_>, VecDeque<_>) =
        addresses.into_iter().partition(is_preferred);
    let mut families = [preferred, others];
    std::iter::from_fn(move || {
        families.swap(0, 1);
        let [next, current] = &mut families;
        current.pop_front().or_else(|| next.pop_front())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
    use std::net::{TcpListener, TcpStream as StdStream};
    use std::os::fd::OwnedFd;
    use uthread::{Driver, Runtime};

    /// Time limit of attempts that no test waits for.
    const LONG: Duration = Duration::from_secs(60);

    /// Drops requests to connect at an address with this last number, as its queue is full.
    struct Hanging {
        _listener: OwnedFd,
        _queued: StdStream,
    }

    impl Hanging {
        fn new(last: u8, port: u16) -> Hanging {
            let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            bind(&listener, &SocketAddr::new(ip(last), port)).unwrap();
            listen(&listener, 0).unwrap();
            let address: SocketAddr = getsockname(&listener).unwrap().try_into().unwrap();
            Hanging {
                _listener: listener,
                _queued: StdStream::connect(address).unwrap(),
            }
        }
    }

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    /// Connects to a port at which 127.0.0.1 accepts, and 127.0.0.2 and 127.0.0.3 hang.
    fn check(addresses: &[u8], time_max: Duration, check: fn(Result<u8, Failure>)) {
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = open.local_addr().unwrap().port();
        let _hanging = [2, 3].map(|last| Hanging::new(last, port));
        for &driver in Driver::ALL {
            let Ok(runtime) = Runtime::builder().driver(driver).workers(1).build() else {
                continue;
            };
            let addresses = addresses.iter().map(|&last| ip(last)).collect();
            let start = Instant::now();
            let connected = runtime.run(move || connect_first(addresses, port, time_max));
            assert!(start.elapsed() < LONG / 4, "{:?}", start.elapsed());
            check(connected.map(|(_, address)| match address.ip() {
                IpAddr::V4(v4) => v4.octets()[3],
                IpAddr::V6(_) => unreachable!("all are of IPv4"),
            }));
        }
    }

    #[test]
    fn an_address_that_hangs_does_not_delay_the_next() {
        for addresses in [&[2, 1][..], &[2, 3, 1], &[4, 2, 1], &[1, 2]] {
            check(addresses, LONG, |found| assert_eq!(found.unwrap(), 1));
        }
    }

    #[test]
    fn the_last_failure_is_reported() {
        check(&[4, 5], LONG, |found| {
            assert!(matches!(found, Err(Failure::Refused(..))), "{found:?}");
        });
        for addresses in [&[2][..], &[2, 3], &[4, 2]] {
            check(addresses, Duration::from_millis(100), |found| {
                assert!(matches!(found, Err(Failure::TimedOut(_))), "{found:?}");
            });
        }
        check(&[], LONG, |found| {
            assert!(matches!(found, Err(Failure::NotAllowed)), "{found:?}");
        });
    }

    #[test]
    fn families_alternate() {
        let check = |addresses: &[&str], expected: &[&str]| {
            let parse = |text: &&str| text.parse::<IpAddr>().unwrap();
            let found = interleave(addresses.iter().map(parse).collect());
            assert!(found.eq(expected.iter().map(parse)), "{addresses:?}");
        };
        check(
            &["::1", "::2", "::3", "1.1.1.1"],
            &["::1", "1.1.1.1", "::2", "::3"],
        );
        check(&["1.1.1.1", "::1", "::2"], &["1.1.1.1", "::1", "::2"]);
        check(&["1.1.1.1", "2.2.2.2"], &["1.1.1.1", "2.2.2.2"]);
        check(&["::1"], &["::1"]);
        check(&[], &[]);
    }
}
