//! What can and cannot be done with madsim.
#![cfg(madsim)]

use std::collections::HashSet;
use std::net::UdpSocket as RealUdpSocket;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use madsim::fs;
use madsim::net::{NetSim, UnixListener};
use madsim::runtime::{Handle, NodeHandle, Runtime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

async fn echo() {
    let listener = TcpListener::bind("0.0.0.0:7000").await.unwrap();
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut byte = [0];
            while stream.read(&mut byte).await.is_ok_and(|count| count > 0) {
                if stream.write_all(&byte).await.is_err() || stream.flush().await.is_err() {
                    break;
                }
            }
        });
    }
}

async fn ask(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"1").await?;
    stream.flush().await?;
    let mut byte = [0];
    timeout(SECOND, stream.read_exact(&mut byte)).await??;
    Ok(())
}

fn server() -> NodeHandle {
    NetSim::current().add_dns_record("server", [10, 0, 0, 1].into());
    let handle = Handle::current();
    handle
        .create_node()
        .ip([10, 0, 0, 1].into())
        .init(echo)
        .build()
}

fn client() -> NodeHandle {
    Handle::current()
        .create_node()
        .ip([10, 0, 0, 2].into())
        .build()
}

#[madsim::test]
async fn clocks_of_std_are_virtual() {
    let (instant, time) = (Instant::now(), SystemTime::now());
    sleep(3600 * SECOND).await;
    assert_eq!(instant.elapsed().as_secs(), 3600);
    assert_eq!(time.elapsed().unwrap().as_secs(), 3600);
}

#[madsim::test]
async fn sleeps_of_std_block_all() {
    let instant = Instant::now();
    thread::sleep(SECOND / 5);
    assert!(
        instant.elapsed() < SECOND / 100,
        "virtual time stands still"
    );
}

#[madsim::test]
#[should_panic]
async fn threads_of_std_are_refused() {
    thread::spawn(|| ());
}

#[madsim::test]
async fn sockets_of_std_are_real() {
    RealUdpSocket::bind("127.0.0.1:0").unwrap();
    let address = RealUdpSocket::bind("127.0.0.1:0").unwrap().local_addr();
    assert!(
        UdpSocket::bind(address.unwrap()).await.is_ok(),
        "a simulated one"
    );
}

#[test]
fn a_seed_decides_the_keys_of_maps() {
    let order = |seed| {
        let body = move || {
            let runtime = Runtime::with_seed_and_config(seed, madsim::Config::default());
            runtime.block_on(async {
                HashSet::from([1, 2, 3, 4, 5, 6, 7, 8])
                    .into_iter()
                    .collect::<Vec<_>>()
            })
        };
        thread::spawn(body).join().unwrap()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[madsim::test]
async fn a_cut_holds_a_connection_back_and_loses_nothing() {
    let (server, client) = (server(), client());
    let (from, to) = (server.id(), client.id());
    let net = NetSim::current();
    let body = async move {
        let mut stream = TcpStream::connect("server:7000").await.unwrap();
        net.clog_link(from, to);
        assert!(ask(&mut stream).await.is_err());
        assert!(
            TcpStream::connect("server:7000").await.is_ok(),
            "no way back is needed"
        );
        net.unclog_link(from, to);
        net.clog_link(to, from);
        assert!(
            TcpStream::connect("server:7000").await.is_err(),
            "refused at once"
        );
        net.unclog_link(to, from);
        sleep(10 * SECOND).await;
        stream.read_exact(&mut [0]).await.unwrap();
        ask(&mut stream).await.unwrap();
    };
    client.spawn(body).await.unwrap();
}

#[madsim::test]
async fn a_crash_ends_connections_at_once() {
    let (server, client) = (server(), client());
    let stream = client.spawn(async {
        let mut stream = TcpStream::connect("server:7000").await.unwrap();
        ask(&mut stream).await.unwrap();
        stream
    });
    let mut stream = stream.await.unwrap();
    Handle::current().kill(server.id());
    let body = async move {
        let ended = timeout(SECOND, stream.read(&mut [0])).await;
        assert_eq!(ended.unwrap().unwrap(), 0);
        Handle::current().restart(server.id());
        sleep(SECOND).await;
        let mut another = TcpStream::connect("server:7000").await.unwrap();
        ask(&mut another).await.unwrap();
    };
    client.spawn(body).await.unwrap();
}

#[madsim::test]
async fn a_node_can_be_reset_and_paused() {
    let (server, client) = (server(), client());
    let stream = client.spawn(async {
        let mut stream = TcpStream::connect("server:7000").await.unwrap();
        ask(&mut stream).await.unwrap();
        stream
    });
    let mut stream = stream.await.unwrap();
    Handle::current().pause(server.id());
    assert!(ask(&mut stream).await.is_err());
    Handle::current().resume(server.id());
    stream.read_exact(&mut [0]).await.unwrap();
    NetSim::current().reset_node(server.id());
    let ended = timeout(10 * SECOND, ask(&mut stream)).await;
    assert!(ended.unwrap().is_err());
}

#[madsim::test]
async fn what_is_not_synced_survives_a_crash() {
    let handle = Handle::current();
    let node = handle.create_node().init(|| async {
        if fs::read("file").await.is_err() {
            let file = fs::File::create("file").await.unwrap();
            file.write_all_at(b"1", 0).await.unwrap();
        }
        std::future::pending::<()>().await;
    });
    let node = node.build();
    sleep(SECOND).await;
    Handle::current().kill(node.id());
    Handle::current().restart(node.id());
    let node = handle.get_node(node.id()).unwrap();
    assert_eq!(node.spawn(fs::read("file")).await.unwrap().unwrap(), b"1");
}

#[madsim::test]
async fn datagrams_pass_by_ipv6() {
    let ip: std::net::IpAddr = "fc00::1".parse().unwrap();
    let server = Handle::current().create_node().ip(ip).build();
    let socket = server.spawn(async move {
        let socket = UdpSocket::bind((ip, 7000)).await.unwrap();
        socket.recv_from(&mut [0; 8]).await.unwrap().0
    });
    let client = Handle::current()
        .create_node()
        .ip("fc00::2".parse().unwrap())
        .build();
    let sent = client.spawn(async move {
        sleep(SECOND).await;
        let socket = UdpSocket::bind("[::]:0").await.unwrap();
        socket.send_to((ip, 7000), b"1").await.unwrap();
    });
    sent.await.unwrap();
    assert_eq!(timeout(SECOND, socket).await.unwrap().unwrap(), 1);
}

#[madsim::test]
#[should_panic(expected = "not yet implemented")]
async fn there_are_no_unix_sockets() {
    let _ = UnixListener::bind("/tmp/socket");
}

#[madsim::test]
#[should_panic(expected = "no events, all tasks will block forever")]
async fn a_deadlock_panics() {
    std::future::pending::<()>().await;
}
