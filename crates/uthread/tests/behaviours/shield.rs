//! Code in a shield is neither cancelled nor cut short; code outside is.

use std::io::{self, Read, Write};
use std::time::Duration;

use rustix::io::Errno;
use uthread::fs::File;
use uthread::thread::is_cancelled;
use uthread::{shield, sleep};

use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, behaviours};
use crate::support::{HANG, pair};

behaviours![(
    IN_FIBERS,
    [
        a_shield_holds_off_cancellation_until_its_end,
        a_shield_holds_off_the_end_of_the_runtime,
        a_lock_of_a_file_is_waited_for_in_a_shield,
    ]
)];

fn errno<T>(result: io::Result<T>) -> Option<Errno> {
    result.err().and_then(|error| Errno::from_io_error(&error))
}

fn a_shield_holds_off_cancellation_until_its_end(place: Place) {
    let (mut ours, mut peer) = pair();
    let runtime = place.runtime();
    let shielded = place.spawn_waiting(&runtime, move || {
        let mut bytes = [0; 4];
        let kept = shield(|| {
            assert!(!is_cancelled());
            ours.read_exact(&mut bytes[..2])?;
            sleep(Duration::from_millis(1));
            ours.read_exact(&mut bytes[2..])
        });
        (kept, bytes, errno(ours.read(&mut [0; 4])))
    });
    shielded.cancel();
    peer.write_all(b"sh").unwrap();
    peer.write_all(b"ut").unwrap();
    let (kept, bytes, after) = shielded.join().unwrap();
    kept.unwrap();
    assert_eq!(&bytes, b"shut");
    assert_eq!(after, Some(Errno::CANCELED));
}

fn a_shield_holds_off_the_end_of_the_runtime(place: Place) {
    let (mut ours, mut peer) = pair();
    let runtime = place.runtime();
    let shielded = place.spawn_waiting(&runtime, move || {
        let mut bytes = [0; 4];
        let kept = shield(|| {
            ours.read_exact(&mut bytes)?;
            // A timer that is set after the end of the runtime has begun.
            sleep(Duration::from_millis(2));
            uthread::fs::metadata("Cargo.toml").map(|_| ())
        });
        (kept, bytes, errno(ours.read(&mut [0; 4])))
    });
    let dropping = std::thread::spawn(move || drop(runtime));
    std::thread::sleep(Duration::from_millis(5)); // Either order is right.
    peer.write_all(b"kept").unwrap();
    dropping.join().unwrap();
    let (kept, bytes, after) = shielded.join().unwrap();
    kept.unwrap();
    assert_eq!(&bytes, b"kept");
    assert_eq!(after, Some(Errno::CANCELED));
}

fn a_lock_of_a_file_is_waited_for_in_a_shield(place: Place) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let [owner, waiting, last] = [(); 3].map(|()| File::open(file.path()).unwrap());
    owner.lock().unwrap();
    let runtime = place.runtime();
    let shielded = place.spawn_waiting(&runtime, move || {
        let taken = shield(|| waiting.lock());
        // `waiting` has the lock, so only the end of the runtime ends this call.
        (taken, errno(last.lock()))
    });
    let canary = runtime.spawn(|| sleep(HANG));
    let dropping = std::thread::spawn(move || drop(runtime));
    // The end of the runtime has begun, at least on the canary's worker.
    canary.join().unwrap_err();
    owner.unlock().unwrap();
    dropping.join().unwrap();
    let (taken, after) = shielded.join().unwrap();
    taken.unwrap();
    assert_eq!(after, Some(Errno::CANCELED));
}
