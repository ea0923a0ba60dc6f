//! The cost of a turn of two that wait for each other: on threads, on fibers by `std`, and on fibers by
//! the library.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use uthread::Runtime;
use uthread_interpose as _;

const TURNS: u32 = 100_000;

/// Rounds, of which the shortest counts.
const ROUNDS: usize = 5;

fn main() -> io::Result<()> {
    let runtime = Runtime::builder().workers(1).build()?;
    let in_fiber = |turns: fn()| runtime.run(|| shortest(turns));
    println!("| a turn, us | threads | fibers, by `std` | fibers, by `uthread` |");
    println!("| --- | --- | --- | --- |");
    let row = |name, [threads, fibers, own]: [f64; 3]| {
        println!("| {name} | {threads:.2} | {fibers:.2} | {own:.2} |");
    };
    let by_std = || over_tcp(false, tcp());
    let by_own = || {
        over_tcp(
            false,
            tcp().map(|stream| stream.into()) as [uthread::net::TcpStream; 2],
        )
    };
    let on_threads = || over_tcp(true, tcp());
    row(
        "TCP",
        [shortest(on_threads), in_fiber(by_std), in_fiber(by_own)],
    );
    let on_threads = || by_channel(true);
    let by_std = || by_channel(false);
    row(
        "channel",
        [
            shortest(on_threads),
            in_fiber(by_std),
            in_fiber(by_own_channel),
        ],
    );
    Ok(())
}

/// Returns the microseconds of a turn in the shortest round.
fn shortest(turns: fn()) -> f64 {
    let round = |_| {
        let start = Instant::now();
        turns();
        start.elapsed().as_secs_f64() * 1e6 / f64::from(TURNS)
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

/// Runs both sides, each on a thread or in a fiber.
fn both(on_threads: bool, one: impl FnOnce() + Send, two: impl FnOnce() + Send) {
    if on_threads {
        thread::scope(|scope| {
            scope.spawn(one);
            scope.spawn(two);
        });
    } else {
        uthread::scope(|scope| {
            scope.spawn(one);
            scope.spawn(two);
        });
    }
}

fn tcp() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let one = TcpStream::connect(address).expect("a listener");
    let (two, _) = listener.accept().expect("a client");
    [one, two].map(|stream| {
        stream.set_nodelay(true).expect("an option of TCP");
        stream
    })
}

fn over_tcp<S: Read + Write + Send>(on_threads: bool, [mut one, mut two]: [S; 2]) {
    let first = move || {
        for _ in 0..TURNS {
            one.write_all(&[1]).expect("the other side");
            one.read_exact(&mut [0]).expect("the other side");
        }
    };
    let second = move || {
        for _ in 0..TURNS {
            two.read_exact(&mut [0]).expect("the other side");
            two.write_all(&[1]).expect("the other side");
        }
    };
    both(on_threads, first, second);
}

fn by_channel(on_threads: bool) {
    let ((send, receive), (answer, answered)) = (mpsc::channel(), mpsc::channel());
    let first = move || {
        for turn in 0..TURNS {
            send.send(turn).expect("the other side");
            assert_eq!(answered.recv(), Ok(turn));
        }
    };
    let second = move || {
        for turn in receive {
            answer.send(turn).expect("the other side");
        }
    };
    both(on_threads, first, second);
}

fn by_own_channel() {
    use uthread::sync::mpsc;
    let ((send, receive), (answer, answered)) = (mpsc::channel(), mpsc::channel());
    let first = move || {
        for turn in 0..TURNS {
            send.send(turn).expect("the other side");
            assert_eq!(answered.recv(), Ok(turn));
        }
    };
    let second = move || {
        for turn in receive {
            answer.send(turn).expect("the other side");
        }
    };
    both(false, first, second);
}
