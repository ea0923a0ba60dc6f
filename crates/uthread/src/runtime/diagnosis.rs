//! A report of the kernel features available on this machine, for users who want to know why a
//! program runs as it does.

use std::io;
use std::panic::resume_unwind;
use std::thread::{self, Builder};

pub use crate::driver::feature::{Feature, Usage};
use crate::driver::{epoll, page_cache, uring};
use crate::sched::features::offload;
use crate::stack::pool;
use crate::tls::{self, Way};

/// The report that [`diagnose`] returns. See the example there.
#[derive(Debug)]
#[non_exhaustive]
pub struct Diagnosis {
    /// A description of how a worker's ring is set up; or the reason why there is none, with a
    /// remedy, and with the kernel's error as its source.
    pub ring: io::Result<String>,
    /// Features of rings.
    pub ring_features: Vec<Feature>,
    /// Operations that a ring supports.
    pub ring_operations: Vec<Feature>,
    /// Kernel features that do not need a ring.
    pub system_features: Vec<Feature>,
    /// The locked memory that a worker's ring takes, in bytes.
    pub ring_locked_bytes: usize,
    /// The locked memory that the smaller ring takes, in bytes. Workers use this ring if the limit
    /// of locked memory is too low for the larger one.
    pub ring_locked_bytes_min: usize,
}

/// Tests which features the kernel offers.
///
/// Features are never derived from the kernel version: each one is tested by the code that uses it.
/// This takes a few milliseconds, during which the caller waits; in a fiber, a pool thread runs the
/// tests.
///
/// ```
/// let diagnosis = uthread::runtime::diagnose();
/// match diagnosis.ring {
///     Ok(ring) => println!("{ring}"),
///     Err(error) => println!("{error}"),
/// }
/// for feature in &diagnosis.ring_features {
///     if feature.available == Some(false) {
///         println!("no {}, but {}", feature.name, feature.instead);
///     }
/// }
/// ```
#[must_use]
pub fn diagnose() -> Diagnosis {
    // The tests block, and need more stack than a fiber has.
    offload::run(examine_on_a_thread)
}

/// Lets no other thread create the rings: the kernel interrupts the system calls of a thread, with
/// `EINTR`, when it has cleared away a ring that the thread created and closed.
fn examine_on_a_thread() -> Diagnosis {
    thread::scope(|scope| match Builder::new().spawn_scoped(scope, examine) {
        Ok(thread) => thread
            .join()
            .unwrap_or_else(|payload| resume_unwind(payload)),
        Err(_) => examine(),
    })
}

fn examine() -> Diagnosis {
    let rings = uring::probe::probe();
    let [ring_locked_bytes, ring_locked_bytes_min] = rings.locked_bytes;
    let used = |name, available, instead| Feature {
        name,
        available,
        usage: Usage::Used,
        instead,
    };
    let guard_regions = pool::has_guard_regions().ok();
    let can_tell = page_cache::can_tell();
    let mut system_features = vec![
        used("guard regions", guard_regions, "two more mappings a stack"),
        used("cachestat", Some(can_tell), "send_file may wait for a disk"),
    ];
    system_features.extend(epoll::probe::probe());
    system_features.extend(own_tls());
    Diagnosis {
        ring: rings.ring,
        ring_features: rings.features,
        ring_operations: rings.operations,
        system_features,
        ring_locked_bytes,
        ring_locked_bytes_min,
    }
}

/// Tests whether fibers can have thread-local storage of their own, by which way a switch changes
/// it, and whether the C library's allocator keeps a cache for each of them.
fn own_tls() -> [Feature; 3] {
    let used = |name, available, instead| Feature {
        name,
        available: Some(available),
        usage: Usage::Used,
        instead,
    };
    let way = tls::support();
    let by_instruction = matches!(way, Ok(Way::Instruction));
    [
        used(
            "fibers with own thread-local storage",
            way.is_ok(),
            "lean fibers: they must not block, nor keep a reference to a thread-local",
        ),
        used(
            "thread pointer written by an instruction",
            by_instruction,
            "a system call at each switch, arch_prctl",
        ),
        used(
            "malloc's cache of the thread used by such fibers",
            tls::shares_caches(),
            "each fiber has a cache of its own, of some 20 KB",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the features with the driver's own description of its ring.
    #[test]
    fn features_are_those_that_the_driver_has_found() {
        let diagnosis = diagnose();
        let ring = match diagnosis.ring {
            Ok(ring) => ring,
            Err(error) => return eprintln!("left out: {error}"),
        };
        let has = |name: &str| {
            let mut all = diagnosis.ring_features.iter();
            let feature = all.find(|feature| feature.name == name).unwrap();
            feature.available.unwrap()
        };
        for (name, text) in [
            ("deferred task work", "deferred task work"),
            ("message without a ring", "wake by ring message"),
        ] {
            assert_eq!(has(name), ring.contains(text), "{name}: {ring}");
        }
        for name in ["timed waits (EXT_ARG)", "no lost completions (NODROP)"] {
            assert!(has(name), "{name}");
        }
    }

    #[test]
    fn every_operation_in_use_is_there_if_there_is_a_ring() {
        let diagnosis = diagnose();
        let expected = diagnosis.ring.is_ok().then_some(true);
        for operation in diagnosis.ring_operations {
            if operation.usage == Usage::Used {
                assert_eq!(operation.available, expected, "{}", operation.name);
            }
        }
    }

    #[test]
    fn a_smaller_ring_takes_less() {
        let diagnosis = diagnose();
        assert!(diagnosis.ring_locked_bytes_min < diagnosis.ring_locked_bytes);
    }
}
