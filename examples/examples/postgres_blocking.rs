//! The blocking crate `postgres`, as it is: a fiber may block the thread of its worker, which goes
//! on with the others on another one. The argument is the folder with the socket of a server.

use std::env;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use postgres::{Client, NoTls};
use uthread::{Runtime, scope, sleep};

const CLIENTS: usize = 8;

fn main() -> Result<()> {
    let folder = env::args().nth(1).context("the folder of the socket")?;
    let parameters = format!("host={folder} user=postgres");
    let client = || {
        let mut client = Client::connect(&parameters, NoTls)?;
        let row = client.query_one("SELECT 42 FROM pg_sleep(0.5)", &[])?;
        anyhow::Ok(row.get::<_, i32>(0))
    };
    let runtime = Runtime::builder().workers(2).build()?;
    let start = Instant::now();
    runtime.run(|| {
        scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
            // Runs beside them, though there are only two workers.
            sleep(Duration::from_millis(10));
            let is_beside = start.elapsed() < Duration::from_millis(500);
            let answers = clients.into_iter().map(|client| client.join());
            let answers = answers.map(|answer| answer.ok().context("a fiber panicked")?);
            let answers = answers.collect::<Result<Vec<_>>>()?;
            println!("{} clients beside a fiber that sleeps", answers.len());
            ensure!(is_beside && answers == [42; CLIENTS]);
            anyhow::Ok(())
        })
    })
}
