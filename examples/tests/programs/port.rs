//! The program `keep`: as it is, and ported by the build script, it answers the same, byte for
//! byte, on every driver.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::TcpStream;
use std::process::Command;

use libtest_mimic::Trial;
use tempfile::TempDir;

use crate::harness::{Check, HANG, Process, example, on_each_driver, run};

/// Requests to the server, and its answers.
const SESSION: [(&str, &str); 26] = [
    ("GET a", "NONE"),
    ("SET a 1 2 3", "OK"),
    ("GET a", "VALUE 1 2 3"),
    ("ADD n 4", "VALUE 4"),
    ("ADD n x", "ERROR invalid digit found in string"),
    ("ADD a 1", "ERROR no sum"),
    ("ADD n 9223372036854775807", "ERROR no sum"),
    ("ADD n -9", "VALUE -5"),
    ("DELETE a", "OK"),
    ("DELETE a", "NONE"),
    ("BRIEF b 0 never there", "OK"),
    ("GET b", "NONE"),
    ("BRIEF b 1 soon gone", "OK"),
    ("WATCH b 600000 soon gone", "NONE"),
    ("BRIEF b 600000 long here", "OK"),
    ("GET b", "VALUE long here"),
    ("BRIEF c 1", "ERROR no value"),
    ("WATCH n 20 -5", "SAME"),
    ("SAVE", "SAVED 2"),
    ("SET c \"quoted\"\tand ünïcödé\r", "OK"),
    ("GET c", "VALUE \"quoted\"\tand ünïcödé\r"),
    ("SET", "ERROR no such command"),
    ("HELLO you", "ERROR no such command"),
    ("", "ERROR no such command"),
    ("COUNT", "COMMANDS 25"),
    ("QUIT", "BYE"),
];

/// The end of a line of this length no longer fits.
const LINE_MAX: usize = 64 * 1024;

/// Time limit of a step in milliseconds, which only a hang exceeds.
const HANG_MS: u32 = 600_000;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![Trial::test("keep [std]", || {
        check(&|| example("keep_std", None));
        Ok(())
    })];
    trials.extend(on_each_driver("keep", |driver| {
        check(&|| example("keep", driver.into()));
        Check::Completed
    }));
    trials
}

/// Lives through some runs of the server, by the program that `keep` makes ready to start.
fn check(keep: &dyn Fn() -> Command) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(keep, &folder, HANG_MS);
    let asked = SESSION.map(|(asked, _)| format!("{asked}\n"));
    let answered = SESSION.map(|(_, answered)| format!("{answered}\n"));
    assert_eq!(server.talk(&asked.concat()), answered.concat());
    check_waiting(&server);
    for mut client in [keep(), example("keep_std", None)] {
        let printed = run(client.args(["load", &server.address, "200", "5"]), "");
        assert_eq!(printed, "200 clients: 3000 right answers\n");
    }
    let mut endless = "SET long ".repeat(LINE_MAX / 9 + 1);
    endless.truncate(LINE_MAX);
    assert_eq!(server.talk(&endless), "ERROR no whole line\n");
    check_stop(server);

    // As if the machine had stopped while writing a line.
    let path = folder.path().join("journal");
    let mut journal = OpenOptions::new().append(true).open(&path).unwrap();
    journal.write_all(b"total 0 half a li").unwrap();
    let server = Server::start(keep, &folder, HANG_MS);
    let asked = "GET total\nGET client-199\nGET b\nSET last 1\nSTOP\n";
    let answered = "VALUE 2000\nVALUE 4\nVALUE long here\nOK\nBYE\n";
    assert_eq!(server.talk(asked), answered);
    server.process.end();
    assert!(fs::read_to_string(&path).unwrap().ends_with("\nlast 0 1\n"));

    let server = Server::start(keep, &folder, HANG_MS);
    let answered = "VALUE 1\nSAVED 205\nBYE\n";
    assert_eq!(server.talk("GET last\nSAVE\nSTOP\n"), answered);
    server.process.end();
    assert_eq!(fs::read_to_string(&path).unwrap(), "");

    let server = Server::start(keep, &folder, 20);
    assert_eq!(read_to_end(server.connect()), "ERROR idle\n");
}

/// Checks that a client waits for a change of the key's value, and only while it is the value it
/// has seen.
fn check_waiting(server: &Server) {
    let watch = format!("WATCH n {HANG_MS} -5\n");
    let watching = Process::start(&mut server.client(), &watch);
    assert_eq!(server.talk("SET m -5\nSET n 6\nDELETE m\n"), "OK\nOK\nOK\n");
    assert_eq!(watching.end(), "VALUE 6\n");
}

/// Stops the server while some clients are silent and others wait.
fn check_stop(server: Server) {
    let (silent, mut watching) = (server.connect(), server.connect());
    let count = || -> u32 {
        let answer = server.talk("COUNT\n");
        answer["COMMANDS ".len()..].trim_end().parse().unwrap()
    };
    let mut before = count();
    watching
        .write_all(format!("WATCH n {HANG_MS} 6\n").as_bytes())
        .unwrap();
    // Until it is counted, the change may not have arrived.
    while count() == before + 1 {
        before += 1;
    }
    assert_eq!(server.talk("STOP\n"), "BYE\n");
    assert_eq!(read_to_end(silent), "");
    assert_eq!(read_to_end(watching), "SAME\n");
    assert_eq!(server.process.end(), "");
}

struct Server<'a> {
    keep: &'a dyn Fn() -> Command,
    process: Process,
    address: String,
}

impl Server<'_> {
    fn start<'a>(keep: &'a dyn Fn() -> Command, folder: &TempDir, idle_ms: u32) -> Server<'a> {
        let mut command = keep();
        command
            .args(["serve", "127.0.0.1:0"])
            .arg(folder.path())
            .arg(idle_ms.to_string());
        let mut process = Process::start(&mut command, "");
        let line = process.line();
        let address = line.strip_prefix("listening on ").unwrap().to_owned();
        Server {
            keep,
            process,
            address,
        }
    }

    /// Returns the server's answers to these lines.
    fn talk(&self, lines: &str) -> String {
        run(&mut self.client(), lines)
    }

    fn client(&self) -> Command {
        let mut command = (self.keep)();
        command.args(["talk", &self.address]);
        command
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream
    }
}

fn read_to_end(stream: TcpStream) -> String {
    io::read_to_string(stream).unwrap()
}
