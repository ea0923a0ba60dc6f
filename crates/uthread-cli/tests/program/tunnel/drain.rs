//! The end of the program.

use std::io::Read;
use std::time::Instant;

use super::{Target, drivers};
use crate::harness::Program;

#[test]
fn open_tunnels_end_by_themselves() {
    for driver in drivers() {
        let target = Target::start();
        let mut proxy = target.proxy(&["--driver", driver]);
        let (mut client, mut server) = target.tunnel(&proxy);
        proxy.terminate();
        proxy.await_refusal();
        client.send("after");
        assert_eq!(server.read_exact(5), b"after");
        drop((client, server));
        assert_eq!(proxy.exit_code(), 0);
        proxy.stderr_line(", cut 0");
    }
}

#[test]
fn tunnels_that_outlast_the_grace_period_are_cut() {
    for driver in drivers() {
        let target = Target::start();
        let mut proxy = target.proxy(&["--driver", driver, "--grace", "100ms"]);
        let (client, _server) = target.tunnel(&proxy);
        proxy.terminate();
        let end = client.get_ref().read(&mut [0]);
        assert!(!matches!(end, Ok(1)), "{end:?}");
        assert_eq!(proxy.exit_code(), 3);
        proxy.stderr_line("cut 1");
    }
}

#[test]
fn a_second_signal_cuts_at_once() {
    let target = Target::start();
    let mut proxy = target.proxy(&["--grace", "1h"]);
    let (_client, _server) = target.tunnel(&proxy);
    let start = Instant::now();
    proxy.terminate();
    proxy.await_refusal();
    proxy.terminate();
    assert_eq!(proxy.exit_code(), 3, "after {:?}", start.elapsed());
}

#[test]
fn wrong_usage() {
    for (args, message) in [
        (&["tunnel"][..], "--allow <TARGET>"),
        (&["tunnel", "--allow", "example.com"], "must be HOST:PORT"),
        (
            &["tunnel", "--allow", "10.0.0.0/33:1"],
            "a network has 0 to 32 bits",
        ),
        (&["tunnel", "--to", "a:0"], "1 to 65535"),
        (&["tunnel", "--to", "a:1", "--rate", "0"], "such as 500K"),
    ] {
        let output = crate::harness::command(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(message), "{text}");
    }
    let taken = Program::echo(&[]);
    let listen = taken.addr.to_string();
    let args = ["tunnel", "--allow", "*:443", "--listen", &listen];
    let output = crate::harness::command(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
