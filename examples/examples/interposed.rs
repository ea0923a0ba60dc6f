//! Crates that wait by `std`, as they are: clients of `ureq` whose answers go through `crossbeam-channel`,
//! and a server of `std::net`. `uthread-interpose` makes each of their waits suspend its fiber.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Barrier;

use anyhow::{Context, Result, ensure};
use uthread::Driver;
use uthread_interpose as _;

const CLIENTS: usize = 50;

/// Answers with the path, once all clients have asked.
fn answer(connection: TcpStream, all: &Barrier) -> Result<()> {
    let mut lines = BufReader::new(&connection).lines();
    let request = lines.next().context("a request")??;
    while !lines.next().context("a blank line")??.is_empty() {}
    all.wait();
    let path = request.split(' ').nth(1).context("a path")?;
    let length = path.len();
    write!(
        &connection,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{path}"
    )?;
    Ok(())
}

fn main() -> Result<()> {
    let runtime = uthread::Runtime::builder().workers(1).build()?;
    runtime.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (sender, answers) = crossbeam_channel::bounded(1);
        let all = Barrier::new(CLIENTS + 1);
        let threads = uthread::scope(|scope| {
            for number in 0..CLIENTS {
                let sender = sender.clone();
                scope.spawn(move || {
                    let url = format!("http://{address}/{number}");
                    let mut answer = ureq::get(url).call().unwrap();
                    let path = answer.body_mut().read_to_string().unwrap();
                    sender.send(path[1..].parse::<usize>().unwrap()).unwrap();
                });
            }
            for connection in listener.incoming().take(CLIENTS) {
                let connection = connection?;
                let all = &all;
                scope.spawn(move || answer(connection, all).unwrap());
            }
            let threads = fs::read_dir("/proc/self/task")?.count();
            all.wait();
            let sum: usize = answers.iter().take(CLIENTS).sum();
            ensure!(sum == (0..CLIENTS).sum());
            Ok(threads)
        })?;
        let is_few = threads < 10 || runtime.driver().driver() == Driver::Threads;
        ensure!(is_few, "{threads} threads");
        println!("{CLIENTS} clients and servers at once on few threads");
        Ok(())
    })
}
