//! Thread-local storage of its own where the C library or the kernel sets limits: the block of a
//! fiber is neither lost nor used with old values.

use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, getuid, setrlimit};

use crate::harness::behaviours;
use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::own_tls::WITH_OWN_TLS;
use crate::support::HOUR;
use uthread::{scope, sleep, spawn};

behaviours![(
    WITH_OWN_TLS,
    [
        a_runtime_ends_where_no_thread_can_start,
    ]
)];

const FIBERS: usize = 200;

/// Makes the limit of threads hold for this process, which does not hold for root.
#[allow(unsafe_code, reason = "the user of all threads")]
fn become_ordinary_user() {
    const ORDINARY: u32 = 54321;
    let user = getuid();
    let user = if user.is_root() {
        ORDINARY
    } else {
        user.as_raw()
    };
    // SAFETY: the call changes the user of all threads, none of which is a fiber.
    assert_eq!(unsafe { libc::setresuid(user, user, user) }, 0);
}

/// Starts fibers that wait, and returns when all do.
fn start_sleepers(runtime: &uthread::Runtime) {
    runtime.run(|| {
        for _ in 0..FIBERS {
            drop(spawn(|| sleep(HOUR)));
        }
        scope(|scope| drop(scope.spawn(|| ())));
    });
}

/// Ends a runtime while no thread can start, so that the C library cannot end those of the fibers.
/// It then still lists their blocks, which it accesses whenever a thread changes its user.
fn a_runtime_ends_where_no_thread_can_start(place: Place) {
    alone(|| {
        become_ordinary_user();
        let runtime = place.runtime();
        start_sleepers(&runtime);
        let limit = getrlimit(Resource::Nproc);
        let none = Rlimit {
            current: Some(0),
            ..limit
        };
        setrlimit(Resource::Nproc, none).unwrap();
        assert!(thread::Builder::new().spawn(|| ()).is_err());
        drop(runtime);
        setrlimit(Resource::Nproc, limit).unwrap();
        // Not on the same addresses.
        let next = place.builder().stack_size(1 << 20).build().unwrap();
        start_sleepers(&next);
        drop(next);
        become_ordinary_user();
    });
}
