//! The pool in fibers and threads: bounds, order, health, time, and unwinding.

use std::hint;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use uthread::runtime::{Driver, Runtime};
use uthread_pool::{Builder, GetError, Manage, Pool};

const SHORT: Duration = Duration::from_millis(20);

/// What a test changes and counts of its service.
#[derive(Default)]
struct Service {
    open: AtomicUsize,
    most: AtomicUsize,
    checks: AtomicUsize,
    refuses: AtomicBool,
    is_down: AtomicBool,
    breaks: AtomicBool,
}

/// A connection to the service.
struct Connection {
    service: Arc<Service>,
    number: u64,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.service.open.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Manager(Arc<Service>);

impl Manage for Manager {
    type Connection = Connection;
    type Error = &'static str;

    fn connect(&self) -> Result<Connection, &'static str> {
        uthread::yield_now();
        if self.0.refuses.load(Ordering::SeqCst) {
            return Err("refused");
        }
        let open = self.0.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(open, Ordering::SeqCst);
        Ok(Connection {
            service: Arc::clone(&self.0),
            number: 0,
        })
    }

    fn is_usable(&self, _: &mut Connection) -> bool {
        uthread::yield_now();
        self.0.checks.fetch_add(1, Ordering::SeqCst);
        !self.0.is_down.load(Ordering::SeqCst)
    }

    fn has_broken(&self, _: &mut Connection) -> bool {
        self.0.breaks.load(Ordering::SeqCst)
    }
}

/// Runs a test on this thread, and in fibers on each driver, with a pool that is built as `settings` says.
fn everywhere(
    settings: impl Fn(Builder<Manager>) -> Builder<Manager> + Sync,
    test: impl Fn(&Pool<Manager>, &Service) + Sync,
) {
    let run = || with_pool(&settings, &test);
    run();
    on_workers(1, run);
    on_workers(2, run);
}

fn with_pool(
    settings: impl Fn(Builder<Manager>) -> Builder<Manager>,
    test: impl Fn(&Pool<Manager>, &Service),
) {
    let service = Arc::new(Service::default());
    let pool = settings(Pool::builder(Manager(Arc::clone(&service)))).build();
    test(&pool, &service);
    drop(pool);
    let open = service.open.load(Ordering::SeqCst);
    assert_eq!(open, 0, "a connection is left");
}

/// Runs a test in fibers, on each driver.
fn on_workers(workers: usize, run: impl Fn() + Sync) {
    for driver in [Driver::Uring, Driver::Epoll, Driver::Threads] {
        match Runtime::builder().driver(driver).workers(workers).build() {
            Ok(runtime) => runtime.run(&run),
            Err(error) => eprintln!("not checked: {driver}: {error}"),
        }
    }
}

#[test]
fn no_more_are_open_than_there_may_be() {
    everywhere(
        |builder| builder.max(3),
        |pool, service| {
            uthread::scope(|scope| {
                for _ in 0..50 {
                    scope.spawn(|| {
                        let mut connection = pool.get().unwrap();
                        connection.number += 1;
                        uthread::yield_now();
                    });
                }
            });
            assert!(service.most.load(Ordering::SeqCst) <= 3);
            let status = pool.status();
            assert!(
                status.open <= 3 && status.idle == status.open && status.waiting == 0,
                "{status:?}"
            );
            let all = [
                pool.get().unwrap(),
                pool.get().unwrap(),
                pool.get().unwrap(),
            ];
            assert_eq!(
                all.iter().map(|connection| connection.number).sum::<u64>(),
                50
            );
        },
    );
}

#[test]
fn those_that_wait_are_served_in_their_order() {
    let test = |pool: &Pool<Manager>, _: &Service| {
        let order = Mutex::new(Vec::new());
        uthread::scope(|scope| {
            let first = pool.get().unwrap();
            for number in 0..20 {
                let order = &order;
                scope.spawn(move || {
                    let _connection = pool.get().unwrap();
                    order.lock().unwrap().push(number);
                    uthread::yield_now();
                });
                while pool.status().waiting <= number {
                    uthread::yield_now();
                }
            }
            drop(first);
        });
        assert_eq!(*order.lock().unwrap(), Vec::from_iter(0..20));
        assert_eq!(pool.status().waits, 20);
    };
    // Beside another worker, a call that is counted may not be in the queue yet.
    on_workers(1, || with_pool(|builder| builder.max(1), test));
}

#[test]
fn a_wait_ends_in_time() {
    everywhere(
        |builder| builder.max(1).wait(SHORT),
        |pool, _| {
            let held = pool.get().unwrap();
            assert!(matches!(pool.get(), Err(GetError::TimedOut)));
            drop(held);
            assert!(pool.get().is_ok());
        },
    );
}

#[test]
fn a_caller_that_is_cancelled_takes_nothing() {
    everywhere(
        |builder| builder.max(1),
        |pool, _| {
            let held = pool.get().unwrap();
            let theirs = pool.clone();
            let waiting = uthread::spawn(move || drop(theirs.get()));
            while pool.status().waiting == 0 {
                uthread::yield_now();
            }
            waiting.cancel();
            assert!(waiting.join().is_err());
            assert!(uthread::timeout(SHORT, || pool.get().is_ok()).is_err());
            assert_eq!(pool.status().waiting, 0);
            drop(held);
            assert!(pool.get().is_ok());
        },
    );
}

#[test]
fn a_connection_is_not_used_again_after_a_panic() {
    everywhere(
        |builder| builder.max(1),
        |pool, service| {
            let panic = catch_unwind(AssertUnwindSafe(|| {
                let _connection = pool.get().unwrap();
                panic!("as the test asks");
            }));
            assert!(panic.is_err());
            assert_eq!(service.open.load(Ordering::SeqCst), 0);
            assert!(pool.get().is_ok());
            assert_eq!(pool.status().opened, 2);
        },
    );
}

/// A call that fails with `TimedOut` does not unwind, and the next caller would read its answer.
#[test]
fn a_connection_is_not_used_again_after_a_deadline() {
    everywhere(
        |builder| builder.max(1),
        |pool, service| {
            let late = uthread::timeout(SHORT, || {
                let _connection = pool.get().unwrap();
                while !uthread::thread::is_cancelled() {
                    hint::spin_loop();
                }
            });
            assert!(late.is_ok());
            assert_eq!(service.open.load(Ordering::SeqCst), 0);
            assert!(pool.get().is_ok());
        },
    );
}

#[test]
fn connections_that_do_not_work_are_replaced() {
    everywhere(
        |builder| builder.max(2).check_after(Duration::ZERO),
        |pool, service| {
            drop([pool.get().unwrap(), pool.get().unwrap()]);
            assert_eq!(pool.status().idle, 2);
            service.is_down.store(true, Ordering::SeqCst);
            drop(pool.get().unwrap());
            assert_eq!((pool.status().opened, pool.status().open), (3, 1));
            service.breaks.store(true, Ordering::SeqCst);
            drop(pool.get().unwrap());
            assert_eq!(pool.status().open, 0);
            service.breaks.store(false, Ordering::SeqCst);
            pool.get().unwrap().discard();
            assert_eq!(pool.status().open, 0);
            service.refuses.store(true, Ordering::SeqCst);
            // More often than there are turns: an error keeps none.
            for _ in 0..3 {
                assert!(matches!(pool.get(), Err(GetError::Connect("refused"))));
            }
            service.refuses.store(false, Ordering::SeqCst);
            assert!(pool.get().is_ok());
        },
    );
}

#[test]
fn a_connection_in_use_is_not_checked() {
    everywhere(
        |builder| builder.check_after(Duration::from_secs(3600)),
        |pool, service| {
            (0..10).for_each(|_| drop(pool.get().unwrap()));
            assert_eq!(service.checks.load(Ordering::SeqCst), 0);
            assert_eq!(pool.status().opened, 1);
        },
    );
}

#[test]
fn old_and_idle_connections_are_closed() {
    everywhere(
        |builder| builder.idle_time(SHORT).idle_min(1),
        |pool, _| {
            drop([
                pool.get().unwrap(),
                pool.get().unwrap(),
                pool.get().unwrap(),
            ]);
            assert_eq!(pool.status().idle, 3);
            uthread::sleep(2 * SHORT);
            pool.tend().unwrap();
            assert_eq!(pool.status().idle, 1);
        },
    );
    everywhere(
        |builder| builder.lifetime(SHORT).idle_min(2),
        |pool, _| {
            let held = pool.get().unwrap();
            drop(pool.get().unwrap());
            uthread::sleep(2 * SHORT);
            drop(held);
            assert_eq!(pool.status().open, 1);
            drop(pool.get().unwrap());
            pool.tend().unwrap();
            assert_eq!((pool.status().open, pool.status().idle), (2, 2));
            assert_eq!(pool.status().opened, 4);
        },
    );
}

#[test]
fn a_closed_pool_lends_nothing() {
    everywhere(
        |builder| builder.max(1),
        |pool, service| {
            let held = pool.get().unwrap();
            let theirs = pool.clone();
            let waiting = uthread::spawn(move || matches!(theirs.get(), Err(GetError::Closed)));
            while pool.status().waiting == 0 {
                uthread::yield_now();
            }
            pool.close();
            assert!(waiting.join().unwrap());
            drop(held);
            assert_eq!(service.open.load(Ordering::SeqCst), 0);
            assert!(matches!(pool.get(), Err(GetError::Closed)));
        },
    );
}
