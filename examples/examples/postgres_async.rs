//! The async crate `tokio-postgres` on fibers: its connection is a task of Tokio, and each query is
//! a blocking call of a fiber. The argument is the folder with the socket of a server.

use std::env;

use anyhow::{Context, Result, ensure};
use tokio_postgres::{Client, NoTls, connect};
use uthread::{block_on, scope};

const CLIENTS: i64 = 20;
const ROWS: i64 = 50;

fn insert(client: &Client, number: i64) -> Result<()> {
    let statement = "INSERT INTO numbers VALUES ($1)";
    for row in 0..ROWS {
        block_on(client.execute(statement, &[&(number * ROWS + row)]))?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let folder = env::args().nth(1).context("the folder of the socket")?;
    let parameters = format!("host={folder} user=postgres");
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let tokio = builder.worker_threads(1).enable_all().build()?;
    uthread::run(|| {
        let connecting = tokio.spawn(async move { connect(&parameters, NoTls).await });
        let (client, connection) = block_on(connecting)??;
        let connection = tokio.spawn(connection);
        block_on(client.batch_execute("CREATE TEMPORARY TABLE numbers (number BIGINT)"))?;
        // All of them share the connection, which sends one query after the other without waiting
        // for answers.
        scope(|scope| {
            let clients = (0..CLIENTS).map(|number| {
                scope.spawn({
                    let client = &client;
                    move || insert(client, number)
                })
            });
            let clients: Vec<_> = clients.collect();
            let mut ends = clients.into_iter().map(|client| client.join());
            ends.try_for_each(|end| end.ok().context("a fiber panicked")?)
        })?;
        let query = "SELECT count(*), sum(number)::BIGINT FROM numbers";
        let row = block_on(client.query_one(query, &[]))?;
        let (count, sum): (i64, i64) = (row.get(0), row.get(1));
        println!("{CLIENTS} fibers, {count} rows, sum {sum}");
        ensure!(sum == (0..CLIENTS * ROWS).sum());
        drop(client);
        Ok(block_on(connection)??)
    })
}
