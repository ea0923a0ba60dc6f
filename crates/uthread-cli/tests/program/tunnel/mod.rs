//! `uthread tunnel`, one file per theme.

mod config;
mod drain;
mod forward;
mod forward_bad;
mod limits;
mod refusals;
mod relay;
mod tls;
mod tls_clients;
mod users;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::harness::{Client, Program};
use crate::restrict::has_ring;

/// A listener whose connections the test handles itself.
struct Target {
    addr: SocketAddr,
    accepted: Receiver<TcpStream>,
}

impl Target {
    fn start() -> Target {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (sender, accepted) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                // The test has ended.
                let _ = sender.send(stream.unwrap());
            }
        });
        Target { addr, accepted }
    }

    fn accept(&self) -> Client {
        Client::new(self.accepted.recv().unwrap())
    }

    /// Starts a proxy that allows this target.
    fn proxy(&self, args: &[&str]) -> Program {
        let allowed = self.addr.to_string();
        Program::tunnel(&[&["--allow", &allowed], args].concat())
    }

    /// Establishes a tunnel through the proxy.
    fn tunnel(&self, proxy: &Program) -> (Client, Client) {
        let mut client = proxy.connect();
        assert_eq!(connect(&mut client, &self.addr.to_string()), 200);
        (client, self.accept())
    }
}

/// Requests a tunnel, and returns the status of the response.
fn connect(client: &mut Client, target: &str) -> u16 {
    client.send(format!(
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
    ));
    client.response_head().status
}

fn drivers() -> impl Iterator<Item = &'static str> {
    let ring = has_ring("the driver uring").then_some("uring");
    ["epoll", "threads"].into_iter().chain(ring)
}
