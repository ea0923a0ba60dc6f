//! A service of notes, which the chapter `first_service` of the guide writes step by step: JSON over HTTP,
//! PostgreSQL, a deadline for each request, a log, metrics, and a graceful end. `DATABASE` has the parameters
//! of the connection, and `LISTEN` the address.

use std::env;
use std::error::Error;
use std::time::Duration;

use postgres::{Config, NoTls};
use r2d2_postgres::PostgresConnectionManager;
use uthread::net::TcpListener;
use uthread::signal::{Signal, Signals};
use uthread_http::{Failure, Json, Request, RequestExt, Router, Server, StatusCode};
use uthread_interpose as _;
use uthread_openmetrics::prometheus_client::encoding::text::encode;
use uthread_openmetrics::prometheus_client::metrics::family::Family;
use uthread_openmetrics::prometheus_client::metrics::gauge::Gauge;
use uthread_openmetrics::prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use uthread_openmetrics::prometheus_client::registry::Registry;
use uthread_pool::{Pool, R2d2};

type Notes = Pool<R2d2<PostgresConnectionManager<NoTls>>>;

fn open() -> Result<Notes, Box<dyn Error + Send + Sync>> {
    let usage = "set DATABASE, such as to: host=127.0.0.1 user=notes password=.. dbname=notes";
    let mut config: Config = env::var("DATABASE").map_err(|_| usage)?.parse()?;
    config.connect_timeout(Duration::from_secs(1));
    config.options("-c statement_timeout=2s");
    let manager = R2d2(PostgresConnectionManager::new(config, NoTls));
    Ok(Pool::builder(manager).max(16).build())
}

fn add(notes: &Notes, request: Request) -> Result<(StatusCode, Json<i32>), Failure> {
    let text: String = request.json()?;
    let insert = "INSERT INTO note (text) VALUES ($1) RETURNING id";
    let row = notes.get()?.query_one(insert, &[&text])?;
    Ok((StatusCode::CREATED, Json(row.get(0))))
}

fn show(notes: &Notes, request: &Request) -> Result<Json<String>, Failure> {
    let missing = || Failure::new(StatusCode::NOT_FOUND, "no such note");
    let id = request.param("id").and_then(|id| id.parse::<i32>().ok());
    let select = "SELECT text FROM note WHERE id = $1";
    let id = id.ok_or_else(missing)?;
    let row = notes.get()?.query_opt(select, &[&id])?;
    Ok(Json(row.ok_or_else(missing)?.get(0)))
}

#[uthread::main]
fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let notes: &_ = Box::leak(Box::new(open()?));
    let seconds: Family<[(&str, u16); 1], Histogram> =
        Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 2.0, 12)));
    let waiting = Gauge::<i64>::default();
    let mut registry = Registry::default();
    registry.register("http_request_seconds", "Times of requests", seconds.clone());
    registry.register("pool_waiting", "Waiting fibers", waiting.clone());
    registry.register_collector(Box::new(uthread_openmetrics::Collector));
    let metrics = move |_: Request| -> Result<String, Failure> {
        waiting.set(notes.status().waiting as i64);
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    };
    let router = Router::new()
        .post("/notes", move |request: Request| add(notes, request))
        .get("/notes/{id}", move |request: Request| show(notes, &request))
        .get("/metrics", metrics)
        .get("/health", |_: Request| Json("ready"));
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    let end = listener.try_clone()?;
    let mut signals = Signals::new([Signal::TERM, Signal::INT])?;
    uthread::spawn(move || {
        signals.recv()?;
        end.shutdown()
    });
    Server::new(router)
        .timeout(Duration::from_secs(1))
        .overdue_max(100)
        .body_max(64 << 10)
        .connections_max(10_000)
        .observe(move |answered| {
            let (status, time) = (answered.status.as_u16(), answered.time);
            let (peer, method, uri) = (answered.peer, &answered.method, &answered.uri);
            println!("{peer} {method} {uri} {status} {time:?}");
            if let Some(failure) = &answered.failure {
                eprintln!("{failure:?}");
            }
            let seconds = seconds.get_or_create(&[("status", status)]);
            seconds.observe(time.as_secs_f64());
        })
        .grace(Duration::from_secs(10))
        .serve(&listener)?;
    Ok(())
}
