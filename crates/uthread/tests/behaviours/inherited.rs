//! Listeners from the environment: each is taken once, and nothing else is taken for one.

use std::env;
use std::fs::File;
use std::net;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::process::{Command, Stdio};

use crate::harness::child::{assert_passed, is_child, repeat};
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use crate::support::FREE;
use rustix::io::FdFlags;
use uthread::io::ErrorKind;
use uthread::net::{
    InheritedListener, InheritedSocket, TcpListener, TcpStream, listeners_from_env,
};

behaviours![(
    EVERYWHERE,
    [
        both_kinds_are_taken_once_under_their_names,
        a_call_waits_although_another_process_has_made_the_socket_nonblocking,
        descriptors_that_are_no_inherited_listeners_are_refused
    ]
)];

/// Starts the program that its arguments name, with its standard input as descriptor 3 and its
/// standard error as 4.
const PASS: &str = r#"LISTEN_PID=$$; export LISTEN_PID; exec "$0" "$@" 3<&0 4<&2 2>&1 </dev/null"#;

/// Set for a trial that is to be refused; a part of its error.
const EXPECTED: &str = "UTHREAD_TEST_EXPECTED";

/// Returns a command that passes two descriptors to this program.
fn passing(three: impl Into<OwnedFd>, four: impl Into<OwnedFd>, count: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", PASS])
        .arg(env::current_exe().unwrap())
        .env("LISTEN_FDS", count)
        .stdin(Stdio::from(three.into()))
        .stderr(Stdio::from(four.into()));
    command
}

fn null() -> File {
    File::open("/dev/null").unwrap()
}

fn is_closed_on_exec(fd: impl AsFd) -> bool {
    let flags = rustix::io::fcntl_getfd(fd).unwrap();
    flags.contains(FdFlags::CLOEXEC)
}

fn take() -> Vec<InheritedListener> {
    listeners_from_env().unwrap()
}

fn take_tcp() -> TcpListener {
    match take().pop().map(|inherited| inherited.socket) {
        Some(InheritedSocket::Tcp(listener)) => listener,
        other => panic!("{other:?}"),
    }
}

fn both_kinds_are_taken_once_under_their_names(place: Place) {
    if !is_child() {
        let directory = tempfile::tempdir().unwrap();
        let unix = StdUnixListener::bind(directory.path().join("socket")).unwrap();
        let tcp = net::TcpListener::bind(FREE).unwrap();
        let mut command = passing(tcp, unix, "2");
        return assert_passed(&repeat(command.env("LISTEN_FDNAMES", "web:control")));
    }
    place.run(|| {
        let all = take();
        let names = Vec::from_iter(all.iter().map(|inherited| &*inherited.name));
        assert_eq!(names, ["web", "control"]);
        assert_eq!(take().len(), 0, "descriptors with owners were taken");
        for InheritedListener { socket, .. } in all {
            match socket {
                InheritedSocket::Tcp(listener) => {
                    assert!(listener.as_raw_fd() == 3 && is_closed_on_exec(&listener));
                    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                    let (_, peer) = listener.accept().unwrap();
                    assert_eq!(peer, client.local_addr().unwrap());
                }
                InheritedSocket::Unix(listener) => {
                    assert!(listener.as_raw_fd() == 4 && is_closed_on_exec(&listener));
                    let address = listener.local_addr().unwrap();
                    let _client = StdUnixStream::connect_addr(&address).unwrap();
                    assert!(listener.accept().unwrap().1.is_unnamed());
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(take().len(), 0, "their numbers may mean other files");
    });
}

fn a_call_waits_although_another_process_has_made_the_socket_nonblocking(place: Place) {
    if !is_child() {
        let listener = net::TcpListener::bind(FREE).unwrap();
        listener.set_nonblocking(true).unwrap();
        return assert_passed(&repeat(&mut passing(listener, null(), "1")));
    }
    place.run(|| {
        let listener = take_tcp();
        let address = listener.local_addr().unwrap();
        let connect = || drop(net::TcpStream::connect(address).unwrap());
        let accepted = place.meanwhile(|| listener.accept(), connect);
        assert_eq!(accepted.unwrap().1.ip(), address.ip());
        let listener = net::TcpListener::from(listener);
        let flags = rustix::fs::fcntl_getfl(&listener).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
    });
}

fn descriptors_that_are_no_inherited_listeners_are_refused(place: Place) {
    if !is_child() {
        let listener = || net::TcpListener::bind(FREE).unwrap();
        let connected = listener();
        let stream = net::TcpStream::connect(connected.local_addr().unwrap()).unwrap();
        let datagram = net::UdpSocket::bind(FREE).unwrap();
        let no_listener = "descriptor 3 of LISTEN_FDS is not a listening stream socket";
        for (mut command, expected) in [
            (passing(null(), null(), "1"), no_listener),
            (passing(stream, null(), "1"), no_listener),
            (passing(datagram, null(), "1"), no_listener),
            (
                passing(listener(), null(), "2"),
                "descriptor 4 of LISTEN_FDS is not a listening",
            ),
            (
                passing(listener(), listener(), "3"),
                "descriptor 5 of LISTEN_FDS is open, but not inherited",
            ),
            (
                passing(listener(), listener(), "1000000"),
                "of LISTEN_FDS is",
            ),
            (
                passing(listener(), null(), "two"),
                "LISTEN_FDS=two is not a number",
            ),
        ] {
            assert_passed(&repeat(command.env(EXPECTED, expected)));
        }
        return;
    }
    place.run(|| {
        // A file of this process takes the first free number.
        let mut own = vec![null()];
        while own.last().unwrap().as_raw_fd() < 5 {
            own.push(null());
        }
        let expected = env::var(EXPECTED).unwrap();
        for _ in 0..2 {
            let error = listeners_from_env().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(&expected), "{error}");
        }
    });
}
