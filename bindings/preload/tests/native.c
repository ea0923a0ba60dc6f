/* What stays with glibc, or is as it makes it: objects that processes share, and the size of a stack. */

#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../pthread/tests/check.h"

#define ROUNDS 100

struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_rwlock_t rwlock;
    pthread_barrier_t barrier;
    sem_t semaphore;
    int turn;
};

static struct shared *shared;

static void initialize(void) {
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pthread_rwlockattr_t rwlock;
    pthread_barrierattr_t barrier;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    CHECK(pthread_mutexattr_init(&mutex) == 0);
    CHECK(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_mutex_init(&shared->mutex, &mutex) == 0);
    CHECK(pthread_condattr_init(&condition) == 0);
    CHECK(pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_cond_init(&shared->changed, &condition) == 0);
    CHECK(pthread_rwlockattr_init(&rwlock) == 0);
    CHECK(pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_rwlock_init(&shared->rwlock, &rwlock) == 0);
    CHECK(pthread_barrierattr_init(&barrier) == 0);
    CHECK(pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_barrier_init(&shared->barrier, &barrier, 2) == 0);
    CHECK(sem_init(&shared->semaphore, 1, 0) == 0);
}

static void take_turns(int own) {
    for (int round = 0; round < ROUNDS; round++) {
        int result = pthread_barrier_wait(&shared->barrier);
        CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
    }
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(pthread_mutex_lock(&shared->mutex) == 0);
        while (shared->turn != own)
            CHECK(pthread_cond_wait(&shared->changed, &shared->mutex) == 0);
        shared->turn = !own;
        CHECK(pthread_cond_broadcast(&shared->changed) == 0);
        CHECK(pthread_mutex_unlock(&shared->mutex) == 0);
    }
}

static void *take_turns_with_child(void *argument) {
    take_turns(0);
    CHECK(sem_wait(&shared->semaphore) == 0);
    CHECK(pthread_rwlock_tryrdlock(&shared->rwlock) == EBUSY);
    CHECK(sem_post(argument) == 0);
    /* The child ends with the mutex. */
    CHECK(sem_wait(&shared->semaphore) == 0);
    CHECK(pthread_mutex_lock(&shared->mutex) == EOWNERDEAD);
    CHECK(pthread_mutex_consistent(&shared->mutex) == 0);
    CHECK(pthread_mutex_unlock(&shared->mutex) == 0);
    return NULL;
}

static void processes_share_objects(void) {
    char name[64];
    snprintf(name, sizeof name, "/uthread-preload-%d", (int)getpid());
    sem_t *named = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    CHECK(named != SEM_FAILED && sem_unlink(name) == 0);
    initialize();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        take_turns(1);
        CHECK(pthread_rwlock_wrlock(&shared->rwlock) == 0);
        CHECK(sem_post(&shared->semaphore) == 0);
        CHECK(sem_wait(named) == 0);
        CHECK(pthread_rwlock_unlock(&shared->rwlock) == 0);
        CHECK(pthread_mutex_lock(&shared->mutex) == 0);
        CHECK(sem_post(&shared->semaphore) == 0);
        _exit(0);
    }
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, take_turns_with_child, named) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* A mutex of glibc with a condition variable that is not, and a mutex with priority inheritance, which
   the kernel could not give to a fiber. */

static struct turns {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int turn;
} turns;

static void *take_turns_alone(void *argument) {
    int own = argument != NULL;
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(pthread_mutex_lock(&turns.mutex) == 0);
        while (turns.turn != own)
            CHECK(pthread_cond_wait(&turns.changed, &turns.mutex) == 0);
        turns.turn = !own;
        /* The other one waits for the mutex meanwhile. */
        sched_yield();
        CHECK(pthread_cond_broadcast(&turns.changed) == 0);
        CHECK(pthread_mutex_unlock(&turns.mutex) == 0);
    }
    return NULL;
}

static void *see_deadlines(void *argument) {
    struct timespec time = {0, 0};
    CHECK(pthread_mutex_lock(&turns.mutex) == 0);
    CHECK(pthread_cond_timedwait(&turns.changed, &turns.mutex, &time) == ETIMEDOUT);
    CHECK(pthread_cond_clockwait(&turns.changed, &turns.mutex, CLOCK_MONOTONIC, &time) == ETIMEDOUT);
    time.tv_nsec = -1;
    CHECK(pthread_cond_timedwait(&turns.changed, &turns.mutex, &time) == EINVAL);
    CHECK(pthread_mutex_unlock(&turns.mutex) == 0);
    return argument;
}

static void a_mutex_waits_with_a_condition(int is_robust, int inherits) {
    pthread_t threads[2], other;
    pthread_mutexattr_t mutex;
    CHECK(pthread_mutexattr_init(&mutex) == 0);
    if (is_robust)
        CHECK(pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST) == 0);
    if (inherits)
        CHECK(pthread_mutexattr_setprotocol(&mutex, PTHREAD_PRIO_INHERIT) == 0);
    CHECK(pthread_mutex_init(&turns.mutex, &mutex) == 0);
    CHECK(pthread_cond_init(&turns.changed, NULL) == 0);
    CHECK(pthread_create(&threads[0], NULL, take_turns_alone, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, take_turns_alone, threads) == 0);
    CHECK(pthread_join(threads[0], NULL) == 0);
    CHECK(pthread_join(threads[1], NULL) == 0);
    CHECK(pthread_create(&other, NULL, see_deadlines, NULL) == 0);
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(pthread_mutex_destroy(&turns.mutex) == 0 && pthread_cond_destroy(&turns.changed) == 0);
}

static void *use_much_stack(void *argument) {
    volatile char memory[4 << 20];
    for (size_t place = 0; place < sizeof memory; place += 4096)
        memory[place] = 1;
    return argument;
}

static void a_stack_is_as_large_as_that_of_a_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use_much_stack, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void) {
    processes_share_objects();
    a_mutex_waits_with_a_condition(1, 0);
    a_mutex_waits_with_a_condition(0, 1);
    a_mutex_waits_with_a_condition(1, 1);
    a_stack_is_as_large_as_that_of_a_thread();
    puts("passed");
    return 0;
}
