//! `uthread tunnel` between clients and an origin with bad links.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use uthread_simulation::World;

use crate::client::Client;
use crate::harness::{MS, SECOND, Server, assert_takes, content};

/// More than fits a buffer of the tunnel.
const BYTES: usize = 300_000;

static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| content(BYTES));

/// Starts the proxy, and an origin.
fn tunnel(world: &World) -> Server {
    world.host("origin", || {
        thread::spawn(|| accept_each("0.0.0.0:7000", turn_around));
        thread::spawn(|| accept_each("0.0.0.0:8000", speak_first));
        thread::spawn(|| accept_each("0.0.0.0:8001", be_silent));
        accept_each("0.0.0.0:80", respond)
    });
    uthread::sleep(MS);
    let ports = [7000, 8000, 8001, 80, 9].map(|port| format!("--allow=origin:{port}"));
    let ports = ports.iter().map(String::as_str);
    let own = ["tunnel", "--listen=0.0.0.0:3128", "--idle-timeout=20s"];
    Server::start(world, &own.into_iter().chain(ports).collect::<Vec<_>>())
}

fn accept_each(address: &str, serve: fn(TcpStream) -> io::Result<()>) -> io::Result<()> {
    for stream in TcpListener::bind(address)?.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        thread::spawn(move || serve(stream));
    }
    Ok(())
}

/// Receives until the end, and sends all of it back.
fn turn_around(mut stream: TcpStream) -> io::Result<()> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    stream.write_all(&bytes)
}

/// Sends, ends its stream, and expects the same bytes.
fn speak_first(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(&CONTENT)?;
    stream.shutdown(Shutdown::Write)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    assert!(CONTENT.starts_with(&bytes));
    Ok(())
}

fn be_silent(mut stream: TcpStream) -> io::Result<()> {
    while stream.read(&mut [0; 4096])? > 0 {}
    Ok(())
}

/// Responds to one request of HTTP.
fn respond(mut stream: TcpStream) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n")?;
    stream.write_all(&content(BYTES))
}

fn connect() -> io::Result<Client> {
    Client::connect("server:3128", 60 * SECOND)
}

/// Asks for a tunnel. Returns the status.
fn ask(client: &mut Client, port: u16) -> io::Result<u16> {
    client.send(format!(
        "CONNECT origin:{port} HTTP/1.1\r\nHost: origin:{port}\r\n\r\n"
    ))?;
    Ok(client.head()?.0)
}

/// Makes one use of the tunnel, and checks the bytes that come back.
fn use_tunnel(number: usize, limit: Duration) -> io::Result<()> {
    let mut client = Client::connect("server:3128", limit)?;
    if number % 3 == 2 {
        client.send("GET http://origin/ HTTP/1.1\r\nHost: origin\r\n\r\n")?;
        let response = client.response()?;
        if response.status == 200 {
            assert!(response.body == *CONTENT);
            return Ok(());
        }
        return Err(ErrorKind::InvalidData.into());
    }
    if ask(&mut client, [7000, 8000][number % 3])? != 200 {
        return Err(ErrorKind::InvalidData.into());
    }
    if number.is_multiple_of(3) {
        client.send(&*CONTENT)?;
        client.stream().shutdown(Shutdown::Write)?;
        assert!(client.rest()? == *CONTENT);
    } else {
        assert!(client.rest()? == *CONTENT);
        client.send(&*CONTENT)?;
        client.stream().shutdown(Shutdown::Write)?;
    }
    Ok(())
}

#[uthread::test(virtual_time, seeds = 12)]
fn what_comes_through_a_tunnel_is_right_to_the_byte_or_incomplete() {
    let world = World::new().unwrap();
    world.links().set_latency(MS..50 * MS);
    world.links().set_loss(0.02);
    world.links().set_rate(Some(1_000_000));
    let server = tunnel(&world);
    let uses = Arc::new(AtomicUsize::new(0));
    let clients = ["a", "b"].map(|name| {
        let uses = Arc::clone(&uses);
        world.host(name, move || {
            let begin = Instant::now();
            for number in 0.. {
                if begin.elapsed() > 20 * SECOND {
                    break;
                }
                let used = use_tunnel(number, 4 * SECOND).is_ok();
                uses.fetch_add(usize::from(used), Ordering::Relaxed);
                thread::sleep(100 * MS);
            }
            Ok(())
        })
    });
    for _ in 0..2 {
        uthread::sleep(2 * SECOND);
        world.between(&["a"], &["server"]).reset();
        world.link("server", "b").cut();
        uthread::sleep(2 * SECOND);
        world.links().heal();
        uthread::sleep(2 * SECOND);
        world.between(&["server"], &["origin"]).reset();
        world.link("origin", "server").cut();
        uthread::sleep(2 * SECOND);
        world.links().heal();
    }
    for client in clients {
        client.wait().unwrap();
    }
    assert!(uses.load(Ordering::Relaxed) > 10);
    uthread::sleep(30 * SECOND);
    assert_eq!(server.count("uthread_tunnel_connections_open"), 0);
    server.stop();
    let (code, taken) = server.wait();
    assert_eq!(code, 0);
    assert_takes(Duration::ZERO, taken);
}

/// Runs a client, whose packets take 10 ms in each direction, while `disturb` has a second.
fn with_client(disturb: fn(&World), client: fn(Client) -> io::Result<()>) {
    let world = World::new().unwrap();
    world.links().set_latency(10 * MS..10 * MS);
    let server = tunnel(&world);
    let client = world.host("client", move || {
        let connected = connect()?;
        uthread::sleep(2 * SECOND);
        client(connected)
    });
    uthread::sleep(SECOND);
    disturb(&world);
    client.wait().unwrap();
    world.links().heal();
    uthread::sleep(30 * SECOND);
    assert_eq!(server.count("uthread_tunnel_connections_open"), 0);
    server.stop();
    assert_eq!(server.wait().0, 0);
}

/// Asks for a tunnel, and expects this status after this time.
fn expect_error(mut client: Client, port: u16, status: u16, after: Duration) -> io::Result<()> {
    let begin = Instant::now();
    assert_eq!(ask(&mut client, port)?, status);
    assert_takes(after, begin.elapsed());
    Ok(())
}

#[uthread::test(virtual_time, seeds = 20)]
fn a_name_that_is_not_found_is_an_error_in_time() {
    with_client(
        |world| world.set_resolver(5 * SECOND..5 * SECOND, true),
        |client| expect_error(client, 7000, 502, 5 * SECOND + 20 * MS),
    );
}

#[uthread::test(virtual_time, seeds = 20)]
fn a_name_that_takes_long_is_an_error_in_time() {
    with_client(
        |world| world.set_resolver(60 * SECOND..60 * SECOND, false),
        |client| expect_error(client, 7000, 504, 10 * SECOND + 20 * MS),
    );
}

#[uthread::test(virtual_time, seeds = 20)]
fn an_origin_that_cannot_be_reached_is_an_error_in_time() {
    with_client(
        |world| world.link("origin", "server").cut(),
        |client| expect_error(client, 7000, 504, 10 * SECOND + 20 * MS),
    );
}

#[uthread::test(virtual_time, seeds = 20)]
fn an_origin_that_refuses_or_is_silent_is_an_error_in_time() {
    with_client(
        |_| (),
        |client| {
            expect_error(client, 9, 502, 40 * MS)?;
            let mut client = connect()?;
            let begin = Instant::now();
            client.send("GET http://origin:8001/ HTTP/1.1\r\nHost: origin\r\n\r\n")?;
            assert_eq!(client.head()?.0, 504);
            assert_takes(20 * SECOND + 40 * MS, begin.elapsed());
            Ok(())
        },
    );
}

#[uthread::test(virtual_time, seeds = 20)]
fn a_partition_ends_a_tunnel_once_it_was_idle() {
    let world = World::new().unwrap();
    world.links().set_latency(10 * MS..10 * MS);
    let server = tunnel(&world);
    let client = world.host("client", || {
        let mut client = connect()?;
        assert_eq!(ask(&mut client, 7000)?, 200);
        client.send(&*CONTENT)?;
        let begin = Instant::now();
        let ended = client.rest().unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
        let taken = begin.elapsed();
        // It looks every 100 ms.
        assert!(
            (20 * SECOND..20 * SECOND + 250 * MS).contains(&taken),
            "{taken:?}"
        );
        Ok(())
    });
    uthread::sleep(100 * MS);
    world.between(&["server"], &["origin"]).cut();
    client.wait().unwrap();
    assert_eq!(server.count("uthread_tunnel_connections_open"), 0);
    world.links().heal();
    server.stop();
    assert_eq!(server.wait().0, 0);
}
