//! The crate `redis` with connections of its own, which are sockets of `std`, against a real
//! `redis-server`. `uthread-interpose` makes a wait in it suspend the fiber.

use std::{fs, iter};

use anyhow::{Context, Result, ensure};
use redis::{Client, Commands};
use uthread::Driver;
use uthread::io::{BufRead, BufReader};
use uthread::process::{Command, Stdio};
use uthread_interpose as _;

const CLIENTS: usize = 50;

fn main() -> Result<()> {
    let runtime = uthread::Runtime::builder().workers(1).build()?;
    runtime.run(|| {
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
        let threads = wait_at_once(&Client::open(format!("unix://{}", socket.display()))?);
        server.kill()?;
        server.wait()?;
        let threads = threads?;
        let is_few = threads < 10 || runtime.driver().driver() == Driver::Threads;
        ensure!(is_few, "{threads} threads");
        println!("{CLIENTS} clients waited at once on few threads");
        Ok(())
    })
}

/// Waits for the same element with each connection, and pushes it for all when all wait. Returns the number
/// of threads that there were.
fn wait_at_once(client: &Client) -> Result<usize> {
    let mut connection = client.get_connection()?;
    uthread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut connection = client.get_connection().unwrap();
                let (_, element): (String, u32) = connection.blpop("list", 0.0).unwrap();
                assert_eq!(element, 42);
            });
        }
        let all = format!("blocked_clients:{CLIENTS}");
        let mut clients = || {
            redis::cmd("INFO")
                .arg("clients")
                .query::<String>(&mut connection)
        };
        iter::repeat_with(&mut clients)
            .find(|text| text.as_ref().is_ok_and(|text| text.contains(&all)));
        let threads = fs::read_dir("/proc/self/task")?.count();
        connection.rpush::<_, _, ()>("list", vec![42; CLIENTS])?;
        Ok(threads)
    })
}
