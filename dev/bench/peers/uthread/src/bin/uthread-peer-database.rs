//! The web service in front of a database: `service PORT WORKERS FOLDER`, as `dev/bench/peers/README.md`
//! describes. A program of its own, as `uthread-interpose` replaces functions of the C library.

use std::env;
use std::error::Error;
use std::net::Ipv4Addr;

use postgres::{Client, NoTls, Statement};
use uthread::net::TcpListener;
use uthread::runtime::{Driver, Runtime};
use uthread_http::{Failure, Request, RequestExt, Router, Server};
use uthread_interpose as _;
use uthread_pool::{Manage, Pool};

#[path = "../../../database.rs"]
mod database;

use database::{CONNECTIONS, SELECT, parameters};

/// The folder with the socket of the database.
struct Database(String);

impl Manage for Database {
    type Connection = (Client, Statement);
    type Error = postgres::Error;

    fn connect(&self) -> Result<Self::Connection, postgres::Error> {
        let mut client = Client::connect(&parameters(&self.0), NoTls)?;
        let select = client.prepare(SELECT)?;
        Ok((client, select))
    }

    fn has_broken(&self, (client, _): &mut Self::Connection) -> bool {
        client.is_closed()
    }
}

fn row(rows: &Pool<Database>, request: &Request) -> Result<String, Failure> {
    let id: i32 = request.param("id").unwrap_or_default().parse()?;
    let (client, select) = &mut *rows.get()?;
    Ok(client.query_one(select, &[&id])?.get(0))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [_, port, workers, folder] = &arguments[..] else {
        return Err("expected: service PORT WORKERS FOLDER".into());
    };
    let runtime = Runtime::builder()
        .driver(Driver::Uring)
        .workers(workers.parse()?)
        .build()?;
    let rows: &_ = Box::leak(Box::new(
        Pool::builder(Database(folder.clone()))
            .max(CONNECTIONS)
            .build(),
    ));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.parse()?))?;
    println!("{}", listener.local_addr()?);
    let router = Router::new().get("/row/{id}", |request: Request| row(rows, &request));
    runtime.run(|| Server::new(router).serve(&listener))?;
    Ok(())
}
