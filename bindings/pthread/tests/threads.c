/* A program that is written for pthreads. The tests compile it once as it is, and once for fibers, with
   the same results. */

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define THREADS 200
#define ROUNDS 100

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int counter;

static pthread_t start(void *(*function)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, function, argument) == 0);
    return thread;
}

static void *result_of(pthread_t thread) {
    void *result;
    CHECK(pthread_join(thread, &result) == 0);
    return result;
}

static struct timespec after_ms(clockid_t clock, long milliseconds) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += milliseconds * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

/* Mutexes */

static void *count(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(pthread_mutex_lock(&lock) == 0);
        int before = counter;
        if (round % 16 == 0)
            sched_yield();
        counter = before + 1;
        CHECK(pthread_mutex_unlock(&lock) == 0);
    }
    return argument;
}

static void many_threads_count_under_a_mutex(void) {
    pthread_t threads[THREADS];
    counter = 0;
    for (intptr_t number = 0; number < THREADS; number++)
        threads[number] = start(count, (void *)number);
    for (intptr_t number = 0; number < THREADS; number++)
        CHECK(result_of(threads[number]) == (void *)number);
    CHECK(counter == THREADS * ROUNDS);
}

static void *try_and_unlock(void *mutex) {
    CHECK(pthread_mutex_trylock(mutex) == EBUSY);
    struct timespec soon = after_ms(CLOCK_REALTIME, 5);
    CHECK(pthread_mutex_timedlock(mutex, &soon) == ETIMEDOUT);
    soon = after_ms(CLOCK_MONOTONIC, 5);
    CHECK(pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &soon) == ETIMEDOUT);
    CHECK(pthread_mutex_unlock(mutex) == EPERM);
    return NULL;
}

static void *wait_without_lock(void *mutex) {
    CHECK(pthread_cond_wait(&changed, mutex) == EPERM);
    return NULL;
}

static void mutexes_are_of_their_kinds(void) {
    pthread_mutexattr_t attr;
    pthread_mutex_t mutex;
    CHECK(pthread_mutexattr_init(&attr) == 0);
    CHECK(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE) == 0);
    CHECK(pthread_mutex_init(&mutex, &attr) == 0);
    for (int depth = 0; depth < 3; depth++)
        CHECK(pthread_mutex_lock(&mutex) == 0);
    CHECK(pthread_mutex_trylock(&mutex) == 0);
    result_of(start(try_and_unlock, &mutex));
    for (int depth = 0; depth < 4; depth++)
        CHECK(pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == EPERM);
    CHECK(pthread_mutex_destroy(&mutex) == 0);

    CHECK(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK) == 0);
    CHECK(pthread_mutex_init(&mutex, &attr) == 0);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    CHECK(pthread_mutex_lock(&mutex) == EDEADLK);
    CHECK(pthread_mutex_destroy(&mutex) == EBUSY);
    result_of(start(try_and_unlock, &mutex));
    result_of(start(wait_without_lock, &mutex));
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_mutex_destroy(&mutex) == 0);
    CHECK(pthread_mutexattr_destroy(&attr) == 0);

    static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    CHECK(pthread_mutex_lock(&recursive) == 0);
    CHECK(pthread_mutex_lock(&recursive) == 0);
    CHECK(pthread_mutex_unlock(&recursive) == 0);
    CHECK(pthread_mutex_unlock(&recursive) == 0);
}

/* Condition variables */

static int turn;

static void *take_turns(void *argument) {
    int own = (int)(intptr_t)argument;
    pthread_mutex_lock(&lock);
    for (int round = 0; round < ROUNDS; round++) {
        while (turn != own)
            CHECK(pthread_cond_wait(&changed, &lock) == 0);
        turn = !own;
        CHECK(pthread_cond_signal(&changed) == 0);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void two_threads_take_turns(void) {
    turn = 0;
    pthread_t one = start(take_turns, (void *)0), other = start(take_turns, (void *)1);
    result_of(one);
    result_of(other);
}

static int gate_is_open, passed;

static void *pass_gate(void *argument) {
    pthread_mutex_lock(&lock);
    while (!gate_is_open)
        pthread_cond_wait(&changed, &lock);
    passed++;
    pthread_mutex_unlock(&lock);
    return argument;
}

static void a_broadcast_wakes_all(void) {
    pthread_t threads[THREADS];
    gate_is_open = passed = 0;
    for (int number = 0; number < THREADS; number++)
        threads[number] = start(pass_gate, NULL);
    usleep(1000);
    pthread_mutex_lock(&lock);
    gate_is_open = 1;
    pthread_mutex_unlock(&lock);
    CHECK(pthread_cond_broadcast(&changed) == 0);
    for (int number = 0; number < THREADS; number++)
        result_of(threads[number]);
    CHECK(passed == THREADS);
}

struct own_gate {
    pthread_mutex_t lock;
    pthread_cond_t *opened;
    int waiting, is_open;
};

static void *pass_own_gate(void *argument) {
    struct own_gate *gate = argument;
    CHECK(pthread_mutex_lock(&gate->lock) == 0);
    gate->waiting++;
    while (!gate->is_open)
        CHECK(pthread_cond_wait(gate->opened, &gate->lock) == 0);
    CHECK(pthread_mutex_unlock(&gate->lock) == 0);
    return NULL;
}

static void a_condition_is_reused_once_its_waiters_are_woken(void) {
    struct own_gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .opened = malloc(sizeof(pthread_cond_t))};
    CHECK(pthread_cond_init(gate.opened, NULL) == 0);
    pthread_t threads[THREADS];
    for (int number = 0; number < THREADS; number++)
        threads[number] = start(pass_own_gate, &gate);
    CHECK(pthread_mutex_lock(&gate.lock) == 0);
    while (gate.waiting < THREADS) {
        CHECK(pthread_mutex_unlock(&gate.lock) == 0);
        usleep(100);
        CHECK(pthread_mutex_lock(&gate.lock) == 0);
    }
    gate.is_open = 1;
    CHECK(pthread_cond_broadcast(gate.opened) == 0);
    CHECK(pthread_mutex_unlock(&gate.lock) == 0);
    CHECK(pthread_cond_destroy(gate.opened) == 0);
    char *reused = memset(gate.opened, 0, sizeof(pthread_cond_t));
    for (int number = 0; number < THREADS; number++)
        result_of(threads[number]);
    for (size_t index = 0; index < sizeof(pthread_cond_t); index++)
        CHECK(reused[index] == 0);
    free(reused);
    CHECK(pthread_mutex_destroy(&gate.lock) == 0);
}

static void a_wait_ends_at_its_deadline(void) {
    clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
    for (int index = 0; index < 2; index++) {
        pthread_condattr_t attr;
        pthread_cond_t never;
        CHECK(pthread_condattr_init(&attr) == 0);
        CHECK(pthread_condattr_setclock(&attr, clocks[index]) == 0);
        CHECK(pthread_cond_init(&never, &attr) == 0);
        CHECK(pthread_condattr_destroy(&attr) == 0);
        struct timespec deadline = after_ms(clocks[index], 10), now;
        CHECK(pthread_mutex_lock(&lock) == 0);
        int result;
        do
            result = pthread_cond_timedwait(&never, &lock, &deadline);
        while (result == 0);
        CHECK(result == ETIMEDOUT);
        CHECK(pthread_mutex_unlock(&lock) == 0);
        clock_gettime(clocks[index], &now);
        CHECK(now.tv_sec > deadline.tv_sec || (now.tv_sec == deadline.tv_sec && now.tv_nsec >= deadline.tv_nsec));
        CHECK(pthread_cond_destroy(&never) == 0);
    }
}

/* Other locks */

static pthread_barrier_t barrier;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static int readers, written;

static void *read_or_write(void *argument) {
    int writes = (intptr_t)argument % 4 == 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (writes) {
            CHECK(pthread_rwlock_wrlock(&rwlock) == 0);
            CHECK(readers == 0);
            int before = written;
            if (round % 8 == 0)
                sched_yield();
            written = before + 1;
        } else {
            CHECK(pthread_rwlock_rdlock(&rwlock) == 0);
            __atomic_add_fetch(&readers, 1, __ATOMIC_RELAXED);
            if (round % 8 == 0)
                sched_yield();
            __atomic_sub_fetch(&readers, 1, __ATOMIC_RELAXED);
        }
        CHECK(pthread_rwlock_unlock(&rwlock) == 0);
    }
    return NULL;
}

static void *read_together(void *argument) {
    CHECK(pthread_rwlock_rdlock(&rwlock) == 0);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_rwlock_unlock(&rwlock) == 0);
    return argument;
}

static void *find_writer(void *argument) {
    CHECK(pthread_rwlock_tryrdlock(&rwlock) == EBUSY);
    CHECK(pthread_rwlock_trywrlock(&rwlock) == EBUSY);
    struct timespec soon = after_ms(CLOCK_REALTIME, 5);
    CHECK(pthread_rwlock_timedrdlock(&rwlock, &soon) == ETIMEDOUT);
    CHECK(pthread_rwlock_timedwrlock(&rwlock, &soon) == ETIMEDOUT);
    soon = after_ms(CLOCK_MONOTONIC, 5);
    CHECK(pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &soon) == ETIMEDOUT);
    CHECK(pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &soon) == ETIMEDOUT);
    return argument;
}

static void a_writer_is_alone_and_readers_are_not(void) {
    enum { COUNT = 16 };
    pthread_t threads[COUNT];
    for (intptr_t number = 0; number < COUNT; number++)
        threads[number] = start(read_or_write, (void *)number);
    for (int number = 0; number < COUNT; number++)
        result_of(threads[number]);
    CHECK(written == COUNT / 4 * ROUNDS);
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    pthread_t reader = start(read_together, NULL);
    read_together(NULL);
    result_of(reader);
    CHECK(pthread_barrier_destroy(&barrier) == 0);
    CHECK(pthread_rwlock_wrlock(&rwlock) == 0);
    CHECK(pthread_rwlock_wrlock(&rwlock) == EDEADLK);
    result_of(start(find_writer, NULL));
    CHECK(pthread_rwlock_unlock(&rwlock) == 0);
}

static sem_t permits;
static int inside;

static void *use_permit(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(sem_wait(&permits) == 0);
        CHECK(__atomic_add_fetch(&inside, 1, __ATOMIC_RELAXED) <= 3);
        sched_yield();
        __atomic_sub_fetch(&inside, 1, __ATOMIC_RELAXED);
        CHECK(sem_post(&permits) == 0);
    }
    return argument;
}

static void *post_late(void *semaphore) {
    usleep(5000);
    CHECK(sem_post(semaphore) == 0);
    return NULL;
}

static void no_more_have_permits_than_there_are(void) {
    enum { COUNT = 16 };
    pthread_t threads[COUNT];
    CHECK(sem_init(&permits, 0, 3) == 0);
    for (int number = 0; number < COUNT; number++)
        threads[number] = start(use_permit, NULL);
    for (int number = 0; number < COUNT; number++)
        result_of(threads[number]);
    int value;
    CHECK(sem_getvalue(&permits, &value) == 0 && value == 3);
    for (int number = 0; number < 3; number++)
        CHECK(sem_trywait(&permits) == 0);
    CHECK(sem_trywait(&permits) == -1 && errno == EAGAIN);
    struct timespec soon = after_ms(CLOCK_REALTIME, 5);
    CHECK(sem_timedwait(&permits, &soon) == -1 && errno == ETIMEDOUT);
    soon = after_ms(CLOCK_MONOTONIC, 5);
    CHECK(sem_clockwait(&permits, CLOCK_MONOTONIC, &soon) == -1 && errno == ETIMEDOUT);
    pthread_t poster = start(post_late, &permits);
    soon = after_ms(CLOCK_MONOTONIC, 60000);
    CHECK(sem_clockwait(&permits, CLOCK_MONOTONIC, &soon) == 0);
    result_of(poster);
    CHECK(sem_destroy(&permits) == 0);
}

static int arrived, serial;

static void *meet(void *argument) {
    for (int round = 1; round <= ROUNDS; round++) {
        __atomic_add_fetch(&arrived, 1, __ATOMIC_RELAXED);
        int result = pthread_barrier_wait(&barrier);
        CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        CHECK(__atomic_load_n(&arrived, __ATOMIC_RELAXED) >= 8 * round);
        if (result == PTHREAD_BARRIER_SERIAL_THREAD)
            __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
    }
    return argument;
}

static void threads_meet_at_a_barrier(void) {
    pthread_t threads[8];
    CHECK(pthread_barrier_init(&barrier, NULL, 0) == EINVAL);
    CHECK(pthread_barrier_init(&barrier, NULL, 8) == 0);
    for (int number = 0; number < 8; number++)
        threads[number] = start(meet, NULL);
    for (int number = 0; number < 8; number++)
        result_of(threads[number]);
    CHECK(arrived == 8 * ROUNDS && serial == ROUNDS);
    CHECK(pthread_barrier_destroy(&barrier) == 0);
}

static pthread_spinlock_t spinlock;

static void *spin(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(pthread_spin_lock(&spinlock) == 0);
        counter++;
        CHECK(pthread_spin_unlock(&spinlock) == 0);
    }
    return argument;
}

static void a_spin_lock_has_one_owner(void) {
    pthread_t threads[16];
    counter = 0;
    CHECK(pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE) == 0);
    for (int number = 0; number < 16; number++)
        threads[number] = start(spin, NULL);
    for (int number = 0; number < 16; number++)
        result_of(threads[number]);
    CHECK(counter == 16 * ROUNDS);
    CHECK(pthread_spin_lock(&spinlock) == 0);
    CHECK(pthread_spin_trylock(&spinlock) == EBUSY);
    CHECK(pthread_spin_unlock(&spinlock) == 0);
    CHECK(pthread_spin_destroy(&spinlock) == 0);
}

/* Once, and values of a thread */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int initialized;

static void initialize(void) {
    usleep(2000);
    initialized++;
}

static void *use_initialized(void *argument) {
    CHECK(pthread_once(&once, initialize) == 0);
    CHECK(initialized == 1);
    return argument;
}

static void one_thread_initializes(void) {
    pthread_t threads[8];
    for (int number = 0; number < 8; number++)
        threads[number] = start(use_initialized, NULL);
    for (int number = 0; number < 8; number++)
        result_of(threads[number]);
}

static pthread_key_t key;
static int destroyed;
static __thread int own_value;

static void destroy(void *value) {
    CHECK(*(int *)value == 7);
    free(value);
    __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
}

static void *have_values(void *argument) {
    CHECK(pthread_getspecific(key) == NULL && own_value == 0);
    int *value = malloc(sizeof *value);
    *value = 7;
    CHECK(pthread_setspecific(key, value) == 0);
    for (int round = 0; round < 3; round++) {
        own_value++;
        errno = own_value;
        usleep(100);
        CHECK(own_value == round + 1 && pthread_getspecific(key) == value);
    }
    return argument;
}

static void each_thread_has_its_own_values(void) {
    pthread_t threads[16];
    CHECK(pthread_key_create(&key, destroy) == 0);
    for (int number = 0; number < 16; number++)
        threads[number] = start(have_values, NULL);
    for (int number = 0; number < 16; number++)
        result_of(threads[number]);
    CHECK(destroyed == 16);
    CHECK(pthread_key_delete(key) == 0);
}

/* The life of a thread */

static void *exit_deep(void *argument) {
    pthread_exit((char *)argument + 1);
}

static void *join_oneself(void *argument) {
    CHECK(pthread_equal(pthread_self(), pthread_self()));
    CHECK(pthread_join(pthread_self(), NULL) == EDEADLK);
    return argument;
}

static void *sleep_a_little(void *argument) {
    usleep(50000);
    return argument;
}

static void *use_much_stack(void *argument) {
    volatile char memory[4 << 20];
    for (size_t place = 0; place < sizeof memory; place += 4096)
        memory[place] = 1;
    return argument;
}

static void *post(void *semaphore) {
    CHECK(sem_post(semaphore) == 0);
    return NULL;
}

static void threads_end_and_are_joined(void) {
    CHECK(result_of(start(exit_deep, (void *)41)) == (void *)42);
    CHECK(result_of(start(join_oneself, (void *)1)) == (void *)1);

    pthread_t late = start(sleep_a_little, (void *)2);
    struct timespec soon = after_ms(CLOCK_REALTIME, 5);
    CHECK(pthread_timedjoin_np(late, NULL, &soon) == ETIMEDOUT);
    CHECK(pthread_tryjoin_np(late, NULL) == EBUSY);
    soon = after_ms(CLOCK_MONOTONIC, 5);
    CHECK(pthread_clockjoin_np(late, NULL, CLOCK_MONOTONIC, &soon) == ETIMEDOUT);
    CHECK(result_of(late) == (void *)2);
    late = start(sleep_a_little, NULL);
    while (pthread_tryjoin_np(late, NULL) == EBUSY)
        usleep(1000);

    pthread_attr_t attr;
    size_t size;
    int state;
    pthread_t thread;
    CHECK(pthread_attr_init(&attr) == 0);
    CHECK(pthread_attr_setstacksize(&attr, 8 << 20) == 0);
    CHECK(pthread_attr_getstacksize(&attr, &size) == 0 && size == 8 << 20);
    CHECK(pthread_create(&thread, &attr, use_much_stack, (void *)3) == 0);
    CHECK(result_of(thread) == (void *)3);

    sem_t ended;
    CHECK(sem_init(&ended, 0, 0) == 0);
    CHECK(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0);
    CHECK(pthread_attr_getdetachstate(&attr, &state) == 0 && state == PTHREAD_CREATE_DETACHED);
    CHECK(pthread_create(&thread, &attr, post, &ended) == 0);
    CHECK(sem_wait(&ended) == 0);
    CHECK(pthread_detach(start(post, &ended)) == 0);
    CHECK(sem_wait(&ended) == 0);
    CHECK(pthread_attr_destroy(&attr) == 0);
    CHECK(sem_destroy(&ended) == 0);
}

/* Cancellation */

static int pipe_ends[2], cleaned;
static sem_t reached;

static void clean(void *argument) {
    cleaned = cleaned * 10 + (int)(intptr_t)argument;
    usleep(100);
}

static void *read_for_ever(void *argument) {
    char byte;
    pthread_cleanup_push(clean, (void *)1);
    pthread_cleanup_push(clean, (void *)2);
    sem_post(&reached);
    while (read(pipe_ends[0], &byte, 1) != 0)
        ;
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return argument;
}

static void unlock(void *mutex) {
    CHECK(pthread_mutex_unlock(mutex) == 0);
}

static void *wait_for_ever(void *argument) {
    pthread_mutex_lock(&lock);
    pthread_cleanup_push(unlock, &lock);
    sem_post(&reached);
    for (;;)
        pthread_cond_wait(&changed, &lock);
    pthread_cleanup_pop(1);
    return argument;
}

static void *sleep_for_ever(void *argument) {
    sem_post(&reached);
    sleep(1000);
    return argument;
}

static void *keep_on(void *argument) {
    int before;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before) == 0);
    CHECK(before == PTHREAD_CANCEL_ENABLE);
    sem_post(&reached);
    usleep(20000);
    pthread_testcancel();
    counter = 77;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
    pthread_testcancel();
    return argument;
}

static void cancel(void *(*function)(void *)) {
    pthread_t thread = start(function, NULL);
    CHECK(sem_wait(&reached) == 0);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(result_of(thread) == PTHREAD_CANCELED);
}

static void cancelled_threads_clean_up(void) {
    CHECK(pipe(pipe_ends) == 0 && sem_init(&reached, 0, 0) == 0);
    cancel(read_for_ever);
    CHECK(cleaned == 21);
    cancel(wait_for_ever);
    CHECK(pthread_mutex_trylock(&lock) == 0 && pthread_mutex_unlock(&lock) == 0);
    cancel(sleep_for_ever);
    counter = 0;
    cancel(keep_on);
    CHECK(counter == 77);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

/* Calls */

static void *echo(void *argument) {
    int fd = (int)(intptr_t)argument;
    char buffer[64];
    for (;;) {
        ssize_t count = recv(fd, buffer, sizeof buffer, 0);
        if (count <= 0)
            break;
        CHECK(send(fd, buffer, count, MSG_NOSIGNAL) == count);
    }
    CHECK(close(fd) == 0);
    return NULL;
}

static struct sockaddr_in address;

static void *ask(void *argument) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        char sent[16], received[16] = {0};
        snprintf(sent, sizeof sent, "%d %d", fd, round);
        CHECK(write(fd, sent, sizeof sent) == sizeof sent);
        CHECK(recv(fd, received, sizeof received, MSG_WAITALL) == sizeof received);
        CHECK(memcmp(sent, received, sizeof sent) == 0);
    }
    CHECK(close(fd) == 0);
    return argument;
}

static int listen_somewhere(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    CHECK(bind(listener, (struct sockaddr *)&address, length) == 0);
    CHECK(listen(listener, 128) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    return listener;
}

static void a_thread_serves_each_connection(void) {
    enum { CLIENTS = 50 };
    pthread_t clients[CLIENTS], servers[CLIENTS];
    int listener = listen_somewhere();
    for (int number = 0; number < CLIENTS; number++)
        clients[number] = start(ask, NULL);
    for (int number = 0; number < CLIENTS; number++) {
        struct sockaddr_in peer;
        socklen_t length = sizeof peer;
        int fd = accept(listener, (struct sockaddr *)&peer, &length);
        CHECK(fd >= 0 && peer.sin_family == AF_INET);
        CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0);
        servers[number] = start(echo, (void *)(intptr_t)fd);
    }
    for (int number = 0; number < CLIENTS; number++) {
        result_of(clients[number]);
        result_of(servers[number]);
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(close(listener) == 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == -1 && errno == ECONNREFUSED);
    CHECK(close(fd) == 0);
}

static void *serve_each(void *listener) {
    for (;;) {
        int fd = accept((int)(intptr_t)listener, NULL, NULL);
        CHECK(fd >= 0);
        echo((void *)(intptr_t)fd);
    }
}

static void threads_share_a_listener(void) {
    enum { CLIENTS = 50, SERVERS = 5 };
    pthread_t clients[CLIENTS], servers[SERVERS];
    int listener = listen_somewhere();
    for (int number = 0; number < SERVERS; number++)
        servers[number] = start(serve_each, (void *)(intptr_t)listener);
    for (int number = 0; number < CLIENTS; number++)
        clients[number] = start(ask, NULL);
    for (int number = 0; number < CLIENTS; number++)
        result_of(clients[number]);
    for (int number = 0; number < SERVERS; number++) {
        CHECK(pthread_cancel(servers[number]) == 0);
        CHECK(result_of(servers[number]) == PTHREAD_CANCELED);
    }
    struct timeval soon = {0, 5000};
    CHECK(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon) == 0);
    CHECK(accept(listener, NULL, NULL) == -1 && errno == EAGAIN);
    CHECK((fcntl(listener, F_GETFL) & O_NONBLOCK) == 0 && close(listener) == 0);
    CHECK(accept(listener, NULL, NULL) == -1 && errno == EBADF);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(accept(fd, NULL, NULL) == -1 && errno == EOPNOTSUPP && close(fd) == 0);
}

static void *write_late(void *argument) {
    usleep(20000);
    CHECK(write((int)(intptr_t)argument, "x", 1) == 1);
    return NULL;
}

static void *wait_for_descriptors(void *argument) {
    int one[2], other[2];
    char byte;
    CHECK(pipe(one) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, other) == 0);
    struct pollfd wanted[] = {{.fd = one[0], .events = POLLIN}, {.fd = other[0], .events = POLLIN}, {.fd = -1}};
    CHECK(poll(wanted, 3, 0) == 0);
    CHECK(poll(wanted, 3, 5) == 0);
    /* Twice the same, and a file of which nothing is wanted. */
    struct pollfd twice[] = {{.fd = other[0], .events = POLLPRI}, {.fd = other[0], .events = POLLIN}, {.fd = 0}};
    twice[2].fd = open("/proc/self/exe", O_RDONLY);
    CHECK(twice[2].fd >= 0 && poll(twice, 3, 5) == 0);
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    CHECK(poll(twice, 3, 200) == 0 && close(twice[2].fd) == 0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    CHECK((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 < 100);

    pthread_t writer = start(write_late, (void *)(intptr_t)other[1]);
    CHECK(poll(wanted, 3, -1) == 1);
    CHECK(wanted[0].revents == 0 && wanted[1].revents == POLLIN);
    result_of(writer);
    CHECK(read(other[0], &byte, 1) == 1 && byte == 'x');

    fd_set set;
    struct timeval short_time = {.tv_usec = 5000};
    FD_ZERO(&set);
    FD_SET(one[0], &set);
    FD_SET(other[0], &set);
    CHECK(select(other[0] + 1, &set, NULL, NULL, &short_time) == 0);
    CHECK(!FD_ISSET(one[0], &set));
    FD_SET(one[0], &set);
    FD_SET(other[0], &set);
    writer = start(write_late, (void *)(intptr_t)one[1]);
    CHECK(select(other[0] + 1, &set, NULL, NULL, NULL) == 1);
    CHECK(FD_ISSET(one[0], &set) && !FD_ISSET(other[0], &set));
    result_of(writer);
    struct iovec vectors[] = {{.iov_base = &byte, .iov_len = 1}, {.iov_base = &byte, .iov_len = 1}};
    CHECK(readv(one[0], vectors, 2) == 1 && byte == 'x');
    CHECK(writev(other[1], vectors, 2) == 2);
    CHECK(readv(other[0], vectors, 2) == 2);

    /* All bytes that were asked for are received. */
    char bytes[3];
    writer = start(write_late, (void *)(intptr_t)other[1]);
    CHECK(send(other[1], "ab", 2, 0) == 2);
    CHECK(recv(other[0], bytes, 3, MSG_WAITALL) == 3 && memcmp(bytes, "abx", 3) == 0);
    result_of(writer);

    /* A limit of time is that of the socket, and a non-blocking descriptor does not wait. */
    struct timeval limit = {.tv_usec = 5000};
    CHECK(setsockopt(other[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(recv(other[0], &byte, 1, 0) == -1 && errno == EAGAIN);
    CHECK(fcntl(one[0], F_SETFL, O_NONBLOCK) == 0);
    CHECK(read(one[0], &byte, 1) == -1 && errno == EAGAIN);
    close(one[1]);
    CHECK(read(one[0], &byte, 1) == 0);
    close(one[0]);
    CHECK(read(one[0], &byte, 1) == -1 && errno == EBADF);
    close(other[0]);
    CHECK(send(other[1], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    close(other[1]);
    return argument;
}

static void *use_file(void *argument) {
    char name[] = "/tmp/uthread-pthread-XXXXXX", buffer[8] = {0};
    int fd = mkstemp(name);
    CHECK(fd >= 0 && unlink(name) == 0);
    CHECK(write(fd, "0123456789", 10) == 10);
    CHECK(pwrite(fd, "ab", 2, 4) == 2);
    struct iovec vectors[] = {{.iov_base = "xy", .iov_len = 2}, {.iov_base = "z", .iov_len = 1}};
    CHECK(writev(fd, vectors, 2) == 3 && lseek(fd, 0, SEEK_CUR) == 13);
    CHECK(ftruncate(fd, 10) == 0 && lseek(fd, 0, SEEK_END) == 10);
    CHECK(fsync(fd) == 0 && fdatasync(fd) == 0);
    CHECK(pread(fd, buffer, 4, 3) == 4 && memcmp(buffer, "3ab6", 4) == 0);
    CHECK(read(fd, buffer, 4) == 0);
    CHECK(lseek(fd, 8, SEEK_SET) == 8);
    CHECK(read(fd, buffer, 4) == 2 && memcmp(buffer, "89", 2) == 0);
    CHECK(close(fd) == 0);
    CHECK(open(name, O_RDONLY) == -1 && errno == ENOENT);
    fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && unlink(name) == 0 && close(fd) == 0);
    return argument;
}

static void calls_wait_and_report(void) {
    result_of(start(wait_for_descriptors, NULL));
    wait_for_descriptors(NULL);
    result_of(start(use_file, NULL));
    use_file(NULL);
    struct timespec none = {0}, wrong = {.tv_nsec = 1000000000};
    CHECK(nanosleep(&none, NULL) == 0);
    CHECK(nanosleep(&wrong, NULL) == -1 && errno == EINVAL);
    struct timespec soon = after_ms(CLOCK_MONOTONIC, 3);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &soon, NULL) == 0);
}

static void the_level_changes_while_threads_run(void) {
    pthread_t threads[THREADS];
    counter = 0;
    for (intptr_t number = 0; number < THREADS; number++)
        threads[number] = start(count, (void *)number);
    for (int round = 0; round < ROUNDS; round++) {
        /* More than there can be, too. */
        int level = round % 4 == 3 ? 1000000 : round % 4;
        CHECK(pthread_setconcurrency(level) == 0);
        CHECK(level == 0 || pthread_getconcurrency() >= 1);
        CHECK(level != 1 || pthread_getconcurrency() == 1);
        usleep(100);
    }
    CHECK(pthread_setconcurrency(-1) == EINVAL);
    for (intptr_t number = 0; number < THREADS; number++)
        CHECK(result_of(threads[number]) == (void *)number);
    CHECK(counter == THREADS * ROUNDS);
    CHECK(pthread_setconcurrency(0) == 0);
}

static void *end_last(void *argument) {
    usleep(20000);
    puts("passed");
    fflush(stdout);
    return argument;
}

int main(void) {
    many_threads_count_under_a_mutex();
    mutexes_are_of_their_kinds();
    two_threads_take_turns();
    a_broadcast_wakes_all();
    a_condition_is_reused_once_its_waiters_are_woken();
    a_wait_ends_at_its_deadline();
    a_writer_is_alone_and_readers_are_not();
    no_more_have_permits_than_there_are();
    threads_meet_at_a_barrier();
    a_spin_lock_has_one_owner();
    one_thread_initializes();
    each_thread_has_its_own_values();
    threads_end_and_are_joined();
    cancelled_threads_clean_up();
    a_thread_serves_each_connection();
    threads_share_a_listener();
    calls_wait_and_report();
    the_level_changes_while_threads_run();
    /* The process waits for the last thread. */
    CHECK(pthread_detach(start(end_last, NULL)) == 0);
    pthread_exit(NULL);
}
