//! The names of the functions that are replaced, and where those of the C library are.

use std::ffi::{CStr, c_void};
use std::sync::atomic::AtomicPtr;

/// The functions of the C library, by number. Null until they are looked up.
pub(crate) static REAL: [AtomicPtr<c_void>; NAMES.len()] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES.len()];

/// The names of the functions, by number.
pub(crate) const NAMES: [&CStr; 95] = [
    c"pthread_join",
    c"pthread_timedjoin_np",
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
    c"pthread_rwlock_wrlock",
    c"pthread_rwlock_trywrlock",
    c"pthread_rwlock_timedwrlock",
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
    pub(crate) const PTHREAD_MUTEX_DESTROY: usize = 13;
    pub(crate) const PTHREAD_MUTEX_LOCK: usize = 14;
    pub(crate) const PTHREAD_MUTEX_TRYLOCK: usize = 15;
    pub(crate) const PTHREAD_MUTEX_TIMEDLOCK: usize = 16;
    pub(crate) const PTHREAD_MUTEX_UNLOCK: usize = 17;
    pub(crate) const PTHREAD_MUTEX_INIT: usize = 18;
    pub(crate) const PTHREAD_COND_INIT: usize = 19;
    pub(crate) const PTHREAD_COND_DESTROY: usize = 20;
    pub(crate) const PTHREAD_COND_WAIT: usize = 21;
    pub(crate) const PTHREAD_COND_TIMEDWAIT: usize = 22;
    pub(crate) const PTHREAD_COND_CLOCKWAIT: usize = 23;
    pub(crate) const PTHREAD_COND_SIGNAL: usize = 24;
    pub(crate) const PTHREAD_COND_BROADCAST: usize = 25;
    pub(crate) const PTHREAD_RWLOCK_INIT: usize = 26;
    pub(crate) const PTHREAD_RWLOCK_DESTROY: usize = 27;
    pub(crate) const PTHREAD_RWLOCK_RDLOCK: usize = 28;
    pub(crate) const PTHREAD_RWLOCK_TRYRDLOCK: usize = 29;
    pub(crate) const PTHREAD_RWLOCK_TIMEDRDLOCK: usize = 30;
    pub(crate) const PTHREAD_RWLOCK_WRLOCK: usize = 31;
    pub(crate) const PTHREAD_RWLOCK_TRYWRLOCK: usize = 32;
    pub(crate) const PTHREAD_RWLOCK_TIMEDWRLOCK: usize = 33;
    pub(crate) const PTHREAD_RWLOCK_UNLOCK: usize = 34;
    pub(crate) const SEM_INIT: usize = 44;
    pub(crate) const SEM_DESTROY: usize = 45;
    pub(crate) const SEM_WAIT: usize = 46;
    pub(crate) const SEM_TIMEDWAIT: usize = 47;
    pub(crate) const SEM_TRYWAIT: usize = 48;
    pub(crate) const SEM_POST: usize = 49;
    pub(crate) const SEM_GETVALUE: usize = 50;
    pub(crate) const PTHREAD_GETATTR_NP: usize = 56;
    pub(crate) const PTHREAD_GETCPUCLOCKID: usize = 57;
    pub(crate) const PTHREAD_SETSCHEDPARAM: usize = 58;
    pub(crate) const PTHREAD_GETSCHEDPARAM: usize = 59;
    pub(crate) const PTHREAD_SETSCHEDPRIO: usize = 60;
    pub(crate) const PTHREAD_SETAFFINITY_NP: usize = 61;
    pub(crate) const PTHREAD_GETAFFINITY_NP: usize = 62;
    pub(crate) const READ: usize = 66;
    pub(crate) const WRITE: usize = 67;
    pub(crate) const PREAD: usize = 68;
    pub(crate) const PREAD64: usize = 69;
    pub(crate) const PWRITE: usize = 70;
    pub(crate) const PWRITE64: usize = 71;
    pub(crate) const READV: usize = 72;
    pub(crate) const WRITEV: usize = 73;
    pub(crate) const FSYNC: usize = 74;
    pub(crate) const FDATASYNC: usize = 75;
    pub(crate) const OPEN: usize = 76;
    pub(crate) const OPEN64: usize = 77;
    pub(crate) const OPENAT: usize = 78;
    pub(crate) const OPENAT64: usize = 79;
    pub(crate) const RECV: usize = 80;
    pub(crate) const RECVFROM: usize = 81;
    pub(crate) const RECVMSG: usize = 82;
    pub(crate) const SEND: usize = 83;
    pub(crate) const SENDTO: usize = 84;
    pub(crate) const SENDMSG: usize = 85;
    pub(crate) const ACCEPT: usize = 86;
    pub(crate) const ACCEPT4: usize = 87;
    pub(crate) const CONNECT: usize = 88;
    pub(crate) const POLL: usize = 89;
    pub(crate) const SELECT: usize = 90;
    pub(crate) const SLEEP: usize = 91;
    pub(crate) const USLEEP: usize = 92;
    pub(crate) const NANOSLEEP: usize = 93;
    pub(crate) const CLOCK_NANOSLEEP: usize = 94;
}
