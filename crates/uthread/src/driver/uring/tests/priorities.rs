//! Tests of the order of submissions.

use super::*;

/// The first entry of each chain fails, so that the second one is cancelled, and no entry of another chain.
#[test]
fn chains_stay_together_whatever_their_priorities_are() {
    let fails = || opcode::Read::new(Fd(-1), std::ptr::null_mut(), 0).build();
    let nop = || opcode::Nop::new().build();
    for (mut ring, mut completions) in rings() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let chain = |_| match random.bool() {
                true => Raw::new([fails().flags(Flags::IO_LINK), nop()]),
                false => Raw::new([nop()]),
            };
            let mut raws = Vec::from_iter((0..12).map(chain));
            let mut operations = Vec::from_iter(raws.iter_mut().map(Raw::operation));
            for (index, operation) in operations.iter_mut().enumerate() {
                ring.set_priority(Priority::ALL[random.usize(..3)]);
                // SAFETY: all operations outlive the completions that are awaited below.
                let start = unsafe { ring.start(operation, Token(index as u64)) };
                assert_eq!(start, Start::Pending);
            }
            ring.set_priority(Priority::Normal);
            wait_for(&mut ring, &mut completions, operations.len());
            drop(operations);
            for raw in raws {
                match &raw.requests[..] {
                    [single] => assert_eq!(single.result, 0, "seed {seed}"),
                    [first, second] => {
                        assert_eq!(first.result, -libc::EBADF, "seed {seed}");
                        assert_eq!(second.result, -libc::ECANCELED, "seed {seed}");
                    }
                    _ => unreachable!("there are no others"),
                }
            }
        }
    }
}
