//! How fast virtual time is.
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use uthread::net::{TcpListener, TcpStream};
use uthread::{Driver, Runtime};
use uthread_simulation::World;

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
        for hosts in [5, 500] {
            let real = Instant::now();
            builder().build().unwrap().run(|| ring(hosts));
            let each = real.elapsed() / (2 * MESSAGES);
            println!("{driver}: {each:?} for a message between {hosts} hosts");
        }
    }
}

/// Number of messages that hosts send, each of which is answered.
const MESSAGES: u32 = 200_000;

/// Lets each of so many hosts send messages to the next one.
fn ring(hosts: u32) {
    let world = World::new().unwrap();
    let latency = Duration::from_millis(1)..Duration::from_millis(5);
    world.links().set_latency(latency);
    let send = |number: u32| {
        let next = format!("{}:7000", (number + 1) % hosts);
        world.host(&number.to_string(), move || {
            uthread::spawn(echo);
            uthread::sleep(Duration::from_millis(1));
            let mut stream = TcpStream::connect(&next)?;
            for _ in 0..MESSAGES / hosts {
                stream.write_all(b"x")?;
                stream.read_exact(&mut [0])?;
            }
            uthread::sleep(Duration::from_secs(3600));
            Ok(())
        })
    };
    (0..hosts).map(send).for_each(drop);
    uthread::sleep(Duration::from_secs(3000));
}

/// Answers what a client sends.
fn echo() -> std::io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:7000")?;
    let (mut stream, _) = listener.accept()?;
    let mut byte = [0];
    while stream.read(&mut byte)? > 0 {
        stream.write_all(&byte)?;
    }
    Ok(())
}
