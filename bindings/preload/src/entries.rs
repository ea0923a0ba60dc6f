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
    2 pthread_detach uthread_pthread::thread::uthread_detach;
    3 pthread_equal uthread_pthread::thread::uthread_equal;
    4 pthread_cancel uthread_pthread::cancel::uthread_cancel;
    5 pthread_testcancel uthread_pthread::cancel::uthread_testcancel;
    6 pthread_setcancelstate uthread_pthread::cancel::uthread_setcancelstate;
    7 pthread_setcanceltype uthread_pthread::cancel::uthread_setcanceltype;
    8 pthread_getconcurrency uthread_pthread::thread::uthread_getconcurrency;
    9 pthread_setconcurrency uthread_pthread::thread::uthread_setconcurrency;
    10 pthread_exit uthread_pthread::thread::uthread_exit;
    11 pthread_self uthread_pthread::thread::uthread_self;
    12 pthread_create threads::create;
    13 pthread_mutex_destroy objects::mutex_destroy;
    14 pthread_mutex_lock objects::mutex_lock;
    15 pthread_mutex_trylock objects::mutex_trylock;
    16 pthread_mutex_timedlock objects::mutex_timedlock;
    17 pthread_mutex_unlock objects::mutex_unlock;
    18 pthread_mutex_init objects::mutex_init;
    19 pthread_cond_init objects::cond_init;
    20 pthread_cond_destroy objects::cond_destroy;
    21 pthread_cond_wait objects::cond_wait;
    22 pthread_cond_timedwait objects::cond_timedwait;
    23 pthread_cond_clockwait objects::cond_clockwait;
    24 pthread_cond_signal objects::cond_signal;
    25 pthread_cond_broadcast objects::cond_broadcast;
    26 pthread_rwlock_init objects::rwlock_init;
    27 pthread_rwlock_destroy objects::rwlock_destroy;
    28 pthread_rwlock_rdlock objects::rwlock_rdlock;
    29 pthread_rwlock_tryrdlock objects::rwlock_tryrdlock;
    30 pthread_rwlock_timedrdlock objects::rwlock_timedrdlock;
    31 pthread_rwlock_wrlock objects::rwlock_wrlock;
    32 pthread_rwlock_trywrlock objects::rwlock_trywrlock;
    33 pthread_rwlock_timedwrlock objects::rwlock_timedwrlock;
    34 pthread_rwlock_unlock objects::rwlock_unlock;
    35 pthread_barrier_init uthread_pthread::barrier::uthread_barrier_init;
    36 pthread_barrier_destroy uthread_pthread::barrier::uthread_barrier_destroy;
    37 pthread_barrier_wait uthread_pthread::barrier::uthread_barrier_wait;
    38 pthread_spin_init uthread_pthread::spin::uthread_spin_init;
    39 pthread_spin_destroy uthread_pthread::spin::uthread_spin_destroy;
    40 pthread_spin_lock uthread_pthread::spin::uthread_spin_lock;
    41 pthread_spin_trylock uthread_pthread::spin::uthread_spin_trylock;
    42 pthread_spin_unlock uthread_pthread::spin::uthread_spin_unlock;
    43 pthread_once uthread_pthread::once::uthread_once;
    44 sem_init objects::sem_init;
    45 sem_destroy objects::sem_destroy;
    46 sem_wait objects::sem_wait;
    47 sem_timedwait objects::sem_timedwait;
    48 sem_trywait objects::sem_trywait;
    49 sem_post objects::sem_post;
    50 sem_getvalue objects::sem_getvalue;
    51 sched_yield uthread_pthread::sleep::uthread_yield;
    52 pthread_yield uthread_pthread::sleep::uthread_yield;
    53 pthread_kill threads::kill;
    54 pthread_setname_np threads::setname_np;
    55 pthread_getname_np threads::getname_np;
    56 pthread_getattr_np threads::getattr_np;
    57 pthread_getcpuclockid threads::getcpuclockid;
    58 pthread_setschedparam threads::setschedparam;
    59 pthread_getschedparam threads::getschedparam;
    60 pthread_setschedprio threads::setschedprio;
    61 pthread_setaffinity_np threads::setaffinity_np;
    62 pthread_getaffinity_np threads::getaffinity_np;
    63 __pthread_register_cancel cancel::register_cancel;
    64 __pthread_unregister_cancel cancel::unregister_cancel;
    65 __pthread_unwind_next cancel::unwind_next;
    66 read calls::read;
    67 write calls::write;
    68 pread calls::pread;
    69 pread64 calls::pread64;
    70 pwrite calls::pwrite;
    71 pwrite64 calls::pwrite64;
    72 readv calls::readv;
    73 writev calls::writev;
    74 fsync calls::fsync;
    75 fdatasync calls::fdatasync;
    76 open calls::open;
    77 open64 calls::open64;
    78 openat calls::openat;
    79 openat64 calls::openat64;
    80 recv calls::recv;
    81 recvfrom calls::recvfrom;
    82 recvmsg calls::recvmsg;
    83 send calls::send;
    84 sendto calls::sendto;
    85 sendmsg calls::sendmsg;
    86 accept calls::accept;
    87 accept4 calls::accept4;
    88 connect calls::connect;
    89 poll calls::poll;
    90 select calls::select;
    91 sleep calls::sleep;
    92 usleep calls::usleep;
    93 nanosleep calls::nanosleep;
    94 clock_nanosleep calls::clock_nanosleep;
}
