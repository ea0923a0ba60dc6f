//! Libraries that wait for the disk or for another process, or compute, while other fibers want the
//! worker.

use mysql::OptsBuilder;
use mysql::prelude::Queryable;
use postgres::NoTls;
use rayon::prelude::*;
use rusqlite::Connection;

use super::{Use, retry};
use crate::services::Service;

pub(super) const USES: &[Use] = &[
    Use::new(
        "rusqlite-files",
        "transactions that reach the disk",
        rusqlite,
    )
    .by_itself(),
    Use::new("rayon-compute", "a sum over many numbers", rayon).by_itself(),
    Use::new("postgres", "queries, with a Tokio inside", postgres)
        .by_itself()
        .with(Service::Postgres),
    Use::new("mysql", "queries", mysql)
        .by_itself()
        .with(Service::MariaDb),
    Use::new("redis", "commands", redis)
        .by_itself()
        .with(Service::Redis),
];

/// Rows that are written, each in a transaction of its own.
const ROWS: i64 = 100;

fn rusqlite() {
    let folder = tempfile::tempdir().expect("a directory");
    let connection = Connection::open(folder.path().join("data")).expect("a database");
    connection
        .execute_batch("PRAGMA synchronous = EXTRA; CREATE TABLE numbers (number INTEGER)")
        .expect("a table");
    for number in 1..=ROWS {
        connection
            .execute("INSERT INTO numbers VALUES (?1)", [number])
            .expect("a row");
    }
    let sum = connection.query_row("SELECT sum(number) FROM numbers", [], |row| row.get(0));
    assert_eq!(sum, Ok(ROWS * (ROWS + 1) / 2));
}

fn rayon() {
    /// A multiple of 7, so that the squares go through whole periods modulo 7.
    const NUMBERS: u64 = 7 * 20_000_000;
    let remainders = (0..NUMBERS)
        .into_par_iter()
        .map(|number| number * number % 7);
    assert_eq!(remainders.sum::<u64>(), 2 * NUMBERS);
}

fn postgres() {
    let directory = Service::Postgres.directory().display();
    let parameters = format!("host={directory} user=postgres");
    let mut client = retry(|| postgres::Client::connect(&parameters, NoTls));
    client
        .batch_execute("CREATE TEMPORARY TABLE numbers (number BIGINT)")
        .expect("a table");
    for number in 1..=ROWS {
        let count = client.execute("INSERT INTO numbers VALUES ($1)", &[&number]);
        assert_eq!(count.expect("a row"), 1);
    }
    client
        .batch_execute("SELECT pg_sleep(0.1)")
        .expect("a wait");
    let row = client
        .query_one("SELECT sum(number)::BIGINT FROM numbers", &[])
        .expect("a row");
    assert_eq!(row.get::<_, i64>(0), ROWS * (ROWS + 1) / 2);
}

pub(super) fn parameters() -> OptsBuilder {
    let socket = Service::MariaDb.socket(Service::MariaDb.directory());
    OptsBuilder::new()
        .socket(Some(socket.display().to_string()))
        .user(Some("root"))
        .db_name(Some("mysql"))
}

fn mysql() {
    let mut connection = retry(|| mysql::Conn::new(parameters()));
    connection
        .query_drop("CREATE TEMPORARY TABLE numbers (number BIGINT)")
        .expect("a table");
    for number in 1..=ROWS {
        connection
            .exec_drop("INSERT INTO numbers VALUES (?)", (number,))
            .expect("a row");
    }
    connection.query_drop("SELECT SLEEP(0.1)").expect("a wait");
    let sum = connection.query_first("SELECT SUM(number) FROM numbers");
    assert_eq!(sum.expect("a row"), Some(ROWS * (ROWS + 1) / 2));
}

fn redis() {
    let socket = Service::Redis.socket(Service::Redis.directory());
    let client = redis::Client::open(format!("unix://{}", socket.display())).expect("an address");
    let mut connection = retry(|| client.get_connection());
    // The list of this copy.
    let number: i64 = redis::cmd("INCR")
        .arg("copies")
        .query(&mut connection)
        .expect("a number");
    let list = format!("list {number}");
    for number in 1..=ROWS {
        let mut push = redis::cmd("RPUSH");
        let length = push.arg(&list).arg(number).query::<i64>(&mut connection);
        assert_eq!(length.expect("a length"), number);
    }
    let mut wait = redis::cmd("BLPOP");
    let none = wait
        .arg("empty")
        .arg(0.1)
        .query::<Option<(String, i64)>>(&mut connection);
    assert_eq!(none.expect("a wait"), None);
    let mut range = redis::cmd("LRANGE");
    let numbers = range
        .arg(&list)
        .arg(0)
        .arg(-1)
        .query::<Vec<i64>>(&mut connection);
    assert_eq!(
        numbers.expect("numbers").iter().sum::<i64>(),
        ROWS * (ROWS + 1) / 2
    );
}
