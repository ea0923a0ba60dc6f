/* What a completion leaves behind for the Haskell thread that waits for it. */

#ifndef UTHREAD_COMPLETION_H
#define UTHREAD_COMPLETION_H

#include <HsFFI.h>
#include <sys/socket.h>

#include "uthread_ring.h"

/* A request, in memory of the waiting thread. */
struct uthread_hs_request {
    struct io_uring_sqe entry;
    int32_t result;
    uint32_t flags;
    int32_t capability;
    HsStablePtr waiter;
};

/* Carries a request out by a system call of the calling thread, if that takes no wait. Returns 1 and stores the result, or returns 0. */
int uthread_hs_carry_out(struct uthread_hs_request *request);

/* Accepts a connection if there is one, and stores the address of its peer. Returns its descriptor, or a negative errno. The listener becomes
   non-blocking. */
int uthread_hs_accept(int fd, struct sockaddr *address, socklen_t *length);

/* Starts a request; when it has ended, its waiter is filled. Returns its number. */
uint64_t uthread_hs_submit(const uthread_manager *manager, struct uthread_hs_request *request);

/* Starts requests of which each begins when the one before has succeeded; at most UTHREAD_HS_CHAIN_MAX. Returns the number of all. */
uint64_t uthread_hs_submit_chain(const uthread_manager *manager, struct uthread_hs_request *requests, uint32_t count);

enum { UTHREAD_HS_CHAIN_MAX = 32 };

/* Starts an access to a registered file, like uthread_hs_submit. */
uint64_t uthread_hs_access(const uthread_manager *manager, struct uthread_hs_request *request, const uthread_file *file,
                           uint8_t *bytes, size_t length, uint64_t offset, int writes);

/* A stream: items that were delivered and not taken. */
struct uthread_hs_stream;

/* An item of a stream, or its end. */
struct uthread_hs_item {
    int32_t result;
    const uint8_t *bytes;
    uthread_chunk *chunk;
};

enum { UTHREAD_HS_ITEM, UTHREAD_HS_END, UTHREAD_HS_WAIT };

/* Starts a stream of at most `capacity` items that were not taken. Without buffers it accepts connections or, if `events` is not zero, waits
   for events. Returns null without memory. */
struct uthread_hs_stream *uthread_hs_stream_start(const uthread_manager *manager, int fd, const uthread_buffers *buffers,
                                                  uint32_t events, uint32_t capacity);

/* Takes an item, or tells the end. If there is neither, fills `waiter` when there is one of them, and returns UTHREAD_HS_WAIT. */
int uthread_hs_stream_take(struct uthread_hs_stream *stream, struct uthread_hs_item *item, int32_t capability, HsStablePtr waiter);

/* Cancels the stream; its end comes later. */
void uthread_hs_stream_cancel(struct uthread_hs_stream *stream);

/* Frees a stream that has ended. What was not taken is closed or given back. */
void uthread_hs_stream_free(struct uthread_hs_stream *stream);

/* The finalizer of received bytes. */
void uthread_hs_release(uthread_chunk *chunk, uint8_t *bytes);

#endif
