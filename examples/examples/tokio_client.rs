//! Code written for Tokio, called from fibers: tasks run in a Tokio runtime with a thread of its
//! own, and each fiber waits for its task. The server they talk to runs on fibers in the same
//! process.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use uthread::net::{SocketAddr, TcpListener};
use uthread::{block_on, scope, timeout};

const CLIENTS: usize = 20;
const QUESTIONS: usize = 50;

/// Asks a server as any `async` crate would.
async fn ask(server: SocketAddr) -> std::io::Result<usize> {
    let mut stream = tokio::net::TcpStream::connect(server).await?;
    let mut answered = 0;
    for number in 0..QUESTIONS {
        stream.write_all(&number.to_be_bytes()).await?;
        let mut answer = [0; size_of::<usize>()];
        stream.read_exact(&mut answer).await?;
        answered += usize::from(answer == number.to_be_bytes());
    }
    Ok(answered)
}

fn main() -> Result<()> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let tokio = builder.worker_threads(1).enable_all().build()?;
    let tokio = tokio.handle();
    uthread::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let server = listener.local_addr()?;
        uthread::spawn(move || {
            uthread::net::serve(&listener, CLIENTS, |stream, _| {
                // An error means that the client has gone.
                let _ = std::io::copy(&mut &stream, &mut &stream);
            })
        });
        let answered = scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| scope.spawn(|| block_on(tokio.spawn(ask(server)))))
                .collect();
            let answers = clients.into_iter().map(|client| {
                let task = client.join().ok().context("a client panicked")?;
                Ok(task??)
            });
            answers.sum::<Result<usize>>()
        })?;
        println!("{CLIENTS} clients, {answered} answers");

        let forever = tokio.spawn(async { tokio::time::sleep(Duration::from_secs(3600)).await });
        let task = forever.abort_handle();
        ensure!(timeout(Duration::from_millis(10), || block_on(forever)).is_err());
        task.abort();
        println!("a deadline ended the wait for a task");
        Ok(())
    })
}
