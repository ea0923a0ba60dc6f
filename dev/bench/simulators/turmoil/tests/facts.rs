//! What can and cannot be done with turmoil.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};
use turmoil::net::{TcpListener, TcpStream, UdpSocket};
use turmoil::{Builder, IpVersion, Result};

const SECOND: Duration = Duration::from_secs(1);

async fn echo() -> Result {
    let listener = TcpListener::bind("0.0.0.0:7000").await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut byte = [0];
            while stream.read(&mut byte).await.is_ok_and(|count| count > 0) {
                if stream.write_all(&byte).await.is_err() {
                    break;
                }
            }
        });
    }
}

async fn ask(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"1").await?;
    let mut byte = [0];
    timeout(SECOND, stream.read_exact(&mut byte)).await??;
    Ok(())
}

#[test]
fn clocks_and_threads_of_std_are_real() {
    let mut sim = Builder::new().build();
    sim.client("client", async {
        let (real, simulated) = (Instant::now(), tokio::time::Instant::now());
        sleep(5 * SECOND).await;
        assert!(real.elapsed() < 4 * SECOND && simulated.elapsed() >= 5 * SECOND);
        let (real, elapsed) = (Instant::now(), turmoil::elapsed());
        thread::sleep(SECOND / 5);
        assert!(real.elapsed() >= SECOND / 5 && turmoil::elapsed() - elapsed < SECOND / 10);
        Ok(())
    });
    sim.run().unwrap();
}

#[test]
fn a_seed_decides_when_answers_arrive() {
    let times = |seed| {
        let times = Arc::new(Mutex::new(Vec::new()));
        let arrivals = Arc::clone(&times);
        let mut sim = Builder::new().rng_seed(seed).build();
        sim.host("server", echo);
        sim.client("client", async move {
            let mut stream = TcpStream::connect("server:7000").await?;
            for _ in 0..20 {
                ask(&mut stream).await?;
                arrivals.lock().unwrap().push(turmoil::elapsed());
            }
            Ok(())
        });
        sim.run().unwrap();
        times.lock().unwrap().clone()
    };
    assert_eq!(times(1), times(1));
    assert_ne!(times(1), times(2));
}

#[test]
fn a_seed_does_not_decide_the_keys_of_maps() {
    let order = || {
        let thread = thread::spawn(|| {
            let order = Arc::new(Mutex::new(Vec::new()));
            let keys = Arc::clone(&order);
            let mut sim = Builder::new().rng_seed(1).build();
            sim.client("client", async move {
                keys.lock()
                    .unwrap()
                    .extend(HashSet::from([1, 2, 3, 4, 5, 6, 7, 8]));
                Ok(())
            });
            sim.run().unwrap();
            order.lock().unwrap().clone()
        });
        thread.join().unwrap()
    };
    let orders: HashSet<_> = (0..20).map(|_| order()).collect();
    assert!(orders.len() > 1);
}

#[test]
fn a_message_lost_in_a_partition_is_not_sent_again() {
    let mut sim = Builder::new().build();
    sim.host("server", echo);
    sim.client("client", async {
        let mut stream = TcpStream::connect("server:7000").await?;
        ask(&mut stream).await?;
        turmoil::partition("client", "server");
        assert!(ask(&mut stream).await.is_err());
        turmoil::repair("client", "server");
        assert!(ask(&mut stream).await.is_err(), "the connection goes on");
        let mut another = TcpStream::connect("server:7000").await?;
        Ok(ask(&mut another).await?)
    });
    sim.run().unwrap();
}

#[test]
fn a_connection_is_made_while_answers_are_cut() {
    let mut sim = Builder::new().build();
    sim.host("server", echo);
    sim.client("client", async {
        turmoil::partition_oneway("server", "client");
        let connected = timeout(SECOND, TcpStream::connect("server:7000")).await;
        let mut stream = connected??;
        assert!(ask(&mut stream).await.is_err());
        Ok(())
    });
    sim.run().unwrap();
}

#[test]
fn datagrams_pass_by_ipv6() {
    let mut sim = Builder::new().ip_version(IpVersion::V6).build();
    sim.host("server", || async {
        let socket = UdpSocket::bind("[::]:7000").await?;
        let (count, from) = socket.recv_from(&mut [0; 8]).await?;
        socket.send_to(&[1; 8][..count], from).await?;
        Ok(())
    });
    sim.client("client", async {
        let socket = UdpSocket::bind("[::]:0").await?;
        socket.send_to(b"1", "server:7000").await?;
        assert_eq!(socket.recv_from(&mut [0; 8]).await?.0, 1);
        Ok(())
    });
    sim.run().unwrap();
}

#[test]
fn a_deadlock_ends_with_the_time_of_the_test() {
    let mut sim = Builder::new().build();
    sim.client("client", std::future::pending());
    let error = sim.run().unwrap_err().to_string();
    assert!(error.contains("without completing"), "{error}");
}

#[test]
fn a_crash_ends_connections_at_once_and_loses_what_is_not_synced() {
    use turmoil::fs::shim::std::fs;
    let mut sim = Builder::new().build();
    sim.host("server", || async {
        let there = |name| fs::read(format!("/{name}")).is_ok_and(|bytes| bytes == b"1");
        if there("synced") {
            assert!(!fs::exists("/unsynced"));
            return echo().await;
        }
        fs::write("/synced", "1")?;
        fs::OpenOptions::new()
            .write(true)
            .open("/synced")?
            .sync_all()?;
        fs::sync_dir("/")?;
        fs::write("/unsynced", "1")?;
        echo().await
    });
    sim.client("client", async {
        let mut stream = TcpStream::connect("server:7000").await?;
        assert_eq!(stream.read(&mut [0]).await?, 0);
        assert!(turmoil::elapsed() < 2 * SECOND);
        sleep(2 * SECOND).await;
        let mut stream = TcpStream::connect("server:7000").await?;
        Ok(ask(&mut stream).await?)
    });
    while sim.elapsed() < SECOND {
        sim.step().unwrap();
    }
    sim.crash("server");
    while sim.elapsed() < 2 * SECOND {
        sim.step().unwrap();
    }
    sim.bounce("server");
    sim.run().unwrap();
}
