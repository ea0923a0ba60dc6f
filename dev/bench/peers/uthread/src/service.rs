//! The web service: a fiber per connection, by `uthread-http`.

use std::io;
use std::net::Ipv4Addr;

use anyhow::Result;
use uthread::Runtime;
use uthread::net::TcpListener;
use uthread_http::{Json, Request, Router, Server};

use crate::page::{TEXT, page};

#[derive(serde::Serialize)]
struct Message {
    message: &'static str,
}

/// Prints the address, and serves until standard input ends.
pub(super) fn serve(port: u16, runtime: Runtime) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    println!("{}", listener.local_addr()?);
    let router = Router::new()
        .get("/text", |_: Request| TEXT)
        .get("/json", |_: Request| Json(Message { message: TEXT }))
        .get("/page", |_: Request| page());
    runtime.spawn(move || Server::new(router).serve(&listener));
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
