//! The programs of hosts to which others connect.

use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;

/// Sends each byte back.
pub(crate) fn echo() -> io::Result<()> {
    for stream in TcpListener::bind("0.0.0.0:7000")?.incoming() {
        let mut stream = stream?;
        std::thread::spawn(move || {
            let mut byte = [0];
            while let Ok(1..) = stream.read(&mut byte) {
                let _ = stream.write_all(&byte);
            }
        });
    }
    Ok(())
}

/// Accepts connections, and neither reads nor writes.
pub(crate) fn ignore() -> io::Result<()> {
    let _connections: Vec<_> = TcpListener::bind("0.0.0.0:7000")?.incoming().collect();
    Ok(())
}
