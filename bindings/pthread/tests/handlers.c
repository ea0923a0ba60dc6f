/* Handlers of signals, which interrupt threads wherever they are, and make the calls that a handler may
   make. */

#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define THREADS 20
#define SIGNALS 2000

static sem_t turn, posted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int ends;
static int ends_of_pipe[2];

static void install(int number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_flags = flags};
    action.sa_handler = handler;
    CHECK(sigaction(number, &action, NULL) == 0);
}

static pthread_t start(void *(*function)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, function, argument) == 0);
    return thread;
}

static void join(pthread_t thread) {
    CHECK(pthread_join(thread, NULL) == 0);
}

static void post(int number) {
    (void)number;
    CHECK(sem_post(&posted) == 0);
}

static void tell(int number) {
    char byte = number;
    struct timespec pause = {0, 1000};
    CHECK(sem_post(&posted) == 0);
    CHECK(nanosleep(&pause, NULL) == 0);
    CHECK(write(ends_of_pipe[1], &byte, 1) == 1 || errno == EAGAIN);
}

static void nothing(int number) {
    (void)number;
}

/* Is mostly in code of the library. */
static void *work(void *argument) {
    (void)argument;
    while (!ends) {
        CHECK(pthread_mutex_lock(&lock) == 0);
        CHECK(pthread_mutex_unlock(&lock) == 0);
        CHECK(sem_wait(&turn) == 0);
        CHECK(sem_post(&turn) == 0);
        sched_yield();
    }
    return NULL;
}

static void *wait_for_posts(void *argument) {
    (void)argument;
    for (int round = 0; round < SIGNALS; round++)
        CHECK(sem_wait(&posted) == 0);
    return NULL;
}

static void *read_what_handlers_write(void *argument) {
    (void)argument;
    for (int round = 0; round < SIGNALS; round++) {
        char byte;
        CHECK(read(ends_of_pipe[0], &byte, 1) == 1);
        CHECK(byte == SIGALRM);
    }
    return NULL;
}

static void set_timer(int microseconds) {
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static void handlers_interrupt_the_library(void) {
    pthread_t threads[THREADS];
    install(SIGALRM, tell, SA_RESTART);
    for (int number = 0; number < THREADS; number++)
        threads[number] = start(work, NULL);
    pthread_t posts = start(wait_for_posts, NULL);
    pthread_t bytes = start(read_what_handlers_write, NULL);
    /* The kernel prefers the first thread. */
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    CHECK(pthread_sigmask(SIG_BLOCK, &alarm, NULL) == 0);
    set_timer(200);
    join(posts);
    join(bytes);
    set_timer(0);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &alarm, NULL) == 0);
    ends = 1;
    for (int number = 0; number < THREADS; number++)
        join(threads[number]);
    while (sem_trywait(&posted) == 0)
        ;
}

/* Sends signals to this process until it ends the child. */
static pid_t send_to_parent(int number) {
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    if (child > 0)
        return child;
    /* Not longer than the parent lives: another process may get its number. */
    while (getppid() == parent) {
        struct timespec pause = {0, 5 * 1000 * 1000};
        nanosleep(&pause, NULL);
        kill(parent, number);
    }
    _exit(1);
}

static void end(pid_t child) {
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, NULL, 0) == child);
}

static void *post_later(void *argument) {
    (void)argument;
    struct timespec pause = {0, 50 * 1000 * 1000};
    nanosleep(&pause, NULL);
    CHECK(sem_post(&posted) == 0);
    return NULL;
}

static void a_handler_ends_a_wait_unless_it_is_restarted(void) {
    install(SIGUSR1, nothing, 0);
    pid_t child = send_to_parent(SIGUSR1);
    CHECK(sem_wait(&posted) == -1 && errno == EINTR);
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_sec += 60;
    CHECK(sem_timedwait(&posted, &time) == -1 && errno == EINTR);
    end(child);

    install(SIGUSR1, nothing, SA_RESTART);
    child = send_to_parent(SIGUSR1);
    pthread_t thread = start(post_later, NULL);
    CHECK(sem_wait(&posted) == 0);
    join(thread);
    end(child);
}

static void a_post_ends_the_wait_of_the_first_thread(void) {
    install(SIGUSR1, post, SA_RESTART);
    pid_t child = send_to_parent(SIGUSR1);
    for (int round = 0; round < 3; round++)
        CHECK(sem_wait(&posted) == 0);
    end(child);
}

static void a_child_has_handlers_too(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        a_post_ends_the_wait_of_the_first_thread();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static volatile sig_atomic_t last_value;

static void with_value(int number, siginfo_t *info, void *context) {
    CHECK(number == SIGUSR1 && context != NULL);
    last_value = info->si_value.sival_int;
}

/* Returns the handler of a signal. */
static void (*handler_of(int number))(int) {
    struct sigaction action;
    CHECK(sigaction(number, NULL, &action) == 0);
    return action.sa_handler;
}

static void the_program_sees_its_own_handlers(void) {
    install(SIGUSR1, post, 0);
    CHECK(handler_of(SIGUSR1) == post);
    struct sigaction action = {.sa_flags = SA_SIGINFO}, before;
    action.sa_sigaction = with_value;
    CHECK(sigaction(SIGUSR1, &action, &before) == 0);
    CHECK(before.sa_handler == post && (before.sa_flags & (SA_SIGINFO | SA_RESTART)) == 0);
    CHECK(sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 42}) == 0);
    while (last_value == 0)
        sched_yield();
    CHECK(last_value == 42);

    CHECK(signal(SIGUSR1, nothing) == (void (*)(int))(void *)with_value);
    CHECK(signal(SIGUSR1, SIG_IGN) == nothing);
    CHECK(signal(SIGUSR1, post) == SIG_IGN);
    CHECK(signal(SIGUSR1, SIG_DFL) == post);
    CHECK(handler_of(SIGUSR1) == SIG_DFL);

    install(SIGUSR2, nothing, SA_RESETHAND);
    CHECK(raise(SIGUSR2) == 0);
    CHECK(handler_of(SIGUSR2) == SIG_DFL);

    CHECK(signal(SIGKILL, nothing) == SIG_ERR && errno == EINVAL);
    CHECK(sigaction(1000, NULL, NULL) == -1 && errno == EINVAL);
}

int main(void) {
    CHECK(sem_init(&turn, 0, 3) == 0);
    CHECK(sem_init(&posted, 0, 0) == 0);
    CHECK(pipe(ends_of_pipe) == 0);
    CHECK(fcntl(ends_of_pipe[1], F_SETFL, O_NONBLOCK) == 0);
    the_program_sees_its_own_handlers();
    a_post_ends_the_wait_of_the_first_thread();
    a_child_has_handlers_too();
    handlers_interrupt_the_library();
    a_handler_ends_a_wait_unless_it_is_restarted();
    puts("passed");
}
