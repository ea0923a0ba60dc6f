//! Links: how what one host sends reaches another.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use crate::chance;

/// After this time, TCP sends again what was lost; twice the time after each further loss.
const RETRANSMISSION: Duration = Duration::from_millis(200);

/// Number of times that a segment is lost at most.
const LOSSES_MAX: u32 = 6;

/// From one host to another, in this order.
pub(crate) type Pair = (u32, u32);

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Link {
    pub(crate) latency: Range<Duration>,
    /// The part of datagrams and segments that are lost.
    pub(crate) loss: f64,
    pub(crate) bytes_per_second: Option<u64>,
    pub(crate) is_cut: bool,
}

impl Link {
    const AT_ONCE: Link = Link {
        latency: Duration::ZERO..Duration::ZERO,
        loss: 0.0,
        bytes_per_second: None,
        is_cut: false,
    };

    /// Returns `true` if everything passes at once.
    pub(crate) fn is_at_once(&self) -> bool {
        *self == Link::AT_ONCE
    }

    /// Chooses how long a segment takes, which TCP sends until it arrives. `may_lose` is asked for each loss.
    pub(crate) fn latency(&self, mut may_lose: impl FnMut() -> bool) -> Duration {
        let losses = (0..LOSSES_MAX).take_while(|_| chance::happens(self.loss));
        let losses = losses.filter(|_| may_lose()).count() as u32;
        let again = RETRANSMISSION * (2_u32.pow(losses) - 1);
        again + chance::time(&self.latency)
    }

    /// Returns how long the link is busy with so many bytes.
    pub(crate) fn transmission(&self, bytes: usize) -> Duration {
        self.bytes_per_second.map_or(Duration::ZERO, |rate| {
            Duration::from_secs_f64(bytes as f64 / rate as f64)
        })
    }
}

/// The links between all hosts, including those that are added later.
#[derive(Debug)]
pub(crate) struct Links {
    others: Link,
    set: BTreeMap<Pair, Link>,
}

impl Default for Links {
    fn default() -> Links {
        Links {
            others: Link::AT_ONCE,
            set: BTreeMap::new(),
        }
    }
}

impl Links {
    /// Returns a link. What a host sends to itself passes at once.
    pub(crate) fn get(&self, pair: Pair) -> &Link {
        if pair.0 == pair.1 {
            return &Link::AT_ONCE;
        }
        self.set.get(&pair).unwrap_or(&self.others)
    }

    /// Changes these links, or all.
    pub(crate) fn change(&mut self, pairs: Option<&[Pair]>, change: impl Fn(&mut Link)) {
        match pairs {
            None => {
                change(&mut self.others);
                self.set.values_mut().for_each(change);
            }
            Some(pairs) => {
                for &pair in pairs {
                    change(self.set.entry(pair).or_insert_with(|| self.others.clone()));
                }
            }
        }
    }
}
