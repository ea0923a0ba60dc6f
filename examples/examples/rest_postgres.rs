//! A REST service: `uthread-http`, `uthread-pool`, and the crates `postgres` and `r2d2_postgres` as they are,
//! whose waits suspend fibers by `uthread-interpose`. The request of a query that takes too long is answered
//! at its deadline, and the query goes on beside. The argument is the folder with the socket of a server.

use std::env;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use postgres::NoTls;
use r2d2_postgres::PostgresConnectionManager;
use uthread::net::TcpListener;
use uthread_http::{Failure, Json, Request, RequestExt, Router, Server};
use uthread_interpose as _;
use uthread_pool::{Pool, R2d2};

type Database = R2d2<PostgresConnectionManager<NoTls>>;

fn router(pool: &'static Pool<Database>) -> Router {
    let name = |request: Request| -> Result<_, Failure> {
        let number: u32 = request.param("number").unwrap_or_default().parse()?;
        let query = "SELECT typname::text FROM pg_type WHERE oid = $1";
        let row = pool.get()?.query_one(query, &[&number])?;
        Ok(Json(row.get::<_, String>(0)))
    };
    let wait = |_: Request| -> Result<_, Failure> {
        pool.get()?.batch_execute("SELECT pg_sleep(3)")?;
        Ok("late")
    };
    Router::new()
        .get("/types/{number}", name)
        .get("/slow", wait)
}

#[uthread::main]
fn main() -> Result<()> {
    let folder = env::args().nth(1).context("the folder of the socket")?;
    let parameters = format!("host={folder} user=postgres").parse()?;
    let database = R2d2(PostgresConnectionManager::new(parameters, NoTls));
    let pool: &_ = Box::leak(Box::new(Pool::builder(database).max(8).build()));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (url, end) = (
        format!("http://{}", listener.local_addr()?),
        listener.try_clone()?,
    );
    let service = Server::new(router(pool)).timeout(Duration::from_secs(1));
    let serving = uthread::spawn(move || service.serve(&listener));
    let ask = |path: &str| ureq::get(format!("{url}{path}")).call();
    uthread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                let mut answer = ask("/types/23").unwrap();
                assert_eq!(answer.body_mut().read_to_string().unwrap(), "\"int4\"");
            });
        }
    });
    let late = ask("/slow").err().context("it has waited")?;
    println!("50 clients, and a query: {late}");
    end.shutdown()?;
    while pool.status().idle < pool.status().open {
        uthread::sleep(Duration::from_millis(10));
    }
    ensure!(serving.join().is_ok() && pool.status().open <= 8);
    Ok(())
}
