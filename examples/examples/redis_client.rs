//! The commands of the `redis` crate on uthread's streams, against a real `redis-server`. The
//! crate's own connections open sockets of `std`; its trait `ConnectionLike` accepts any other
//! connection.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use redis::{Commands, ConnectionLike, Parser, RedisResult as Answer, Value};
use uthread::io::{BufRead, BufReader, Write};
use uthread::os::unix::net::UnixStream;
use uthread::process::{Command, Stdio};

struct Connection(UnixStream, Parser);

impl ConnectionLike for Connection {
    fn req_packed_command(&mut self, command: &[u8]) -> Answer<Value> {
        self.0.write_all(command)?;
        self.1.parse_value(&self.0)
    }

    fn req_packed_commands(&mut self, all: &[u8], skip: usize, take: usize) -> Answer<Vec<Value>> {
        self.0.write_all(all)?;
        let answers = (0..skip + take).map(|_| self.1.parse_value(&self.0));
        Ok(answers.collect::<Answer<Vec<_>>>()?.split_off(skip))
    }

    fn get_db(&self) -> i64 {
        0
    }

    fn check_connection(&mut self) -> bool {
        redis::cmd("PING").exec(self).is_ok()
    }

    fn is_open(&self) -> bool {
        self.0.peer_addr().is_ok()
    }
}

fn main() -> Result<()> {
    uthread::run(|| {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("socket");
        let mut server = Command::new("redis-server");
        server
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket);
        let server = server.stdout(Stdio::piped()).spawn();
        let mut server = server.context("redis-server, which has to be installed")?;
        let output = BufReader::new(server.stdout.take().context("a pipe")?);
        let mut lines = output.lines().map_while(Result::ok);
        lines.find(|line| line.contains("ready to accept connections at"));
        let result = count(&socket);
        server.kill()?;
        server.wait()?;
        result
    })
}

/// Counts in 20 fibers at once, each with its own connection.
fn count(socket: &Path) -> Result<()> {
    let connect = || anyhow::Ok(Connection(UnixStream::connect(socket)?, Parser::new()));
    let client = || {
        let mut connection = connect()?;
        (0..50).try_for_each(|_| connection.incr("count", 1))?;
        anyhow::Ok(redis::pipe().incr("clients", 1).exec(&mut connection)?)
    };
    uthread::scope(|scope| (0..20).for_each(|_| drop(scope.spawn(|| client().unwrap()))));
    let mut connection = connect()?;
    let (count, clients) = (connection.get("count")?, connection.get("clients")?);
    println!("counted to {count} in {clients} clients");
    ensure!((count, clients) == (1000, 20));
    Ok(())
}
