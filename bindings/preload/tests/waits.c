/* Calls that wait: threads that are fibers keep no thread of the system in them, and get what threads
   get. */

#define _GNU_SOURCE

#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../pthread/tests/check.h"

#define THREADS 120

static pthread_t threads[THREADS];
static sem_t begun;

static int count_tasks(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;)
        count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* Starts threads that post `begun` before they wait. A call that kept a thread of the system would
   have made one for each of those before the last. The driver `threads` has one for each wait for a
   descriptor. */
static void start_all(void *(*function)(void *)) {
    CHECK(sem_init(&begun, 0, 0) == 0);
    for (intptr_t number = 0; number < THREADS; number++)
        CHECK(pthread_create(&threads[number], NULL, function, (void *)number) == 0);
    for (int number = 0; number < THREADS; number++)
        CHECK(sem_wait(&begun) == 0);
    const char *driver = getenv("UTHREAD_DRIVER");
    if (driver != NULL && strcmp(driver, "threads") == 0)
        return;
    int tasks = count_tasks();
    if (tasks >= THREADS / 4)
        fprintf(stderr, "%d threads of the system\n", tasks);
    CHECK(tasks < THREADS / 4);
}

static void join_all(void) {
    for (int number = 0; number < THREADS; number++)
        CHECK(pthread_join(threads[number], NULL) == 0);
}

static void on_thread(void *(*function)(void *)) {
    CHECK(pthread_create(&threads[0], NULL, function, NULL) == 0);
    CHECK(pthread_join(threads[0], NULL) == 0);
}

static long elapsed_ms(struct timespec since) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - since.tv_sec) * 1000 + (now.tv_nsec - since.tv_nsec) / 1000000;
}

static int events[THREADS];

static void open_events(int flags) {
    for (int number = 0; number < THREADS; number++)
        CHECK((events[number] = eventfd(0, flags)) >= 0);
}

static void signal_events(void) {
    for (int number = 0; number < THREADS; number++)
        CHECK(eventfd_write(events[number], 1) == 0);
}

static void close_events(void) {
    for (int number = 0; number < THREADS; number++)
        CHECK(close(events[number]) == 0);
}

/* epoll */

static int watch(int epoll, int fd, uint32_t wanted, uint64_t data) {
    struct epoll_event event = {.events = wanted, .data.u64 = data};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static void *wait_in_own_instance(void *argument) {
    intptr_t number = (intptr_t)argument;
    int epoll = epoll_create1(0);
    CHECK(epoll >= 0 && watch(epoll, events[number], EPOLLIN, number + 7) == 0);
    struct epoll_event found[2];
    CHECK(sem_post(&begun) == 0);
    if (number % 2)
        CHECK(epoll_wait(epoll, found, 2, -1) == 1);
    else
        CHECK(epoll_pwait(epoll, found, 2, 1000000, NULL) == 1);
    CHECK(found[0].data.u64 == (uint64_t)number + 7 && found[0].events == EPOLLIN);
    CHECK(close(epoll) == 0);
    return NULL;
}

static int common;
static int taken[THREADS];

static void *wait_in_common_instance(void *argument) {
    struct epoll_event found;
    CHECK(sem_post(&begun) == 0);
    CHECK(epoll_wait(common, &found, 1, -1) == 1);
    CHECK(__atomic_fetch_add(&taken[found.data.u64], 1, __ATOMIC_RELAXED) == 0);
    return argument;
}

static void *see_limits_of_epoll(void *argument) {
    struct timespec start;
    struct epoll_event found;
    int epoll = epoll_create1(0), event = eventfd(0, 0);
    CHECK(epoll_wait(epoll, &found, 1, 0) == 0);
    clock_gettime(CLOCK_MONOTONIC, &start);
    CHECK(epoll_wait(epoll, &found, 1, 30) == 0);
    CHECK(elapsed_ms(start) >= 29);
    errno = 0;
    CHECK(epoll_wait(epoll, &found, 0, -1) == -1 && errno == EINVAL);
    CHECK(epoll_wait(-1, &found, 1, -1) == -1 && errno == EBADF);
    CHECK(epoll_wait(event, &found, 1, -1) == -1 && errno == EINVAL);
    /* One event, once. */
    CHECK(watch(epoll, event, EPOLLIN | EPOLLET, 1) == 0 && eventfd_write(event, 1) == 0);
    CHECK(epoll_wait(epoll, &found, 1, -1) == 1);
    CHECK(epoll_wait(epoll, &found, 1, 5) == 0);
    /* With a mask of signals, by the C library. */
    sigset_t mask;
    sigemptyset(&mask);
    CHECK(epoll_pwait(epoll, &found, 1, 5, &mask) == 0);
    CHECK(epoll_pwait(-1, &found, 1, -1, &mask) == -1 && errno == EBADF);
    CHECK(close(epoll) == 0 && close(event) == 0);
    return argument;
}

static void epoll_waits(void) {
    open_events(0);
    start_all(wait_in_own_instance);
    signal_events();
    join_all();
    close_events();

    open_events(0);
    CHECK((common = epoll_create1(0)) >= 0);
    for (int number = 0; number < THREADS; number++)
        CHECK(watch(common, events[number], EPOLLIN | EPOLLONESHOT, number) == 0);
    start_all(wait_in_common_instance);
    signal_events();
    join_all();
    close_events();
    CHECK(close(common) == 0);

    on_thread(see_limits_of_epoll);
}

/* poll and select */

static void *wait_by_ppoll_or_pselect(void *argument) {
    intptr_t number = (intptr_t)argument;
    int fd = events[number];
    struct timespec limit = {1000, 0};
    CHECK(sem_post(&begun) == 0);
    if (number % 2) {
        struct pollfd wanted = {.fd = fd, .events = POLLIN};
        CHECK(ppoll(&wanted, 1, number % 4 == 1 ? &limit : NULL, NULL) == 1);
        CHECK(wanted.revents == POLLIN);
    } else {
        fd_set wanted;
        FD_ZERO(&wanted);
        FD_SET(fd, &wanted);
        CHECK(pselect(fd + 1, &wanted, NULL, NULL, number % 4 ? &limit : NULL, NULL) == 1);
        CHECK(FD_ISSET(fd, &wanted));
    }
    return NULL;
}

static void *see_limits_of_poll(void *argument) {
    struct timespec start, limit = {0, 20000000}, wrong = {-1, 0}, too_many = {0, 1000000000};
    sigset_t mask;
    sigemptyset(&mask);
    clock_gettime(CLOCK_MONOTONIC, &start);
    CHECK(ppoll(NULL, 0, &limit, NULL) == 0);
    CHECK(elapsed_ms(start) >= 19);
    CHECK(pselect(0, NULL, NULL, NULL, &limit, NULL) == 0);
    CHECK(elapsed_ms(start) >= 39);
    CHECK(ppoll(NULL, 0, &limit, &mask) == 0);
    CHECK(pselect(0, NULL, NULL, NULL, &limit, &mask) == 0);
    CHECK(elapsed_ms(start) >= 79);
    errno = 0;
    CHECK(ppoll(NULL, 0, &wrong, NULL) == -1 && errno == EINVAL);
    CHECK(pselect(0, NULL, NULL, NULL, &too_many, NULL) == -1 && errno == EINVAL);
    return argument;
}

static void polls_wait(void) {
    open_events(0);
    start_all(wait_by_ppoll_or_pselect);
    signal_events();
    join_all();
    close_events();
    on_thread(see_limits_of_poll);
}

/* Child processes */

static int gate[2];
static pid_t children[THREADS];

/* Starts a child that ends with this status once the gate is closed. */
static pid_t start_child(int status) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char byte;
        close(gate[1]);
        CHECK(read(gate[0], &byte, 1) == 0);
        _exit(status);
    }
    return child;
}

static void *wait_for_child(void *argument) {
    intptr_t number = (intptr_t)argument;
    pid_t child = children[number];
    int status = 0;
    struct rusage usage;
    siginfo_t info = {0};
    CHECK(waitpid(child, &status, WNOHANG) == 0);
    CHECK(sem_post(&begun) == 0);
    switch (number % 4) {
    case 0:
        CHECK(waitpid(child, &status, 0) == child);
        break;
    case 1:
        CHECK(wait4(child, &status, 0, &usage) == child);
        break;
    case 2:
        CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0 && info.si_status == number);
        CHECK(waitpid(child, &status, 0) == child);
        break;
    case 3: {
        int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
        CHECK(pidfd >= 0);
        CHECK(waitid(P_PIDFD, pidfd, &info, WEXITED) == 0);
        CHECK(info.si_pid == child && info.si_code == CLD_EXITED && close(pidfd) == 0);
        status = W_EXITCODE(info.si_status, 0);
    }
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == number);
    errno = 0;
    CHECK(waitpid(child, &status, 0) == -1 && errno == ECHILD);
    return NULL;
}

static void *wait_for_any(void *argument) {
    int status;
    struct rusage usage;
    siginfo_t info;
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    CHECK(wait(&status) == child && WEXITSTATUS(status) == 3);
    if ((child = fork()) == 0)
        _exit(4);
    CHECK(wait3(&status, 0, &usage) == child && WEXITSTATUS(status) == 4);
    if ((child = fork()) == 0)
        _exit(5);
    CHECK(waitpid(0, &status, 0) == child && WEXITSTATUS(status) == 5);
    if ((child = fork()) == 0)
        _exit(6);
    CHECK(waitid(P_ALL, 0, &info, WEXITED) == 0 && info.si_pid == child && info.si_status == 6);
    /* What happens before the end. */
    if ((child = fork()) == 0) {
        raise(SIGSTOP);
        raise(SIGKILL);
    }
    CHECK(waitpid(child, &status, WUNTRACED) == child);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK(kill(child, SIGCONT) == 0);
    CHECK(waitpid(child, NULL, 0) == child);
    errno = 0;
    CHECK(wait(NULL) == -1 && errno == ECHILD);
    CHECK(waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == -1 && errno == ECHILD);
    return argument;
}

static void children_are_waited_for(void) {
    CHECK(pipe(gate) == 0);
    for (int number = 0; number < THREADS; number++)
        children[number] = start_child(number);
    CHECK(close(gate[0]) == 0);
    start_all(wait_for_child);
    CHECK(close(gate[1]) == 0);
    join_all();
    on_thread(wait_for_any);
}

/* futex */

static uint32_t word, other;
static int privacy = FUTEX_PRIVATE_FLAG;

static long futex(uint32_t *word, int operation, uint32_t value, const void *time, uint32_t *other, uint32_t third) {
    return syscall(SYS_futex, word, operation | privacy, value, time, other, third);
}

static void *wait_for_word(void *argument) {
    struct timespec far = {1000, 0};
    CHECK(sem_post(&begun) == 0);
    /* Without a reason to go on, a waiter waits again. */
    while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 0) {
        long ended = 0;
        switch ((intptr_t)argument % 3) {
        case 0:
            ended = futex(&word, FUTEX_WAIT, 0, NULL, NULL, 0);
            break;
        case 1:
            ended = futex(&word, FUTEX_WAIT, 0, &far, NULL, 0);
            break;
        case 2:
            ended = futex(&word, FUTEX_WAIT_BITSET, 0, NULL, NULL, 2);
        }
        CHECK(ended == 0 || errno == EAGAIN);
    }
    return NULL;
}

static void *see_limits_of_futex(void *argument) {
    struct timespec start, limit = {0, 20000000}, wrong = {0, -1}, deadline;
    uint32_t seven = 7;
    other = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    CHECK(futex(&seven, FUTEX_WAIT, 7, &limit, NULL, 0) == -1 && errno == ETIMEDOUT);
    CHECK(elapsed_ms(start) >= 19);
    clock_gettime(CLOCK_REALTIME, &deadline);
    CHECK(futex(&seven, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 7, &deadline, NULL, ~0u) == -1 && errno == ETIMEDOUT);
    CHECK(futex(&seven, FUTEX_WAIT_BITSET, 7, &start, NULL, ~0u) == -1 && errno == ETIMEDOUT);
    CHECK(futex(&seven, FUTEX_WAIT, 6, NULL, NULL, 0) == -1 && errno == EAGAIN);
    CHECK(futex(&seven, FUTEX_WAIT, 7, &wrong, NULL, 0) == -1 && errno == EINVAL);
    CHECK(futex(&seven, FUTEX_WAIT_BITSET, 7, NULL, NULL, 0) == -1 && errno == EINVAL);
    CHECK(futex((uint32_t *)((char *)&seven + 1), FUTEX_WAIT, 7, NULL, NULL, 0) == -1 && errno == EINVAL);
    CHECK(futex(NULL, FUTEX_WAIT, 7, NULL, NULL, 0) == -1 && errno == EFAULT);
    CHECK(futex(&seven, FUTEX_CMP_REQUEUE, 1, (void *)1, &other, 6) == -1 && errno == EAGAIN);
    CHECK(futex(&seven, FUTEX_WAKE, 1, NULL, NULL, 0) == 0);
    /* The second word is changed, whether there are waiters or not. */
    uint32_t add_three = FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_GT, -2);
    CHECK(futex(&seven, FUTEX_WAKE_OP, 1, (void *)1, &other, add_three) == 0 && other == 3);
    uint32_t shift = FUTEX_OP(FUTEX_OP_SET | FUTEX_OP_OPARG_SHIFT, 4, FUTEX_OP_CMP_EQ, 3);
    CHECK(futex(&seven, FUTEX_WAKE_OP, 1, (void *)1, &other, shift) == 0 && other == 16);
    /* One that processes may share, by the kernel; as are all other system calls. */
    CHECK(syscall(SYS_futex, &seven, FUTEX_WAIT, 7, &limit, NULL, 0) == -1 && errno == ETIMEDOUT);
    CHECK(syscall(SYS_getpid) == getpid());
    return argument;
}

/* Wakes all threads by an operation, as often as it takes. */
static void wake_all_by(long (*wake)(void)) {
    word = 0;
    start_all(wait_for_word);
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    long woken = 0;
    do
        woken = wake();
    while (woken > 0);
    join_all();
}

static long by_wake(void) {
    long woken = futex(&word, FUTEX_WAKE, 2, NULL, NULL, 0);
    CHECK(woken <= 2);
    return woken;
}

static long by_bits(void) {
    return futex(&word, FUTEX_WAKE_BITSET, INT32_MAX, NULL, NULL, 3) + futex(&word, FUTEX_WAKE_BITSET, 1, NULL, NULL, ~0u);
}

static long by_requeue(void) {
    return futex(&word, FUTEX_REQUEUE, 1, (void *)1, &other, 0) + futex(&other, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static long by_compared_requeue(void) {
    return futex(&word, FUTEX_CMP_REQUEUE, 1, (void *)1, &other, 1) + futex(&other, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static long by_change(void) {
    uint32_t set_one = FUTEX_OP(FUTEX_OP_SET, 1, FUTEX_OP_CMP_NE, 0);
    return futex(&other, FUTEX_WAKE_OP, 1, (void *)3, &word, set_one);
}

static void *wake_after_begun(void *argument) {
    CHECK(sem_wait(&begun) == 0);
    while (futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0) == 0)
        sched_yield();
    return argument;
}

/* A word that is shared indeed, for which another process waits and wakes. */

static uint32_t *common_word;

static void *wait_for_common_word(void *argument) {
    CHECK(futex(common_word, FUTEX_WAIT, 0, NULL, NULL, 0) == 0);
    return argument;
}

static void wake_once(void) {
    while (futex(common_word, FUTEX_WAKE, 1, NULL, NULL, 0) == 0)
        sched_yield();
}

static void processes_share_a_word(void) {
    int status;
    common_word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(common_word != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        wake_once();
        wait_for_common_word(NULL);
        _exit(0);
    }
    on_thread(wait_for_common_word);
    wake_once();
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void futexes_wait(void) {
    wake_all_by(by_wake);
    wake_all_by(by_bits);
    wake_all_by(by_requeue);
    wake_all_by(by_compared_requeue);
    wake_all_by(by_change);
    on_thread(see_limits_of_futex);
    /* The first thread, which is one of the system, is woken by a fiber. */
    word = 0;
    CHECK(pthread_create(&threads[0], NULL, wake_after_begun, NULL) == 0);
    CHECK(sem_post(&begun) == 0);
    CHECK(futex(&word, FUTEX_WAIT, 0, NULL, NULL, 0) == 0);
    CHECK(pthread_join(threads[0], NULL) == 0);
}

static void futexes_of_any_kind_wait(void) {
    futexes_wait();
    /* Private memory, which the program does not say. The kernel moves no fiber to another word. */
    privacy = 0;
    wake_all_by(by_wake);
    wake_all_by(by_bits);
    on_thread(see_limits_of_futex);
    processes_share_a_word();
}

int main(void) {
    epoll_waits();
    polls_wait();
    children_are_waited_for();
    futexes_of_any_kind_wait();
    puts("passed");
    return 0;
}
