//! `uthread serve`, whose clients have bad links.

use std::fs;
use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use uthread_simulation::World;

use crate::client::Client;
use crate::harness::{MS, SECOND, Server, assert_takes, content};

const SMALL: usize = 1000;
/// A connection of a world holds half of that, and the server has to wait.
const LARGE: usize = 2 << 20;

/// How long a send that waits for room in a world takes to look at its connection again, and a stopped server
/// at what is open.
const LOOK: Duration = Duration::from_millis(110);

/// The files, by their sizes.
static FILES: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| [SMALL, LARGE].map(content));

/// Starts a server of these files.
fn serve(world: &World, arguments: &[&str]) -> Server {
    let site = world.directory("server").unwrap().join("site");
    fs::create_dir(&site).unwrap();
    for file in &*FILES {
        fs::write(site.join(file.len().to_string()), file).unwrap();
    }
    let own = ["serve", "--listen=0.0.0.0:80", site.to_str().unwrap()];
    Server::start(world, &[&own, arguments].concat())
}

fn every(latency: Duration) -> std::ops::Range<Duration> {
    latency..latency
}

/// Asks for files, on one connection as long as that works, and checks each response. Returns the number of
/// connections that have failed.
fn download(count: &AtomicUsize) -> usize {
    let begin = Instant::now();
    let mut failures = 0;
    while begin.elapsed() < 20 * SECOND {
        if download_on_one(begin, count).is_err() {
            failures += 1;
            uthread::sleep(10 * MS);
        }
    }
    failures
}

fn download_on_one(begin: Instant, count: &AtomicUsize) -> io::Result<()> {
    let mut client = Client::connect("server:80", 2 * SECOND)?;
    for file in FILES.iter().cycle() {
        let response = client.get(&format!("/{}", file.len()))?;
        assert_eq!((response.status, &response.body), (200, file));
        assert_eq!(client.get("/nothing")?.status, 404);
        count.fetch_add(1, Ordering::Relaxed);
        if begin.elapsed() > 20 * SECOND {
            break;
        }
        uthread::sleep(300 * MS);
    }
    Ok(())
}

#[uthread::test(virtual_time, seeds = 12)]
fn each_response_is_right_to_the_byte_or_incomplete() {
    let world = World::new().unwrap();
    world.links().set_latency(MS..50 * MS);
    world.links().set_loss(0.02);
    world.links().set_rate(Some(2_000_000));
    let server = serve(&world, &["--idle-timeout=5s", "--write-timeout=5s"]);
    let downloads = Arc::new(AtomicUsize::new(0));
    let clients = ["a", "b", "c"].map(|name| {
        let downloads = Arc::clone(&downloads);
        world.host(name, move || {
            let failures = download(&downloads);
            // Faults of the network for `a` and `b` only.
            assert_eq!(failures > 0, name != "c");
            Ok(())
        })
    });
    for _ in 0..3 {
        uthread::sleep(2 * SECOND);
        world.between(&["a"], &["server"]).reset();
        world.link("server", "b").cut();
        uthread::sleep(3 * SECOND);
        world.links().heal();
    }
    for client in clients {
        client.wait().unwrap();
    }
    assert!(downloads.load(Ordering::Relaxed) > 40);
    uthread::sleep(6 * SECOND);
    assert_eq!(server.count("uthread_serve_connections_open"), 0);
    server.stop();
    let (code, taken) = server.wait();
    assert_eq!(code, 0);
    assert_takes(Duration::ZERO, taken);
}

/// Runs a client, whose packets take 10 ms in each direction, against a server whose requests take 10 s at
/// most, whose connections are idle for a minute, and whose responses may stand still for 30 s.
fn with_client(arguments: &[&str], client: fn() -> io::Result<()>) {
    let world = World::new().unwrap();
    world.links().set_latency(every(10 * MS));
    let server = serve(&world, arguments);
    world.host("client", client).wait().unwrap();
    uthread::sleep(SECOND);
    assert_eq!(server.count("uthread_serve_connections_open"), 0);
    server.stop();
    assert_eq!(server.wait().0, 0);
}

fn connect() -> io::Result<Client> {
    Client::connect("server:80", 100 * SECOND)
}

#[uthread::test(virtual_time, seeds = 20)]
fn a_client_that_goes_silent_in_its_head_is_told_so_in_time() {
    with_client(&[], || {
        let mut client = connect()?;
        let begin = Instant::now();
        client.send("GET / HT")?;
        assert_eq!(client.response()?.status, 408);
        assert_takes(10 * SECOND + 20 * MS, begin.elapsed());
        assert_eq!(client.rest()?, b"");
        // One that sends a byte now and then gets no more time.
        let mut client = connect()?;
        let begin = Instant::now();
        for byte in b"GET / HTT" {
            client.send([*byte])?;
            uthread::sleep(SECOND);
        }
        assert_eq!(client.response()?.status, 408);
        assert_takes(10 * SECOND + 20 * MS, begin.elapsed());
        // Nor does one that sends no body.
        let mut client = connect()?;
        let begin = Instant::now();
        client.send("POST /1000 HTTP/1.1\r\nHost: server\r\nContent-Length: 9\r\n\r\n12345678")?;
        assert_eq!(client.response()?.status, 408);
        assert_takes(10 * SECOND + 20 * MS, begin.elapsed());
        Ok(())
    });
}

#[uthread::test(virtual_time, seeds = 20)]
fn an_idle_connection_ends_in_time() {
    with_client(&[], || {
        for has_asked in [false, true] {
            let mut client = connect()?;
            if has_asked {
                assert_eq!(client.get("/1000")?.status, 200);
            }
            let begin = Instant::now();
            assert_eq!(client.rest()?, b"");
            // The server has begun to wait when it has sent, or accepted.
            let travelled = if has_asked { Duration::ZERO } else { 10 * MS };
            assert_takes(60 * SECOND + travelled, begin.elapsed());
        }
        Ok(())
    });
}

#[uthread::test(virtual_time, seeds = 20)]
fn a_response_that_makes_no_progress_is_cut_in_time() {
    let world = World::new().unwrap();
    world.links().set_latency(every(10 * MS));
    world.links().set_rate(Some(200_000));
    let server = serve(&world, &[]);
    let client = world.host("client", || {
        let mut client = connect()?;
        client.send(format!("GET /{LARGE} HTTP/1.1\r\nHost: server\r\n\r\n"))?;
        assert_eq!(client.head()?, (200, LARGE));
        let mut body = Vec::new();
        let _ = client.read_to_end(&mut body);
        assert!(body.len() < LARGE && FILES[1].starts_with(&body));
        Ok(())
    });
    uthread::sleep(2 * SECOND);
    world.link("server", "client").cut();
    let open = || server.count("uthread_serve_connections_open");
    uthread::sleep(30 * SECOND - 10 * MS);
    assert_eq!(open(), 1);
    // Room that there was before may have been found a little later.
    uthread::sleep(10 * MS + LOOK);
    assert_eq!(open(), 0);
    world.links().heal();
    client.wait().unwrap();
    server.stop();
    assert_eq!(server.wait().0, 0);
}

/// Downloads the large file at 200 KB a second, while the server is stopped after two seconds. Returns what the
/// client has received, the exit code, and how long the server has taken to end.
fn stopped_in_a_download(arguments: &[&str], hurries: bool) -> (usize, u8, Duration) {
    let world = World::new().unwrap();
    world.links().set_latency(every(10 * MS));
    world.links().set_rate(Some(200_000));
    let server = serve(&world, arguments);
    let received = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&received);
    let client = world.host("client", move || {
        let mut client = connect()?;
        client.send(format!("GET /{LARGE} HTTP/1.1\r\nHost: server\r\n\r\n"))?;
        assert_eq!(client.head()?, (200, LARGE));
        // The server says with the head that it keeps the connection.
        let mut body = Vec::new();
        let _ = client.read_to_end(&mut body);
        assert!(FILES[1].starts_with(&body));
        count.store(body.len(), Ordering::Relaxed);
        Ok(())
    });
    let idle = world.host("idle", || {
        let mut client = connect()?;
        assert_eq!(client.get("/1000")?.status, 200);
        uthread::sleep(2500 * MS);
        // The server is about to end, and still takes a request that may have been on its way.
        assert_eq!(client.get("/1000")?.status, 200);
        assert_eq!(client.rest()?, b"");
        assert!(connect().is_err());
        Ok(())
    });
    uthread::sleep(2 * SECOND);
    server.stop();
    if hurries {
        uthread::sleep(SECOND);
        server.stop();
    }
    let (code, taken) = server.wait();
    client.wait().unwrap();
    idle.wait().unwrap();
    (received.load(Ordering::Relaxed), code, taken)
}

#[uthread::test(virtual_time, seeds = 10)]
fn a_stopped_server_ends_its_responses() {
    let (received, code, taken) = stopped_in_a_download(&["--grace=20s"], false);
    assert_eq!((received, code), (LARGE, 0));
    assert!((3 * SECOND..5 * SECOND).contains(&taken), "{taken:?}");
}

#[uthread::test(virtual_time, seeds = 10)]
fn a_stopped_server_cuts_its_responses_in_time() {
    let (received, code, taken) = stopped_in_a_download(&["--grace=2s"], false);
    assert_eq!(code, 3);
    assert!(received < LARGE / 2, "{received}");
    let expected = 2 * SECOND..2 * SECOND + LOOK;
    assert!(expected.contains(&taken), "{taken:?}");
}

#[uthread::test(virtual_time, seeds = 10)]
fn a_server_that_is_stopped_twice_cuts_its_responses_at_once() {
    let (received, code, taken) = stopped_in_a_download(&["--grace=20s"], true);
    assert_eq!(code, 3);
    assert!(received < LARGE / 2, "{received}");
    assert!(taken < LOOK, "{taken:?}");
}
