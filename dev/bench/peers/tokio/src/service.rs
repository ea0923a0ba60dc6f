//! The web service, by axum.

use std::io;
use std::net::Ipv4Addr;

use axum::serve::ListenerExt;
use axum::{Json, Router, routing::get};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use crate::page::{TEXT, page};

#[derive(serde::Serialize)]
struct Message {
    message: &'static str,
}

pub(crate) fn serve(port: u16, workers: usize) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .expect("a runtime");
    let bound = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
    let listener = bound.expect("a free port");
    println!("{}", listener.local_addr().expect("a bound address"));
    let router = Router::new()
        .route("/text", get(|| async { TEXT }))
        .route("/json", get(|| async { Json(Message { message: TEXT }) }))
        .route("/page", get(|| async { page() }));
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("a connected socket"));
    runtime.spawn(async { axum::serve(listener, router).await });
    io::copy(&mut io::stdin(), &mut io::sink()).expect("a pipe");
    runtime.shutdown_background();
}
