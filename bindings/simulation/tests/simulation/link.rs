//! Links with faults, on each driver.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use uthread::Runtime;
use uthread::net::{TcpListener, TcpStream};
use uthread_resilience::Retry;
use uthread_simulation::{Direction, Link};

use crate::drivers::on_each_driver;
use crate::times::SECOND;

/// Echoes what a client sends until it ends, and then ends as well.
fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 4096];
    loop {
        match stream.read(&mut buffer)? {
            0 => return stream.shutdown(Shutdown::Write),
            length => stream.write_all(&buffer[..length])?,
        }
    }
}

/// Starts an echo server. Returns its address.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    uthread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            uthread::spawn(|| echo(stream));
        }
    });
    address
}

/// Sends one byte, and returns how long its echo takes.
fn ask(stream: &mut TcpStream, byte: u8) -> io::Result<Duration> {
    let start = Instant::now();
    stream.write_all(&[byte])?;
    let mut echo = [0];
    stream.read_exact(&mut echo)?;
    assert_eq!(echo, [byte]);
    Ok(start.elapsed())
}

#[track_caller]
fn assert_takes(expected: Duration, taken: Duration) {
    let late = Duration::from_millis(1);
    assert!(
        (expected..expected + late).contains(&taken),
        "{taken:?} instead of {expected:?}"
    );
}

#[test]
fn what_is_sent_takes_its_latency_in_each_direction() {
    on_each_driver(|| {
        let link = Link::to(server()).unwrap();
        let mut stream = TcpStream::connect(link.address()).unwrap();
        assert_takes(Duration::ZERO, ask(&mut stream, 1).unwrap());
        link.set_latency(SECOND..SECOND);
        assert_takes(2 * SECOND, ask(&mut stream, 2).unwrap());
        link.set_latency(SECOND..3 * SECOND);
        let times: Vec<_> = (0..20)
            .map(|byte| ask(&mut stream, byte).unwrap())
            .collect();
        let (shortest, longest) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        assert!(*shortest >= 2 * SECOND && *longest < 6 * SECOND + SECOND / 100);
        assert!(*longest > *shortest + SECOND / 10);
    });
}

#[test]
fn bytes_take_the_time_of_the_rate_and_stay_in_order() {
    on_each_driver(|| {
        let link = Link::to(server()).unwrap();
        link.set_rate(Some(100_000));
        link.set_latency(Duration::ZERO..SECOND / 10);
        let stream = TcpStream::connect(link.address()).unwrap();
        let sent: Vec<u8> = (0..1_000_000_u32)
            .map(|number| (number % 251) as u8)
            .collect();
        let (theirs, mut ours) = (sent.clone(), stream.try_clone().unwrap());
        let start = Instant::now();
        let writer = uthread::spawn(move || {
            ours.write_all(&theirs).unwrap();
            ours.shutdown(Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        (&stream).read_to_end(&mut received).unwrap();
        assert!(received == sent, "{} bytes", received.len());
        let seconds = start.elapsed().as_secs_f64();
        assert!((10.0..11.0).contains(&seconds), "{seconds}");
        writer.join().unwrap();
    });
}

#[test]
fn a_cut_holds_one_direction_back_and_loses_nothing() {
    on_each_driver(|| {
        let link = Link::to(server()).unwrap();
        let mut stream = TcpStream::connect(link.address()).unwrap();
        stream.set_read_timeout(Some(60 * SECOND)).unwrap();
        for direction in [Direction::ToServer, Direction::ToClient] {
            link.cut(direction);
            let start = Instant::now();
            let error = ask(&mut stream, 7).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert_takes(60 * SECOND, start.elapsed());
            link.heal();
            let mut late = [0];
            stream.read_exact(&mut late).unwrap();
            assert_eq!(late, [7]);
        }
    });
}

#[test]
fn a_reset_reaches_both_sides() {
    on_each_driver(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = Link::to(listener.local_addr().unwrap()).unwrap();
        let mut client = TcpStream::connect(link.address()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0]).unwrap();
        link.reset();
        for side in [&mut client, &mut server] {
            let error = side.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        // Later connections work, until the link goes.
        let mut client = TcpStream::connect(link.address()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        drop(link);
        for side in [&mut client, &mut server] {
            let error = side.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
    });
}

#[test]
fn a_link_that_is_cut_leaves_no_fiber_behind() {
    let builder = uthread_simulation::virtual_time(Runtime::builder());
    let runtime = builder.build().unwrap();
    runtime.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = Link::to(listener.local_addr().unwrap()).unwrap();
        let mut client = TcpStream::connect(link.address()).unwrap();
        let _server = listener.accept().unwrap();
        link.cut(Direction::ToServer);
        client.write_all(b"held back").unwrap();
        uthread::sleep(SECOND);
        drop(link);
        uthread::sleep(SECOND);
    });
    assert_eq!(runtime.fibers().unwrap().len(), 0);
}

#[test]
#[should_panic = "a link passes at least one byte a second, unless it is cut"]
fn a_rate_of_zero_is_refused() {
    let server = "127.0.0.1:7000".parse().unwrap();
    uthread::run(|| Link::to(server).unwrap().set_rate(Some(0)));
}

#[test]
fn a_server_that_is_not_there_resets_its_clients() {
    on_each_driver(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = Link::to(listener.local_addr().unwrap()).unwrap();
        drop(listener);
        let mut client = TcpStream::connect(link.address()).unwrap();
        let error = client.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[uthread::test(virtual_time)]
fn a_client_that_tries_again_survives_a_partition() {
    let link = Link::to(server()).unwrap();
    let address = link.address();
    link.cut(Direction::ToServer);
    let start = Instant::now();
    let healer = uthread::spawn(move || {
        uthread::sleep(25 * SECOND);
        link.heal();
        link
    });
    let mut tries = 0;
    let answer = Retry::new(100).backoff(SECOND).call(|| {
        tries += 1;
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(2 * SECOND))?;
        ask(&mut stream, 1)
    });
    answer.unwrap();
    assert!(tries > 2 && start.elapsed() >= 25 * SECOND, "{tries} tries");
    drop(healer.join());
}

#[test]
fn a_seed_decides_the_latencies() {
    let times = |seed| {
        let builder = uthread_simulation::seeded(Runtime::builder(), seed);
        builder.build().unwrap().run(|| {
            let link = Link::to(server()).unwrap();
            link.set_latency(Duration::ZERO..SECOND);
            let mut stream = TcpStream::connect(link.address()).unwrap();
            [0; 10].map(|byte| ask(&mut stream, byte).unwrap())
        })
    };
    for seed in 0..20 {
        assert_eq!(times(seed), times(seed), "seed {seed}");
    }
    assert_ne!(times(0), times(1));
}
