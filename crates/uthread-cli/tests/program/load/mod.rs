//! The load generator: what it counts, what it reports as wrong, and how it ends.

mod dynamic;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{Program, command, refusing_socket};

/// Options of a short load without a warm-up.
const QUICK: [&str; 3] = ["--duration=200ms", "--warm-up=0s", "--json"];

/// Length of a message, which is the default of `--size`.
const MESSAGE_BYTES: usize = 16;

/// Number of messages that fall due in the time of [`QUICK`] at 50 per second.
const DUE_AT_50: u64 = 10;

/// Place of the CPU time in the kernel, in ticks, after the name in `/proc/PID/stat`.
const STAT_SYSTEM_TICKS: usize = 12;

fn load(kind: &str, address: &str, options: &[&str]) -> Output {
    let arguments = [&["load", kind, address], options, &QUICK].concat();
    command(&arguments).output().unwrap()
}

/// Runs a load that ends with this exit code, and returns its report.
fn report(kind: &str, address: &str, options: &[&str], exit_code: i32) -> Value {
    let output = load(kind, address, options);
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(exit_code), "{text}{errors}");
    serde_json::from_str(&text).unwrap()
}

fn count(report: &Value, field: &str) -> u64 {
    let value = report[field].as_u64();
    value.unwrap_or_else(|| panic!("no {field} in {report}"))
}

/// Returns the number of errors of this kind, and checks that the example contains these words.
fn errors(report: &Value, kind: &str, words: &str) -> u64 {
    let mut errors = report["errors"].as_array().unwrap().iter();
    let error = errors.find(|error| error["kind"] == kind);
    let error = error.unwrap_or_else(|| panic!("no {kind} in {report}"));
    assert!(
        error["example"].as_str().unwrap().contains(words),
        "{error}"
    );
    error["count"].as_u64().unwrap()
}

fn assert_all_right(report: &Value) {
    assert_eq!(report["errors"], Value::Array(Vec::new()), "{report}");
    assert_eq!(count(report, "unanswered"), 0, "{report}");
    assert!(count(report, "measured") > 0, "{report}");
    assert!(
        count(report, "answered") >= count(report, "measured"),
        "{report}"
    );
    assert!(report["per_second"].as_f64().unwrap() > 0.0, "{report}");
    let latency = |name: &str| report["latency_us"][name].as_f64().unwrap();
    let names = ["p50", "p90", "p99", "p999", "p9999", "p99999", "max"];
    assert!(
        names.map(latency).is_sorted() && latency("p50") > 0.0,
        "{report}"
    );
}

/// Starts a server that runs `serve` for each connection, for as long as the test runs.
fn server(serve: impl Fn(&mut TcpStream) -> io::Result<()> + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let serve = serve.clone();
            thread::spawn(move || serve(&mut stream));
        }
    });
    address
}

/// Sends back each message, changed by `change` depending on its number.
fn echo_changed(
    stream: &mut TcpStream,
    change: impl Fn(u64, &mut [u8; MESSAGE_BYTES]),
) -> io::Result<()> {
    let mut message = [0; MESSAGE_BYTES];
    for number in 0.. {
        stream.read_exact(&mut message)?;
        change(number, &mut message);
        stream.write_all(&message)?;
    }
    Ok(())
}

/// Sends back the first messages of a connection.
fn echo_first(stream: &mut TcpStream, count: usize) -> io::Result<()> {
    let mut message = [0; MESSAGE_BYTES];
    for _ in 0..count {
        stream.read_exact(&mut message)?;
        stream.write_all(&message)?;
    }
    Ok(())
}

/// Reads to the end, and answers nothing.
fn fall_silent(stream: &mut TcpStream) -> io::Result<()> {
    io::copy(stream, &mut io::sink()).map(drop)
}

/// Loads an echo server with each of these lists of options.
fn check_echo(ways: &[&[&str]]) {
    let program = Program::echo(&[]);
    let address = program.addr.to_string();
    for options in ways {
        let report = report("tcp", &address, options, 0);
        assert_all_right(&report);
        assert_eq!(count(&report, "connected"), count(&report, "connections"));
        let is_open = report["rate"].is_u64();
        assert_eq!(report["late_us"].is_object(), is_open, "{report}");
        assert_eq!(report["pipelining"].is_u64(), !is_open, "{report}");
        let most = count(&report, "most_served");
        assert!(
            most >= count(&report, "least_served") && most > 0,
            "{report}"
        );
    }
}

#[test]
fn a_closed_loop_is_answered_whatever_its_shape() {
    check_echo(&[
        &["--connections=9"],
        &["--connections=9", "--pipelining=4", "--workers=2"],
        &["--connections=9", "--size=1000", "--spin"],
    ]);
}

#[test]
fn load_runs_on_every_driver() {
    check_echo(&[
        &["--connections=9", "--driver=threads"],
        &["--connections=200", "--driver=epoll"],
        &[
            "--connections=9",
            "--rate=2000",
            "--driver=epoll",
            "--size=1",
        ],
    ]);
}

#[test]
fn an_open_loop_is_answered_whatever_its_shape() {
    check_echo(&[
        &["--connections=9", "--rate=2000"],
        &["--connections=9", "--rate=2000", "--workers=2", "--spin"],
    ]);
}

#[test]
fn an_open_loop_sends_what_is_due_and_no_more() {
    let program = Program::echo(&[]);
    let report = report("tcp", &program.addr.to_string(), &["--rate=500"], 0);
    // A busy machine delays some, and loses none.
    assert_eq!(count(&report, "answered"), 100, "{report}");
}

#[test]
fn requests_due_while_the_generator_is_stopped_are_sent_and_answered() {
    // Reports message 1 of each connection, the first of the run: message 0 is the greeting.
    let (sender, has_begun) = mpsc::channel();
    let address = server(move |stream| {
        let sender = sender.clone();
        echo_changed(stream, move |number, _| {
            if number == 1 {
                let _ = sender.send(());
            }
        })
    });
    for options in [
        &[][..],
        &["--spin"],
        &["--driver=epoll"],
        &["--driver=threads"],
    ] {
        let arguments = ["load", "tcp", &address, "--rate=50", "--connections=1"];
        let child = command(&[&arguments, options, &QUICK].concat())
            .stdout(Stdio::piped())
            .spawn();
        let child = child.unwrap();
        let pid = Pid::from_child(&child);
        has_begun.recv().unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        // Sleeps until after the end of the run.
        thread::sleep(Duration::from_millis(300));
        kill_process(pid, Signal::CONT).unwrap();
        let output = child.wait_with_output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["errors"], Value::Array(Vec::new()), "{report}");
        assert_eq!(count(&report, "unanswered"), 0, "{report}");
        assert_eq!(
            count(&report, "answered"),
            DUE_AT_50,
            "{options:?}: {report}"
        );
    }
}

#[test]
fn a_file_is_loaded_over_http() {
    let long = "0123456789".repeat(30_000);
    let program = Program::serve(&[("a.txt", "hello"), ("long.txt", &long)], &[]);
    let url = |name: &str| format!("http://{}/{name}", program.addr);
    for options in [&[][..], &["--rate=500"], &["--pipelining=3"]] {
        assert_all_right(&report("http", &url("a.txt"), options, 0));
        assert_all_right(&report(
            "http",
            &url("long.txt"),
            &[&["--connections=2"], options].concat(),
            0,
        ));
    }
    let missing = report("http", &url("missing"), &[], 1);
    assert_eq!(errors(&missing, "status", "404"), 1);
    let no_http = report("http", &Program::echo(&[]).addr.to_string(), &[], 1);
    assert_eq!(count(&no_http, "answered"), 0);
}

#[test]
fn all_connects_fail_where_nothing_listens() {
    let (_socket, address) = refusing_socket();
    let report = report("tcp", &address.to_string(), &["--connections=3"], 1);
    assert_eq!(errors(&report, "refused", "connect"), 3);
    assert_eq!(
        (count(&report, "answered"), count(&report, "connected")),
        (0, 0)
    );
    assert!(report["latency_us"].is_null());
}

#[test]
fn an_answer_that_differs_in_a_bit_is_wrong() {
    let address = server(|stream| {
        echo_changed(stream, |number, message| {
            message[MESSAGE_BYTES - 1] ^= u8::from(number == 20)
        })
    });
    for options in [&[][..], &["--rate=1000"]] {
        let report = report(
            "tcp",
            &address,
            &[options, &["--connections=2"]].concat(),
            0,
        );
        assert!(errors(&report, "wrong", "differs") >= 1, "{report}");
        assert!(count(&report, "answered") > 0);
    }
    let always = server(|stream| echo_changed(stream, |_, message| message[0] ^= 1));
    assert!(errors(&report("tcp", &always, &[], 1), "wrong", "differs") > 0);
}

#[test]
fn a_server_that_closes_is_reported_and_connected_to_again() {
    let address = server(|stream| {
        echo_first(stream, 5)?;
        stream.read_exact(&mut [0; MESSAGE_BYTES])?;
        stream.shutdown(Shutdown::Write)?;
        // Reads everything, so that the close is not a reset.
        fall_silent(stream)
    });
    for options in [&[][..], &["--rate=1000"]] {
        let report = report(
            "tcp",
            &address,
            &[options, &["--connections=1"]].concat(),
            0,
        );
        assert!(
            errors(&report, "closed", "the server closed") >= 1,
            "{report}"
        );
        // The first of the five answers was that of the greeting, before the run.
        assert!(count(&report, "answered") >= 4, "{report}");
        assert!(count(&report, "unanswered") >= 1, "{report}");
    }
}

/// Reads a request without a body.
fn read_request(stream: &mut TcpStream) -> io::Result<()> {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => request.extend_from_slice(&piece[..count]),
        }
    }
    Ok(())
}

#[test]
fn a_server_that_announces_the_end_of_a_connection_is_no_error() {
    let address = server(|stream| {
        read_request(stream)?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
    });
    let report = report("http", &address, &["--connections=2"], 0);
    assert_all_right(&report);
    assert_eq!(count(&report, "reconnects"), count(&report, "answered"));
}

#[test]
fn a_silent_server_is_not_waited_for_twice() {
    let address = server(fall_silent);
    let options = ["--connections=1000", "--timeout=300ms"];
    let silent = report("tcp", &address, &options, 1);
    let timed_out = errors(&silent, "timed-out", "no response");
    assert!((1..1000).contains(&timed_out), "{silent}");
    let address = server(|stream| {
        echo_first(stream, 3)?;
        fall_silent(stream)
    });
    for options in [&["--timeout=100ms"][..], &["--timeout=100ms", "--rate=200"]] {
        let later = report(
            "tcp",
            &address,
            &[options, &["--connections=2"]].concat(),
            0,
        );
        assert!(errors(&later, "timed-out", "") >= 1, "{later}");
    }
}

#[test]
fn a_signal_ends_a_load_early_with_a_report() {
    let program = Program::echo(&[]);
    let address = program.addr.to_string();
    let child = command(&[
        "load",
        "tcp",
        &address,
        "--duration=1h",
        "--warm-up=0s",
        "--json",
    ])
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    // The echo server reports no connections; its CPU time shows that the load has started.
    let pid = Pid::from_child(&child);
    let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
    crate::harness::wait_until(|| {
        let text = std::fs::read_to_string(&stat).unwrap();
        let (_, fields) = text.rsplit_once(')').unwrap();
        let ticks = fields.split_ascii_whitespace().nth(STAT_SYSTEM_TICKS);
        ticks.unwrap().parse::<u64>().unwrap() > 5
    });
    kill_process(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["interrupted"], true);
    assert_all_right(&report);
    assert!(report["seconds"].as_f64().unwrap() < 3600.0, "{report}");
}

#[test]
fn the_text_has_the_figures_of_the_report() {
    let program = Program::echo(&[]);
    let address = program.addr.to_string();
    let output = command(&[
        "load",
        "tcp",
        &address,
        "-c",
        "2",
        "-d",
        "100ms",
        "--warm-up",
        "0s",
    ])
    .output();
    let output = output.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for words in [
        "2 connections, closed loop",
        "responses/s",
        "p99.99 ",
        "the most served",
        "busy",
    ] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
}

#[test]
fn wrong_usage_is_refused() {
    let check = |kind: &str, address: &str, options: &[&str], words: &str| {
        let output = load(kind, address, options);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(words), "no {words:?} in {errors:?}");
    };
    check("udp", "127.0.0.1:1", &[], "udp");
    check("tcp", "127.0.0.1", &[], "not HOST:PORT");
    check(
        "http",
        "https://127.0.0.1/",
        &[],
        "https:// is not supported",
    );
    check("tcp", "127.0.0.1:1", &["--connections=0"], "connections");
    check("tcp", "127.0.0.1:1", &["--size=65537"], "more than 65536");
    check(
        "tcp",
        "127.0.0.1:1",
        &["--rate=5", "--pipelining=2"],
        "pipelining",
    );
    check(
        "tcp",
        "127.0.0.1:1",
        &["--workers=5000", "--connections=5000"],
        "workers",
    );
    check(
        "tcp",
        "127.0.0.1:1",
        &["--connections=4000000000"],
        "ulimit -Hn",
    );
}
