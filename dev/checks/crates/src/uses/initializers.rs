//! Values that one fiber creates while another one wants them: the initializer waits.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, OnceLock};

use moka::sync::Cache;

use super::{Use, WAIT, overlap};

pub(super) const USES: &[Use] = &[
    Use::new("std-lazy-lock", "an initializer that waits", lazy_lock),
    Use::new(
        "std-once-lock",
        "`get_or_init` with a function that waits",
        once_lock,
    ),
    Use::new(
        "once_cell",
        "`OnceCell::get_or_init` with a function that waits",
        once_cell,
    ),
    Use::new(
        "moka",
        "`get_with` of a value that takes a wait to create",
        moka,
    ),
];

/// Creates a value by two fibers at once, and checks that `get` runs the initializer that it gets
/// once.
fn create(get: impl Fn(&dyn Fn() -> u32) -> u32 + Sync) {
    let runs = AtomicU32::new(0);
    overlap(
        |begun| {
            let value = get(&|| {
                begun();
                uthread::sleep(WAIT);
                runs.fetch_add(1, Ordering::Relaxed) + 7
            });
            assert_eq!(value, 7);
        },
        || assert_eq!(get(&|| 0), 7),
    );
    assert_eq!(runs.into_inner(), 1);
}

fn lazy_lock() {
    static BEGUN: uthread::sync::OnceLock<()> = uthread::sync::OnceLock::new();
    static RUNS: AtomicU32 = AtomicU32::new(0);
    static VALUE: LazyLock<u32> = LazyLock::new(|| {
        BEGUN.get_or_init(|| ());
        uthread::sleep(WAIT);
        RUNS.fetch_add(1, Ordering::Relaxed) + 7
    });
    super::both(
        || assert_eq!(*VALUE, 7),
        || {
            BEGUN.wait();
            assert_eq!(*VALUE, 7);
        },
    );
    assert_eq!(RUNS.load(Ordering::Relaxed), 1);
}

fn once_lock() {
    let cell = OnceLock::new();
    create(|initializer| *cell.get_or_init(initializer));
}

fn once_cell() {
    let cell = once_cell::sync::OnceCell::new();
    create(|initializer| *cell.get_or_init(initializer));
}

fn moka() {
    let cache = Cache::new(10);
    create(|initializer| cache.get_with("key", initializer));
}
