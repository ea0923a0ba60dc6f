//! The crate `postgres`, as it is, on one worker: `uthread-interpose` makes a wait in it, which is one of the
//! Tokio inside, suspend the fiber. The argument is the folder with the socket of a server.

use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use postgres::{Client, NoTls};
use uthread::{Driver, Runtime, scope, sleep};
use uthread_interpose as _;

const CLIENTS: usize = 50;

fn main() -> Result<()> {
    let folder = env::args().nth(1).context("the folder of the socket")?;
    let parameters = format!("host={folder} user=postgres");
    let client = || {
        let mut client = Client::connect(&parameters, NoTls)?;
        let row = client.query_one("SELECT 42 FROM pg_sleep(0.5)", &[])?;
        anyhow::Ok(row.get::<_, i32>(0))
    };
    let runtime = Runtime::builder().workers(1).build()?;
    runtime.run(|| {
        scope(|scope| {
            let clients = Vec::from_iter((0..CLIENTS).map(|_| scope.spawn(client)));
            sleep(Duration::from_millis(400));
            let threads = fs::read_dir("/proc/self/task")?.count();
            for client in clients {
                let answer = client.join().ok().context("a fiber panicked")??;
                ensure!(answer == 42);
            }
            let is_few = threads < 10 || runtime.driver().driver() == Driver::Threads;
            ensure!(is_few, "{threads} threads");
            println!("{CLIENTS} queries at once on few threads");
            Ok(())
        })
    })
}
