//! How fast virtual time is.
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use uthread::net::{TcpListener, TcpStream};
use uthread::{Driver, Runtime};

fn main() {
    for driver in [Driver::Uring, Driver::Epoll] {
        let builder = || uthread_simulation::virtual_time(Runtime::builder().driver(driver));
        let real = Instant::now();
        builder().build().unwrap().run(|| {
            for _ in 0..1_000_000 {
                uthread::sleep(Duration::from_secs(1))
            }
        });
        println!("{driver}: {:?} for a sleep", real.elapsed() / 1_000_000);
        let real = Instant::now();
        builder().build().unwrap().run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            uthread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(move || {
                        let mut stream = TcpStream::connect(address).unwrap();
                        stream.set_nodelay(true).unwrap();
                        for _ in 0..12_000 {
                            stream.write_all(b"x").unwrap();
                            stream.read_exact(&mut [0]).unwrap();
                            uthread::sleep(Duration::from_millis(300));
                        }
                    });
                    let (mut stream, _) = listener.accept().unwrap();
                    scope.spawn(move || {
                        let mut byte = [0];
                        while stream.read(&mut byte).unwrap() > 0 {
                            uthread::sleep(Duration::from_millis(1));
                            stream.write_all(&byte).unwrap();
                        }
                    });
                }
            });
        });
        println!(
            "{driver}: {:?} for an hour of 36,000 requests",
            real.elapsed()
        );
    }
}
