/* Tests of the ring manager, as a program in C would use it. The argument is the number of the driver, after
   `promises` for what has to hold in every environment, or `polling` and a number of rounds: 100,000 of them make the kernel's thread fall asleep as often as an hour of a server that
   is idle 28 times a second. */

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "uthread_ring.h"

#undef NDEBUG
#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);       \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

static uthread_manager *manager;

/* One request, and what its completion has told. */
struct waiter {
    sem_t ended;
    int32_t result;
    uint32_t flags;
};

static void on_completion(void *data, int32_t result, uint32_t flags) {
    struct waiter *waiter = data;
    waiter->result = result;
    waiter->flags = flags;
    sem_post(&waiter->ended);
}

static void wait_for(sem_t *semaphore) {
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 30;
    CHECK(sem_timedwait(semaphore, &limit) == 0);
}

static int32_t end_of(struct waiter *waiter) {
    wait_for(&waiter->ended);
    return waiter->result;
}

static uint64_t submit(struct waiter *waiter, const struct io_uring_sqe *entry) {
    sem_init(&waiter->ended, 0, 0);
    return uthread_submit(manager, entry, on_completion, waiter);
}

static int32_t perform(const struct io_uring_sqe *entry) {
    struct waiter waiter;
    submit(&waiter, entry);
    return end_of(&waiter);
}

static struct io_uring_sqe entry_of(int opcode, int fd, const void *memory, unsigned length) {
    struct io_uring_sqe entry;
    memset(&entry, 0, sizeof entry);
    entry.opcode = opcode;
    entry.fd = fd;
    entry.addr = (uintptr_t)memory;
    entry.len = length;
    return entry;
}

static void files_are_read_and_written(void) {
    char path[] = "/tmp/uthread-ring-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    unlink(path);
    struct io_uring_sqe write = entry_of(IORING_OP_WRITE, fd, "some text", 9);
    CHECK(perform(&write) == 9);
    struct io_uring_sqe sync = entry_of(IORING_OP_FSYNC, fd, NULL, 0);
    CHECK(perform(&sync) == 0);
    char text[16] = "";
    struct io_uring_sqe read = entry_of(IORING_OP_READ, fd, text, sizeof text);
    read.off = 5;
    CHECK(perform(&read) == 4 && strcmp(text, "text") == 0);
    struct io_uring_sqe close = entry_of(IORING_OP_CLOSE, fd, NULL, 0);
    CHECK(perform(&close) == 0);
    CHECK(perform(&close) == -EBADF);
}

/* At the position of a file that is not in memory, so that the read waits for the disk. */
static void files_are_read_at_their_position(void) {
    char path[] = "uthread-ring-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    unlink(path);
    CHECK(write(fd, "some text", 9) == 9);
    CHECK(lseek(fd, 5, SEEK_SET) == 5);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    char text[16] = "";
    struct io_uring_sqe read = entry_of(IORING_OP_READ, fd, text, sizeof text);
    read.off = -1;
    CHECK(perform(&read) == 4 && strcmp(text, "text") == 0);
    CHECK(lseek(fd, 0, SEEK_CUR) == 9);
    struct io_uring_sqe write = entry_of(IORING_OP_WRITE, fd, "!", 1);
    write.off = -1;
    CHECK(perform(&write) == 1 && lseek(fd, 0, SEEK_CUR) == 10);
    close(fd);
}

static void registered_files_and_memory_are_used(void) {
    char path[] = "/tmp/uthread-ring-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    unlink(path);
    uthread_file *file = uthread_file_register(manager, fd);
    uthread_memory *memory = uthread_memory_create(manager, 8192);
    CHECK(file != NULL && memory != NULL);
    uint8_t *bytes = uthread_memory_bytes(memory);
    CHECK((uintptr_t)bytes % 4096 == 0 && bytes[8191] == 0);
    memcpy(bytes + 100, "registered", 10);
    struct waiter waiter;
    sem_init(&waiter.ended, 0, 0);
    uthread_file_write(manager, file, bytes + 100, 10, 5, on_completion, &waiter);
    CHECK(end_of(&waiter) == 10);
    uthread_file_read(manager, file, bytes + 4096, 4096, 0, on_completion, &waiter);
    CHECK(end_of(&waiter) == 15 && memcmp(bytes + 4096, "\0\0\0\0\0registered", 15) == 0);
    char any[10];
    uthread_file_read(manager, file, (uint8_t *)any, 10, 5, on_completion, &waiter);
    CHECK(end_of(&waiter) == 10 && memcmp(any, "registered", 10) == 0);
    uthread_file_close(file);
    /* Some kernels close it a moment later. */
    for (int tries = 0; fcntl(fd, F_GETFD) != -1; tries++) {
        CHECK(tries < 5000);
        usleep(1000);
    }
    CHECK(errno == EBADF);
    uthread_memory_free(memory);
}

static void files_without_descriptors_are_used(void) {
    uint32_t indexes[2];
    uthread_slots *slots = uthread_slots_reserve(manager, 2, indexes);
    if (slots == NULL) return;
    CHECK(uthread_slots_reserve(manager, 1023, (uint32_t[1023]){0}) == NULL);
    struct io_uring_sqe open = entry_of(IORING_OP_OPENAT, AT_FDCWD, "/proc/self/stat", 0);
    open.splice_fd_in = indexes[1] + 1;
    CHECK(perform(&open) == 0);
    char text[1];
    struct io_uring_sqe read = entry_of(IORING_OP_READ, indexes[1], text, sizeof text);
    read.flags = IOSQE_FIXED_FILE;
    CHECK(perform(&read) == 1 && text[0] > '0');
    struct io_uring_sqe close = entry_of(IORING_OP_CLOSE, 0, NULL, 0);
    close.splice_fd_in = indexes[1] + 1;
    CHECK(perform(&close) == 0 && perform(&read) == -EBADF);
    uthread_slots_free(slots);
}

static void refused_requests_tell_why(void) {
    struct io_uring_sqe unknown = entry_of(255, -1, NULL, 0);
    int32_t result = perform(&unknown);
    CHECK(result == -EINVAL || result == -EOPNOTSUPP);
    if (uthread_manager_has_ring(manager)) {
        struct io_uring_sqe linked = entry_of(IORING_OP_NOP, -1, NULL, 0);
        linked.flags = IOSQE_IO_LINK;
        CHECK(perform(&linked) == -EINVAL);
    }
}

static void a_read_that_waits_is_cancelled(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    char byte = 0;
    struct io_uring_sqe read = entry_of(IORING_OP_READ, ends[0], &byte, 1);
    read.off = -1;
    struct waiter waiter;
    uint64_t number = submit(&waiter, &read);
    uthread_cancel(manager, number);
    CHECK(end_of(&waiter) == -ECANCELED);
    uthread_cancel(manager, number);
    number = submit(&waiter, &read);
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(end_of(&waiter) == 1 && byte == 'x');
    close(ends[0]);
    close(ends[1]);
}

static void a_timeout_expires_or_is_cancelled(void) {
    struct __kernel_timespec time = {.tv_nsec = 1000000};
    struct io_uring_sqe timeout = entry_of(IORING_OP_TIMEOUT, -1, &time, 1);
    CHECK(perform(&timeout) == -ETIME);
    time.tv_sec = 3600;
    struct waiter waiter;
    uint64_t number = submit(&waiter, &timeout);
    usleep(1000);
    uthread_cancel(manager, number);
    CHECK(end_of(&waiter) == -ECANCELED);
}

#define TOGETHER_MAX 32

static uint64_t submit_all(struct waiter *waiters, const struct io_uring_sqe *entries, int count) {
    void *data[TOGETHER_MAX + 1];
    for (int index = 0; index < count; index++) {
        sem_init(&waiters[index].ended, 0, 0);
        data[index] = &waiters[index];
    }
    return uthread_submit_all(manager, entries, count, on_completion, data);
}

/* Submits requests together, and checks the result of each. */
static void expect_all(const struct io_uring_sqe *entries, int count, const int32_t *results) {
    struct waiter waiters[TOGETHER_MAX + 1];
    submit_all(waiters, entries, count);
    for (int index = 0; index < count; index++) CHECK(end_of(&waiters[index]) == results[index]);
}

/* Returns an empty file without a name. */
static int temporary(void) {
    char path[] = "/tmp/uthread-ring-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    unlink(path);
    return fd;
}

static void linked_requests_follow_each_other(void) {
    int fd = temporary();
    char text[5] = "";
    struct io_uring_sqe chain[] = {
        entry_of(IORING_OP_WRITE, fd, "some text", 9),
        entry_of(IORING_OP_FSYNC, fd, NULL, 0),
        entry_of(IORING_OP_READ, fd, text, 4),
    };
    chain[0].flags = chain[1].flags = IOSQE_IO_LINK;
    chain[2].off = 5;
    expect_all(chain, 3, (int32_t[]){9, 0, 4});
    CHECK(strcmp(text, "text") == 0);
    close(fd);
}

static void failures_break_chains(void) {
    int fd = temporary();
    char text[16];
    struct io_uring_sqe nop = entry_of(IORING_OP_NOP, -1, NULL, 0);
    struct io_uring_sqe fails = entry_of(IORING_OP_FSYNC, -1, NULL, 0);
    struct io_uring_sqe is_short = entry_of(IORING_OP_READ, fd, text, sizeof text);
    int32_t breaks[] = {0, -EBADF, -ECANCELED, -ECANCELED, 0};
    struct io_uring_sqe chain[] = {nop, fails, nop, nop, nop};
    for (int index = 0; index < 3; index++) chain[index].flags = IOSQE_IO_LINK;
    expect_all(chain, 5, breaks);
    /* A hard link behind the failure does not help. */
    chain[2].flags = IOSQE_IO_HARDLINK;
    expect_all(chain, 5, breaks);
    chain[1].flags = IOSQE_IO_HARDLINK;
    expect_all(chain, 5, (int32_t[]){0, -EBADF, 0, 0, 0});
    CHECK(write(fd, "text", 4) == 4);
    struct io_uring_sqe reads[] = {is_short, nop};
    reads[0].flags = IOSQE_IO_LINK;
    expect_all(reads, 2, (int32_t[]){4, -ECANCELED});
    reads[0].flags = IOSQE_IO_HARDLINK;
    expect_all(reads, 2, (int32_t[]){4, 0});
    reads[0].flags = IOSQE_IO_LINK;
    reads[0].len = 4;
    expect_all(reads, 2, (int32_t[]){4, 0});
    close(fd);
}

static void unlinked_requests_run_concurrently(void) {
    struct io_uring_sqe nops[TOGETHER_MAX];
    for (int index = 0; index < TOGETHER_MAX; index++) nops[index] = entry_of(IORING_OP_NOP, -1, NULL, 0);
    expect_all(nops, TOGETHER_MAX, (int32_t[TOGETHER_MAX]){0});
    int ends[2];
    CHECK(pipe(ends) == 0);
    char bytes[2];
    struct io_uring_sqe both[] = {
        entry_of(IORING_OP_READ, ends[0], bytes, 1),
        entry_of(IORING_OP_WRITE, ends[1], "x", 1),
    };
    both[0].off = both[1].off = -1;
    expect_all(both, 2, (int32_t[]){1, 1});
    /* A completion does not wait for the rest. */
    struct waiter waiters[2];
    both[1] = both[0];
    both[1].addr = (uintptr_t)&bytes[1];
    submit_all(waiters, both, 2);
    for (int seen[2] = {0}, round = 0; round < 2; round++) {
        CHECK(write(ends[1], "x", 1) == 1);
        while (1) {
            int index = sem_trywait(&waiters[0].ended) == 0 ? 0 : sem_trywait(&waiters[1].ended) == 0 ? 1 : -1;
            if (index >= 0) {
                CHECK(!seen[index]++ && waiters[index].result == 1);
                break;
            }
            usleep(100);
        }
    }
    close(ends[0]);
    close(ends[1]);
}

static void all_are_cancelled_together(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    char bytes[4];
    struct io_uring_sqe entries[5];
    for (int index = 0; index < 4; index++) {
        entries[index] = entry_of(IORING_OP_READ, ends[0], &bytes[index], 1);
        entries[index].off = -1;
    }
    entries[0].flags = IOSQE_IO_LINK;
    entries[2].flags = IOSQE_IO_HARDLINK;
    entries[4] = entry_of(IORING_OP_NOP, -1, NULL, 0);
    /* Before they start, and after. */
    for (int waits = 0; waits < 2; waits++) {
        struct waiter waiters[5];
        uint64_t number = submit_all(waiters, entries, 5);
        if (waits) CHECK(end_of(&waiters[4]) == 0);
        uthread_cancel(manager, number);
        for (int index = 0; index < 4; index++) CHECK(end_of(&waiters[index]) == -ECANCELED);
        if (!waits) end_of(&waiters[4]);
        uthread_cancel(manager, number);
    }
    close(ends[0]);
    close(ends[1]);
}

static sem_t without_data;

static void on_end_without_data(void *data, int32_t result, uint32_t flags) {
    CHECK(data == NULL && result == 0 && flags == 0);
    sem_post(&without_data);
}

static void batches_that_are_not_permitted_start_nothing(void) {
    int fd = temporary();
    struct io_uring_sqe entries[TOGETHER_MAX + 1];
    int32_t refused[TOGETHER_MAX + 1];
    for (int index = 0; index <= TOGETHER_MAX; index++) {
        entries[index] = entry_of(IORING_OP_WRITE, fd, "x", 1);
        refused[index] = -EINVAL;
    }
    expect_all(entries, TOGETHER_MAX + 1, refused);
    entries[1].flags = IOSQE_IO_LINK;
    expect_all(entries, 2, refused);
    entries[1].flags = IOSQE_IO_HARDLINK;
    expect_all(entries, 2, refused);
    CHECK(lseek(fd, 0, SEEK_END) == 0);
    close(fd);
    uthread_submit_all(manager, NULL, 0, on_completion, NULL);
    struct io_uring_sqe nops[] = {entry_of(IORING_OP_NOP, -1, NULL, 0), entry_of(IORING_OP_NOP, -1, NULL, 0)};
    sem_init(&without_data, 0, 0);
    uthread_submit_all(manager, nops, 2, on_end_without_data, NULL);
    wait_for(&without_data);
    wait_for(&without_data);
}

static void linked_timeouts_limit_requests(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    char byte;
    struct __kernel_timespec time = {.tv_nsec = 1000000};
    struct io_uring_sqe chain[] = {
        entry_of(IORING_OP_READ, ends[0], &byte, 1),
        entry_of(IORING_OP_LINK_TIMEOUT, -1, &time, 1),
    };
    chain[0].off = -1;
    chain[0].flags = IOSQE_IO_LINK;
    struct waiter waiters[2];
    submit_all(waiters, chain, 2);
    int32_t read = end_of(&waiters[0]), limit = end_of(&waiters[1]);
    if (uthread_manager_has_ring(manager))
        CHECK((read == -ECANCELED || read == -EINTR) && limit == -ETIME);
    else
        CHECK(read == -EOPNOTSUPP && limit == -EOPNOTSUPP);
    close(ends[0]);
    close(ends[1]);
}

/* What a stream has delivered. */
struct stream {
    sem_t items;
    sem_t ended;
    int32_t result;
    atomic_int count;
    int fds[16];
    char bytes[64];
    size_t length;
    uthread_chunk *chunk;
};

static void on_accept(void *data, int32_t result, uint32_t flags) {
    struct stream *stream = data;
    if (flags & IORING_CQE_F_MORE) {
        stream->fds[atomic_fetch_add(&stream->count, 1)] = result;
        sem_post(&stream->items);
    } else {
        stream->result = result;
        sem_post(&stream->ended);
    }
}

static void on_received(void *data, int32_t result, const uint8_t *bytes, uthread_chunk *chunk) {
    struct stream *stream = data;
    if (chunk == NULL) {
        stream->result = result;
        sem_post(&stream->ended);
        return;
    }
    memcpy(stream->bytes + stream->length, bytes, result);
    stream->length += result;
    uthread_chunk_release(chunk);
    sem_post(&stream->items);
}

static void begin(struct stream *stream) {
    memset(stream, 0, sizeof *stream);
    sem_init(&stream->items, 0, 0);
    sem_init(&stream->ended, 0, 0);
}

static int listening(struct sockaddr_in *address) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    memset(address, 0, sizeof *address);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof *address;
    CHECK(bind(listener, (struct sockaddr *)address, length) == 0);
    CHECK(listen(listener, 16) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)address, &length) == 0);
    return listener;
}

static int connected(const struct sockaddr_in *address) {
    int client = socket(AF_INET, SOCK_STREAM, 0);
    struct io_uring_sqe connect = entry_of(IORING_OP_CONNECT, client, address, 0);
    connect.off = sizeof *address;
    CHECK(perform(&connect) == 0);
    return client;
}

static void connections_come_as_there_is_credit(void) {
    struct sockaddr_in address;
    int listener = listening(&address), clients[4];
    struct stream stream;
    begin(&stream);
    uint64_t number = uthread_accept_many(manager, listener, 2, on_accept, &stream);
    for (int index = 0; index < 4; index++) clients[index] = connected(&address);
    wait_for(&stream.items);
    wait_for(&stream.items);
    usleep(10000);
    CHECK(atomic_load(&stream.count) == 2);
    uthread_credit(manager, number, 2);
    wait_for(&stream.items);
    wait_for(&stream.items);
    uthread_cancel(manager, number);
    wait_for(&stream.ended);
    CHECK(stream.result == -ECANCELED && stream.count == 4);
    for (int index = 0; index < 4; index++) {
        close(clients[index]);
        close(stream.fds[index]);
    }
    struct io_uring_sqe accept = entry_of(IORING_OP_ACCEPT, listener, NULL, 0);
    struct waiter waiter;
    submit(&waiter, &accept);
    int client = connected(&address);
    int server = end_of(&waiter);
    if (server < 0) fprintf(stderr, "accept: %s\n", strerror(-server));
    CHECK(server >= 0);
    close(server);
    close(client);
    close(listener);
}

static void received_bytes_come_in_buffers(void) {
    uthread_buffers *buffers = uthread_buffers_create(8, 4);
    CHECK(buffers != NULL && uthread_buffers_create(3, 4) == NULL);
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    struct stream stream;
    begin(&stream);
    uthread_receive_many(manager, ends[0], buffers, 1000, on_received, &stream);
    struct io_uring_sqe send = entry_of(IORING_OP_SEND, ends[1], "received in parts", 17);
    CHECK(perform(&send) == 17);
    shutdown(ends[1], SHUT_WR);
    wait_for(&stream.ended);
    CHECK(stream.result == 0 && stream.length == 17);
    CHECK(memcmp(stream.bytes, "received in parts", 17) == 0);
    uthread_buffers_destroy(buffers);
    close(ends[0]);
    close(ends[1]);
}

static void events_come_again(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    struct stream stream;
    begin(&stream);
    uint64_t number = uthread_poll_many(manager, ends[0], 1 /* POLLIN */, 2, on_accept, &stream);
    CHECK(write(ends[1], "x", 1) == 1);
    wait_for(&stream.items);
    CHECK(stream.fds[0] & 1);
    uthread_cancel(manager, number);
    wait_for(&stream.ended);
    CHECK(stream.result == -ECANCELED);
    CHECK(uthread_poll_many(manager, ends[0], 0, 2, on_accept, &stream) == 0);
    wait_for(&stream.ended);
    CHECK(stream.result == -EINVAL);
    close(ends[0]);
    close(ends[1]);
}

#define READS 3

/* Reads of pipes that a completion submits, and of which it may cancel the last one. */
struct reads {
    int ends[READS][2];
    int cancels;
    char bytes[READS];
    struct waiter waiters[READS];
    sem_t ended;
};

static void submit_reads(struct reads *reads) {
    for (int index = 0; index < READS; index++) {
        struct io_uring_sqe read = entry_of(IORING_OP_READ, reads->ends[index][0], &reads->bytes[index], 1);
        read.off = -1;
        uint64_t number = uthread_submit(manager, &read, on_completion, &reads->waiters[index]);
        if (reads->cancels && index == READS - 1) uthread_cancel(manager, number);
    }
}

static void on_end(void *data, int32_t result, uint32_t flags) {
    CHECK(result == 0 && flags == 0);
    submit_reads(data);
}

static void on_event(void *data, int32_t result, uint32_t flags) {
    struct reads *reads = data;
    if (flags & IORING_CQE_F_MORE) {
        submit_reads(reads);
    } else {
        CHECK(result == -ECANCELED);
        sem_post(&reads->ended);
    }
}

/* Later ones end first, so none waits for the end of another. */
static void reads_end(struct reads *reads) {
    for (int index = READS - 1; index >= 0; index--) {
        int is_cancelled = reads->cancels && index == READS - 1;
        if (!is_cancelled) CHECK(write(reads->ends[index][1], "x", 1) == 1);
        CHECK(end_of(&reads->waiters[index]) == (is_cancelled ? -ECANCELED : 1));
    }
}

static struct waiter after_end;

/* Submits `data` when a read was cancelled. */
static void on_cancelled(void *data, int32_t result, uint32_t flags) {
    CHECK(result == -ECANCELED && flags == 0);
    uthread_submit(manager, data, on_completion, &after_end);
}

static void completions_submit_requests(void) {
    struct reads reads;
    for (int index = 0; index < READS; index++) {
        CHECK(pipe(reads.ends[index]) == 0);
        sem_init(&reads.waiters[index].ended, 0, 0);
    }
    sem_init(&reads.ended, 0, 0);
    struct io_uring_sqe nop = entry_of(IORING_OP_NOP, -1, NULL, 0);
    for (reads.cancels = 0; reads.cancels < 2; reads.cancels++) {
        uthread_submit(manager, &nop, on_end, &reads);
        reads_end(&reads);

        /* A stream has not ended when its completion submits. */
        int counter = eventfd(1, 0);
        uint64_t number = uthread_poll_many(manager, counter, 1 /* POLLIN */, 1, on_event, &reads);
        reads_end(&reads);
        uthread_cancel(manager, number);
        wait_for(&reads.ended);
        close(counter);
    }

    /* What follows a cancelled request is not cancelled. */
    struct io_uring_sqe read = entry_of(IORING_OP_READ, reads.ends[0][0], &reads.bytes[0], 1);
    read.off = -1;
    sem_init(&after_end.ended, 0, 0);
    uint64_t number = uthread_submit(manager, &read, on_cancelled, &nop);
    /* The read has started when later requests have ended. */
    CHECK(perform(&nop) == 0 && perform(&nop) == 0);
    uthread_cancel(manager, number);
    CHECK(end_of(&after_end) == 0);
    for (int index = 0; index < READS; index++) {
        close(reads.ends[index][0]);
        close(reads.ends[index][1]);
    }
}

#define THREADS 8

/* Largest number of requests of one thread at once, which is beyond the size of a batch. */
#define BURST 32
#define ROUNDS 2000

/* Takes the byte that a cancelled request has left. */
static int takes_byte(int fd) {
    char byte;
    return read(fd, &byte, 1) == 1;
}

static void *submit_and_cancel(void *seed) {
    unsigned state = (uintptr_t)seed;
    int ends[2];
    CHECK(pipe(ends) == 0);
    char byte;
    for (int round = 0; round < ROUNDS; round++) {
        struct io_uring_sqe read = entry_of(IORING_OP_READ, ends[0], &byte, 1);
        read.off = -1;
        struct waiter waiter;
        uint64_t number = submit(&waiter, &read);
        int writes = rand_r(&state) % 2;
        if (writes) CHECK(write(ends[1], "x", 1) == 1);
        if (rand_r(&state) % 2 || !writes) uthread_cancel(manager, number);
        int32_t result = end_of(&waiter);
        CHECK(result == 1 || result == -ECANCELED);
        if (writes && result != 1) CHECK(takes_byte(ends[0]));
        struct io_uring_sqe nop = entry_of(IORING_OP_NOP, -1, NULL, 0);
        CHECK(perform(&nop) == 0);
    }
    close(ends[0]);
    close(ends[1]);
    return NULL;
}

/* Each thread has a seed of its own. */
static void run_on_threads(void *(*work)(void *seed)) {
    pthread_t threads[THREADS];
    for (uintptr_t index = 0; index < THREADS; index++)
        pthread_create(&threads[index], NULL, work, (void *)(index + 1));
    for (int index = 0; index < THREADS; index++) pthread_join(threads[index], NULL);
}

/* A request that waits until it is cancelled. */
struct waiting {
    const char *what;
    struct io_uring_sqe entry;
    struct waiter waiter;
    uint64_t number;
};

#define WAITING_MAX 32
#define MANY_BYTES (1 << 20)

static struct waiting waiting[WAITING_MAX];
static int waiting_count;
static char many_bytes[MANY_BYTES];

static void add(const char *what, int opcode, int fd, const void *memory, unsigned length, uint64_t offset) {
    CHECK(fd >= 0 && waiting_count < WAITING_MAX);
    struct waiting *next = &waiting[waiting_count++];
    next->what = what;
    next->entry = entry_of(opcode, fd, memory, length);
    next->entry.off = offset;
}

static void add_read(const char *what, int fd) {
    static char bytes[WAITING_MAX][1024];
    add(what, IORING_OP_READ, fd, bytes[waiting_count], sizeof bytes[0], -1);
}

/* Writes until the descriptor takes no more. */
static void fill(int fd) {
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    while (write(fd, many_bytes, 4096) > 0) {}
    CHECK(errno == EAGAIN);
    fcntl(fd, F_SETFL, flags);
}

static void add_pipes(void) {
    int empty[2], full[2];
    CHECK(pipe(empty) == 0 && pipe(full) == 0);
    add_read("read of a pipe", empty[0]);
    fill(full[1]);
    add("write to a pipe", IORING_OP_WRITE, full[1], many_bytes, 10, -1);
    char folder[] = "/tmp/uthread-ring-XXXXXX", path[64];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/fifo", folder);
    CHECK(mkfifo(path, 0600) == 0);
    int reads = open(path, O_RDWR);
    add_read("read of a FIFO", reads);
    unlink(path);
    CHECK(mkfifo(path, 0600) == 0);
    int writes = open(path, O_RDWR);
    add("long write to a FIFO", IORING_OP_WRITE, writes, many_bytes, MANY_BYTES, -1);
    unlink(path);
    rmdir(folder);
}

static void add_terminals(void) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    add_read("read of a terminal", terminal);
    add_read("second read of a terminal", terminal);
    /* The kernel does not leave a ring's thread alone while it writes to a terminal that has some room. */
    if (uthread_manager_has_ring(manager)) return;
    int other = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(other >= 0 && grantpt(other) == 0 && unlockpt(other) == 0);
    terminal = open(ptsname(other), O_RDWR | O_NOCTTY);
    add("long write to a terminal", IORING_OP_WRITE, terminal, many_bytes, MANY_BYTES, -1);
}

static void add_counters(void) {
    static const uint64_t counter_max = UINT64_MAX - 1;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR2);
    add_read("read of an eventfd", eventfd(0, 0));
    add("write to an eventfd", IORING_OP_WRITE, eventfd(1, 0), &counter_max, sizeof counter_max, -1);
    add_read("read of a timer", timerfd_create(CLOCK_MONOTONIC, 0));
    add_read("read of a signalfd", signalfd(-1, &signals, 0));
    add_read("read of inotify", inotify_init());
    static struct __kernel_timespec hour = {.tv_sec = 3600};
    add("timeout", IORING_OP_TIMEOUT, eventfd(0, 0), &hour, 1, 0);
}

static void add_sockets(void) {
    static char byte;
    static struct iovec buffer = {.iov_base = &byte, .iov_len = 1};
    static struct msghdr message = {.msg_iov = &buffer, .msg_iovlen = 1};
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    fill(ends[1]);
    add("recv", IORING_OP_RECV, ends[1], &byte, 1, 0);
    add("recvmsg", IORING_OP_RECVMSG, ends[1], &message, 1, 0);
    add_read("read of a socket", ends[1]);
    add("send", IORING_OP_SEND, ends[1], &byte, 1, 0);
    add("sendmsg", IORING_OP_SENDMSG, ends[1], &message, 1, 0);
    struct sockaddr_in address;
    add("accept", IORING_OP_ACCEPT, listening(&address), NULL, 0, 0);
    int pair[2];
    CHECK(pipe(pair) == 0);
    add("poll", IORING_OP_POLL_ADD, pair[0], NULL, 0, 0);
    waiting[waiting_count - 1].entry.poll32_events = POLLIN;
}

/* Returns a listener that takes no connection, as its queue is full. */
static void fill_listener(int listener, const struct sockaddr *address, socklen_t length) {
    CHECK(listen(listener, 0) == 0);
    for (int index = 0; index < 4; index++) {
        int client = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(client, address, length);
    }
}

static void add_connections(void) {
    static struct sockaddr_in address;
    int listener = listening(&address);
    fill_listener(listener, (struct sockaddr *)&address, sizeof address);
    add("connect", IORING_OP_CONNECT, socket(AF_INET, SOCK_STREAM, 0), &address, 0, sizeof address);
    static struct sockaddr_un name = {.sun_family = AF_UNIX};
    static socklen_t length;
    length = sizeof name;
    int local = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(local, (struct sockaddr *)&name, sizeof(sa_family_t)) == 0);
    CHECK(getsockname(local, (struct sockaddr *)&name, &length) == 0);
    fill_listener(local, (struct sockaddr *)&name, length);
    add("connect of a Unix socket", IORING_OP_CONNECT, socket(AF_UNIX, SOCK_STREAM, 0), &name, 0, length);
}

static void start_all(void) {
    waiting_count = 0;
    add_pipes();
    add_terminals();
    add_counters();
    add_sockets();
    add_connections();
    for (int index = 0; index < waiting_count; index++)
        waiting[index].number = submit(&waiting[index].waiter, &waiting[index].entry);
    /* All have started when later requests have ended. */
    struct io_uring_sqe nop = entry_of(IORING_OP_NOP, -1, NULL, 0);
    CHECK(perform(&nop) == 0 && perform(&nop) == 0);
    /* If a thread makes a call, it has begun. */
    usleep(50000);
}

/* What was written before is the result of a long write. Nothing stays non-blocking but a listener. */
static void each_was_cancelled(void) {
    for (int index = 0; index < waiting_count; index++) {
        struct waiting *next = &waiting[index];
        int is_long = next->entry.len == MANY_BYTES;
        int32_t result = end_of(&next->waiter);
        int is_right = result == -ECANCELED || (is_long && 0 < result && result < MANY_BYTES);
        if (!is_right) fprintf(stderr, "%s: %d\n", next->what, result);
        CHECK(is_right);
    }
    for (int index = 0; index < waiting_count; index++) {
        int fd = waiting[index].entry.fd, flags = fcntl(fd, F_GETFL);
        /* Some are used by several. */
        if (flags == -1) continue;
        CHECK((flags & O_NONBLOCK) == 0 || strcmp(waiting[index].what, "accept") == 0);
        close(fd);
    }
}

static void whatever_waits_is_cancelled(uthread_options options) {
    start_all();
    for (int index = 0; index < waiting_count; index++) uthread_cancel(manager, waiting[index].number);
    each_was_cancelled();
    uthread_manager *first = manager;
    CHECK(uthread_manager_create(&options, &manager) == 0);
    start_all();
    alarm(30);
    uthread_manager_close(manager);
    alarm(0);
    each_was_cancelled();
    manager = first;
}

/* Of two reads of a terminal one gets the line, whichever is cancelled. */
static void a_terminal_is_read(void) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    char lines[2][8];
    struct waiter waiters[2];
    uint64_t numbers[2];
    for (int index = 0; index < 2; index++) {
        struct io_uring_sqe read = entry_of(IORING_OP_READ, terminal, lines[index], 8);
        read.off = -1;
        numbers[index] = submit(&waiters[index], &read);
    }
    CHECK(write(master, "line\n", 5) == 5);
    struct pollfd readable = {.fd = terminal, .events = POLLIN};
    while (poll(&readable, 1, 0) != 0) usleep(1000);
    for (int index = 0; index < 2; index++) uthread_cancel(manager, numbers[index]);
    int32_t first = end_of(&waiters[0]), second = end_of(&waiters[1]);
    CHECK((first == 5 && second == -ECANCELED) || (first == -ECANCELED && second == 5));
    CHECK(memcmp(lines[first == 5 ? 0 : 1], "line\n", 5) == 0);
    close(terminal);
    close(master);
}

/* It does not wait for the other end. */
static void a_fifo_is_opened(void) {
    char folder[] = "/tmp/uthread-ring-XXXXXX", path[64];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/fifo", folder);
    CHECK(mkfifo(path, 0600) == 0);
    struct io_uring_sqe open = entry_of(IORING_OP_OPENAT, AT_FDCWD, path, 0);
    open.open_flags = O_RDONLY;
    struct waiter waiter;
    uint64_t number = submit(&waiter, &open);
    uthread_cancel(manager, number);
    int fd = end_of(&waiter);
    CHECK(fd >= 0 || fd == -ECANCELED);
    if (fd >= 0) CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0 && close(fd) == 0);
    unlink(path);
    rmdir(folder);
}

#define PENDING 100

static void closing_ends_what_is_pending(uthread_options options) {
    uthread_manager *first = manager;
    CHECK(uthread_manager_create(&options, &manager) == 0);
    int ends[2];
    CHECK(pipe(ends) == 0);
    char bytes[PENDING];
    static struct waiter waiters[PENDING];
    for (int index = 0; index < PENDING; index++) {
        struct io_uring_sqe read = entry_of(IORING_OP_READ, ends[0], &bytes[index], 1);
        read.off = -1;
        submit(&waiters[index], &read);
    }
    char byte;
    struct io_uring_sqe read = entry_of(IORING_OP_READ, ends[0], &byte, 1);
    read.off = -1;
    sem_init(&after_end.ended, 0, 0);
    uthread_submit(manager, &read, on_cancelled, &read);
    struct waiter together[3];
    struct io_uring_sqe reads[] = {read, read, read};
    reads[0].flags = IOSQE_IO_LINK;
    submit_all(together, reads, 3);
    uthread_manager_stop(manager);
    for (int index = 0; index < 3; index++)
        CHECK(sem_trywait(&together[index].ended) == 0 && together[index].result == -ECANCELED);
    CHECK(sem_trywait(&after_end.ended) == 0 && after_end.result == -ECANCELED);
    for (int index = 0; index < PENDING; index++) {
        CHECK(sem_trywait(&waiters[index].ended) == 0);
        CHECK(waiters[index].result == -ECANCELED);
    }
    /* What comes too late ends at once. */
    struct io_uring_sqe late = entry_of(IORING_OP_NOP, -1, NULL, 0);
    CHECK(perform(&late) == -ECANCELED);
    expect_all(&late, 1, (int32_t[]){-ECANCELED});
    CHECK(uthread_memory_create(manager, 1) == NULL);
    uthread_cancel(manager, 1);
    struct stream stream;
    begin(&stream);
    uthread_accept_many(manager, ends[0], 1, on_accept, &stream);
    wait_for(&stream.ended);
    CHECK(stream.result == -ECANCELED);
    uthread_manager_stop(manager);
    uthread_manager_close(manager);
    manager = first;
    close(ends[0]);
    close(ends[1]);
}

/* Requests in flight, each of which is submitted again by its completion. */
static atomic_long left;
static sem_t all_ended;

/* Where the last completion ran, and whether one runs. */
static pthread_t on_thread;
static atomic_bool is_running;

static void on_nop(void *data, int32_t result, uint32_t flags) {
    CHECK(!atomic_exchange(&is_running, 1));
    CHECK(result == 0 && flags == 0);
    on_thread = pthread_self();
    if (atomic_fetch_sub(&left, 1) > 0) {
        uthread_submit(manager, data, on_nop, data);
    } else {
        sem_post(&all_ended);
    }
    CHECK(atomic_exchange(&is_running, 0));
}

static void run_chains(long count, int in_flight) {
    struct io_uring_sqe nop = entry_of(IORING_OP_NOP, -1, NULL, 0);
    sem_init(&all_ended, 0, 0);
    atomic_store(&left, count);
    for (int index = 0; index < in_flight; index++) uthread_submit(manager, &nop, on_nop, &nop);
    for (int index = 0; index < in_flight; index++) sem_wait(&all_ended);
}

static void chains_of_requests_end(void) {
    /* Ends the program if they do not. */
    alarm(30);
    run_chains(1000, 1);
    run_chains(20000, 100);
    alarm(0);
}

/* Bytes of the process that are in memory. */
static long resident(void) {
    long pages, resident_pages;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &pages, &resident_pages) == 2);
    fclose(file);
    return resident_pages * sysconf(_SC_PAGESIZE);
}

#define MANY 20000

/* Less than a table would keep of each request. */
#define GROWTH_MAX (4 << 20)

static void *submit_nops(void *seed) {
    (void)seed;
    struct io_uring_sqe nop = entry_of(IORING_OP_NOP, -1, NULL, 0);
    for (int round = 0; round < MANY / THREADS / BURST; round++) {
        struct waiter waiters[BURST];
        for (int index = 0; index < BURST; index++) submit(&waiters[index], &nop);
        for (int index = 0; index < BURST; index++) CHECK(end_of(&waiters[index]) == 0);
    }
    return NULL;
}

/* What the environment says of programs that are written with the library does not matter here. */
static void one_thread_calls_the_completions(void) {
    run_chains(1, 1);
    pthread_t first = on_thread;
    run_chains(1000, 1);
    CHECK(pthread_equal(on_thread, first));
    run_chains(1000, 100);
    CHECK(pthread_equal(on_thread, first));
}

static void requests_leave_nothing_behind(void) {
    run_on_threads(submit_nops);
    run_chains(MANY, 100);
    long before = resident();
    run_on_threads(submit_nops);
    run_chains(MANY, 100);
    long after = resident();
    if (after - before > GROWTH_MAX) fprintf(stderr, "grown by %ld bytes\n", after - before);
    CHECK(after - before <= GROWTH_MAX);
}

static void measure(long count, int in_flight) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    run_chains(count, in_flight);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (end.tv_sec - begin.tv_sec) + (end.tv_nsec - begin.tv_nsec) / 1e9;
    printf("%d in flight: %.0f requests a second\n", in_flight, count / seconds);
}

/* The thread of the kernel sleeps after this time without a request. */
#define POLLING_MS 1

static pthread_barrier_t all_pause;
static long rounds;

/* All threads submit at once, and pause at once, for up to twice as long as the kernel polls: so requests come
   while it polls, while it falls asleep, and while it sleeps. */
static void *submit_and_pause(void *seed) {
    unsigned state = (uintptr_t)seed;
    struct io_uring_sqe nop = entry_of(IORING_OP_NOP, -1, NULL, 0);
    struct waiter waiters[BURST];
    for (long round = 0; round < rounds; round++) {
        int burst = 1 + rand_r(&state) % BURST;
        for (int index = 0; index < burst; index++) submit(&waiters[index], &nop);
        for (int index = 0; index < burst; index++) CHECK(end_of(&waiters[index]) == 0);
        pthread_barrier_wait(&all_pause);
        usleep(round * 7919 % (2000 * POLLING_MS));
    }
    return NULL;
}

static int kernel_polling_misses_no_request(void) {
    uthread_options options = {.driver = UTHREAD_DRIVER_URING, .kernel_polling_ms = POLLING_MS};
    int created = uthread_manager_create(&options, &manager);
    if (created != 0) {
        printf("no kernel polling: %s\n", strerror(-created));
        return 77;
    }
    pthread_barrier_init(&all_pause, NULL, THREADS);
    run_on_threads(submit_and_pause);
    uthread_manager_close(manager);
    return 0;
}

int main(int count, char **arguments) {
    CHECK(count >= 2);
    if (strcmp(arguments[1], "polling") == 0) {
        CHECK(count == 3);
        rounds = atol(arguments[2]);
        return kernel_polling_misses_no_request();
    }
    int checks_promises = strcmp(arguments[1], "promises") == 0;
    if (checks_promises) arguments++, count--;
    CHECK(count >= 2);
    uthread_options options = {.driver = atoi(arguments[1])};
    uthread_options unknown = {.driver = 9};
    CHECK(uthread_manager_create(&unknown, &manager) == -EINVAL);
    int created = uthread_manager_create(&options, &manager);
    if (created != 0) {
        printf("no manager: %s\n", strerror(-created));
        return 77;
    }
    CHECK(strlen(uthread_manager_driver(manager)) > 0);
    if (count > 2) {
        for (int in_flight = 1; in_flight <= 1000; in_flight *= 10)
            measure(atol(arguments[2]), in_flight);
    } else if (checks_promises) {
        one_thread_calls_the_completions();
        requests_leave_nothing_behind();
    } else {
        files_are_read_and_written();
        files_are_read_at_their_position();
        registered_files_and_memory_are_used();
        files_without_descriptors_are_used();
        refused_requests_tell_why();
        a_read_that_waits_is_cancelled();
        a_timeout_expires_or_is_cancelled();
        linked_requests_follow_each_other();
        failures_break_chains();
        unlinked_requests_run_concurrently();
        all_are_cancelled_together();
        batches_that_are_not_permitted_start_nothing();
        linked_timeouts_limit_requests();
        connections_come_as_there_is_credit();
        received_bytes_come_in_buffers();
        events_come_again();
        completions_submit_requests();
        chains_of_requests_end();
        run_on_threads(submit_and_cancel);
        whatever_waits_is_cancelled(options);
        a_terminal_is_read();
        a_fifo_is_opened();
        closing_ends_what_is_pending(options);
    }
    uthread_manager_close(manager);
    return 0;
}
