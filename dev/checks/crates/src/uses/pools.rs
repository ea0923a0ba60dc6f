//! Pools of threads and of connections that wait for fibers.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use r2d2::{ManageConnection, Pool};
use rayon::prelude::*;
use rusqlite::{Connection, TransactionBehavior};
use threadpool::ThreadPool;

use super::{Use, WAIT, both, overlap};

pub(super) const USES: &[Use] = &[
    Use::new("rayon", "a scope whose job waits for a fiber", rayon),
    Use::new(
        "threadpool",
        "`join` of jobs that wait for a fiber",
        threadpool,
    ),
    Use::new(
        "r2d2",
        "`get` from an empty pool, until a fiber returns its connection",
        r2d2,
    ),
    Use::new(
        "rusqlite-busy",
        "SQLite's busy handler, until a fiber commits",
        rusqlite_busy,
    ),
];

fn rayon() {
    let (sender, receiver) = crossbeam_channel::unbounded();
    both(
        || {
            uthread::sleep(WAIT);
            for value in 1..=4 {
                sender.send(value).expect("a receiver");
            }
        },
        || {
            let mut first = 0;
            rayon::scope(|scope| {
                scope.spawn(|_| first = receiver.recv().expect("a sender"));
            });
            let rest = (0..3).into_par_iter();
            let rest: i32 = rest.map(|_| receiver.recv().expect("a sender")).sum();
            assert_eq!(first + rest, 10);
        },
    );
}

fn threadpool() {
    let pool = ThreadPool::new(2);
    let (sender, receiver) = crossbeam_channel::bounded(0);
    both(
        || {
            for value in 1..=4 {
                uthread::sleep(WAIT / 4);
                sender.send(value).expect("a receiver");
            }
        },
        || {
            let (results, sum) = mpsc::channel();
            for _ in 0..4 {
                let (receiver, results) = (receiver.clone(), results.clone());
                pool.execute(move || {
                    let value: i32 = receiver.recv().expect("a sender");
                    results.send(value).expect("a receiver");
                });
            }
            drop(results);
            pool.join();
            assert_eq!((pool.panic_count(), sum.iter().sum()), (0, 10));
        },
    );
}

/// Makes connections that are numbers.
struct Numbers(AtomicU32);

impl ManageConnection for Numbers {
    type Connection = u32;
    type Error = io::Error;

    fn connect(&self) -> io::Result<u32> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn is_valid(&self, _: &mut u32) -> io::Result<()> {
        Ok(())
    }

    fn has_broken(&self, _: &mut u32) -> bool {
        false
    }
}

fn r2d2() {
    let pool = Pool::builder()
        .max_size(1)
        .build(Numbers(AtomicU32::new(7)));
    let pool = pool.expect("a pool of one connection");
    overlap(
        |begun| {
            let connection = pool.get().expect("a free connection");
            begun();
            uthread::sleep(WAIT);
            assert_eq!(*connection, 7);
        },
        || assert_eq!(*pool.get().expect("the returned connection"), 7),
    );
}

fn rusqlite_busy() {
    let folder = tempfile::tempdir().expect("a directory");
    let open = || {
        let connection = Connection::open(folder.path().join("data")).expect("a database");
        connection
            .busy_timeout(Duration::from_secs(5))
            .expect("a time");
        connection
    };
    open()
        .execute_batch("CREATE TABLE numbers (number INTEGER)")
        .expect("a table");
    let insert = |begun: &dyn Fn(), wait| {
        let mut connection = open();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = transaction.expect("a transaction");
        transaction
            .execute("INSERT INTO numbers VALUES (1)", [])
            .expect("a row");
        begun();
        uthread::sleep(wait);
        transaction.commit().expect("a commit");
    };
    overlap(
        |begun| insert(begun, WAIT),
        || insert(&|| (), Duration::ZERO),
    );
    let count = open().query_row("SELECT count(*) FROM numbers", [], |row| row.get(0));
    assert_eq!(count, Ok(2));
}
