/* For tests in C: ends the program where a condition does not hold. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: %s (errno %d)\n", __FILE__, __LINE__, __func__, #condition, errno); \
            abort(); \
        } \
    } while (0)
