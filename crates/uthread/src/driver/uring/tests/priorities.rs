//! Tests of the order of submissions, and of the priority that they carry.

use super::*;

#[test]
fn reads_and_writes_carry_the_priority_to_the_disk() {
    // Only reads and writes have an I/O priority: the field has other meanings elsewhere.
    let (pipe, _writer) = std::io::pipe().unwrap();
    let state = FdState::new();
    let file = Descriptor {
        fd: pipe.as_fd(),
        state: &state,
    };
    let registered = Registered::new();
    let (mut bytes, offset) = ([0; 8], Some(0));
    let mut more = [0; 8];
    let mut into = [io::IoSliceMut::new(&mut more)];
    let mut from = [io::IoSlice::new(&[0; 8])];
    let operations = [
        (
            FileOperation::Read {
                file,
                buffer: &mut bytes,
                offset,
            },
            true,
        ),
        (
            FileOperation::Write {
                file,
                buffer: &[0; 8],
                offset,
            },
            true,
        ),
        (
            FileOperation::ReadVectored {
                file,
                buffers: &mut into,
                offset,
            },
            true,
        ),
        (
            FileOperation::WriteVectored {
                file,
                buffers: &mut from,
                offset,
            },
            true,
        ),
        (
            FileOperation::Sync {
                file,
                data_only: true,
            },
            false,
        ),
    ];
    for (mut operation, carries) in operations {
        let found = Priority::ALL.map(|priority| {
            let entry = encode::file(&mut operation, &registered, priority);
            crate::op::raw::priority_of(&entry)
        });
        let expected = if carries {
            [2 << 13, 0, 2 << 13 | 7]
        } else {
            [0; 3]
        };
        assert_eq!(found, expected);
    }
}

/// Makes the first entry of each chain fail, so that the second one is cancelled, and no entry of
/// another chain.
#[test]
fn chains_stay_together_whatever_their_priorities_are() {
    let fails = || opcode::Read::new(Fd(-1), std::ptr::null_mut(), 0).build();
    let nop = || opcode::Nop::new().build();
    for mut ring in rings() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let chain = |_| {
                if random.bool() {
                    Raw::new([fails().flags(Flags::IO_LINK), nop()])
                } else {
                    Raw::new([nop()])
                }
            };
            let mut raws = Vec::from_iter((0..12).map(chain));
            let mut operations = Vec::from_iter(raws.iter_mut().map(Raw::operation));
            for (index, operation) in operations.iter_mut().enumerate() {
                ring.set_priority(Priority::ALL[random.usize(..3)]);
                // SAFETY: all operations outlive the completions that are awaited below.
                let start = unsafe { ring.start(operation, Token(index as u64)) };
                assert!(start.is_pending());
            }
            ring.set_priority(Priority::Normal);
            wait_for(&mut ring, operations.len());
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
