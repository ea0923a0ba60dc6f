// Destructors of C++ are called when a thread exits or is cancelled. Compiled as the tests in C are.

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

static int destroyed;
static sem_t reached;

struct Counted {
    std::string name{"a name that is too long for the string itself"};
    ~Counted() { destroyed++; }
};

template <int level> static void deep() {
    Counted counted;
    deep<level - 1>();
}

template <> void deep<0>() {
    pthread_exit(nullptr);
}

static void *exit_deep(void *) {
    deep<10>();
    return nullptr;
}

static void *sleep_for_ever(void *) {
    Counted counted;
    sem_post(&reached);
    for (;;)
        sleep(1000);
}

static void *catch_own(void *) {
    try {
        usleep(1000);
        throw std::string("thrown");
    } catch (const std::string &caught) {
        usleep(1000);
        return new std::string(caught);
    }
}

static void *result_of(pthread_t thread) {
    void *result;
    if (pthread_join(thread, &result) != 0)
        abort();
    return result;
}

int main() {
    pthread_t thread;
    sem_init(&reached, 0, 0);
    if (pthread_create(&thread, nullptr, exit_deep, nullptr) != 0 || result_of(thread) != nullptr || destroyed != 10)
        abort();
    if (pthread_create(&thread, nullptr, sleep_for_ever, nullptr) != 0)
        abort();
    sem_wait(&reached);
    if (pthread_cancel(thread) != 0 || result_of(thread) != PTHREAD_CANCELED || destroyed != 11)
        abort();
    if (pthread_create(&thread, nullptr, catch_own, nullptr) != 0)
        abort();
    auto *caught = static_cast<std::string *>(result_of(thread));
    if (*caught != "thrown")
        abort();
    delete caught;
    puts("passed");
}
