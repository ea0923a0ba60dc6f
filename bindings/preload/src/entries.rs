//! The functions that are replaced: for each, an entry point, the function of the C library, and what
//! takes its place.
//!
//! An entry point looks where its caller is. The library itself calls the C library, as what a fiber
//! waits for is done by threads of the system; all others get what takes its place:
//!
//! ```text
//!   the caller is in the code of this library   -> the function of the C library
//!   otherwise                                   -> what takes its place
//! ```

use std::arch::naked_asm;

use crate::names::REAL;
use crate::real::CODE;
use crate::{calls, cancel, objects, threads};

/// Defines the entry points.
macro_rules! entries {
    ($($number:literal $name:ident $replacement:path;)*) => {
        $(
            #[allow(unsafe_code, reason = "a function of the C library")]
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name() {
                naked_asm!(
                    "mov r11, qword ptr [rsp]",
                    "sub r11, qword ptr [rip + {code}]",
                    "cmp r11, qword ptr [rip + {code} + 8]",
                    "jae 2f",
                    "jmp qword ptr [rip + {real} + 8 * {number}]",
                    "2: jmp {replacement}",
                    code = sym CODE,
                    real = sym REAL,
                    number = const $number,
                    replacement = sym $replacement,
                );
            }
        )*
    };
}

entries! {
    0 pthread_join uthread_pthread::thread::uthread_join;
    1 pthread_timedjoin_np uthread_pthread::thread::uthread_timedjoin_np;
    2 pthread_clockjoin_np uthread_pthread::thread::uthread_clockjoin_np;
    3 pthread_tryjoin_np uthread_pthread::thread::uthread_tryjoin_np;
    4 pthread_detach uthread_pthread::thread::uthread_detach;
    5 pthread_equal uthread_pthread::thread::uthread_equal;
    6 pthread_cancel uthread_pthread::cancel::uthread_cancel;
    7 pthread_testcancel uthread_pthread::cancel::uthread_testcancel;
    8 pthread_setcancelstate uthread_pthread::cancel::uthread_setcancelstate;
    9 pthread_setcanceltype uthread_pthread::cancel::uthread_setcanceltype;
    10 pthread_getconcurrency uthread_pthread::thread::uthread_getconcurrency;
    11 pthread_setconcurrency uthread_pthread::thread::uthread_setconcurrency;
    12 pthread_exit uthread_pthread::thread::uthread_exit;
    13 pthread_self uthread_pthread::thread::uthread_self;
    14 pthread_create threads::create;
    15 pthread_mutex_destroy objects::mutex_destroy;
    16 pthread_mutex_lock objects::mutex_lock;
    17 pthread_mutex_trylock objects::mutex_trylock;
    18 pthread_mutex_timedlock objects::mutex_timedlock;
    19 pthread_mutex_clocklock objects::mutex_clocklock;
    20 pthread_mutex_unlock objects::mutex_unlock;
    21 pthread_mutex_init objects::mutex_init;
    22 pthread_cond_init objects::cond_init;
    23 pthread_cond_destroy objects::cond_destroy;
    24 pthread_cond_wait objects::cond_wait;
    25 pthread_cond_timedwait objects::cond_timedwait;
    26 pthread_cond_clockwait objects::cond_clockwait;
    27 pthread_cond_signal objects::cond_signal;
    28 pthread_cond_broadcast objects::cond_broadcast;
    29 pthread_rwlock_init objects::rwlock_init;
    30 pthread_rwlock_destroy objects::rwlock_destroy;
    31 pthread_rwlock_rdlock objects::rwlock_rdlock;
    32 pthread_rwlock_tryrdlock objects::rwlock_tryrdlock;
    33 pthread_rwlock_timedrdlock objects::rwlock_timedrdlock;
    34 pthread_rwlock_clockrdlock objects::rwlock_clockrdlock;
    35 pthread_rwlock_wrlock objects::rwlock_wrlock;
    36 pthread_rwlock_trywrlock objects::rwlock_trywrlock;
    37 pthread_rwlock_timedwrlock objects::rwlock_timedwrlock;
    38 pthread_rwlock_clockwrlock objects::rwlock_clockwrlock;
    39 pthread_rwlock_unlock objects::rwlock_unlock;
    40 pthread_barrier_init uthread_pthread::barrier::uthread_barrier_init;
    41 pthread_barrier_destroy uthread_pthread::barrier::uthread_barrier_destroy;
    42 pthread_barrier_wait uthread_pthread::barrier::uthread_barrier_wait;
    43 pthread_spin_init uthread_pthread::spin::uthread_spin_init;
    44 pthread_spin_destroy uthread_pthread::spin::uthread_spin_destroy;
    45 pthread_spin_lock uthread_pthread::spin::uthread_spin_lock;
    46 pthread_spin_trylock uthread_pthread::spin::uthread_spin_trylock;
    47 pthread_spin_unlock uthread_pthread::spin::uthread_spin_unlock;
    48 pthread_once uthread_pthread::once::uthread_once;
    49 sem_init objects::sem_init;
    50 sem_destroy objects::sem_destroy;
    51 sem_wait objects::sem_wait;
    52 sem_timedwait objects::sem_timedwait;
    53 sem_clockwait objects::sem_clockwait;
    54 sem_trywait objects::sem_trywait;
    55 sem_post objects::sem_post;
    56 sem_getvalue objects::sem_getvalue;
    57 sched_yield uthread_pthread::sleep::uthread_yield;
    58 pthread_yield uthread_pthread::sleep::uthread_yield;
    59 pthread_kill threads::kill;
    60 pthread_setname_np threads::setname_np;
    61 pthread_getname_np threads::getname_np;
    62 pthread_getattr_np threads::getattr_np;
    63 pthread_getcpuclockid threads::getcpuclockid;
    64 pthread_setschedparam threads::setschedparam;
    65 pthread_getschedparam threads::getschedparam;
    66 pthread_setschedprio threads::setschedprio;
    67 pthread_setaffinity_np threads::setaffinity_np;
    68 pthread_getaffinity_np threads::getaffinity_np;
    69 __pthread_register_cancel cancel::register_cancel;
    70 __pthread_unregister_cancel cancel::unregister_cancel;
    71 __pthread_unwind_next cancel::unwind_next;
    72 read calls::read;
    73 write calls::write;
    74 pread calls::pread;
    75 pread64 calls::pread64;
    76 pwrite calls::pwrite;
    77 pwrite64 calls::pwrite64;
    78 readv calls::readv;
    79 writev calls::writev;
    80 fsync calls::fsync;
    81 fdatasync calls::fdatasync;
    82 open calls::open;
    83 open64 calls::open64;
    84 openat calls::openat;
    85 openat64 calls::openat64;
    86 recv calls::recv;
    87 recvfrom calls::recvfrom;
    88 recvmsg calls::recvmsg;
    89 send calls::send;
    90 sendto calls::sendto;
    91 sendmsg calls::sendmsg;
    92 accept calls::accept;
    93 accept4 calls::accept4;
    94 connect calls::connect;
    95 poll calls::poll;
    96 select calls::select;
    97 sleep calls::sleep;
    98 usleep calls::usleep;
    99 nanosleep calls::nanosleep;
    100 clock_nanosleep calls::clock_nanosleep;
}
