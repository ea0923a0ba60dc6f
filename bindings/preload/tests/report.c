/* Uses what `uthread run --stats` counts, and ends as the argument says. */

#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../pthread/tests/check.h"

#define THREADS 10

static int gate[2];
static pthread_mutex_t robust;

static void *use(void *argument) {
    char byte;
    struct epoll_event event;
    sigset_t mask;
    sigemptyset(&mask);
    CHECK(read(gate[0], &byte, 1) == 0);
    CHECK(pthread_mutex_lock(&robust) == 0 && pthread_mutex_unlock(&robust) == 0);
    int epoll = epoll_create1(0);
    CHECK(epoll_pwait(epoll, &event, 1, 0, &mask) == 0 && close(epoll) == 0);
    return argument;
}

static void *end(void *argument) {
    exit(argument != NULL);
}

/* Returns 1 for a ring or what wakes it: the worker may still be on its way to sleep. */
static int is_of_a_worker(int fd) {
    const char kind[] = "anon_inode:";
    char path[64], target[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return readlink(path, target, sizeof target - 1) > 0 && strncmp(target, kind, strlen(kind)) == 0;
}

int main(int count, char **arguments) {
    const char *way = arguments[1];
    pthread_t threads[THREADS];
    pthread_mutexattr_t attributes;
    CHECK(count == 2 && pipe(gate) == 0);
    CHECK(pthread_mutexattr_init(&attributes) == 0);
    CHECK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_mutex_init(&robust, &attributes) == 0);
    for (int number = 0; number < THREADS; number++)
        CHECK(pthread_create(&threads[number], NULL, use, NULL) == 0);
    CHECK(close(gate[1]) == 0);
    for (int number = 0; number < THREADS; number++)
        CHECK(pthread_join(threads[number], NULL) == 0);

    int status;
    pid_t child = fork();
    if (child == 0)
        exit(0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    puts("passed");
    CHECK(fflush(stdout) == 0);

    if (strcmp(way, "exit") == 0)
        exit(0);
    if (strcmp(way, "exit of a thread") == 0) {
        CHECK(pthread_create(&threads[0], NULL, end, NULL) == 0);
        pthread_join(threads[0], NULL);
    }
    if (strcmp(way, "_exit") == 0)
        _exit(0);
    if (strcmp(way, "closed") == 0)
        CHECK(close(STDERR_FILENO) == 0);
    if (strcmp(way, "other file") == 0)
        for (int fd = 3; fd < 1000; fd++)
            if (!is_of_a_worker(fd))
                CHECK(dup2(STDOUT_FILENO, fd) == fd);
    return 0;
}
