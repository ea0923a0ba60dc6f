//! The server of the tests, and a client that sends what it is given.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use uthread::net::{TcpListener, UnixStream};
use uthread::runtime::{Driver, Runtime};
use uthread_http::{
    Body, Failure, Method, Request, RequestExt, Response, Router, Server, StatusCode,
};

pub(crate) const SHORT: Duration = Duration::from_millis(50);
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Runs a test on each driver, with one and two workers.
pub(crate) fn everywhere(server: impl Fn() -> Server<Router>, test: impl Fn(SocketAddr)) {
    for (driver, workers) in [
        (Driver::Uring, 1),
        (Driver::Uring, 2),
        (Driver::Epoll, 1),
        (Driver::Epoll, 2),
        (Driver::Threads, 2),
    ] {
        let runtime = Runtime::builder().driver(driver).workers(workers).build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                eprintln!("not checked: {driver}: {error}");
                continue;
            }
        };
        let listener = runtime.run(|| TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let end = listener.try_clone().unwrap();
        let server = server();
        let serving = runtime.spawn(move || server.serve(&listener));
        test(address);
        let start = Instant::now();
        end.shutdown().unwrap();
        serving.join().unwrap().unwrap();
        assert!(start.elapsed() < LONG / 2, "{driver}: the end takes long");
    }
}

pub(crate) fn connect(address: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    BufReader::new(stream)
}

pub(crate) fn send(stream: &BufReader<TcpStream>, text: &str) {
    stream.get_ref().write_all(text.as_bytes()).unwrap();
}

/// Reads a response with a length or in chunks. Returns its status, the head and the body.
pub(crate) fn answer(stream: &mut impl BufRead) -> io::Result<(u16, String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    let head = head.to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let value = |name: &str| {
        head.split_once(&format!("\r\n{name}: "))?
            .1
            .split('\r')
            .next()
    };
    let mut body = Vec::new();
    if value("transfer-encoding") == Some("chunked") {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let length = u64::from_str_radix(line.trim_end(), 16).unwrap();
            io::copy(&mut stream.by_ref().take(length), &mut body)?;
            stream.read_line(&mut line)?;
            if length == 0 {
                break;
            }
        }
    } else if let Some(length) = value("content-length") {
        let length: usize = length.parse().unwrap();
        body.resize(length, 0);
        stream.read_exact(&mut body)?;
    }
    Ok((status, head, body))
}

pub(crate) fn ask(address: SocketAddr, text: &str) -> (u16, String, Vec<u8>) {
    let mut stream = connect(address);
    send(&stream, text);
    answer(&mut stream).unwrap()
}

pub(crate) fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: {length}\r\n\r\n{body}")
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n")
}

/// Numbers in lines, as many as it says.
pub(crate) struct Lines(pub(crate) std::ops::Range<u32>);

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        uthread::yield_now();
        let Some(number) = self.0.next() else {
            return Ok(0);
        };
        let line = format!("{number}\n");
        buffer[..line.len()].copy_from_slice(line.as_bytes());
        Ok(line.len())
    }
}

pub(crate) fn router() -> Router {
    Router::new()
        .get("/hello/{name}", |request: Request| {
            format!("hello {}", request.param("name").unwrap())
        })
        .get("/lines", |_: Request| Body::from_reader(Lines(0..1000)))
        .get("/broken", |_: Request| -> Response {
            let broken = Lines(0..10).chain(Broken);
            Response::new(Body::from_reader(broken))
        })
        .post("/sum", |mut request: Request| -> Result<String, Failure> {
            let mut sum = 0_u64;
            let mut bytes = [0; 1000];
            loop {
                match request.body_mut().read(&mut bytes)? {
                    0 => return Ok(sum.to_string()),
                    count => {
                        sum += bytes[..count]
                            .iter()
                            .map(|byte| u64::from(*byte))
                            .sum::<u64>()
                    }
                }
            }
        })
        .post("/echo", |request: Request| request.into_body())
        .post("/ignored", |_: Request| "not read")
        .get("/panic", |_: Request| -> &'static str {
            panic!("as the test asks")
        })
        .post("/panic", |_: Request| -> &'static str {
            panic!("as the test asks")
        })
        .get("/frames", |_: Request| {
            let (sender, frames) = futures_channel::mpsc::unbounded();
            uthread::spawn(move || {
                for number in 0..3 {
                    uthread::sleep(SHORT / 5);
                    let frame = http_body::Frame::data(format!("{number}\n").into());
                    let _ = sender.unbounded_send(Ok::<_, io::Error>(frame));
                }
            });
            Body::from_http_body(http_body_util::StreamBody::new(frames))
        })
        .get("/slow", |_: Request| {
            uthread::sleep(SHORT);
            "slow"
        })
        .get("/never", |_: Request| {
            uthread::sleep(LONG);
            "never"
        })
        .get("/unwraps", |_: Request| -> &str {
            let (silent, _other) = UnixStream::pair().unwrap();
            (&silent).read_exact(&mut [0]).unwrap();
            "never"
        })
        .route(Method::DELETE, "/hello/{name}", |_: Request| {
            StatusCode::FORBIDDEN
        })
}

pub(crate) struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("as the test asks"))
    }
}

pub(crate) fn server() -> Server<Router> {
    Server::new(router())
}
