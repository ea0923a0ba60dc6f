//! Programs that tests have compiled, also those of `bindings/preload`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

pub(crate) fn assert_passed(output: &Output, what: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{what}: {}: {errors}",
        output.status
    );
    assert_eq!(output.stdout, b"passed\n", "{what}: {errors}");
}

/// A server that is killed at the end of the test.
pub(crate) struct Server {
    pub(crate) process: Child,
    address: String,
}

impl Server {
    /// Starts a server that prints its address.
    pub(crate) fn start(command: &mut Command) -> Server {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = process.stdout.take().unwrap();
        let mut server = Server {
            process,
            address: String::new(),
        };
        BufReader::new(output)
            .read_line(&mut server.address)
            .unwrap();
        server
    }

    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address.trim()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends a message, and checks that it comes back.
pub(crate) fn check_echo(mut connection: &TcpStream, sent: [u8; 4]) {
    connection.write_all(&sent).unwrap();
    let mut received = [0; 4];
    connection.read_exact(&mut received).unwrap();
    assert_eq!(received, sent);
}
