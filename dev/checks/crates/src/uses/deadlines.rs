//! Handlers of `uthread-http` that wait in another crate, with a deadline: the client gets 504 in
//! time, calls that go on are counted, and what a handler has used works afterwards.

use std::net;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use uthread::net::{SocketAddr, TcpListener, TcpStream};
use uthread_http::{Failure, Handler, Request, Server};
use uthread_pool::{Manage, Pool};

use super::{Use, WAIT, blocking, retry, web};
use crate::mode::is_interposed;
use crate::services::Service;

pub(super) const USES: &[Use] = &[
    Use::new("deadline-mysql", "queries of a pool, in handlers", mysql)
        .by_itself()
        .with(Service::MariaDb),
    Use::new("deadline-ureq", "requests of an agent, in handlers", ureq).by_itself(),
    Use::new("deadline-std-net", "sockets of `std`, in handlers", std_net).by_itself(),
];

/// How many seconds a late call takes, as the path of a request.
const LATE: &str = "1";

/// A server in a fiber, until this is dropped.
struct Serving(TcpListener);

impl Serving {
    fn start(server: Server<impl Handler>) -> Serving {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let end = listener.try_clone().expect("a descriptor");
        uthread::spawn(move || server.serve(&listener));
        Serving(end)
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("an address")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.shutdown().expect("it listens");
    }
}

/// Makes requests that wait as long in `call` as their path says, and expects that as the answer.
fn hold(call: impl Fn(&str) -> Result<String, Failure> + Send + Sync + 'static) {
    let handler = move |request: Request| call(request.uri().path().trim_start_matches('/'));
    let server = Serving::start(Server::new(handler).timeout(WAIT).overdue_max(1));
    let ask = |path: &str| {
        let response = web::fetch(
            TcpStream::connect(server.address()).expect("a server"),
            path,
        );
        let (head, body) = response.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status");
        (status.to_owned(), body.to_owned())
    };
    let start = Instant::now();
    assert_eq!(ask(LATE).0, "504");
    let (late, goes_on) = (Duration::from_secs(1), !is_interposed());
    if goes_on {
        assert_eq!(ask(LATE).0, "503");
    }
    assert!(start.elapsed() < late, "{:?}", start.elapsed());
    let first = retry(|| match ask("0") {
        (status, _) if ["503", "504"].contains(&&*status) => Err(status),
        answer => Ok(answer),
    });
    let time = start.elapsed();
    // Not the answer to the late call, which nobody has read.
    for answer in [first, ask("0"), ask("0")] {
        assert_eq!(answer, ("200".to_owned(), "0".to_owned()));
    }
    assert_eq!(time >= late, goes_on, "a late call has ended in {time:?}");
}

struct Database;

impl Manage for Database {
    type Connection = Conn;
    type Error = mysql::Error;

    fn connect(&self) -> Result<Conn, mysql::Error> {
        Conn::new(blocking::parameters())
    }
}

fn mysql() {
    drop(retry(|| Database.connect()));
    let pool = Pool::builder(Database).max(1).build();
    hold(move |time| {
        let sleep = format!("SELECT SLEEP({time}) + {time}");
        let time: Option<String> = pool.get()?.query_first(sleep)?;
        Ok(time.expect("a row"))
    });
}

/// Starts a server whose answers take as long as their paths say.
fn slow() -> Serving {
    Serving::start(Server::new(|request: Request| {
        let time = request.uri().path().trim_start_matches('/').to_owned();
        uthread::sleep(Duration::from_secs(time.parse().expect("seconds")));
        time
    }))
}

fn ureq() {
    let slow = slow();
    let (address, agent) = (slow.address(), ureq::Agent::new_with_defaults());
    hold(move |time| {
        let mut response = agent.get(format!("http://{address}/{time}")).call()?;
        Ok(response.body_mut().read_to_string()?)
    });
}

fn std_net() {
    let slow = slow();
    let address = slow.address();
    hold(move |time| {
        let response = web::fetch(net::TcpStream::connect(address)?, time);
        Ok(response
            .split_once("\r\n\r\n")
            .expect("a head")
            .1
            .to_owned())
    });
}
