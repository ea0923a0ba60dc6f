//! A published database client that blocks, [`redis`], with a pool of its connections, in a network with faults.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, thread};

use redis::{Client, Connection, ConnectionLike as _, Parser, RedisError, RedisResult, Value};
use uthread_pool::{Manage, Pool};
use uthread_simulation::World;

use crate::times::{MS, SECOND};

/// How long the clients pay: longer than there are faults.
const TIME: Duration = Duration::from_secs(14);

/// The members of a set, and a log of them, which is synced before an answer.
struct Store {
    members: BTreeSet<String>,
    log: File,
}

/// A server of a few commands of Redis.
fn serve(path: &Path) -> io::Result<()> {
    let known = fs::read_to_string(path).unwrap_or_default();
    // The last line may be torn.
    let whole = known.rfind('\n').map_or(0, |end| end + 1);
    let log = OpenOptions::new().create(true).append(true).open(path)?;
    log.set_len(whole as u64)?;
    // Its name has to last, too.
    File::open(path.parent().unwrap_or(path))?.sync_all()?;
    let members = known[..whole].lines().map(str::to_owned).collect();
    let store = Arc::new(Mutex::new(Store { members, log }));
    let listener = TcpListener::bind("0.0.0.0:6379")?;
    for stream in listener.incoming() {
        let (stream, store) = (stream?, Arc::clone(&store));
        thread::spawn(move || answer(&stream, &store));
    }
    Ok(())
}

fn answer(mut stream: &TcpStream, store: &Mutex<Store>) -> RedisResult<()> {
    let mut requests = Parser::new();
    loop {
        let request: Vec<String> = redis::from_redis_value(requests.parse_value(stream)?)?;
        let text = match Vec::from_iter(request.iter().map(String::as_str))[..] {
            ["PING"] => "+PONG\r\n".to_owned(),
            ["CLIENT", ..] => "+OK\r\n".to_owned(),
            ["ECHO", text] => format!("${}\r\n{text}\r\n", text.len()),
            ["SADD", _, member] => {
                let mut store = store.lock().unwrap();
                let is_new = store.members.insert(member.to_owned());
                if is_new {
                    store.log.write_all(format!("{member}\n").as_bytes())?;
                    store.log.sync_data()?;
                }
                format!(":{}\r\n", u8::from(is_new))
            }
            _ => "-ERR unknown command\r\n".to_owned(),
        };
        stream.write_all(text.as_bytes())?;
    }
}

/// Makes connections whose calls take a second at most.
struct Connections(Client);

impl Manage for Connections {
    type Connection = Connection;
    type Error = RedisError;

    fn connect(&self) -> RedisResult<Connection> {
        let connection = self.0.get_connection_with_timeout(SECOND)?;
        connection.set_read_timeout(Some(SECOND))?;
        Ok(connection)
    }

    fn is_usable(&self, connection: &mut Connection) -> bool {
        redis::cmd("PING").query::<String>(connection).is_ok()
    }

    fn has_broken(&self, connection: &mut Connection) -> bool {
        !connection.is_open()
    }
}

/// What the clients have found.
#[derive(Default)]
struct Found {
    /// The payments that the database has confirmed.
    paid: BTreeSet<String>,
    /// Number of payments that it knew when a client tried again.
    repeated: usize,
    /// After which time calls have failed that have timed out.
    timed_out: Vec<Duration>,
}

/// Pays on three threads with two connections, each payment until the database confirms it.
fn pay(name: &str, found: &Mutex<Found>) -> RedisResult<()> {
    let client = Client::open("redis://database/")?;
    let pool = Pool::builder(Connections(client)).max(2).build();
    let begin = Instant::now();
    let pay = |thread| {
        let in_time = |_: &i32| begin.elapsed() < TIME;
        for number in (0..).take_while(in_time) {
            let payment = format!("{name}-{thread}-{number}");
            while try_to_pay(&pool, &payment, found).is_err() {
                thread::sleep(10 * MS);
            }
            thread::sleep(100 * MS);
        }
    };
    thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || pay(thread));
        }
    });
    Ok(())
}

fn try_to_pay(pool: &Pool<Connections>, payment: &str, found: &Mutex<Found>) -> RedisResult<()> {
    let mut connection = pool.get().map_err(io::Error::other)?;
    let mut ask = |command: &str, arguments: &[&str]| {
        let begin = Instant::now();
        let answer: RedisResult<Value> = redis::cmd(command).arg(arguments).query(&mut connection);
        if answer.as_ref().is_err_and(RedisError::is_timeout) {
            found.lock().unwrap().timed_out.push(begin.elapsed());
        }
        answer
    };
    let is_new = ask("SADD", &["payments", payment])?;
    let echo: String = redis::from_redis_value(ask("ECHO", &[payment])?)?;
    assert_eq!(echo, payment, "the answer to another request");
    let mut found = found.lock().unwrap();
    found.paid.insert(payment.to_owned());
    found.repeated += usize::from(is_new == Value::Int(0));
    Ok(())
}

#[uthread::test(virtual_time, seeds = 5)]
fn redis_confirms_no_payment_that_is_lost_and_makes_none_twice() {
    let world = World::new().unwrap();
    world.links().set_latency(MS..20 * MS);
    world.links().set_loss(0.02);
    let log = world.directory("database").unwrap().join("log");
    let path = log.clone();
    let database = world.host("database", move || serve(&path));
    let found = Arc::<Mutex<Found>>::default();
    let clients = ["a", "b"].map(|name| {
        let found = Arc::clone(&found);
        world.host(name, move || pay(name, &found).map_err(io::Error::other))
    });
    uthread::sleep(SECOND);
    world.link("database", "a").cut();
    uthread::sleep(3 * SECOND);
    world.links().heal();
    uthread::sleep(SECOND);
    world.between(&["a"], &["database"]).reset();
    uthread::sleep(SECOND);
    world.between(&["b"], &["database"]).cut();
    uthread::sleep(3 * SECOND);
    world.links().heal();
    uthread::sleep(SECOND);
    database.crash();
    uthread::sleep(2 * SECOND);
    database.restart();
    for client in clients {
        client.wait().unwrap();
    }
    let found: &Mutex<Found> = &found;
    let found = found.lock().unwrap();
    let log = fs::read_to_string(log).unwrap();
    let made = BTreeSet::from_iter(log.lines().map(str::to_owned));
    assert_eq!(log.lines().count(), made.len(), "a payment was made twice");
    assert_eq!(made, found.paid);
    let in_time = |time| (SECOND..SECOND + MS).contains(time);
    assert!(!found.timed_out.is_empty());
    assert!(found.timed_out.iter().all(in_time), "{:?}", found.timed_out);
    assert_ne!(found.repeated, 0, "no answer was lost");
}
