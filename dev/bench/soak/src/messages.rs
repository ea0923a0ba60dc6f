//! Streams of numbered, checksummed messages, and the ledger that compares sent and received
//! messages.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::random::Random;
use crate::stage::{Stage, broken, expect};

/// Stream, number, length and checksum, eight bytes each.
const HEADER_BYTES: usize = 32;

/// Messages up to here are made and received on the fiber's stack.
const STACK_BYTES: usize = 4096;

/// The largest message: more than a small socket buffer takes at once.
const MESSAGE_BYTES_MAX: u64 = 100_000;

/// Both ends of one stream; when both are gone, their counts are compared.
pub(crate) struct Ledger {
    stage: Arc<Stage>,
    stream: u64,
    sent: AtomicU64,
    received: AtomicU64,
    /// `true` if the sender has finished, and the receiver has reached the end of the stream.
    closed: AtomicBool,
    ended: AtomicBool,
    /// `true` if one side resets the connection on purpose.
    lossy: bool,
}

impl Ledger {
    /// Returns both ends of a stream. In a `lossy` one, which is reset on purpose, the last
    /// messages may be missing, but none may be wrong.
    pub(crate) fn open<W, R>(
        stage: &Arc<Stage>,
        sink: W,
        source: R,
        lossy: bool,
    ) -> (Sender<W>, Receiver<R>) {
        let ledger = Arc::new(Ledger {
            stage: Arc::clone(stage),
            stream: stage.next_id(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            lossy,
        });
        let sender = Sender {
            ledger: Arc::clone(&ledger),
            sink,
        };
        (sender, Receiver { ledger, source })
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let (sent, received) = (*self.sent.get_mut(), *self.received.get_mut());
        let is_whole = *self.closed.get_mut() && *self.ended.get_mut();
        let may_lose = self.lossy || (!is_whole && self.stage.is_cut());
        if received > sent || (received < sent && !may_lose) || !(is_whole || may_lose) {
            self.stage.violation(format_args!(
                "stream {}: {sent} sent, {received} received, ended: {is_whole}",
                self.stream
            ));
        }
        let tally = &self.stage.tally;
        tally.sent.add(sent);
        tally.received.add(received);
        tally.lost.add(sent.saturating_sub(received));
    }
}

pub(crate) struct Sender<W> {
    ledger: Arc<Ledger>,
    sink: W,
}

impl<W: Write> Sender<W> {
    /// Sends the next message, of random length and contents.
    pub(crate) fn send(&mut self, random: &mut Random) -> io::Result<()> {
        let limit = match random.u64(..100) {
            0..75 => 200,
            75..98 => STACK_BYTES as u64,
            _ => MESSAGE_BYTES_MAX,
        };
        let length = HEADER_BYTES + random.u64(..limit - HEADER_BYTES as u64) as usize;
        // Counted first: a cancelled call may have sent it.
        let number = self.ledger.sent.fetch_add(1, Ordering::Relaxed);
        if length <= STACK_BYTES {
            let mut message = [0; STACK_BYTES];
            self.fill_and_write(&mut message[..length], number, random)
        } else {
            self.fill_and_write(&mut vec![0; length], number, random)
        }
    }

    fn fill_and_write(
        &mut self,
        message: &mut [u8],
        number: u64,
        random: &mut Random,
    ) -> io::Result<()> {
        let (header, contents) = message.split_at_mut(HEADER_BYTES);
        for chunk in contents.chunks_mut(8) {
            chunk.copy_from_slice(&random.u64(..).to_le_bytes()[..chunk.len()]);
        }
        let fields = [self.ledger.stream, number, contents.len() as u64];
        let fields = [fields[0], fields[1], fields[2], checksum(&fields, contents)];
        for (place, field) in header.chunks_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        self.ledger.stage.tally.bytes.add(message.len() as u64);
        write_patiently(&self.ledger.stage, &mut self.sink, message)
    }

    /// Ends the stream: `end` closes the sink for writing.
    pub(crate) fn finish(self, end: impl FnOnce(W) -> io::Result<()>) -> io::Result<()> {
        // First: the receiver may see the end before this fiber goes on.
        self.ledger.closed.store(true, Ordering::Relaxed);
        end(self.sink)
    }

    pub(crate) fn into_sink(self) -> W {
        self.sink
    }
}

pub(crate) struct Receiver<R> {
    ledger: Arc<Ledger>,
    source: R,
}

impl<R: Read> Receiver<R> {
    /// Receives and checks the next message. Returns false at the end of the stream.
    pub(crate) fn receive(&mut self) -> io::Result<bool> {
        let mut header = [0; HEADER_BYTES];
        if self.read(&mut header, true)? == 0 {
            self.ledger.ended.store(true, Ordering::Relaxed);
            return Ok(false);
        }
        let field = |index: usize| {
            let bytes = header[8 * index..][..8].try_into();
            u64::from_le_bytes(bytes.expect("eight bytes"))
        };
        let fields = [field(0), field(1), field(2)];
        let [stream, number, length] = fields;
        let expected = self.ledger.received.load(Ordering::Relaxed);
        expect(
            stream == self.ledger.stream && number == expected && length < MESSAGE_BYTES_MAX,
            format_args!(
                "stream {} got {number} of {stream} ({length} bytes) instead of {expected}",
                self.ledger.stream
            ),
        )?;
        let length = length as usize;
        let sum = if length <= STACK_BYTES {
            let mut contents = [0; STACK_BYTES];
            self.read(&mut contents[..length], false)?;
            checksum(&fields, &contents[..length])
        } else {
            let mut contents = vec![0; length];
            self.read(&mut contents, false)?;
            checksum(&fields, &contents)
        };
        expect(
            sum == field(3),
            format_args!("message {number} of stream {stream} is damaged"),
        )?;
        self.ledger.received.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    pub(crate) fn receive_all(&mut self) -> io::Result<()> {
        while self.receive()? {}
        Ok(())
    }

    pub(crate) fn into_source(self) -> R {
        self.source
    }

    /// Fills the buffer, however often the read timeout expires. Returns zero at the end of the
    /// stream if it `may_end`.
    fn read(&mut self, buffer: &mut [u8], may_end: bool) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.source.read(&mut buffer[filled..]) {
                Ok(0) if may_end && filled == 0 => return Ok(0),
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) => self.ledger.stage.forgive_timeout(error)?,
            }
        }
        Ok(filled)
    }
}

/// Writes everything, however often the write timeout expires.
fn write_patiently(stage: &Stage, sink: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match sink.write(bytes) {
            Ok(0) => return Err(broken("a write of nothing")),
            Ok(count) => bytes = &bytes[count..],
            Err(error) => stage.forgive_timeout(error)?,
        }
    }
    Ok(())
}

impl Stage {
    /// Counts a timeout; other errors stay errors.
    fn forgive_timeout(&self, error: io::Error) -> io::Result<()> {
        if error.kind() != ErrorKind::WouldBlock {
            return Err(error);
        }
        self.tally.timeouts.add(1);
        Ok(())
    }
}

/// Computes the FNV-1a hash, by words.
fn checksum(fields: &[u64; 3], contents: &[u8]) -> u64 {
    let words = contents.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let mix = |sum: u64, word: u64| {
        (sum ^ word)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(29)
    };
    fields
        .iter()
        .copied()
        .chain(words)
        .fold(0xcbf2_9ce4_8422_2325, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes the bytes of three messages, given where each begins and the last ends.
    type Tamper = fn(&mut Vec<u8>, [usize; 4]);

    /// Sends three messages, changes them by `tamper`, and receives them. Returns the violations.
    fn check(tamper: Tamper) -> Vec<String> {
        let stage = Arc::new(Stage::new("nowhere".into(), false));
        let (mut sender, receiver) = Ledger::open(&stage, Vec::new(), io::empty(), false);
        let mut random = Random::with_seed(1);
        let mut begins = [0; 4];
        for begin in &mut begins[1..] {
            sender.send(&mut random).unwrap();
            *begin = sender.sink.len();
        }
        let mut bytes = sender.sink;
        tamper(&mut bytes, begins);
        let Receiver { ledger, .. } = receiver;
        ledger.closed.store(true, Ordering::Relaxed);
        let source = bytes.as_slice();
        if let Err(error) = (Receiver { ledger, source }).receive_all() {
            stage.judge("a stream", &error);
        }
        // The sender's half of the ledger is dropped last.
        drop(sender.ledger);
        stage.violations()
    }

    #[test]
    fn intact_messages_are_right() {
        assert_eq!(check(|_, _| ()), [""; 0]);
    }

    #[test]
    fn each_fault_of_a_stream_is_found() {
        let faults: [Tamper; 6] = [
            // Damaged, lost in the middle and at the end, doubled, exchanged, cut off.
            |bytes, [.., last, _]| bytes[last - 1] ^= 1,
            |bytes, [_, second, third, _]| drop(bytes.drain(second..third)),
            |bytes, [.., third, _]| bytes.truncate(third),
            |bytes, [first, second, ..]| bytes.extend_from_within(first..second),
            |bytes, [_, second, third, _]| bytes[second..].rotate_left(third - second),
            |bytes, [.., end]| bytes.truncate(end - 1),
        ];
        for (number, fault) in faults.into_iter().enumerate() {
            assert!(!check(fault).is_empty(), "fault {number} is not found");
        }
    }
}
