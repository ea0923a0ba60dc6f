//! Several raw requests in one call, linked or not, and their fate at the end of the runtime.

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::io::Errno;
use uthread::ring::io_uring::opcode;
use uthread::ring::io_uring::squeue::Flags;
use uthread::ring::io_uring::types::Fd;

use crate::harness::place::Place;
use crate::harness::{NO_RING, behaviours};
use crate::support::HANG;
use crate::support::requests::{outcomes, submit, submit_all};

behaviours![(
    &[NO_RING],
    [
        a_chain_is_carried_out_in_order,
        a_chain_ends_where_it_breaks,
        a_hard_linked_chain_continues_after_a_failure,
        entries_without_links_run_at_the_same_time,
        the_end_of_the_runtime_cancels_a_request,
        the_end_of_the_runtime_cancels_a_hard_chain,
        results_of_a_cancelled_chain_are_returned,
        no_request_is_made_once_the_runtime_has_ended,
    ]
)];

fn a_chain_is_carried_out_in_order(place: Place) {
    place.run(|| {
        let (reader, writer) = io::pipe().unwrap();
        let (from, to) = (Fd(reader.as_raw_fd()), Fd(writer.as_raw_fd()));
        for round in 0..16_u8 {
            let sent: Vec<u8> = (0..16).map(|index| round * 16 + index).collect();
            let mut received = [0_u8; 16];
            let mut chain = Vec::new();
            for index in 0..16 {
                chain.push(opcode::Write::new(to, &raw const sent[index], 1).build());
                chain.push(opcode::Read::new(from, &raw mut received[index], 1).build());
            }
            let last = chain.len() - 1;
            chain[..last]
                .iter_mut()
                .for_each(|entry| *entry = entry.clone().flags(Flags::IO_LINK));
            assert_eq!(outcomes(chain), [Ok(1); 32]);
            assert_eq!(received[..], sent);
        }
    });
}

fn a_chain_ends_where_it_breaks(place: Place) {
    place.run(|| {
        let chain = [
            opcode::Nop::new().build().flags(Flags::IO_LINK),
            opcode::Close::new(Fd(i32::MAX))
                .build()
                .flags(Flags::IO_LINK),
            opcode::Nop::new().build().flags(Flags::IO_LINK),
            opcode::Nop::new().build(),
        ];
        let cancelled = Err(Errno::CANCELED);
        assert_eq!(
            outcomes(chain),
            [Ok(0), Err(Errno::BADF), cancelled, cancelled]
        );
    });
}

fn a_hard_linked_chain_continues_after_a_failure(place: Place) {
    place.run(|| {
        let chain = [
            opcode::Close::new(Fd(i32::MAX))
                .build()
                .flags(Flags::IO_HARDLINK),
            opcode::Nop::new().build(),
        ];
        assert_eq!(outcomes(chain), [Err(Errno::BADF), Ok(0)]);
    });
}

fn entries_without_links_run_at_the_same_time(place: Place) {
    place.run(|| {
        let (reader, writer) = io::pipe().unwrap();
        let (mut byte, text) = (0_u8, b"x");
        // The first waits for the second.
        let entries = [
            opcode::Read::new(Fd(reader.as_raw_fd()), &raw mut byte, 1).build(),
            opcode::Write::new(Fd(writer.as_raw_fd()), text.as_ptr(), 1).build(),
        ];
        assert_eq!(outcomes(entries), [Ok(1), Ok(1)]);
        assert_eq!(byte, b'x');
    });
}

fn the_end_of_the_runtime_cancels_a_request(place: Place) {
    let runtime = place.runtime();
    let (reader, _writer) = io::pipe().unwrap();
    let waits = place.spawn_waiting(&runtime, move || {
        let mut byte = 0_u8;
        submit(opcode::Read::new(Fd(reader.as_raw_fd()), &raw mut byte, 1).build())
    });
    let begin = Instant::now();
    drop(runtime);
    let error = waits.join().unwrap().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::CANCELED.raw_os_error()));
    assert!(begin.elapsed() < HANG);
}

fn the_end_of_the_runtime_cancels_a_hard_chain(place: Place) {
    let runtime = place.runtime();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let waits = place.spawn_waiting(&runtime, move || {
        let (mut bytes, fd) = ([0_u8; 7], Fd(theirs.as_raw_fd()));
        // Says that the kernel has the chain.
        let mut chain = vec![opcode::Write::new(fd, b"begun".as_ptr(), 5).build()];
        chain.extend(
            bytes
                .iter_mut()
                .map(|byte| opcode::Read::new(fd, byte, 1).build()),
        );
        chain[..7]
            .iter_mut()
            .for_each(|entry| *entry = entry.clone().flags(Flags::IO_HARDLINK));
        // Each begins when the one before it has been cancelled.
        outcomes(chain)
    });
    let mut text = [0; 5];
    (&ours).read_exact(&mut text).unwrap();
    drop(runtime);
    let outcomes = waits.join().unwrap();
    assert_eq!(outcomes[0], Ok(5));
    assert_eq!(outcomes[1..], [Err(Errno::CANCELED); 7]);
}

fn results_of_a_cancelled_chain_are_returned(place: Place) {
    let runtime = place.runtime();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let waits = place.spawn_waiting(&runtime, move || {
        let (mut byte, fd) = (0_u8, Fd(theirs.as_raw_fd()));
        outcomes([
            opcode::Write::new(fd, b"done".as_ptr(), 4)
                .build()
                .flags(Flags::IO_LINK),
            opcode::Read::new(fd, &raw mut byte, 1).build(),
        ])
    });
    let mut text = [0; 4];
    (&ours).read_exact(&mut text).unwrap();
    drop(runtime);
    assert_eq!(waits.join().unwrap(), [Ok(4), Err(Errno::CANCELED)]);
}

fn no_request_is_made_once_the_runtime_has_ended(place: Place) {
    let runtime = place.runtime();
    let (reader, writer) = io::pipe().unwrap();
    let waits = place.spawn_waiting(&runtime, move || {
        let mut byte = 0_u8;
        let read =
            || opcode::Read::new(Fd(reader.as_raw_fd()), &raw const byte as *mut u8, 1).build();
        submit(read()).unwrap_err();
        let write = opcode::Write::new(Fd(writer.as_raw_fd()), &raw const byte, 1).build();
        let refused = [submit(write.clone()).err(), submit_all([write]).err()];
        drop(writer);
        byte = 1;
        let mut rest = Vec::new();
        (&reader).read_to_end(&mut rest).unwrap();
        (
            refused.map(|error| error.unwrap().raw_os_error()),
            rest,
            byte,
        )
    });
    drop(runtime);
    let cancelled = Some(Errno::CANCELED.raw_os_error());
    assert_eq!(waits.join().unwrap(), ([cancelled; 2], Vec::new(), 1));
}
