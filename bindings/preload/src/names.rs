//! The names of the functions that are replaced, and where those of the C library are.

use std::ffi::{CStr, c_void};
use std::sync::atomic::AtomicPtr;

/// The functions of the C library, by number. Null until they are looked up.
pub(crate) static REAL: [AtomicPtr<c_void>; NAMES.len()] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES.len()];

/// The names of the functions, by number.
pub(crate) const NAMES: [&CStr; 101] = [
    c"pthread_join",
    c"pthread_timedjoin_np",
    c"pthread_clockjoin_np",
    c"pthread_tryjoin_np",
    c"pthread_detach",
    c"pthread_equal",
    c"pthread_cancel",
    c"pthread_testcancel",
    c"pthread_setcancelstate",
    c"pthread_setcanceltype",
    c"pthread_getconcurrency",
    c"pthread_setconcurrency",
    c"pthread_exit",
    c"pthread_self",
    c"pthread_create",
    c"pthread_mutex_destroy",
    c"pthread_mutex_lock",
    c"pthread_mutex_trylock",
    c"pthread_mutex_timedlock",
    c"pthread_mutex_clocklock",
    c"pthread_mutex_unlock",
    c"pthread_mutex_init",
    c"pthread_cond_init",
    c"pthread_cond_destroy",
    c"pthread_cond_wait",
    c"pthread_cond_timedwait",
    c"pthread_cond_clockwait",
    c"pthread_cond_signal",
    c"pthread_cond_broadcast",
    c"pthread_rwlock_init",
    c"pthread_rwlock_destroy",
    c"pthread_rwlock_rdlock",
    c"pthread_rwlock_tryrdlock",
    c"pthread_rwlock_timedrdlock",
    c"pthread_rwlock_clockrdlock",
    c"pthread_rwlock_wrlock",
    c"pthread_rwlock_trywrlock",
    c"pthread_rwlock_timedwrlock",
    c"pthread_rwlock_clockwrlock",
    c"pthread_rwlock_unlock",
    c"pthread_barrier_init",
    c"pthread_barrier_destroy",
    c"pthread_barrier_wait",
    c"pthread_spin_init",
    c"pthread_spin_destroy",
    c"pthread_spin_lock",
    c"pthread_spin_trylock",
    c"pthread_spin_unlock",
    c"pthread_once",
    c"sem_init",
    c"sem_destroy",
    c"sem_wait",
    c"sem_timedwait",
    c"sem_clockwait",
    c"sem_trywait",
    c"sem_post",
    c"sem_getvalue",
    c"sched_yield",
    c"pthread_yield",
    c"pthread_kill",
    c"pthread_setname_np",
    c"pthread_getname_np",
    c"pthread_getattr_np",
    c"pthread_getcpuclockid",
    c"pthread_setschedparam",
    c"pthread_getschedparam",
    c"pthread_setschedprio",
    c"pthread_setaffinity_np",
    c"pthread_getaffinity_np",
    c"__pthread_register_cancel",
    c"__pthread_unregister_cancel",
    c"__pthread_unwind_next",
    c"read",
    c"write",
    c"pread",
    c"pread64",
    c"pwrite",
    c"pwrite64",
    c"readv",
    c"writev",
    c"fsync",
    c"fdatasync",
    c"open",
    c"open64",
    c"openat",
    c"openat64",
    c"recv",
    c"recvfrom",
    c"recvmsg",
    c"send",
    c"sendto",
    c"sendmsg",
    c"accept",
    c"accept4",
    c"connect",
    c"poll",
    c"select",
    c"sleep",
    c"usleep",
    c"nanosleep",
    c"clock_nanosleep",
];

/// The numbers of the functions that are called by name here.
pub(crate) mod number {
    pub(crate) const PTHREAD_MUTEX_DESTROY: usize = 15;
    pub(crate) const PTHREAD_MUTEX_LOCK: usize = 16;
    pub(crate) const PTHREAD_MUTEX_TRYLOCK: usize = 17;
    pub(crate) const PTHREAD_MUTEX_TIMEDLOCK: usize = 18;
    pub(crate) const PTHREAD_MUTEX_CLOCKLOCK: usize = 19;
    pub(crate) const PTHREAD_MUTEX_UNLOCK: usize = 20;
    pub(crate) const PTHREAD_MUTEX_INIT: usize = 21;
    pub(crate) const PTHREAD_COND_INIT: usize = 22;
    pub(crate) const PTHREAD_COND_DESTROY: usize = 23;
    pub(crate) const PTHREAD_COND_WAIT: usize = 24;
    pub(crate) const PTHREAD_COND_TIMEDWAIT: usize = 25;
    pub(crate) const PTHREAD_COND_CLOCKWAIT: usize = 26;
    pub(crate) const PTHREAD_COND_SIGNAL: usize = 27;
    pub(crate) const PTHREAD_COND_BROADCAST: usize = 28;
    pub(crate) const PTHREAD_RWLOCK_INIT: usize = 29;
    pub(crate) const PTHREAD_RWLOCK_DESTROY: usize = 30;
    pub(crate) const PTHREAD_RWLOCK_RDLOCK: usize = 31;
    pub(crate) const PTHREAD_RWLOCK_TRYRDLOCK: usize = 32;
    pub(crate) const PTHREAD_RWLOCK_TIMEDRDLOCK: usize = 33;
    pub(crate) const PTHREAD_RWLOCK_CLOCKRDLOCK: usize = 34;
    pub(crate) const PTHREAD_RWLOCK_WRLOCK: usize = 35;
    pub(crate) const PTHREAD_RWLOCK_TRYWRLOCK: usize = 36;
    pub(crate) const PTHREAD_RWLOCK_TIMEDWRLOCK: usize = 37;
    pub(crate) const PTHREAD_RWLOCK_CLOCKWRLOCK: usize = 38;
    pub(crate) const PTHREAD_RWLOCK_UNLOCK: usize = 39;
    pub(crate) const SEM_INIT: usize = 49;
    pub(crate) const SEM_DESTROY: usize = 50;
    pub(crate) const SEM_WAIT: usize = 51;
    pub(crate) const SEM_TIMEDWAIT: usize = 52;
    pub(crate) const SEM_CLOCKWAIT: usize = 53;
    pub(crate) const SEM_TRYWAIT: usize = 54;
    pub(crate) const SEM_POST: usize = 55;
    pub(crate) const SEM_GETVALUE: usize = 56;
    pub(crate) const PTHREAD_GETATTR_NP: usize = 62;
    pub(crate) const PTHREAD_GETCPUCLOCKID: usize = 63;
    pub(crate) const PTHREAD_SETSCHEDPARAM: usize = 64;
    pub(crate) const PTHREAD_GETSCHEDPARAM: usize = 65;
    pub(crate) const PTHREAD_SETSCHEDPRIO: usize = 66;
    pub(crate) const PTHREAD_SETAFFINITY_NP: usize = 67;
    pub(crate) const PTHREAD_GETAFFINITY_NP: usize = 68;
    pub(crate) const READ: usize = 72;
    pub(crate) const WRITE: usize = 73;
    pub(crate) const PREAD: usize = 74;
    pub(crate) const PREAD64: usize = 75;
    pub(crate) const PWRITE: usize = 76;
    pub(crate) const PWRITE64: usize = 77;
    pub(crate) const READV: usize = 78;
    pub(crate) const WRITEV: usize = 79;
    pub(crate) const FSYNC: usize = 80;
    pub(crate) const FDATASYNC: usize = 81;
    pub(crate) const OPEN: usize = 82;
    pub(crate) const OPEN64: usize = 83;
    pub(crate) const OPENAT: usize = 84;
    pub(crate) const OPENAT64: usize = 85;
    pub(crate) const RECV: usize = 86;
    pub(crate) const RECVFROM: usize = 87;
    pub(crate) const RECVMSG: usize = 88;
    pub(crate) const SEND: usize = 89;
    pub(crate) const SENDTO: usize = 90;
    pub(crate) const SENDMSG: usize = 91;
    pub(crate) const ACCEPT: usize = 92;
    pub(crate) const ACCEPT4: usize = 93;
    pub(crate) const CONNECT: usize = 94;
    pub(crate) const POLL: usize = 95;
    pub(crate) const SELECT: usize = 96;
    pub(crate) const SLEEP: usize = 97;
    pub(crate) const USLEEP: usize = 98;
    pub(crate) const NANOSLEEP: usize = 99;
    pub(crate) const CLOCK_NANOSLEEP: usize = 100;
}
