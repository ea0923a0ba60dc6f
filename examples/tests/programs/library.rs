//! Checks what the library's own examples do on every driver, and their length.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use libtest_mimic::Trial;
use uthread::Driver;

use crate::harness::{Check, HANG, Process, example, on_each_driver, run};

const LINES_MAX: usize = 100;

type Checked = fn(Driver);

const EXAMPLES: [(&str, Checked); 5] = [
    ("echo", check_echo),
    ("chat", check_chat),
    ("proxy", check_proxy),
    ("crawler", check_crawler),
    ("parallel_sum", check_parallel_sum),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![Trial::test("the_examples_of_the_library_are_short", || {
        EXAMPLES.iter().for_each(|(name, _)| check_length(name));
        Ok(())
    })];
    for (name, check) in EXAMPLES {
        trials.extend(on_each_driver(name, move |driver| {
            check(driver);
            Check::Completed
        }));
    }
    trials
}

fn check_length(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/uthread/examples");
    let text = fs::read_to_string(folder.join(name).with_extension("rs")).unwrap();
    let count = text.lines().count();
    assert!(count < LINES_MAX, "{name} has {count} lines");
}

/// Starts an example that listens. Returns it and its address.
fn start(name: &str, driver: Driver, arguments: &[&str]) -> (Process, String) {
    let mut server = Process::start(example(name, driver.into()).args(arguments), "");
    let line = server.line();
    let address = line.strip_prefix("listening on ").expect(&line).to_owned();
    (server, address)
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream
}

fn check_echo(driver: Driver) {
    let (server, address) = start("echo", driver, &["127.0.0.1:0"]);
    let mut client = connect(&address);
    let peer = client.local_addr().unwrap();
    client.write_all(b"to and fro").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(io::read_to_string(&client).unwrap(), "to and fro");
    server.signal("INT"); // As Ctrl-C does.
    assert_eq!(server.end(), format!("{peer}: 10 bytes\n"));
}

fn check_chat(driver: Driver) {
    let (_server, address) = start("chat", driver, &["127.0.0.1:0"]);
    let join = |name: &str| {
        let mut stream = connect(&address);
        writeln!(stream, "{name}").unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "Your name?");
        (stream, lines.map(Result::unwrap))
    };
    let (mut first, mut first_reads) = join("Ada");
    assert_eq!(first_reads.next().unwrap(), "Ada has joined");
    let (second, mut second_reads) = join("Charles");
    for reads in [&mut first_reads, &mut second_reads] {
        assert_eq!(reads.next().unwrap(), "Charles has joined");
    }
    writeln!(first, "Good morning").unwrap();
    for reads in [&mut first_reads, &mut second_reads] {
        assert_eq!(reads.next().unwrap(), "Ada: Good morning");
    }
    second.shutdown(Shutdown::Both).unwrap();
    assert_eq!(first_reads.next().unwrap(), "Charles has left");
}

fn check_proxy(driver: Driver) {
    // Keeps the port from other tests when the target no longer listens.
    let reserved = uthread::net::TcpSocket::new_v4().unwrap();
    reserved.set_reuse_address(true).unwrap();
    reserved.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let target_address = reserved.local_addr().unwrap().to_string();
    let target = TcpListener::bind(&target_address).unwrap();
    let (mut proxy, address) = start("proxy", driver, &["127.0.0.1:0", &target_address]);
    // The server answers once the client has sent everything.
    let server = thread::spawn(move || {
        let (mut stream, _) = target.accept().unwrap();
        let received = io::read_to_string(&stream).unwrap();
        stream.write_all(received.repeat(3).as_bytes()).unwrap();
    });
    let mut client = connect(&address);
    let peer = client.local_addr().unwrap();
    client.write_all(b"abc").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(io::read_to_string(&client).unwrap(), "abcabcabc");
    server.join().unwrap();
    assert_eq!(proxy.line(), format!("{peer}: 3 bytes up, 9 bytes down"));

    // The target no longer listens.
    let mut client = connect(&address);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    let line = proxy.line();
    assert!(line.contains("Connection refused"), "{line}");
}

fn check_crawler(driver: Driver) {
    const PAGES: [(&str, &str); 4] = [
        (
            "/",
            r#"<a href="a/">a</a> <a href="/b?q">b</a> <a href="http://elsewhere/">"#,
        ),
        (
            "/a/",
            r#"<a href="c">c</a> <a href="/">home</a> <a href="../b">b</a>"#,
        ),
        ("/a/c", r#"<a href="/missing#there">"#),
        ("/b", ""),
    ];
    let site = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = site.local_addr().unwrap().to_string();
    // Ends with the process.
    thread::spawn(move || {
        for stream in site.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(&stream).lines().map(Result::unwrap);
            let request = lines.next().unwrap();
            lines.find(String::is_empty).unwrap();
            let path = request.split(' ').nth(1).unwrap();
            let page = PAGES.iter().find(|(known, _)| *known == path);
            let (status, body) = page.map_or((404, ""), |(_, body)| (200, *body));
            write!(stream, "HTTP/1.0 {status} x\r\n\r\n{body}").unwrap();
        }
    });
    let output = run(example("crawler", driver.into()).arg(&address), "");
    let (pages, count) = output.trim_end().rsplit_once('\n').unwrap();
    let pages: BTreeSet<_> = pages.lines().collect();
    let expected = ["200 /", "200 /a/", "200 /a/c", "200 /b", "404 /missing"];
    assert_eq!(pages, expected.into());
    assert_eq!(count, "5 pages");
}

fn check_parallel_sum(driver: Driver) {
    let count = 100_000_u64;
    let sum: u64 = (0..count).map(|number| (number % 1000).pow(2)).sum();
    let output = run(
        example("parallel_sum", driver.into()).arg(count.to_string()),
        "",
    );
    assert_eq!(output, format!("one fiber: {sum}\nall workers: {sum}\n"));
}
