//! Sets of fibers whose results come in the order in which the fibers end.

use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use uthread::runtime::Shutdown;
use uthread::sync::{mpsc, oneshot};
use uthread::thread::{Builder, Cancelled, JoinSet, park, sleep};
use uthread::{JoinHandle, scope, select, spawn, timeout};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, ON_ONE_WORKER, ON_WORKERS, behaviours};
use crate::support::{Flag, HANG, HOUR, SHORT};

behaviours![
    (
        EVERYWHERE,
        [
            results_come_in_the_order_of_the_ends,
            a_result_brings_more_fibers,
            each_of_many_results_comes_once,
            a_panic_is_a_result,
            an_empty_set_has_no_next_result,
            without_a_result_the_set_stays_as_it_is,
            a_cancelled_fiber_stays_until_it_is_joined,
            a_drop_ends_the_fibers_first,
            results_that_nobody_takes_are_dropped,
            a_fiber_that_has_ended_is_inserted,
            a_fiber_of_a_scope_borrows,
            a_scope_panics_unless_the_set_has_returned_the_panic,
            the_next_result_is_selected,
            an_empty_set_is_never_selected,
            another_arm_leaves_the_set_unchanged,
            another_fiber_goes_on_with_the_set,
        ]
    ),
    (
        IN_FIBERS,
        [
            a_deadline_ends_the_wait_and_the_fibers,
            a_cancelled_owner_takes_its_fibers_along,
            a_cancelled_destructor_gets_the_next_result,
        ]
    ),
    (ON_ONE_WORKER, [a_wait_ends_early_in_a_cancelled_fiber]),
    (ON_WORKERS, [an_abandoned_fiber_is_a_result]),
];

/// Adds a fiber that ends with this number once it is told to.
fn add_waiting(set: &mut JoinSet<usize>, number: usize) -> oneshot::Sender<()> {
    let (end, ended) = oneshot::channel();
    set.spawn(move || {
        ended.recv().unwrap();
        number
    });
    end
}

fn endless() {
    loop {
        park();
    }
}

/// Adds one to a counter when it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn results_come_in_the_order_of_the_ends(place: Place) {
    place.run(|| {
        let mut set = JoinSet::new();
        let mut ends: Vec<_> = (0..5)
            .map(|number| Some(add_waiting(&mut set, number)))
            .collect();
        for number in [3, 0, 4, 2, 1] {
            assert!(set.try_join_next().is_none());
            ends[number].take().unwrap().send(()).unwrap();
            assert_eq!(set.join_next().unwrap().unwrap(), number);
        }
        assert!(set.join_next().is_none());
    });
}

fn a_result_brings_more_fibers(place: Place) {
    place.run(|| {
        let mut set = JoinSet::new();
        set.spawn(|| 1);
        let mut sum = 0;
        while let Some(number) = set.join_next() {
            let number: u32 = number.unwrap();
            sum += number;
            for child in [2 * number, 2 * number + 1] {
                if child < 64 {
                    set.spawn(move || child);
                }
            }
        }
        assert_eq!(sum, (1..64).sum());
    });
}

fn each_of_many_results_comes_once(place: Place) {
    place.run(|| {
        let mut set = JoinSet::new();
        (0..300).for_each(|number| set.spawn(move || number));
        let results = iter::from_fn(|| set.join_next());
        let mut results: Vec<_> = results.map(Result::unwrap).collect();
        results.sort_unstable();
        assert!(results.into_iter().eq(0..300));
    });
}

fn a_panic_is_a_result(place: Place) {
    place.run(|| {
        let mut set = JoinSet::new();
        set.spawn(|| resume_unwind(Box::new("a bug")));
        let result: Option<Result<(), _>> = set.join_next();
        assert_eq!(result.unwrap().unwrap_err().downcast_ref(), Some(&"a bug"));
        assert!(set.is_empty());
    });
}

fn an_empty_set_has_no_next_result(place: Place) {
    place.run(|| {
        let mut set = JoinSet::<()>::default();
        assert!(set.join_next().is_none());
        assert!(set.join_next_timeout(HOUR).is_none());
        assert!(set.try_join_next().is_none());
        assert!(set.is_empty());
    });
}

fn without_a_result_the_set_stays_as_it_is(place: Place) {
    place.run(|| {
        let mut set = JoinSet::new();
        let end = add_waiting(&mut set, 7);
        assert!(set.join_next_timeout(SHORT).is_none());
        assert!(set.try_join_next().is_none());
        assert_eq!(set.len(), 1);
        end.send(()).unwrap();
        assert_eq!(set.join_next_timeout(HANG).unwrap().unwrap(), 7);
    });
}

fn a_cancelled_fiber_stays_until_it_is_joined(place: Place) {
    place.run(|| {
        let mut set = JoinSet::new();
        (0..3).for_each(|_| set.spawn(endless));
        set.cancel_all();
        assert_eq!(set.len(), 3);
        for left in [2, 1, 0] {
            let ended = set.join_next().unwrap();
            assert!(ended.unwrap_err().is::<Cancelled>());
            assert_eq!(set.len(), left);
        }
        set.spawn(|| ());
        assert!(set.join_next().unwrap().is_ok());
    });
}

fn a_drop_ends_the_fibers_first(place: Place) {
    place.run(|| {
        let ended = Arc::new(AtomicUsize::new(0));
        let (begun, begins) = mpsc::channel();
        let mut set = JoinSet::new();
        for _ in 0..3 {
            let (witness, begun) = (Dropped(Arc::clone(&ended)), begun.clone());
            set.spawn(move || {
                let _witness = witness;
                begun.send(()).unwrap();
                endless();
            });
        }
        begins.iter().take(3).for_each(drop);
        drop(set);
        assert_eq!(ended.load(Ordering::Relaxed), 3);
    });
}

fn results_that_nobody_takes_are_dropped(place: Place) {
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            resume_unwind(Box::new("a bug in a destructor"));
        }
    }

    place.run(|| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let mut set = JoinSet::new();
        for _ in 0..3 {
            let witness = Dropped(Arc::clone(&dropped));
            set.insert(ended(move || (witness, Bomb)));
        }
        drop(set);
        assert_eq!(dropped.load(Ordering::Relaxed), 3);
    });
}

/// Spawns a fiber, and returns it when it has ended.
fn ended<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let mut fiber = spawn(f);
    select! { ended(&mut fiber) => fiber }
}

fn a_fiber_that_has_ended_is_inserted(place: Place) {
    place.run(|| {
        let mut set = JoinSet::new();
        set.insert(ended(|| 1));
        assert_eq!(set.try_join_next().unwrap().unwrap(), 1);
        let named = Builder::new().name("named".into());
        set.insert(
            named
                .spawn(|| uthread::current().name().unwrap().len())
                .unwrap(),
        );
        assert_eq!(set.join_next().unwrap().unwrap(), 5);
    });
}

fn a_fiber_of_a_scope_borrows(place: Place) {
    place.run(|| {
        let words = ["a".to_owned(), "bc".to_owned(), "def".to_owned()];
        let mut set = JoinSet::new();
        scope(|scope| {
            for word in &words {
                set.spawn_scoped(scope, || word.as_str());
            }
        });
        let results = iter::from_fn(|| set.join_next());
        let mut results: Vec<_> = results.map(Result::unwrap).collect();
        results.sort_unstable();
        assert_eq!(results, words);
    });
}

fn a_scope_panics_unless_the_set_has_returned_the_panic(place: Place) {
    place.run(|| {
        let bug = || resume_unwind(Box::new("a bug"));
        scope(|scope| {
            let mut set = JoinSet::<()>::new();
            set.spawn_scoped(scope, bug);
            assert!(set.join_next().unwrap().is_err());
            set.spawn_scoped(scope, endless);
        });
        let result = catch_unwind(AssertUnwindSafe(|| {
            scope(|scope| {
                let (begun, begins) = mpsc::channel();
                let mut set = JoinSet::<()>::new();
                set.spawn_scoped(scope, move || {
                    begun.send(()).unwrap();
                    bug();
                });
                begins.recv().unwrap();
            });
        }));
        assert!(result.is_err());
    });
}

fn the_next_result_is_selected(place: Place) {
    place.run(|| {
        let mut set = JoinSet::new();
        let ends: Vec<_> = (0..3).map(|number| add_waiting(&mut set, number)).collect();
        for (number, end) in ends.into_iter().enumerate().rev() {
            let telling = spawn(move || end.send(()).unwrap());
            select! {
                join_next(&mut set) -> result => assert_eq!(result.unwrap(), number),
                after(HANG) => panic!("no fiber ends"),
            }
            telling.join().unwrap();
            assert_eq!(set.len(), number);
        }
    });
}

fn an_empty_set_is_never_selected(place: Place) {
    place.run(|| {
        let mut set = JoinSet::<()>::new();
        select! {
            join_next(&mut set) => panic!("there is no fiber"),
            after(SHORT) => set.spawn(|| ()),
        }
        select! {
            join_next(&mut set) -> result => result.unwrap(),
            after(HANG) => panic!("the fiber does not end"),
        }
    });
}

fn another_arm_leaves_the_set_unchanged(place: Place) {
    place.run(|| {
        let mut set = JoinSet::new();
        let end = add_waiting(&mut set, 7);
        for _ in 0..3 {
            select! {
                join_next(&mut set) => panic!("the fiber ended while it was waiting"),
                after(SHORT) => assert_eq!(set.len(), 1),
            }
        }
        end.send(()).unwrap();
        assert_eq!(set.join_next().unwrap().unwrap(), 7);
    });
}

fn another_fiber_goes_on_with_the_set(place: Place) {
    place.run(|| {
        let mut set = JoinSet::new();
        let end = add_waiting(&mut set, 7);
        assert!(set.join_next_timeout(SHORT).is_none());
        let (begun, begins) = mpsc::channel();
        let owner = spawn(move || {
            begun.send(()).unwrap();
            set.join_next().unwrap().unwrap()
        });
        begins.recv().unwrap();
        end.send(()).unwrap();
        assert_eq!(owner.join().unwrap(), 7);
    });
}

fn a_deadline_ends_the_wait_and_the_fibers(place: Place) {
    place.run(|| {
        let ended = Arc::new(AtomicUsize::new(0));
        let witness = Dropped(Arc::clone(&ended));
        let late = timeout(SHORT, || {
            let mut set = JoinSet::new();
            set.spawn(move || {
                let _witness = witness;
                sleep(HOUR);
            });
            set.join_next().is_none()
        });
        assert!(late.is_err());
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    });
}

fn a_cancelled_owner_takes_its_fibers_along(place: Place) {
    place.run(|| {
        let ended = Arc::new(AtomicUsize::new(0));
        let witness = Dropped(Arc::clone(&ended));
        let (begun, begins) = mpsc::channel();
        let owner = spawn(move || {
            let mut set = JoinSet::new();
            set.spawn(move || {
                let _witness = witness;
                begun.send(()).unwrap();
                endless();
            });
            set.join_next().is_none()
        });
        begins.recv().unwrap();
        owner.cancel();
        assert!(owner.join().unwrap_err().is::<Cancelled>());
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    });
}

fn a_cancelled_destructor_gets_the_next_result(place: Place) {
    struct Last(Option<oneshot::Sender<usize>>);

    impl Drop for Last {
        fn drop(&mut self) {
            let mut set = JoinSet::new();
            set.spawn(|| 7);
            let last = set.join_next().unwrap().unwrap();
            self.0.take().unwrap().send(last).unwrap();
        }
    }

    place.run(|| {
        let (begun, begins) = mpsc::channel();
        let (sender, result) = oneshot::channel();
        let unwound = spawn(move || {
            let _last = Last(Some(sender));
            begun.send(()).unwrap();
            endless();
        });
        begins.recv().unwrap();
        unwound.cancel();
        assert_eq!(result.recv(), Ok(7));
        assert!(unwound.join().is_err());
    });
}

fn a_wait_ends_early_in_a_cancelled_fiber(place: Place) {
    place.run(|| {
        let waits = Flag::default();
        let raised = waits.clone();
        let owner = spawn(move || {
            let mut set = JoinSet::new();
            set.spawn(endless);
            raised.raise();
            set.join_next_timeout(HOUR).is_none()
        });
        waits.wait();
        owner.cancel();
        assert!(owner.join().unwrap());
    });
}

fn an_abandoned_fiber_is_a_result(place: Place) {
    let runtime = place.runtime_of(1);
    let (begun, begins) = std::sync::mpsc::channel();
    let mut set = JoinSet::new();
    set.insert(runtime.spawn(move || {
        begun.send(()).unwrap();
        endless();
    }));
    begins.recv().unwrap();
    runtime.shutdown(Shutdown::Abandon);
    assert!(set.join_next().unwrap().unwrap_err().is::<Cancelled>());
}
