//! The functions that are replaced.

use std::ffi::CStr;

/// Calls a macro with the name of each function, and what takes its place.
macro_rules! functions {
    ($with:ident) => {
        $with! {
            pthread_join uthread_pthread::thread::uthread_join;
            pthread_timedjoin_np uthread_pthread::thread::uthread_timedjoin_np;
            pthread_clockjoin_np uthread_pthread::thread::uthread_clockjoin_np;
            pthread_tryjoin_np uthread_pthread::thread::uthread_tryjoin_np;
            pthread_detach uthread_pthread::thread::uthread_detach;
            pthread_equal uthread_pthread::thread::uthread_equal;
            pthread_cancel uthread_pthread::cancel::uthread_cancel;
            pthread_testcancel uthread_pthread::cancel::uthread_testcancel;
            pthread_setcancelstate uthread_pthread::cancel::uthread_setcancelstate;
            pthread_setcanceltype uthread_pthread::cancel::uthread_setcanceltype;
            pthread_getconcurrency uthread_pthread::thread::uthread_getconcurrency;
            pthread_setconcurrency uthread_pthread::thread::uthread_setconcurrency;
            pthread_exit uthread_pthread::thread::uthread_exit;
            pthread_self uthread_pthread::thread::uthread_self;
            pthread_create threads::pthread_create;
            pthread_mutex_destroy objects::pthread_mutex_destroy;
            pthread_mutex_lock objects::pthread_mutex_lock;
            pthread_mutex_trylock objects::pthread_mutex_trylock;
            pthread_mutex_timedlock objects::pthread_mutex_timedlock;
            pthread_mutex_clocklock objects::pthread_mutex_clocklock;
            pthread_mutex_unlock objects::pthread_mutex_unlock;
            pthread_mutex_init objects::pthread_mutex_init;
            pthread_cond_init objects::pthread_cond_init;
            pthread_cond_destroy objects::pthread_cond_destroy;
            pthread_cond_wait objects::pthread_cond_wait;
            pthread_cond_timedwait objects::pthread_cond_timedwait;
            pthread_cond_clockwait objects::pthread_cond_clockwait;
            pthread_cond_signal objects::pthread_cond_signal;
            pthread_cond_broadcast objects::pthread_cond_broadcast;
            pthread_rwlock_init objects::pthread_rwlock_init;
            pthread_rwlock_destroy objects::pthread_rwlock_destroy;
            pthread_rwlock_rdlock objects::pthread_rwlock_rdlock;
            pthread_rwlock_tryrdlock objects::pthread_rwlock_tryrdlock;
            pthread_rwlock_timedrdlock objects::pthread_rwlock_timedrdlock;
            pthread_rwlock_clockrdlock objects::pthread_rwlock_clockrdlock;
            pthread_rwlock_wrlock objects::pthread_rwlock_wrlock;
            pthread_rwlock_trywrlock objects::pthread_rwlock_trywrlock;
            pthread_rwlock_timedwrlock objects::pthread_rwlock_timedwrlock;
            pthread_rwlock_clockwrlock objects::pthread_rwlock_clockwrlock;
            pthread_rwlock_unlock objects::pthread_rwlock_unlock;
            pthread_barrier_init objects::pthread_barrier_init;
            pthread_barrier_destroy objects::pthread_barrier_destroy;
            pthread_barrier_wait objects::pthread_barrier_wait;
            pthread_spin_init uthread_pthread::spin::uthread_spin_init;
            pthread_spin_destroy uthread_pthread::spin::uthread_spin_destroy;
            pthread_spin_lock uthread_pthread::spin::uthread_spin_lock;
            pthread_spin_trylock uthread_pthread::spin::uthread_spin_trylock;
            pthread_spin_unlock uthread_pthread::spin::uthread_spin_unlock;
            pthread_once uthread_pthread::once::uthread_once;
            sem_init objects::sem_init;
            sem_destroy objects::sem_destroy;
            sem_wait objects::sem_wait;
            sem_timedwait objects::sem_timedwait;
            sem_clockwait objects::sem_clockwait;
            sem_trywait objects::sem_trywait;
            sem_post objects::sem_post;
            sem_getvalue objects::sem_getvalue;
            sched_yield uthread_pthread::sleep::uthread_yield;
            pthread_yield uthread_pthread::sleep::uthread_yield;
            pthread_kill threads::pthread_kill;
            pthread_setname_np threads::pthread_setname_np;
            pthread_getname_np threads::pthread_getname_np;
            pthread_getattr_np threads::pthread_getattr_np;
            pthread_getcpuclockid threads::pthread_getcpuclockid;
            pthread_setschedparam threads::pthread_setschedparam;
            pthread_getschedparam threads::pthread_getschedparam;
            pthread_setschedprio threads::pthread_setschedprio;
            pthread_setaffinity_np threads::pthread_setaffinity_np;
            pthread_getaffinity_np threads::pthread_getaffinity_np;
            sigaction signals::sigaction;
            signal signals::signal;
            bsd_signal signals::bsd_signal;
            ssignal signals::ssignal;
            sysv_signal signals::sysv_signal;
            __sysv_signal signals::__sysv_signal;
            sigset signals::sigset;
            __pthread_register_cancel cancel::__pthread_register_cancel;
            __pthread_unregister_cancel cancel::__pthread_unregister_cancel;
            __pthread_unwind_next cancel::__pthread_unwind_next;
            read calls::read;
            write calls::write;
            pread calls::pread;
            pread64 calls::pread64;
            pwrite calls::pwrite;
            pwrite64 calls::pwrite64;
            readv calls::readv;
            writev calls::writev;
            fsync calls::fsync;
            fdatasync calls::fdatasync;
            open calls::open;
            open64 calls::open64;
            openat calls::openat;
            openat64 calls::openat64;
            recv calls::recv;
            recvfrom calls::recvfrom;
            recvmsg calls::recvmsg;
            send calls::send;
            sendto calls::sendto;
            sendmsg calls::sendmsg;
            accept calls::accept;
            accept4 calls::accept4;
            connect calls::connect;
            poll calls::poll;
            select calls::select;
            ppoll calls::ppoll;
            pselect calls::pselect;
            epoll_wait calls::epoll_wait;
            epoll_pwait calls::epoll_pwait;
            wait calls::wait;
            waitpid calls::waitpid;
            wait3 calls::wait3;
            wait4 calls::wait4;
            waitid calls::waitid;
            syscall futex::syscall;
            sleep calls::sleep;
            usleep calls::usleep;
            nanosleep calls::nanosleep;
            clock_nanosleep calls::clock_nanosleep;
        }
    };
}
pub(crate) use functions;

/// Defines the functions as values.
macro_rules! values {
    ($($name:ident $replacement:path;)*) => {
        /// A function that is replaced.
        #[allow(non_camel_case_types, reason = "the names of functions of C")]
        #[derive(Clone, Copy)]
        pub(crate) enum Function {
            $($name),*
        }

        impl Function {
            pub(crate) const ALL: &[Function] = &[$(Function::$name),*];

            pub(crate) fn name(self) -> &'static CStr {
                match self {
                    $(Function::$name => {
                        const NAME: &str = concat!(stringify!($name), "\0");
                        CStr::from_bytes_with_nul(NAME.as_bytes()).expect("a name has no zero")
                    })*
                }
            }
        }
    };
}

functions!(values);
