//! The dependencies: a server that answers each call when it is told to, or never.

use std::io::{self, Read, Write};
use std::time::Duration;

use uthread::Runtime;
use uthread::net::{SocketAddr, TcpListener, TcpStream};

use super::wire::Order;

/// Starts a server that ends with the runtime. Returns its address.
pub(super) fn start(runtime: &Runtime) -> io::Result<SocketAddr> {
    runtime.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        uthread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                // A connection ends with an error of its peer, which the service reports.
                uthread::spawn(move || answer(&stream));
            }
        });
        Ok(address)
    })
}

fn answer(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let order = Order::read(stream)?;
        match order.latency {
            None => {
                // Until the service hangs up.
                stream.read_exact(&mut [0])?;
            }
            Some(latency) => {
                uthread::sleep(Duration::from_nanos(latency));
                stream.write_all(&[u8::from(order.fails)])?;
            }
        }
    }
}
