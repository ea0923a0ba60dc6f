//! flate2 on both ends of a connection: compresses while writing, and decompresses while reading.

use std::io::{self, BufRead, BufReader, Write};

use anyhow::{Result, ensure};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use uthread::net::{TcpListener, TcpStream};
use uthread::thread::Builder;

const LINES: usize = 20_000;

fn main() -> Result<()> {
    uthread::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        // Without optimization, the encoder needs 300 KiB of stack, more than a fiber's default.
        let sender = Builder::new().stack_size(512 * 1024);
        let sender = sender.spawn(move || send(TcpStream::connect(address)?))?;
        let (stream, _) = listener.accept()?;
        let mut count = 0;
        for line in BufReader::new(GzDecoder::new(stream)).lines() {
            ensure!(line? == text(count), "line {count} arrived otherwise");
            count += 1;
        }
        let (plain, packed) = sender.join().expect("no panic")?;
        println!("{count} lines: {plain} bytes were {packed} on the connection");
        ensure!(count == LINES && packed * 5 < plain);
        Ok(())
    })
}

fn text(number: usize) -> String {
    format!("line {number} of a log that says much the same all day")
}

/// Returns the number of bytes before and after compression.
fn send(stream: TcpStream) -> io::Result<(usize, usize)> {
    let mut encoder = GzEncoder::new(Counting(stream, 0), Compression::fast());
    let mut plain = 0;
    for number in 0..LINES {
        let line = text(number) + "\n";
        encoder.write_all(line.as_bytes())?;
        plain += line.len();
    }
    Ok((plain, encoder.finish()?.1))
}

/// A stream that counts the bytes written to it.
struct Counting(TcpStream, usize);

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(bytes)?;
        self.1 += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
