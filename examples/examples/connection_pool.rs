//! A pool of connections for many fibers: a semaphore bounds their number, and a deadline the wait
//! for one. One that has failed is not used again.

use std::io::{self, Read, Write};
use std::time::Duration;

use uthread::net::{SocketAddr, TcpListener, TcpStream};
use uthread::sync::{Mutex, Semaphore};

const CONNECTIONS: usize = 4;
const CLIENTS: u32 = 100;

struct Pool {
    address: SocketAddr,
    permits: Semaphore,
    idle: Mutex<Vec<TcpStream>>,
}

impl Pool {
    /// Runs `call` with a connection, and keeps that for the next caller if `call` has not failed.
    fn with<T>(&self, call: impl FnOnce(&mut TcpStream) -> io::Result<T>) -> io::Result<T> {
        let permit = self.permits.acquire_timeout(Duration::from_secs(10));
        let _permit = permit.map_err(|_| io::ErrorKind::TimedOut)?;
        let idle = self.idle.lock().unwrap().pop();
        let mut stream = idle.map_or_else(|| TcpStream::connect(self.address), Ok)?;
        let result = call(&mut stream)?;
        self.idle.lock().unwrap().push(stream);
        Ok(result)
    }
}

/// Echoes ten numbers, and closes the connection.
fn answer(stream: &TcpStream) {
    let _ = io::copy(&mut stream.take(40), &mut &*stream);
}

fn ask(stream: &mut TcpStream, number: u32) -> io::Result<u32> {
    let mut answer = [0; 4];
    stream.write_all(&number.to_be_bytes())?;
    stream.read_exact(&mut answer)?;
    Ok(u32::from_be_bytes(answer))
}

#[uthread::main]
fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    uthread::spawn(move || uthread::net::serve(&listener, 100, |stream, _| answer(&stream)));
    let (permits, idle) = (Semaphore::new(CONNECTIONS), Mutex::default());
    let pool = Pool {
        address,
        permits,
        idle,
    };
    let client = |number| loop {
        // A connection that the server has closed fails once.
        if let Ok(answer) = pool.with(|stream| ask(stream, number)) {
            break answer;
        }
    };
    let sum = uthread::scope(|scope| {
        let client = |number| scope.spawn(move || client(number));
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        clients
            .into_iter()
            .filter_map(|client| client.join().ok())
            .sum::<u32>()
    });
    println!("{CLIENTS} clients, sum {sum}, at most {CONNECTIONS} connections at once");
    Ok(())
}
