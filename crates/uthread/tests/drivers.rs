//! Which driver a runtime gets, and objects that move from one driver to another.

use std::io::{Read, Write};
use std::process::Command;
use std::{env, net, thread};

use rustix::fs::OFlags;
use uthread::net::{TcpListener, TcpStream};
use uthread::{Driver, Runtime};

/// Set for the processes that this test starts.
const CHILD: &str = "UTHREAD_TEST_CHILD";

/// Returns the drivers that can be had here.
fn all() -> Vec<Driver> {
    let mut drivers = vec![Driver::Epoll, Driver::Threads];
    match Runtime::builder().driver(Driver::Uring).build() {
        Ok(_) => drivers.insert(0, Driver::Uring),
        Err(error) => eprintln!("left out: {error}"),
    }
    drivers
}

fn on(driver: Driver) -> Runtime {
    Runtime::builder()
        .workers(1)
        .driver(driver)
        .build()
        .unwrap()
}

#[test]
fn a_driver_is_known_by_its_name() {
    for driver in all() {
        assert_eq!(driver.to_string().parse(), Ok(driver));
        let runtime = on(driver);
        assert_eq!(runtime.driver().driver(), driver);
        let text = runtime.driver().to_string();
        assert!(text.starts_with(&format!("{driver} (")), "{text}");
        assert!(text.ends_with("), as the program asked"), "{text}");
        assert!(runtime.driver().refusal().is_none());
    }
    let error = "uring ".parse::<Driver>().unwrap_err().to_string();
    assert_eq!(
        error,
        "no driver has this name: choose uring, epoll or threads"
    );
}

/// Returns the output of a child process about its drivers, with this variable in its environment.
fn in_environment(value: &str) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args([
            "the_environment_chooses_where_the_program_does_not",
            "--exact",
            "--nocapture",
        ])
        .env("UTHREAD_DRIVER", value)
        .env(CHILD, value)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_environment_chooses_where_the_program_does_not() {
    if env::var_os(CHILD).is_some() {
        match Runtime::new() {
            Ok(runtime) => println!("default: {}", runtime.driver()),
            Err(error) => println!("{:?}: {error}", error.kind()),
        }
        return println!("asked: {}", on(Driver::Threads).driver());
    }
    for driver in all() {
        let said = in_environment(&driver.to_string());
        assert!(said.contains(&format!("default: {driver} (")), "{said}");
        assert!(said.contains("), as UTHREAD_DRIVER asked\n"), "{said}");
        assert!(
            said.contains("asked: threads (") && said.contains("as the program asked"),
            "{said}"
        );
    }
    let said = in_environment("");
    let best = all()[0];
    assert!(said.contains(&format!("default: {best} (")), "{said}");
    let said = in_environment("kqueue");
    let refused = "InvalidInput: UTHREAD_DRIVER=kqueue: no driver has this name: choose uring, epoll or threads";
    assert!(said.contains(refused), "{said}");
}

/// Catches state that one driver keeps of an object and that confuses another driver.
#[test]
fn sockets_move_between_drivers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut accepted: Option<TcpStream> = None;
    // Twice each, from whichever has had it before.
    for driver in [all(), all()].concat() {
        let runtime = on(driver);
        let (mut stream, mut peer) = runtime.run(|| {
            uthread::scope(|scope| {
                let accepting = scope.spawn(|| listener.accept());
                (0..100).for_each(|_| uthread::yield_now());
                assert!(!accepting.is_finished(), "{driver} does not wait");
                let peer = net::TcpStream::connect(address).unwrap();
                (accepting.join().unwrap().unwrap().0, peer)
            })
        });
        // The one before is read here, the new one by the next.
        if let Some(mut before) = accepted.take() {
            let mut text = String::new();
            runtime.run(|| before.read_to_string(&mut text).unwrap());
            assert_eq!(text, "kept");
        }
        runtime.run(|| {
            let mut byte = [0; 4];
            peer.write_all(b"kept").unwrap();
            stream.peek(&mut byte).unwrap();
            stream.write_all(b"answer").unwrap();
        });
        let mut answer = [0; 6];
        peer.read_exact(&mut answer).unwrap();
        accepted = Some(stream);
    }
    // On a plain thread, and as `std`'s own, it waits again.
    let peer = thread::spawn(move || net::TcpStream::connect(address).unwrap());
    listener.accept().unwrap();
    drop(peer.join().unwrap());
    let listener = net::TcpListener::from(listener);
    let flags = rustix::fs::fcntl_getfl(&listener).unwrap();
    assert!(!flags.contains(OFlags::NONBLOCK), "{flags:?}");
}
