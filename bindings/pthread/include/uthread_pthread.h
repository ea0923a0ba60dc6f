/* Compiles a program that is written for pthreads for fibers: include this in place of `pthread.h`, or
   compile with `-include uthread_pthread.h`. The headers of the C library come first, so that their
   declarations keep their names.

   Without the calls that wait (`read`, `recv`, `sleep`, ..) if UTHREAD_NO_CALLS is defined: in a
   C++ program, methods of these names would be replaced, too. */

#ifndef UTHREAD_PTHREAD_H
#define UTHREAD_PTHREAD_H

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "uthread.h"

#define pthread_attr_t uthread_attr_t
#define pthread_t uthread_t
#define pthread_mutex_t uthread_mutex_t
#define pthread_mutexattr_t uthread_mutexattr_t
#define pthread_cond_t uthread_cond_t
#define pthread_condattr_t uthread_condattr_t
#define pthread_rwlock_t uthread_rwlock_t
#define pthread_barrier_t uthread_barrier_t
#define pthread_spinlock_t uthread_spinlock_t
#define pthread_once_t uthread_once_t
#define pthread_key_t uthread_key_t
#define sem_t uthread_sem_t

#undef PTHREAD_MUTEX_INITIALIZER
#define PTHREAD_MUTEX_INITIALIZER UTHREAD_MUTEX_INITIALIZER
#undef PTHREAD_COND_INITIALIZER
#define PTHREAD_COND_INITIALIZER UTHREAD_COND_INITIALIZER
#undef PTHREAD_RWLOCK_INITIALIZER
#define PTHREAD_RWLOCK_INITIALIZER UTHREAD_RWLOCK_INITIALIZER
#undef PTHREAD_ONCE_INIT
#define PTHREAD_ONCE_INIT UTHREAD_ONCE_INIT
#undef PTHREAD_CANCELED
#define PTHREAD_CANCELED UTHREAD_CANCELED
#undef PTHREAD_CREATE_JOINABLE
#define PTHREAD_CREATE_JOINABLE UTHREAD_CREATE_JOINABLE
#undef PTHREAD_CREATE_DETACHED
#define PTHREAD_CREATE_DETACHED UTHREAD_CREATE_DETACHED
#undef PTHREAD_CANCEL_ENABLE
#define PTHREAD_CANCEL_ENABLE UTHREAD_CANCEL_ENABLE
#undef PTHREAD_CANCEL_DISABLE
#define PTHREAD_CANCEL_DISABLE UTHREAD_CANCEL_DISABLE
#undef PTHREAD_CANCEL_DEFERRED
#define PTHREAD_CANCEL_DEFERRED UTHREAD_CANCEL_DEFERRED
#undef PTHREAD_BARRIER_SERIAL_THREAD
#define PTHREAD_BARRIER_SERIAL_THREAD UTHREAD_BARRIER_SERIAL_THREAD
#undef PTHREAD_MUTEX_NORMAL
#define PTHREAD_MUTEX_NORMAL UTHREAD_MUTEX_NORMAL
#undef PTHREAD_MUTEX_RECURSIVE
#define PTHREAD_MUTEX_RECURSIVE UTHREAD_MUTEX_RECURSIVE
#undef PTHREAD_MUTEX_ERRORCHECK
#define PTHREAD_MUTEX_ERRORCHECK UTHREAD_MUTEX_ERRORCHECK
#undef PTHREAD_MUTEX_DEFAULT
#define PTHREAD_MUTEX_DEFAULT UTHREAD_MUTEX_NORMAL
#undef PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#define PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP UTHREAD_RECURSIVE_MUTEX_INITIALIZER
#undef PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP
#define PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP UTHREAD_ERRORCHECK_MUTEX_INITIALIZER

#undef pthread_cleanup_push
#define pthread_cleanup_push uthread_cleanup_push
#undef pthread_cleanup_pop
#define pthread_cleanup_pop uthread_cleanup_pop
#define pthread_attr_init uthread_attr_init
#define pthread_attr_destroy uthread_attr_destroy
#define pthread_attr_setdetachstate uthread_attr_setdetachstate
#define pthread_attr_getdetachstate uthread_attr_getdetachstate
#define pthread_attr_setstacksize uthread_attr_setstacksize
#define pthread_attr_getstacksize uthread_attr_getstacksize
#define pthread_attr_setguardsize uthread_attr_setguardsize
#define pthread_attr_getguardsize uthread_attr_getguardsize
#define pthread_cancel uthread_cancel
#define pthread_testcancel uthread_testcancel
#define pthread_setcancelstate uthread_setcancelstate
#define pthread_setcanceltype uthread_setcanceltype
#define pthread_create uthread_create
#define pthread_join uthread_join
#define pthread_timedjoin_np uthread_timedjoin_np
#define pthread_clockjoin_np uthread_clockjoin_np
#define pthread_tryjoin_np uthread_tryjoin_np
#define pthread_detach uthread_detach
#define pthread_exit uthread_exit
#define pthread_self uthread_self
#define pthread_equal uthread_equal
#define pthread_getconcurrency uthread_getconcurrency
#define pthread_setconcurrency uthread_setconcurrency
#define pthread_barrier_init uthread_barrier_init
#define pthread_barrier_destroy uthread_barrier_destroy
#define pthread_barrier_wait uthread_barrier_wait
#define pthread_mutex_init uthread_mutex_init
#define pthread_mutex_destroy uthread_mutex_destroy
#define pthread_mutex_lock uthread_mutex_lock
#define pthread_mutex_trylock uthread_mutex_trylock
#define pthread_mutex_timedlock uthread_mutex_timedlock
#define pthread_mutex_unlock uthread_mutex_unlock
#define pthread_mutexattr_init uthread_mutexattr_init
#define pthread_mutexattr_destroy uthread_mutexattr_destroy
#define pthread_mutexattr_settype uthread_mutexattr_settype
#define pthread_mutexattr_gettype uthread_mutexattr_gettype
#define pthread_mutex_clocklock uthread_mutex_clocklock
#define pthread_once uthread_once
#define pthread_key_create uthread_key_create
#define pthread_key_delete uthread_key_delete
#define pthread_getspecific uthread_getspecific
#define pthread_setspecific uthread_setspecific
#define pthread_rwlock_init uthread_rwlock_init
#define pthread_rwlock_destroy uthread_rwlock_destroy
#define pthread_rwlock_rdlock uthread_rwlock_rdlock
#define pthread_rwlock_tryrdlock uthread_rwlock_tryrdlock
#define pthread_rwlock_timedrdlock uthread_rwlock_timedrdlock
#define pthread_rwlock_wrlock uthread_rwlock_wrlock
#define pthread_rwlock_trywrlock uthread_rwlock_trywrlock
#define pthread_rwlock_timedwrlock uthread_rwlock_timedwrlock
#define pthread_rwlock_unlock uthread_rwlock_unlock
#define pthread_rwlock_clockrdlock uthread_rwlock_clockrdlock
#define pthread_rwlock_clockwrlock uthread_rwlock_clockwrlock
#define pthread_spin_init uthread_spin_init
#define pthread_spin_destroy uthread_spin_destroy
#define pthread_spin_lock uthread_spin_lock
#define pthread_spin_trylock uthread_spin_trylock
#define pthread_spin_unlock uthread_spin_unlock
#define pthread_cond_init uthread_cond_init
#define pthread_cond_destroy uthread_cond_destroy
#define pthread_cond_wait uthread_cond_wait
#define pthread_cond_timedwait uthread_cond_timedwait
#define pthread_cond_clockwait uthread_cond_clockwait
#define pthread_cond_signal uthread_cond_signal
#define pthread_cond_broadcast uthread_cond_broadcast
#define pthread_condattr_init uthread_condattr_init
#define pthread_condattr_destroy uthread_condattr_destroy
#define pthread_condattr_setclock uthread_condattr_setclock

#define sem_init uthread_sem_init
#define sem_destroy uthread_sem_destroy
#define sem_wait uthread_sem_wait
#define sem_timedwait uthread_sem_timedwait
#define sem_trywait uthread_sem_trywait
#define sem_post uthread_sem_post
#define sem_getvalue uthread_sem_getvalue
#define sem_clockwait uthread_sem_clockwait

#define sigaction(...) uthread_sigaction(__VA_ARGS__)
#define signal(...) uthread_signal(__VA_ARGS__)

#ifndef UTHREAD_NO_CALLS
#define sched_yield uthread_yield
#define sleep(...) uthread_sleep(__VA_ARGS__)
#define usleep(...) uthread_usleep(__VA_ARGS__)
#define nanosleep(...) uthread_nanosleep(__VA_ARGS__)
#define clock_nanosleep(...) uthread_clock_nanosleep(__VA_ARGS__)
#define read(...) uthread_read(__VA_ARGS__)
#define write(...) uthread_write(__VA_ARGS__)
#define pread(...) uthread_pread(__VA_ARGS__)
#define pwrite(...) uthread_pwrite(__VA_ARGS__)
#define fsync(...) uthread_fsync(__VA_ARGS__)
#define fdatasync(...) uthread_fdatasync(__VA_ARGS__)
#define close(...) uthread_close(__VA_ARGS__)
#define readv(...) uthread_readv(__VA_ARGS__)
#define writev(...) uthread_writev(__VA_ARGS__)
#define poll(...) uthread_poll(__VA_ARGS__)
#define ppoll(...) uthread_ppoll(__VA_ARGS__)
#define select(...) uthread_select(__VA_ARGS__)
#define pselect(...) uthread_pselect(__VA_ARGS__)
#define epoll_wait(...) uthread_epoll_wait(__VA_ARGS__)
#define epoll_pwait(...) uthread_epoll_pwait(__VA_ARGS__)
#define waitpid(...) uthread_waitpid(__VA_ARGS__)
#define wait4(...) uthread_wait4(__VA_ARGS__)
#define waitid(...) uthread_waitid(__VA_ARGS__)
#define recv(...) uthread_recv(__VA_ARGS__)
#define recvfrom(...) uthread_recvfrom(__VA_ARGS__)
#define recvmsg(...) uthread_recvmsg(__VA_ARGS__)
#define send(...) uthread_send(__VA_ARGS__)
#define sendto(...) uthread_sendto(__VA_ARGS__)
#define sendmsg(...) uthread_sendmsg(__VA_ARGS__)
#define accept(...) uthread_accept(__VA_ARGS__)
#define accept4(...) uthread_accept4(__VA_ARGS__)
#define connect(...) uthread_connect(__VA_ARGS__)

/* The mode is optional. */
#define UTHREAD_OPEN(path, flags, mode, ...) uthread_open(path, flags, mode)
#define UTHREAD_OPENAT(directory, path, flags, mode, ...) uthread_openat(directory, path, flags, mode)
#define open(...) UTHREAD_OPEN(__VA_ARGS__, 0, 0)
#define openat(...) UTHREAD_OPENAT(__VA_ARGS__, 0, 0)
#endif

#endif
