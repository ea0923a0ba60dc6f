/* Threads that live for a moment, one after another: each is as new, and they need few blocks of
   thread-local storage, and no more memory than one. */

#define _GNU_SOURCE

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../pthread/tests/check.h"

#define THREADS 2000
/* How many of them go before the memory is measured. */
#define FIRST 200
/* Bytes of its stack that each touches, and of memory that all may add. */
#define DEEP (128 << 10)
#define GROWTH_MAX (4 << 20)
/* Blocks that serve all of them: a thread may start before the one before has left. */
#define BLOCKS_MAX 20

static __thread int filled = 7;
static __thread long empty[100];
static pthread_key_t key;
static int destroyed;
static locale_t other;
static pthread_mutex_t robust;

static void destroy(void *value) {
    CHECK(value == &destroyed);
    __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
}

/* Returns the number by which glibc knows the calling thread: it writes it to a robust mutex. */
static void *live_shortly(void *argument) {
    volatile char memory[DEEP];
    for (size_t place = 0; place < sizeof memory; place += 4096)
        memory[place] = 1;
    CHECK(filled == 7);
    filled = 8;
    for (int index = 0; index < 100; index++) {
        CHECK(empty[index] == 0);
        empty[index] = 1;
    }
    CHECK(pthread_getspecific(key) == NULL);
    CHECK(pthread_setspecific(key, argument) == 0);
    CHECK(uselocale(0) == LC_GLOBAL_LOCALE);
    CHECK(uselocale(other) == LC_GLOBAL_LOCALE);
    CHECK(pthread_mutex_lock(&robust) == 0);
    long number = robust.__data.__owner;
    CHECK(pthread_mutex_unlock(&robust) == 0);
    return (void *)number;
}

static long resident(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;
    CHECK(file && fscanf(file, "%*d %ld", &pages) == 1);
    fclose(file);
    return pages * 4096;
}

static int count(long *known, int found, long number) {
    for (int index = 0; index < found; index++)
        if (known[index] == number)
            return found;
    CHECK(found < THREADS);
    known[found] = number;
    return found + 1;
}

static void *start_all(void *attributes) {
    static long known[THREADS];
    const char *driver = getenv("UTHREAD_DRIVER");
    int found = 0, before = __atomic_load_n(&destroyed, __ATOMIC_RELAXED);
    long memory = 0;
    for (int number = 1; number <= THREADS; number++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, attributes, live_shortly, &destroyed) == 0);
        CHECK(pthread_join(thread, &result) == 0);
        CHECK(__atomic_load_n(&destroyed, __ATOMIC_RELAXED) == before + number);
        found = count(known, found, (long)result);
        if (number == FIRST)
            memory = resident();
    }
    CHECK(resident() < memory + GROWTH_MAX);
    /* Those of the driver `threads` are threads of the system. */
    CHECK(found <= BLOCKS_MAX || (driver && strcmp(driver, "threads") == 0));
    return attributes;
}

int main(void) {
    pthread_mutexattr_t mutex;
    pthread_attr_t small;
    pthread_t thread;
    CHECK(pthread_mutexattr_init(&mutex) == 0);
    CHECK(pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_mutex_init(&robust, &mutex) == 0);
    CHECK(pthread_attr_init(&small) == 0);
    CHECK(pthread_attr_setstacksize(&small, 256 << 10) == 0);
    CHECK(pthread_key_create(&key, destroy) == 0);
    other = newlocale(LC_ALL_MASK, "C", 0);
    CHECK(other != 0);
    start_all(NULL);
    start_all(&small);
    CHECK(pthread_create(&thread, NULL, start_all, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    puts("passed");
    return 0;
}
