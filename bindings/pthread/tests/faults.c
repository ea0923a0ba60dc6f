/* Faults in a thread, which the address sanitizer must report. Usage: faults FAULT, a number. */

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static volatile char sink;
static char *volatile kept;

static __attribute__((noinline)) void keep_a_local(void) {
    char local[16] = {0};
    kept = local;
    sink = *kept;
}

static void *commit(void *argument) {
    char local[16] = {0};
    char *volatile memory = malloc(16);
    usleep(1000);
    switch (*(char *)argument) {
    case '0':
        free(memory);
        sink = *memory;
        break;
    case '1':
        sink = memory[16];
        break;
    case '2':
        kept = local;
        sink = kept[16];
        break;
    case '3':
        keep_a_local();
        sink = *kept;
        break;
    case '4':
        memory = NULL;
        break;
    }
    free(memory);
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t thread;
    return count != 2 || pthread_create(&thread, NULL, commit, arguments[1]) != 0 || pthread_join(thread, NULL) != 0;
}
