//! Credentials of clients.

use std::fs;
use std::process::Command;

use tempfile::NamedTempFile;

use super::Target;
use crate::harness::{Client, Response, command};

/// The password of `ann` is "secret".
pub(super) const USERS: &str =
    "# users\nann:$2y$04$0nPVL9NnDoTTZH/ctdMUqOOJlmMlj/z2mpVI.6Fggee.y6fKWoLKy\n";
/// `ann:secret`
pub(super) const RIGHT: &str = "Proxy-Authorization: Basic YW5uOnNlY3JldA==\r\n";
/// `ann:wrong`
const WRONG: &str = "Proxy-Authorization: Basic YW5uOndyb25n\r\n";

fn users(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    fs::write(&file, text).unwrap();
    file
}

/// Requests a tunnel with these fields, and returns the head of the response.
fn ask(client: &mut Client, target: &Target, fields: &str) -> Response {
    let host = target.addr;
    client.send(format!(
        "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"
    ));
    client.response_head()
}

#[test]
fn only_users_get_tunnels() {
    let target = Target::start();
    let file = users(USERS);
    let path = file.path().to_str().unwrap();
    let args = [
        "--users",
        path,
        "--log",
        "json",
        "--counters",
        "127.0.0.1:0",
    ];
    let mut proxy = target.proxy(&args);
    for fields in [
        "",
        WRONG,
        &format!("{RIGHT}{WRONG}"),
        &format!("{RIGHT}{RIGHT}"),
        "Authorization: Basic YW5uOnNlY3JldA==\r\n",
        "Proxy-Authorization: Digest x\r\n",
        "Proxy-Authorization:\r\n",
        "Proxy-Authorization: Basic \u{fc}\r\n",
    ] {
        let response = ask(&mut proxy.connect(), &target, fields);
        assert_eq!(response.status, 407, "{fields}");
        assert_eq!(
            response.field("proxy-authenticate"),
            Some("Basic realm=\"uthread\", charset=\"UTF-8\"")
        );
        let line = proxy.stdout_line();
        assert!(
            line.contains("\"user\":null") && line.contains("\"status\":407"),
            "{line}"
        );
        assert!(!line.contains("YW5u"), "{line}");
    }
    // The second one is known.
    for _ in 0..2 {
        let mut client = proxy.connect();
        assert_eq!(ask(&mut client, &target, RIGHT).status, 200);
        client.send("x");
        assert_eq!(target.accept().read_exact(1), b"x");
        drop(client);
        let line = proxy.stdout_line();
        assert!(
            line.contains("\"user\":\"ann\"") && !line.contains("YW5u"),
            "{line}"
        );
    }
    let counted = proxy.counted();
    assert!(
        counted
            .text()
            .contains("\nuthread_tunnel_unauthorized_total 8\n"),
        "{}",
        counted.text()
    );
}

/// What may be asked for is not told to clients without credentials.
#[test]
fn credentials_come_before_all_else() {
    let target = Target::start();
    let file = users(USERS);
    let mut proxy = target.proxy(&["--users", file.path().to_str().unwrap(), "--log", "text"]);
    let denied = "CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: a\r\n";
    for (request, status) in [
        (format!("{denied}\r\n"), 407),
        (format!("{denied}{RIGHT}\r\n"), 403),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 407),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{RIGHT}\r\n"), 400),
    ] {
        let mut client = proxy.connect();
        client.send(&request);
        assert_eq!(client.response().status, status, "{request}");
        let user = if status == 407 {
            " 127.0.0.1 - "
        } else {
            " 127.0.0.1 ann "
        };
        let line = proxy.stdout_line();
        assert!(line.contains(user), "{line}");
    }
}

#[test]
fn curl_sends_credentials() {
    let target = Target::start();
    let file = users(USERS);
    let proxy = target.proxy(&["--users", file.path().to_str().unwrap()]);
    let curl = |password: &str| {
        Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--max-time",
                "20",
                "--noproxy",
                "",
            ])
            .args([
                "--proxytunnel",
                "--proxy",
                &format!("http://{}", proxy.addr),
            ])
            .args(["--proxy-user", &format!("ann:{password}")])
            .arg(format!("http://{}/", target.addr))
            .spawn()
    };
    let Ok(mut right) = curl("secret") else {
        println!("not checked: curl is not installed");
        return;
    };
    let mut server = target.accept();
    server.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert!(right.wait().unwrap().success());
    let head = server.rest();
    assert!(
        !String::from_utf8(head)
            .unwrap()
            .to_lowercase()
            .contains("authorization")
    );
    assert_eq!(curl("wrong").unwrap().wait().unwrap().code(), Some(56));
}

#[test]
fn files_that_are_refused() {
    let (bad, good) = (users("\nann:secret\n"), users(USERS));
    let (bad, good) = (bad.path().to_str().unwrap(), good.path().to_str().unwrap());
    for (args, message) in [
        (
            &["--allow", "*:443", "--users", bad][..],
            format!("{bad}:2: the hash of \"ann\" is not"),
        ),
        (
            &["--allow", "*:443", "--users", "/missing"],
            "in /missing: No such file".to_owned(),
        ),
        (
            &["--to", "a:1", "--users", good],
            "'--to <HOST:PORT>' cannot be used".to_owned(),
        ),
    ] {
        let output = command(&[&["tunnel", "--listen", "127.0.0.1:0"], args].concat()).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(&message), "{text}");
    }
}
