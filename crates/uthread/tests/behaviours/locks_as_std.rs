//! Runs the same code with the locks of `std` and of this crate, and compares the results.

#![allow(
    clippy::incompatible_msrv,
    reason = "compares with what only a newer `std` has"
)]

use std::cell::Cell;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::rc::Rc;

use crate::fixtures::fiber_or_thread::InDrop;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use crate::support::{HOUR, SHORT};

behaviours![(
    EVERYWHERE,
    [
        locks_poison_as_in_std,
        locks_are_formatted_as_in_std,
        locks_are_made_and_taken_apart_as_in_std,
        conditions_and_barriers_are_alike,
        locks_are_sent_and_shared_as_in_std
    ]
)];

/// Runs a body twice, with either module as `sync`, and compares what it notes.
macro_rules! compare {
    ($place:expr, |$seen:ident| $body:block) => {
        $place.run(|| {
            let std = {
                use std::sync;
                let mut $seen: Vec<String> = Vec::new();
                $body
                $seen
            };
            let ours = {
                use uthread::sync;
                let mut $seen: Vec<String> = Vec::new();
                $body
                $seen
            };
            assert!(!std.is_empty());
            assert_eq!(ours.len(), std.len());
            for (ours, std) in ours.iter().zip(&std) {
                assert_eq!(ours, std);
            }
        });
    };
}

/// Returns `true` if the closure panics.
fn panics<T>(action: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(action)).is_err()
}

fn text(value: impl Debug) -> String {
    format!("{value:?}")
}

fn locks_poison_as_in_std(place: Place) {
    compare!(place, |seen| {
        let mut mutex = sync::Mutex::new(1);
        panics(|| {
            let _guard = mutex.lock().unwrap();
            panic!("with the lock");
        });
        seen.push(text(mutex.is_poisoned()));
        seen.push(text(
            mutex
                .lock()
                .map(|guard| *guard)
                .map_err(|e| *e.into_inner()),
        ));
        seen.push(text(mutex.try_lock().map(|guard| *guard)));
        seen.push(text(mutex.get_mut()));
        seen.push(text(&mutex));
        mutex.clear_poison();
        seen.push(text(mutex.lock().is_ok()));
        // A guard that was taken while its owner panicked already tells nothing.
        panics(|| {
            let _in_drop = InDrop(|| *mutex.lock().unwrap() += 1);
            panic!("without the lock");
        });
        seen.push(text(mutex.is_poisoned()));
        // A guard does not poison if the panic was over before the guard was dropped.
        let guard = mutex.lock().unwrap();
        panics(|| panic!("beside the lock"));
        drop(guard);
        seen.push(text(mutex.is_poisoned()));
        panics(|| {
            let _guard = mutex.lock().unwrap();
            panic!("once more");
        });
        seen.push(text(mutex.into_inner()));
    });
    compare!(place, |seen| {
        let mut lock = sync::RwLock::new(1);
        panics(|| {
            let _reader = lock.read().unwrap();
            panic!("a reader panics");
        });
        seen.push(text(lock.is_poisoned()));
        panics(|| {
            let _writer = lock.write().unwrap();
            panic!("a writer panics");
        });
        seen.push(text(lock.is_poisoned()));
        seen.push(text(lock.read().is_err()));
        seen.push(text(lock.write().is_err()));
        seen.push(text(lock.try_read().map(|guard| *guard)));
        seen.push(text(lock.try_write().map(|guard| *guard)));
        seen.push(text(lock.get_mut()));
        lock.clear_poison();
        panics(|| {
            let writer = lock.write().unwrap();
            let _reader = sync::RwLockWriteGuard::downgrade(writer);
            panic!("a downgraded writer panics");
        });
        seen.push(text(lock.is_poisoned()));
        seen.push(text(lock.into_inner()));
    });
}

fn locks_are_formatted_as_in_std(place: Place) {
    compare!(place, |seen| {
        let mutex = sync::Mutex::new("value");
        seen.push(text(&mutex));
        let guard = mutex.lock().unwrap();
        seen.push(format!("{mutex:?} {guard:?} {guard}"));
        drop(guard);
        let lock = sync::RwLock::new("value");
        seen.push(text(&lock));
        let reader = lock.read().unwrap();
        seen.push(format!("{lock:?} {reader:?} {reader}"));
        drop(reader);
        let mut writer = lock.write().unwrap();
        *writer = "another";
        seen.push(format!("{lock:?} {writer:?} {writer}"));
        seen.push(text((sync::Condvar::new(), sync::Barrier::new(1))));
        seen.push(text(sync::Barrier::new(1).wait()));
        let once = sync::Once::new();
        once.call_once_force(|state| seen.push(text(state)));
        seen.push(text(once));
        seen.push(text(sync::OnceLock::<i32>::new()));
        seen.push(text(sync::OnceLock::from("value")));
        let lazy: sync::LazyLock<i32> = sync::LazyLock::new(|| 1);
        seen.push(text(&lazy));
        seen.push(text((*lazy, &lazy)));
        // Values made by `From` and `Default`.
        seen.push(text((sync::Mutex::from(1), sync::Mutex::<i32>::default())));
        seen.push(text((
            sync::RwLock::from(1),
            sync::RwLock::<i32>::default(),
        )));
        seen.push(text((
            sync::Condvar::default(),
            sync::OnceLock::<i32>::default(),
        )));
        seen.push(text(*sync::LazyLock::<i32>::default()));
        // Unsized values.
        let slice: &sync::Mutex<[i32]> = &sync::Mutex::new([1, 2]);
        slice.lock().unwrap()[0] = 3;
        seen.push(text(slice));
        let slice: &sync::RwLock<[i32]> = &sync::RwLock::new([1, 2]);
        slice.write().unwrap()[0] = 3;
        seen.push(text(slice));
    });
}

fn locks_are_made_and_taken_apart_as_in_std(place: Place) {
    compare!(place, |seen| {
        let once = sync::Once::new();
        seen.push(text(panics(|| once.call_once(|| panic!("at first")))));
        seen.push(text((
            once.is_completed(),
            panics(|| once.call_once(|| ())),
        )));
        seen.push(text(panics(|| once.wait())));
        once.call_once_force(|state| seen.push(text(state.is_poisoned())));
        once.call_once(|| seen.push("twice".to_owned()));
        once.wait();
        once.wait_force();
        seen.push(text(once.is_completed()));
    });
    compare!(place, |seen| {
        let mut cell = sync::OnceLock::new();
        seen.push(text((cell.get().copied(), cell.get_mut().copied())));
        seen.push(text(panics(|| *cell.get_or_init(|| panic!("at first")))));
        seen.push(text((cell.get_or_init(|| 1), cell.set(2), cell.wait())));
        seen.push(text((cell.clone() == cell, cell == sync::OnceLock::new())));
        cell.get_mut().into_iter().for_each(|value| *value = 5);
        seen.push(text((
            cell.take(),
            cell.take(),
            cell.set(3),
            cell.into_inner(),
        )));
    });
    compare!(place, |seen| {
        let mut lazy: sync::LazyLock<i32, _> = sync::LazyLock::new(|| 1);
        let before = sync::LazyLock::get(&lazy).copied();
        seen.push(text((before, sync::LazyLock::get_mut(&mut lazy).copied())));
        *sync::LazyLock::force_mut(&mut lazy) += 1;
        *lazy += 1;
        seen.push(text((*lazy, sync::LazyLock::get(&lazy))));
        let mut broken: sync::LazyLock<i32> = sync::LazyLock::new(|| panic!("always"));
        seen.push(text((panics(|| *broken), panics(|| *broken))));
        seen.push(text(sync::LazyLock::get(&broken)));
        seen.push(text(sync::LazyLock::get_mut(&mut broken)));
        seen.push(text(panics(|| *sync::LazyLock::force_mut(&mut broken))));
    });
}

fn conditions_and_barriers_are_alike(place: Place) {
    compare!(place, |seen| {
        let (mutex, changed) = (sync::Mutex::new(1), sync::Condvar::new());
        let waited = changed.wait_timeout(mutex.lock().unwrap(), SHORT).unwrap();
        seen.push(text(&waited));
        seen.push(text(waited.1.timed_out()));
        drop(waited);
        let passed = changed.wait_while(mutex.lock().unwrap(), |value| *value == 0);
        seen.push(text(*passed.unwrap()));
        let mut looks = 0;
        let waited = changed.wait_timeout_while(mutex.lock().unwrap(), HOUR, |value| {
            *value += 1;
            looks += 1;
            false
        });
        seen.push(text((waited.unwrap(), looks)));
        let waited = changed.wait_timeout_while(mutex.lock().unwrap(), SHORT, |_| true);
        seen.push(text(waited.unwrap()));
        #[allow(deprecated, reason = "a program may still use it")]
        let waited = changed.wait_timeout_ms(mutex.lock().unwrap(), 1);
        seen.push(text(waited.unwrap()));
        changed.notify_one();
        changed.notify_all();
        // A wait tells of a poisoned mutex like a lock.
        panics(|| {
            let _guard = mutex.lock().unwrap();
            panic!("with the lock");
        });
        let guard = mutex.lock().unwrap_or_else(sync::PoisonError::into_inner);
        let waited = changed.wait_timeout(guard, SHORT);
        seen.push(text(waited.map_err(|error| error.into_inner())));
        for count in [0, 1] {
            seen.push(text(sync::Barrier::new(count).wait().is_leader()));
        }
    });
}

/// Which of some traits each type has.
macro_rules! traits {
    ($($kind:ty),* $(,)?) => {
        vec![$( (stringify!($kind), [
            traits!(@has $kind: Send), traits!(@has $kind: Sync), traits!(@has $kind: Unpin),
            traits!(@has $kind: UnwindSafe), traits!(@has $kind: RefUnwindSafe),
            traits!(@has $kind: Copy), traits!(@has $kind: Eq), traits!(@has $kind: Debug),
            traits!(@has $kind: Default),
        ]) ),*]
    };
    (@has $kind:ty: $bound:path) => {{
        struct Probe<T: ?Sized>(PhantomData<T>);
        #[allow(dead_code, reason = "for types without the trait")]
        trait Otherwise {
            const HAS: bool = false;
        }
        impl<T: ?Sized> Otherwise for Probe<T> {}
        impl<T: ?Sized + $bound> Probe<T> {
            #[allow(dead_code, reason = "for types with the trait")]
            const HAS: bool = true;
        }
        <Probe<$kind>>::HAS
    }};
}

/// Repeats a macro for value types that are `Send` and `Sync`, only `Send`, neither, or only
/// `Sync`.
macro_rules! with_all_values {
    () => {
        [
            with_value!(i32),
            with_value!(Cell<i32>),
            with_value!(Rc<i32>),
            with_value!(sync::MutexGuard<'static, i32>),
        ]
        .concat()
    };
}

macro_rules! with_value {
    ($value:ty) => {
        traits![
            sync::Mutex<$value>,
            sync::MutexGuard<'static, $value>,
            sync::RwLock<$value>,
            sync::RwLockReadGuard<'static, $value>,
            sync::RwLockWriteGuard<'static, $value>,
            sync::OnceLock<$value>,
            sync::LazyLock<$value>,
            sync::LazyLock<i32, $value>,
        ]
    };
}

fn locks_are_sent_and_shared_as_in_std(place: Place) {
    compare!(place, |seen| {
        seen.extend(with_all_values!().iter().map(text));
        let others = traits![
            sync::Condvar,
            sync::WaitTimeoutResult,
            sync::Barrier,
            sync::BarrierWaitResult,
            sync::Once,
            sync::OnceState,
        ];
        seen.extend(others.iter().map(text));
    });
}
