//! Plain HTTP requests and their responses.

use std::net::Shutdown;
use std::process::Command;
use std::thread;

use super::{Target, drivers};
use crate::harness::{Client, Program, wait_until};

/// Number of bytes of a large body, above what sockets hold.
const MANY_BYTES: usize = 20_000_003;

/// Sends a request for the path `/` of the target.
fn send(client: &mut Client, method: &str, target: &Target, rest: &str) {
    let host = target.addr;
    client.send(format!(
        "{method} http://{host}/ HTTP/1.1\r\nHost: other\r\n{rest}"
    ));
}

/// Reads the head of a request, and checks its first lines.
fn receive(server: &mut Client, method: &str, target: &Target) -> String {
    let head = server.head();
    let host = target.addr;
    let begin = format!("{method} / HTTP/1.1\r\nHost: {host}\r\n");
    let fields = head
        .strip_prefix(&begin)
        .unwrap_or_else(|| panic!("{head}"));
    let fields = fields.strip_suffix("Via: 1.1 uthread\r\nConnection: close\r\n\r\n");
    fields.unwrap_or_else(|| panic!("{head}")).to_owned()
}

#[test]
fn requests_of_one_connection_are_forwarded() {
    for driver in drivers() {
        let target = Target::start();
        let mut proxy = target.proxy(&["--driver", driver, "--log", "json"]);
        let mut client = proxy.connect();
        for _ in 0..3 {
            send(
                &mut client,
                "GET",
                &target,
                "X: y\r\nConnection: z\r\nZ: a\r\n\r\n",
            );
            let mut server = target.accept();
            assert_eq!(receive(&mut server, "GET", &target), "X: y\r\n");
            server
                .send("HTTP/1.1 404 Gone\r\nContent-Length: 2\r\nKeep-Alive: a\r\nA: b\r\n\r\nhi");
            let response = client.response();
            assert_eq!(response.text(), "hi");
            assert_eq!(
                response.head,
                "HTTP/1.1 404 Gone\r\nA: b\r\nContent-Length: 2\r\nVia: 1.1 uthread\r\n\r\n"
            );
            let line = proxy.stdout_line();
            for field in [
                "\"method\":\"GET\"",
                "\"path\":\"/\"",
                "\"status\":404",
                "\"end\":\"answered\"",
                "\"bytes_down\":2",
            ] {
                assert!(line.contains(field), "{line}");
            }
        }
        // And a tunnel on the same connection.
        let host = target.addr;
        client.send(format!(
            "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\nearly"
        ));
        assert_eq!(client.response_head().status, 200);
        assert_eq!(target.accept().read_exact(5), b"early");
    }
}

#[test]
fn bodies_of_each_framing_arrive() {
    let target = Target::start();
    let proxy = target.proxy(&[]);
    let mut client = proxy.connect();
    let chunked = "Transfer-Encoding: chunked\r\n\r\n";
    let anew = format!(
        "HTTP/1.1 200 OK\r\n{}",
        chunked.replace("\r\n\r\n", "\r\nVia: 1.1 uthread\r\n\r\n")
    );
    for (reply, expected) in [
        (
            format!("HTTP/1.1 200 OK\r\n{chunked}2;a=b\r\nhi\r\n0\r\nTrailer: x\r\n\r\n"),
            format!("{anew}2\r\nhi\r\n0\r\n\r\n"),
        ),
        (
            "HTTP/1.1 200 OK\r\n\r\nhi".to_owned(),
            format!("{anew}2\r\nhi\r\n0\r\n\r\n"),
        ),
        (
            "HTTP/1.0 200 OK\r\n\r\n".to_owned(),
            format!("{anew}0\r\n\r\n"),
        ),
        (
            "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n".to_owned(),
            "HTTP/1.1 204 No Content\r\nVia: 1.1 uthread\r\n\r\n".to_owned(),
        ),
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n".to_owned(),
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nVia: 1.1 uthread\r\n\r\n".to_owned(),
        ),
    ] {
        send(&mut client, "GET", &target, "\r\n");
        let mut server = target.accept();
        receive(&mut server, "GET", &target);
        server.send(&reply);
        drop(server);
        let found = client.read_exact(expected.len());
        assert_eq!(String::from_utf8(found).unwrap(), expected);
    }
    send(&mut client, "HEAD", &target, "\r\n");
    let mut server = target.accept();
    receive(&mut server, "HEAD", &target);
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(client.response_head().field("content-length"), Some("5"));
}

#[test]
fn a_client_of_the_old_version_gets_what_it_understands() {
    let target = Target::start();
    let proxy = target.proxy(&[]);
    let host = target.addr;
    for (field, reply, expected) in [
        (
            "",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
            "Connection: close\r\n\r\nhi",
        ),
        (
            "",
            "HTTP/1.1 200 OK\r\n\r\nhi",
            "Connection: close\r\n\r\nhi",
        ),
        (
            "",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nhi",
            "Connection: close\r\n\r\nhi",
        ),
    ] {
        let mut client = proxy.connect();
        client.send(format!("GET http://{host}/ HTTP/1.0\r\n{field}\r\n"));
        let mut server = target.accept();
        assert!(
            server
                .head()
                .ends_with("Via: 1.0 uthread\r\nConnection: close\r\n\r\n")
        );
        server.send(reply);
        drop(server);
        let found = String::from_utf8(client.rest()).unwrap();
        assert_eq!(
            found,
            format!("HTTP/1.1 200 OK\r\nVia: 1.1 uthread\r\n{expected}")
        );
    }
    let mut client = proxy.connect();
    for _ in 0..2 {
        client.send(format!(
            "GET http://{host}/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        ));
        let mut server = target.accept();
        server.head();
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        assert_eq!(client.response().field("connection"), Some("keep-alive"));
    }
}

#[test]
fn request_bodies_arrive_with_pipelined_requests_behind_them() {
    let target = Target::start();
    let proxy = target.proxy(&[]);
    let mut client = proxy.connect();
    let chunked = "Transfer-Encoding: chunked\r\n";
    let host = target.addr;
    client.send(format!(
        "POST http://{host}/ HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
         POST http://{host}/ HTTP/1.1\r\nHost: a\r\n{chunked}\r\n3;x\r\nabc\r\n2\r\nde\r\n0\r\nT: x\r\n\r\n\
         GET http://{host}/ HTTP/1.1\r\nHost: a\r\n\r\n"
    ));
    for (method, fields, body) in [
        ("POST", "Content-Length: 3\r\n", "abc"),
        ("POST", chunked, "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
        ("GET", "", ""),
    ] {
        let mut server = target.accept();
        assert_eq!(receive(&mut server, method, &target), fields);
        assert_eq!(server.read_exact(body.len()), body.as_bytes());
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        let response = client.response();
        assert_eq!(response.text(), "hi");
        if response.field("connection") == Some("close") {
            // The response has overtaken the note that the body is sent: the rest is not served.
            return;
        }
    }
}

#[test]
fn large_bodies_go_both_ways() {
    let bytes: Vec<u8> = (0..MANY_BYTES).map(|at| (at % 251) as u8).collect();
    for driver in drivers() {
        let target = Target::start();
        let proxy = target.proxy(&["--driver", driver]);
        let mut client = proxy.connect();
        let length = format!("Content-Length: {MANY_BYTES}\r\n\r\n");
        send(&mut client, "PUT", &target, &length);
        let mut server = target.accept();
        receive(&mut server, "PUT", &target);
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(server.read_exact(MANY_BYTES) == bytes);
                server.send(format!("HTTP/1.1 200 OK\r\n{length}"));
                server.send(&bytes);
            });
            client.send(&bytes);
            assert!(client.response().body == bytes);
        });
    }
}

#[test]
fn a_body_is_sent_when_the_origin_asks_for_it() {
    let target = Target::start();
    let proxy = target.proxy(&[]);
    let mut client = proxy.connect();
    send(
        &mut client,
        "POST",
        &target,
        "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    );
    let mut server = target.accept();
    assert_eq!(
        receive(&mut server, "POST", &target),
        "Expect: 100-continue\r\nContent-Length: 3\r\n"
    );
    server.send("HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(client.response_head().status, 100);
    client.send("abc");
    assert_eq!(server.read_exact(3), b"abc");
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.response().status, 200);

    // Refused without its body, whose place nothing can take.
    let mut client = proxy.connect();
    send(
        &mut client,
        "POST",
        &target,
        "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    );
    let mut server = target.accept();
    receive(&mut server, "POST", &target);
    server.send("HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n");
    let response = client.response();
    assert_eq!(
        (response.status, response.field("connection")),
        (417, Some("close"))
    );
    client.get_ref().shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.rest(), b"");
}

#[test]
fn connections_that_wait_end_with_the_program() {
    let target = Target::start();
    let mut proxy = target.proxy(&[]);
    let mut clients = [proxy.connect(), proxy.connect()];
    let answer = |client: &mut Client| {
        send(client, "GET", &target, "\r\n");
        let mut server = target.accept();
        receive(&mut server, "GET", &target);
        server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        client.response().field("connection").map(str::to_owned)
    };
    for client in &mut clients {
        assert_eq!(answer(client), None);
    }
    proxy.terminate();
    proxy.await_refusal();
    // A request that was on its way.
    let [on_its_way, waiting] = &mut clients;
    assert_eq!(answer(on_its_way).as_deref(), Some("close"));
    assert_eq!(waiting.count_rest(), 0);
    assert_eq!(proxy.exit_code(), 0);
    proxy.stderr_line(", cut 0");
}

#[test]
fn counters_and_rates() {
    let target = Target::start();
    let proxy = target.proxy(&["--counters", "127.0.0.1:0"]);
    let mut client = proxy.connect();
    send(&mut client, "POST", &target, "Content-Length: 3\r\n\r\nabc");
    let mut server = target.accept();
    receive(&mut server, "POST", &target);
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    client.response();
    wait_until(|| {
        let counted = proxy.counted();
        [
            "forwarded_total 1",
            "established_total 0",
            "failed_total 0",
            "bytes_up_total 3",
            "bytes_down_total 2",
        ]
        .iter()
        .all(|count| {
            counted
                .text()
                .contains(&format!("\nuthread_tunnel_{count}\n"))
        })
    });
}

#[test]
fn curl_gets_and_posts() {
    let served = Program::serve(&[("a", "a page\n")], &[]);
    let allowed = served.addr.to_string();
    for driver in drivers() {
        let proxy = Program::tunnel(&["--allow", &allowed, "--driver", driver]);
        let curl = |args: &[&str]| {
            Command::new("curl")
                .args([
                    "--silent",
                    "--show-error",
                    "--max-time",
                    "20",
                    "--noproxy",
                    "",
                ])
                .args(["--proxy", &format!("http://{}", proxy.addr)])
                .args(args)
                .output()
        };
        let url = format!("http://{allowed}/a");
        let Ok(output) = curl(&["--fail", &url, &url]) else {
            println!("not checked: curl is not installed");
            return;
        };
        assert_eq!(output.stdout, b"a page\na page\n", "{output:?}");
        let output = curl(&[
            "--write-out",
            "%{http_code}",
            "--output",
            "/dev/null",
            "--data",
            "x=y",
            &url,
        ]);
        assert_eq!(output.unwrap().stdout, b"405");
        let output = curl(&[
            "--write-out",
            "%{http_code}",
            "--output",
            "/dev/null",
            "http://127.0.0.2/",
        ]);
        assert_eq!(output.unwrap().stdout, b"403");
    }
}
