//! Fiber-local values: each fiber has its own, from the first use on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, behaviours};
use uthread::{sleep, spawn, yield_now};

behaviours![
    (
        EVERYWHERE,
        [
            each_fiber_has_values_of_its_own,
            a_value_is_made_at_the_first_use_and_once,
            a_value_that_is_set_first_is_not_made,
            a_key_that_makes_itself_keeps_the_outer_value
        ]
    ),
    (IN_FIBERS, [a_value_stays_with_its_fiber]),
];

uthread::local! {
    static NUMBER: Cell<u32> = const { Cell::new(7) };
    static LIST: RefCell<Vec<u32>> = RefCell::new(vec![1]);
}

fn each_fiber_has_values_of_its_own(place: Place) {
    place.run(|| {
        NUMBER.set(1);
        LIST.with_borrow_mut(|list| list.push(2));
        let others: Vec<_> = (0..20)
            .map(|index| {
                spawn(move || {
                    let before = (NUMBER.get(), LIST.take());
                    NUMBER.set(index);
                    yield_now();
                    LIST.with_borrow_mut(|list| list.push(index));
                    yield_now();
                    assert_eq!(
                        (NUMBER.replace(0), LIST.replace(vec![])),
                        (index, vec![index])
                    );
                    before
                })
            })
            .collect();
        for other in others {
            assert_eq!(other.join().unwrap(), (7, vec![1]));
        }
        assert_eq!(
            (NUMBER.get(), LIST.with_borrow(Vec::clone)),
            (1, vec![1, 2])
        );
        NUMBER.set(7);
        LIST.set(vec![1]);
    });
}

fn a_value_is_made_at_the_first_use_and_once(place: Place) {
    uthread::local! {
        static MADE: Cell<u32> = const { Cell::new(0) };
        static COUNTED: () = MADE.set(MADE.get() + 1);
    }
    place.run(|| {
        let made = || {
            let before = MADE.get();
            COUNTED.with(|()| ());
            COUNTED.with(|()| ());
            (before, MADE.get())
        };
        assert_eq!(spawn(made).join().unwrap(), (0, 1));
        assert_eq!(spawn(made).join().unwrap(), (0, 1));
    });
}

fn a_value_that_is_set_first_is_not_made(place: Place) {
    uthread::local! {
        static CELL: Cell<u32> = panic!("the initial value is evaluated");
        static REF_CELL: RefCell<u32> = panic!("the initial value is evaluated");
    }
    place.run(|| {
        let set = || {
            CELL.set(1);
            REF_CELL.set(2);
            let values = (CELL.get(), REF_CELL.with_borrow(|value| *value));
            CELL.set(3);
            REF_CELL.set(4);
            (values, CELL.take(), REF_CELL.take())
        };
        assert_eq!(spawn(set).join().unwrap(), ((1, 2), 3, 4));
        assert!(spawn(|| CELL.get()).join().is_err(), "of another fiber");
        // A value whose initializer has panicked is made the next time.
        let late = || {
            let failed = std::panic::catch_unwind(|| CELL.get()).is_err();
            CELL.set(5);
            (failed, CELL.get())
        };
        assert_eq!(spawn(late).join().unwrap(), (true, 5));
    });
}

fn a_key_that_makes_itself_keeps_the_outer_value(place: Place) {
    uthread::local! {
        static DEPTH: Cell<u32> = const { Cell::new(0) };
        static MADE: Rc<u32> = {
            if DEPTH.replace(1) == 0 {
                MADE.with(|inner| assert_eq!(**inner, 1));
                Rc::new(2)
            } else {
                Rc::new(1)
            }
        };
    }
    place.run(|| {
        let fiber = spawn(|| (MADE.with(|value| **value), MADE.with(Rc::strong_count)));
        assert_eq!(fiber.join().unwrap(), (2, 1));
    });
}

fn a_value_stays_with_its_fiber(place: Place) {
    let runtime = place.runtime();
    let fibers: Vec<_> = (0..50)
        .map(|index| {
            runtime.spawn(move || {
                NUMBER.set(index);
                (0..20).all(|_| {
                    sleep(Duration::from_micros(100));
                    yield_now();
                    NUMBER.get() == index
                })
            })
        })
        .collect();
    assert!(fibers.into_iter().all(|fiber| fiber.join().unwrap()));
}
