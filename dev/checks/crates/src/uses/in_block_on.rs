//! Async crates, in `block_on`: with a Tokio runtime beside, as a task or with its context entered
//! for each poll, and without one.

use std::sync::LazyLock;
use std::time::Duration;

use futures_util::future::join;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, client, server};
use hyper_util::rt::TokioIo;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio_postgres::NoTls;
use tokio_util::compat::{FuturesAsyncReadCompatExt, TokioAsyncReadCompatExt};
use tokio_util::context::RuntimeExt;
use tonic::transport::Endpoint;
use tonic::transport::server::{Server, TcpIncoming};
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use uthread::net::{SocketAddr, TcpListener, TcpStream};
use uthread::{block_on, scope};
use uthread_futures::{Async, Blocking};

use super::{Use, WAIT, both, retry, web};
use crate::services::Service;

pub(super) const USES: &[Use] = &[
    Use::new(
        "reqwest-task",
        "a client as a task of Tokio, of a server in a fiber",
        reqwest_task,
    )
    .in_block_on(),
    Use::new(
        "reqwest-context",
        "a client in Tokio's context, with a time limit of Tokio",
        reqwest_context,
    )
    .in_block_on(),
    Use::new(
        "tokio-postgres",
        "queries, several at once, with the connection as a task of Tokio",
        postgres,
    )
    .in_block_on()
    .with(Service::Postgres),
    Use::new(
        "tokio-stream",
        "a stream of Tokio as a blocking one, by `uthread_futures::Blocking`",
        tokio_stream,
    )
    .in_block_on(),
    Use::new(
        "hyper",
        "a client and a server on streams of `uthread_futures::Async`, without a Tokio runtime",
        hyper,
    )
    .in_block_on(),
    Use::new(
        "tonic",
        "a server and a stream of responses, in Tokio's context",
        tonic,
    )
    .in_block_on(),
];

/// The runtime of the process, with a thread of its own.
static TOKIO: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build();
    runtime.expect("a Tokio runtime")
});

/// A time limit that no future reaches.
const LIMIT: Duration = Duration::from_secs(30);

/// Number of rows that are written.
const ROWS: i64 = 100;

/// Length of a request, in bytes: many reads and writes.
const BODY: usize = 256 << 10;

/// Number of requests on each connection.
const REQUESTS: usize = 2;

/// Number of connections at once.
const CONNECTIONS: usize = 4;

async fn get(url: String) -> reqwest::Result<String> {
    reqwest::get(url).await?.text().await
}

fn reqwest_task() {
    web::serve(|url| {
        let task = block_on(TOKIO.spawn(get(url.to_owned())));
        task.expect("no panic").expect("a page")
    });
}

fn reqwest_context() {
    web::serve(|url| {
        // The time limit needs the context when it is created.
        let page = async { tokio::time::timeout(LIMIT, get(url.to_owned())).await };
        let page = block_on(TOKIO.wrap(page));
        page.expect("in time").expect("a page")
    });
}

fn postgres() {
    let directory = Service::Postgres.directory().display();
    let parameters = format!("host={directory} user=postgres");
    let (client, connection) =
        retry(|| block_on(TOKIO.wrap(tokio_postgres::connect(&parameters, NoTls))));
    let connection = TOKIO.spawn(connection);
    let rows = async {
        let table = "CREATE TEMPORARY TABLE numbers (number BIGINT)";
        client.batch_execute(table).await?;
        for number in 1..=ROWS {
            let insertion = "INSERT INTO numbers VALUES ($1)";
            client.execute(insertion, &[&number]).await?;
        }
        let wait = client.batch_execute("SELECT pg_sleep(0.1)");
        let sum = client.query_one("SELECT sum(number)::BIGINT FROM numbers", &[]);
        let (wait, sum) = join(wait, sum).await;
        wait.and(sum)
    };
    let row = block_on(rows).expect("a row");
    assert_eq!(row.get::<_, i64>(0), ROWS * (ROWS + 1) / 2);
    drop(client);
    let end = block_on(connection).expect("no panic");
    end.expect("the connection ends with its client");
}

fn tokio_stream() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = listener.local_addr().expect("an address");
    both(
        || web::answer(listener.accept().expect("a client").0),
        || {
            let stream = block_on(TOKIO.wrap(tokio::net::TcpStream::connect(server)));
            let stream = stream.expect("a server").compat();
            let response = web::fetch(Blocking::new(stream), "path");
            assert!(response.ends_with(web::PAGE), "{response}");
        },
    );
}

fn hyper() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = listener.local_addr().expect("an address");
    scope(|scope| {
        let clients = [(); CONNECTIONS].map(|()| scope.spawn(move || ask(server)));
        for stream in listener.incoming().take(CONNECTIONS) {
            let stream = TokioIo::new(Async::new(stream.expect("a client")).compat());
            scope.spawn(|| {
                let service = service_fn(echo);
                let connection =
                    server::conn::http1::Builder::new().serve_connection(stream, service);
                block_on(connection).expect("the client ends the connection");
            });
        }
        for client in clients {
            client.join().expect("no panic");
        }
    });
}

/// Returns the body of a request after a while.
async fn echo(request: Request<Incoming>) -> hyper::Result<Response<Full<Bytes>>> {
    let body = request.into_body().collect().await?.to_bytes();
    let (sender, passed) = oneshot::channel();
    uthread::spawn(move || {
        uthread::sleep(WAIT);
        sender.send(())
    });
    passed.await.expect("a fiber that sleeps");
    Ok(Response::new(Full::new(body)))
}

/// Sends bodies over one connection, and compares what comes back. The connection and the requests
/// are futures of one task.
fn ask(server: SocketAddr) {
    let stream = TcpStream::connect(server).expect("a server");
    let stream = TokioIo::new(Async::new(stream).compat());
    block_on(async {
        let (mut sender, connection) = client::conn::http1::handshake(stream).await?;
        let requests = async move {
            for number in 0..REQUESTS {
                let body = Bytes::from(vec![number as u8; BODY]);
                let request = Request::post("/").body(Full::new(body.clone()));
                let request = request.expect("a request");
                let response = sender.send_request(request).await?;
                let echo = response.into_body().collect().await?.to_bytes();
                assert!(echo == body);
            }
            Ok(())
        };
        let (connection, requests): (_, hyper::Result<()>) = join(connection, requests).await;
        connection.and(requests)
    })
    .expect("responses");
}

fn tonic() {
    let (reporter, service) = tonic_health::server::health_reporter();
    let incoming = {
        // No call that waits: the context is left before other fibers run.
        let _context = TOKIO.enter();
        TcpIncoming::bind("127.0.0.1:0".parse().expect("an address")).expect("a port")
    };
    let server = incoming.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel();
    both(
        || {
            let stopped = async { stopped.await.expect("the client stops the server") };
            let serve = Server::builder().serve_with_incoming_shutdown(service, incoming, stopped);
            block_on(TOKIO.wrap(serve)).expect("a clean end");
        },
        || {
            let endpoint = Endpoint::from_shared(format!("http://{server}")).expect("a URL");
            let channel = block_on(TOKIO.wrap(endpoint.connect())).expect("a server");
            let mut client = HealthClient::new(channel);
            let statuses = block_on(client.watch(HealthCheckRequest::default()));
            let mut statuses = statuses.expect("a stream").into_inner();
            let mut next = || {
                let message = block_on(statuses.message()).expect("no error");
                message.expect("a status").status
            };
            assert_eq!(next(), 1, "serving");
            uthread::spawn(move || {
                uthread::sleep(WAIT);
                block_on(reporter.set_service_status("", ServingStatus::NotServing));
            });
            assert_eq!(next(), 2, "not serving");
            drop((statuses, client));
            stop.send(()).expect("a server");
        },
    );
}
