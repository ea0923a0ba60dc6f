//! Crates that know nothing of virtual time.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use std::{io, thread};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use uthread_resilience::Retry;

const MINUTE: Duration = Duration::from_secs(60);

/// Answers one request after an hour.
fn answer_late(listener: &TcpListener) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    while !lines
        .next()
        .is_none_or(|line| line.is_ok_and(|line| line.is_empty()))
    {}
    thread::sleep(60 * MINUTE);
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
}

#[uthread::test(virtual_time)]
fn a_client_gives_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = uthread::spawn(move || (answer_late(&listener), answer_late(&listener)));
    let ask = |limit| {
        let request = ureq::get(format!("http://{address}/"));
        let request = request.config().timeout_global(Some(limit)).build();
        request.call()
    };
    let start = Instant::now();
    assert!(matches!(ask(MINUTE), Err(ureq::Error::Timeout(_))));
    assert_eq!(start.elapsed().as_secs(), 60);
    let mut answer = ask(200 * MINUTE).unwrap();
    assert_eq!(answer.body_mut().read_to_string().unwrap(), "late");
    // The second request was accepted after the first one was answered.
    assert_eq!(start.elapsed().as_secs(), 2 * 3600);
    let (_, second) = server.join().unwrap();
    second.unwrap();
}

#[uthread::test(virtual_time)]
fn retries_wait_longer_and_longer() {
    let mut times = Vec::new();
    let start = Instant::now();
    let retry = Retry::new(5).backoff(MINUTE);
    let result: io::Result<()> = retry.call(|| {
        times.push(start.elapsed());
        Err(io::ErrorKind::ConnectionRefused.into())
    });
    assert!(result.is_err() && times.len() == 6);
    let pauses = times.windows(2).map(|pair| pair[1] - pair[0]);
    for (number, pause) in pauses.enumerate() {
        assert!(
            pause <= MINUTE * (1 << number) + Duration::from_millis(1),
            "{pause:?}"
        );
    }
}

#[uthread::test(virtual_time)]
fn a_runtime_of_tokio_has_virtual_time_too() {
    let start = Instant::now();
    let builder = &mut tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::time::sleep(60 * MINUTE).await;
            stream.write_all(b"late").await
        });
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut text = [0; 4];
        let read = stream.read_exact(&mut text);
        assert!(tokio::time::timeout(30 * MINUTE, read).await.is_err());
        stream.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"late");
        server.await.unwrap().unwrap();
    });
    assert_eq!(start.elapsed().as_secs(), 3600);
}
