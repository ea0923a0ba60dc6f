#define _GNU_SOURCE

#include "completion.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static void end_request(void *data, int32_t result, uint32_t flags) {
    struct uthread_hs_request *request = data;
    int32_t capability = request->capability;
    HsStablePtr waiter = request->waiter;
    request->result = result;
    request->flags = flags;
    /* The memory is the waiter's again as soon as it is filled. This also frees the stable pointer. */
    hs_try_putmvar(capability, waiter);
}

/* Carries a request out at once if that takes no wait. Otherwise returns -EAGAIN: the ring reports any other error, too. */
static ssize_t carry_out(const struct io_uring_sqe *entry) {
    if (entry->flags != 0 || entry->ioprio != 0 || entry->personality != 0 || entry->splice_fd_in != 0) return -EAGAIN;
    void *memory = (void *)(uintptr_t)entry->addr;
    struct iovec vector = {memory, entry->len};
    switch (entry->opcode) {
    case IORING_OP_RECV:
        return recv(entry->fd, memory, entry->len, entry->msg_flags | MSG_DONTWAIT);
    case IORING_OP_SEND:
        return send(entry->fd, memory, entry->len, entry->msg_flags | MSG_DONTWAIT);
    case IORING_OP_RECVMSG:
        return recvmsg(entry->fd, memory, entry->msg_flags | MSG_DONTWAIT);
    case IORING_OP_SENDMSG:
        return sendmsg(entry->fd, memory, entry->msg_flags | MSG_DONTWAIT);
    case IORING_OP_READ:
        return preadv2(entry->fd, &vector, 1, entry->off, RWF_NOWAIT);
    case IORING_OP_OPENAT: {
        struct open_how how = {.flags = entry->open_flags, .resolve = RESOLVE_CACHED};
        /* To create a file may wait for the disk. */
        if (entry->open_flags & O_CREAT) return -EAGAIN;
        return syscall(SYS_openat2, entry->fd, memory, &how, sizeof how);
    }
    case IORING_OP_CLOSE:
        return close(entry->fd);
    default:
        return -EAGAIN;
    }
}

int uthread_hs_accept(int fd, struct sockaddr *address, socklen_t *length) {
    int flags = fcntl(fd, F_GETFL);
    /* Another thread may take the connection that there was. */
    if (flags < 0 || (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)) return -errno;
    int made = accept4(fd, address, length, SOCK_CLOEXEC);
    return made < 0 ? -errno : made;
}

int uthread_hs_carry_out(struct uthread_hs_request *request) {
    ssize_t result = carry_out(&request->entry);
    request->result = result;
    return result >= 0;
}

uint64_t uthread_hs_submit(const uthread_manager *manager, struct uthread_hs_request *request) {
    return uthread_submit(manager, &request->entry, end_request, request);
}

uint64_t uthread_hs_submit_chain(const uthread_manager *manager, struct uthread_hs_request *requests, uint32_t count) {
    struct io_uring_sqe entries[UTHREAD_HS_CHAIN_MAX];
    void *data[UTHREAD_HS_CHAIN_MAX];
    for (uint32_t index = 0; index < count; index++) {
        entries[index] = requests[index].entry;
        if (index + 1 < count) entries[index].flags |= IOSQE_IO_LINK;
        data[index] = &requests[index];
    }
    return uthread_submit_all(manager, entries, count, end_request, data);
}

uint64_t uthread_hs_access(const uthread_manager *manager, struct uthread_hs_request *request, const uthread_file *file,
                           uint8_t *bytes, size_t length, uint64_t offset, int writes) {
    return writes ? uthread_file_write(manager, file, bytes, length, offset, end_request, request)
                  : uthread_file_read(manager, file, bytes, length, offset, end_request, request);
}

struct uthread_hs_stream {
    const uthread_manager *manager;
    uint64_t number;
    int accepts;
    pthread_mutex_t lock;
    /* The items that were not taken: `count` from `first` on, in a ring of `capacity`. */
    uint32_t capacity, first, count;
    /* The items that were taken since credit was last given for them. */
    uint32_t taken;
    int ended;
    int32_t result;
    int waits;
    int32_t capability;
    HsStablePtr waiter;
    struct uthread_hs_item items[];
};

static void deliver(struct uthread_hs_stream *stream, const struct uthread_hs_item *item, int32_t result) {
    pthread_mutex_lock(&stream->lock);
    if (item != NULL) {
        /* There is room, as the credit is never more than the room. */
        stream->items[(stream->first + stream->count++) % stream->capacity] = *item;
    } else {
        stream->ended = 1;
        stream->result = result;
    }
    int waits = stream->waits;
    int32_t capability = stream->capability;
    HsStablePtr waiter = stream->waiter;
    stream->waits = 0;
    pthread_mutex_unlock(&stream->lock);
    if (waits) hs_try_putmvar(capability, waiter);
}

static void on_item(void *data, int32_t result, uint32_t flags) {
    struct uthread_hs_item item = {.result = result};
    deliver(data, flags & IORING_CQE_F_MORE ? &item : NULL, result);
}

static void on_received(void *data, int32_t result, const uint8_t *bytes, uthread_chunk *chunk) {
    struct uthread_hs_item item = {.result = result, .bytes = bytes, .chunk = chunk};
    deliver(data, chunk != NULL ? &item : NULL, result);
}

struct uthread_hs_stream *uthread_hs_stream_start(const uthread_manager *manager, int fd, const uthread_buffers *buffers,
                                                  uint32_t events, uint32_t capacity) {
    struct uthread_hs_stream *stream = calloc(1, sizeof *stream + capacity * sizeof stream->items[0]);
    if (stream == NULL) return NULL;
    stream->manager = manager;
    stream->capacity = capacity;
    pthread_mutex_init(&stream->lock, NULL);
    if (buffers != NULL) {
        stream->number = uthread_receive_many(manager, fd, buffers, capacity, on_received, stream);
    } else if (events != 0) {
        stream->number = uthread_poll_many(manager, fd, events, capacity, on_item, stream);
    } else {
        stream->accepts = 1;
        stream->number = uthread_accept_many(manager, fd, capacity, on_item, stream);
    }
    return stream;
}

int uthread_hs_stream_take(struct uthread_hs_stream *stream, struct uthread_hs_item *item, int32_t capability, HsStablePtr waiter) {
    int found = UTHREAD_HS_WAIT;
    uint32_t credit = 0;
    /* Of a thread that was interrupted while it waited. */
    HsStablePtr before = NULL;
    pthread_mutex_lock(&stream->lock);
    if (stream->count > 0) {
        *item = stream->items[stream->first];
        stream->first = (stream->first + 1) % stream->capacity;
        stream->count--;
        found = UTHREAD_HS_ITEM;
        /* Each credit is a message to the manager. */
        if (++stream->taken > stream->capacity / 2) {
            credit = stream->taken;
            stream->taken = 0;
        }
    } else if (stream->ended) {
        item->result = stream->result;
        found = UTHREAD_HS_END;
    } else {
        if (stream->waits) before = stream->waiter;
        stream->waits = 1;
        stream->capability = capability;
        stream->waiter = waiter;
    }
    pthread_mutex_unlock(&stream->lock);
    if (before != NULL) hs_free_stable_ptr(before);
    if (credit > 0) uthread_credit(stream->manager, stream->number, credit);
    return found;
}

void uthread_hs_stream_cancel(struct uthread_hs_stream *stream) {
    uthread_cancel(stream->manager, stream->number);
}

void uthread_hs_stream_free(struct uthread_hs_stream *stream) {
    for (; stream->count > 0; stream->count--, stream->first++) {
        struct uthread_hs_item *item = &stream->items[stream->first % stream->capacity];
        if (item->chunk != NULL) uthread_chunk_release(item->chunk);
        if (stream->accepts) close(item->result);
    }
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

void uthread_hs_release(uthread_chunk *chunk, uint8_t *bytes) {
    (void)bytes;
    uthread_chunk_release(chunk);
}
