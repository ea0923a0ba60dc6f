//! A ring manager for C, and for the runtimes of other languages: any request of io_uring through
//! one function, with a completion that is called when it has ended.
//!
//! The manager is a runtime of `uthread` with one worker. Each request is a fiber on it, so
//! cancellation, streams and the fallback to epoll are those of the library. The header is
//! `include/uthread_ring.h`, whose comments are those of this page.
//!
//! | module | contents |
//! | --- | --- |
//! | `manager` | the worker, and what it does for other threads |
//! | `stream` | requests with many results |
//! | `registered` | files and memory of the ring |
//! | `batch` | requests that are submitted together |
//! | `request` | a request by the ring |
//! | `fallback` | a request without a ring |
//! | `entry` | the kernel's entry |
//! | `completion` | the functions of the program that are called |

mod batch;
mod completion;
mod entry;
mod fallback;
mod live;
mod manager;
mod registered;
mod request;
mod stream;

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use uthread::ring::{FileSlot, RegisteredBuffer};
use uthread::{Driver, Runtime};

pub use completion::{uthread_chunk, uthread_completion, uthread_received};
pub use entry::io_uring_sqe;

use batch::Batch;
use completion::{Completion, Function, errno};
use manager::Manager;
use registered::{Access, SharedFile};
use request::Request;
use stream::{Buffers, Kind, Stream};

/// A manager of one ring. All functions may be called by any thread.
#[allow(non_camel_case_types, reason = "the name of a C type")]
pub struct uthread_manager {
    manager: Manager,
    driver: CString,
}

/// Buffers that the kernel receives data into.
#[allow(non_camel_case_types, reason = "the name of a C type")]
pub struct uthread_buffers(Arc<Buffers>);

/// A file that is registered with the ring of a manager: the kernel looks it up once.
#[allow(non_camel_case_types, reason = "the name of a C type")]
pub struct uthread_file(SharedFile);

/// Memory that is registered with the ring of a manager: the kernel locks its pages once.
#[allow(non_camel_case_types, reason = "the name of a C type")]
pub struct uthread_memory(RegisteredBuffer);

/// Slots in the file table of the ring of a manager, for files without a descriptor.
#[allow(non_camel_case_types, reason = "the name of a C type")]
pub struct uthread_slots {
    _slots: Vec<FileSlot>,
}

/// io_uring, or epoll where the kernel refuses it.
pub const UTHREAD_DRIVER_DEFAULT: u32 = 0;
/// io_uring. `uthread_manager_create` fails where the kernel refuses it.
pub const UTHREAD_DRIVER_URING: u32 = 1;
/// epoll.
pub const UTHREAD_DRIVER_EPOLL: u32 = 2;

/// How a manager is created. Zeros are the defaults.
#[allow(non_camel_case_types, reason = "the name of a C type")]
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct uthread_options {
    /// One of `UTHREAD_DRIVER_*`.
    pub driver: u32,
    /// If it is not zero, a thread of the kernel polls for submissions. It sleeps after it has been
    /// idle for as many milliseconds.
    pub kernel_polling_ms: u32,
    /// If it is not zero, the manager's thread has the policy `SCHED_BATCH` of `sched(7)`: it does
    /// not interrupt the threads that submit, so requests and their ends gather while these use its
    /// CPU. Saves most of the switches where there are fewer CPUs than threads; a request may wait
    /// for some milliseconds behind a thread that computes.
    pub gathers: u32,
}

/// Creates a manager, which `uthread_manager_close` ends. Returns 0 and stores the manager, or
/// returns a negative errno. The environment variables of `uthread` do not change it.
///
/// # Safety
///
/// `options` is null or points to options, and `manager` points to where the manager is stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_manager_create(
    options: *const uthread_options,
    manager: *mut *mut uthread_manager,
) -> i32 {
    // SAFETY: the pointer is null or valid.
    let options = unsafe { options.as_ref() }.copied().unwrap_or_default();
    let mut builder = Runtime::builder();
    let driver = match options.driver {
        UTHREAD_DRIVER_DEFAULT => None,
        UTHREAD_DRIVER_URING => Some(Driver::Uring),
        UTHREAD_DRIVER_EPOLL => Some(Driver::Epoll),
        _ => return -libc::EINVAL,
    };
    if options.kernel_polling_ms != 0 {
        let idle = Duration::from_millis(options.kernel_polling_ms.into());
        builder = builder.kernel_polling(idle);
    }
    let made = match Manager::start(builder, driver, options.gathers != 0) {
        Ok(manager) => manager,
        Err(error) => return errno(&error),
    };
    let driver = made.driver.replace('\0', "");
    let made = Box::new(uthread_manager {
        manager: made,
        driver: CString::new(driver).unwrap_or_default(),
    });
    // SAFETY: the pointer is valid for a write.
    unsafe { manager.write(Box::into_raw(made)) };
    0
}

/// Cancels all requests and waits until each has completed. Requests that are submitted meanwhile
/// or afterwards are cancelled at once. A completion must not call it.
///
/// # Safety
///
/// The manager is open.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_manager_stop(manager: *const uthread_manager) {
    // SAFETY: the manager is open.
    unsafe { &(*manager).manager }.stop();
}

/// Stops the manager as `uthread_manager_stop`, unless that was done, and frees it. A
/// completion must not call it.
///
/// # Safety
///
/// `manager` comes from `uthread_manager_create`, and nobody uses it any more.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_manager_close(manager: *mut uthread_manager) {
    // SAFETY: `uthread_manager_create` has made it, and nobody uses it any more.
    let manager = unsafe { Box::from_raw(manager) };
    manager.manager.stop();
}

/// Returns the driver and why it was chosen, as text. The text lives as long as the manager.
///
/// # Safety
///
/// The manager is open.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_manager_driver(manager: *const uthread_manager) -> *const c_char {
    // SAFETY: the manager is open.
    let text: &CStr = unsafe { &(*manager).driver };
    text.as_ptr()
}

/// Returns 1 if the manager has a ring, and 0 if epoll takes its place.
///
/// # Safety
///
/// The manager is open.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_manager_has_ring(manager: *const uthread_manager) -> i32 {
    // SAFETY: the manager is open.
    let has_ring = unsafe { &(*manager).manager }.has_ring;
    i32::from(has_ring)
}

/// Submits a request, and returns its number. `completion` is called once, with `data`.
///
/// On a ring it may be any request that `ring::submit` of the library takes: all but multishot
/// ones, links, drains, and entries without a completion. Its `user_data` is overwritten. On epoll
/// it may be one of `NOP`, `TIMEOUT` (relative), `POLL_ADD`, `RECV`, `SEND`, `RECVMSG`, `SENDMSG`,
/// `ACCEPT`, `CONNECT`, `READ`, `WRITE`, `OPENAT`, `CLOSE`, `FSYNC` and `SHUTDOWN`; others complete
/// with `-EOPNOTSUPP`. A request that is not permitted completes with `-EINVAL`.
///
/// # Safety
///
/// The manager is open. `entry` points to an entry. What the entry refers to remains valid until
/// the completion is called, and is not accessed otherwise. The completion may be called on another
/// thread.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_submit(
    manager: *const uthread_manager,
    entry: *const io_uring_sqe,
    completion: uthread_completion,
    data: *mut c_void,
) -> u64 {
    // SAFETY: the manager is open.
    let manager = unsafe { &(*manager).manager };
    // SAFETY: the pointer is valid for a read.
    let entry = unsafe { *entry };
    // SAFETY: what the entry refers to stays valid until the completion.
    let request = unsafe { Request::new(entry) };
    let completion = Completion::new(Function::Completion(completion), data);
    manager.submit(request, completion)
}

/// Submits up to 32 requests together, and returns the number by which `uthread_cancel` cancels all
/// of them. A ring gets them in this order. `completion` is called once for each entry, with its own
/// pointer of `data`, or with null if `data` is null.
///
/// A request with the flag `IOSQE_IO_LINK` or `IOSQE_IO_HARDLINK` ends before the next entry
/// starts; the others run concurrently. The completions of such a chain are called in its order,
/// once all of it has ended. If a request with `IOSQE_IO_LINK` fails, or reads or writes less than
/// it should, the rest of its chain completes with `-ECANCELED`; `IOSQE_IO_HARDLINK` goes on.
///
/// The requests are those of `uthread_submit`, with links. On epoll, a chain with a `LINK_TIMEOUT`
/// is not performed, and completes with `-EOPNOTSUPP`. One request that is not permitted makes its
/// whole chain complete with `-EINVAL`; a link at the last entry, or too many entries, make all
/// complete with it.
///
/// # Safety
///
/// The manager is open. `entries` points to `count` entries, and `data` to as many pointers or to
/// nothing; neither is used after the call. What an entry refers to remains valid until its
/// completion is called, and is not accessed otherwise. The completions may be called on another
/// thread.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_submit_all(
    manager: *const uthread_manager,
    entries: *const io_uring_sqe,
    count: u32,
    completion: uthread_completion,
    data: *const *mut c_void,
) -> u64 {
    // SAFETY: the manager is open.
    let manager = unsafe { &(*manager).manager };
    let requests = (0..count as usize).map(|index| {
        // SAFETY: promised by the caller.
        let entry = unsafe { *entries.wrapping_add(index) };
        let data = if data.is_null() {
            std::ptr::null_mut()
        } else {
            // SAFETY: promised by the caller.
            unsafe { *data.wrapping_add(index) }
        };
        let completion = Completion::new(Function::Completion(completion), data);
        (entry, completion)
    });
    // SAFETY: what the entries refer to stays valid until their completions.
    manager.submit_all(unsafe { Batch::new(requests) })
}

/// Cancels a request, a stream, or all requests that were submitted together. The completion tells
/// when each has ended: with `-ECANCELED`, or with its result if it was faster. Does nothing if it
/// has ended before.
///
/// # Safety
///
/// The manager is open.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_cancel(manager: *const uthread_manager, request: u64) {
    // SAFETY: the manager is open.
    unsafe { &(*manager).manager }.cancel(request);
}

/// Accepts connections from a listening socket, by one multishot request where the kernel has it.
/// `completion` is called with `IORING_CQE_F_MORE` and a descriptor for each, and without that flag
/// at the end of the stream. At most `credit` connections are delivered until `uthread_credit` adds
/// to it.
///
/// # Safety
///
/// The manager is open, and the socket remains open until the end of the stream. The completion may
/// be called on another thread.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_accept_many(
    manager: *const uthread_manager,
    socket: i32,
    credit: u32,
    completion: uthread_completion,
    data: *mut c_void,
) -> u64 {
    // SAFETY: the manager is open.
    let manager = unsafe { &(*manager).manager };
    let completion = Completion::new(Function::Completion(completion), data);
    manager.stream(Stream::new(socket, Kind::Accept, credit), completion)
}

/// Waits for `POLL*` events of a descriptor, by one multishot request where the kernel has it.
/// Otherwise like `uthread_accept_many`, with the events that have occurred instead of a
/// descriptor.
///
/// # Safety
///
/// As for `uthread_accept_many`.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_poll_many(
    manager: *const uthread_manager,
    fd: i32,
    events: u32,
    credit: u32,
    completion: uthread_completion,
    data: *mut c_void,
) -> u64 {
    // SAFETY: the manager is open.
    let manager = unsafe { &(*manager).manager };
    let completion = Completion::new(Function::Completion(completion), data);
    match fallback::events(events) {
        Ok(events) => manager.stream(Stream::new(fd, Kind::Poll(events), credit), completion),
        Err(error) => {
            completion.end(errno(&error), 0);
            0
        }
    }
}

/// Receives from a stream socket until its peer shuts down, by one multishot request where the
/// kernel has it. The kernel chooses one of the buffers for what has arrived; if none is free, the
/// data comes in memory of its own. At most `credit` chunks are delivered until `uthread_credit`
/// adds to it.
///
/// # Safety
///
/// The manager is open, the buffers were not destroyed, and the socket remains open until the end
/// of the stream. `received` may be called on another thread. One manager uses the buffers.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_receive_many(
    manager: *const uthread_manager,
    socket: i32,
    buffers: *const uthread_buffers,
    credit: u32,
    received: uthread_received,
    data: *mut c_void,
) -> u64 {
    // SAFETY: the manager is open.
    let manager = unsafe { &(*manager).manager };
    // SAFETY: promised by the caller.
    let buffers = Arc::clone(unsafe { &(*buffers).0 });
    let completion = Completion::new(Function::Received(received), data);
    manager.stream(
        Stream::new(socket, Kind::Receive(buffers), credit),
        completion,
    )
}

/// Lets a stream deliver `items` more items. Does nothing if it has ended.
///
/// # Safety
///
/// The manager is open.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_credit(manager: *const uthread_manager, stream: u64, items: u32) {
    // SAFETY: the manager is open.
    unsafe { &(*manager).manager }.add_credit(stream, items);
}

/// Creates `count` buffers of `size` bytes each; `count` is a power of two of at most 32768.
/// Returns null if the numbers are not permitted.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C" fn uthread_buffers_create(count: u16, size: usize) -> *mut uthread_buffers {
    match Buffers::new(count, size) {
        Ok(buffers) => Box::into_raw(Box::new(uthread_buffers(Arc::new(buffers)))),
        Err(_) => std::ptr::null_mut(),
    }
}

/// Frees buffers once no stream and no chunk uses them.
///
/// # Safety
///
/// `buffers` comes from `uthread_buffers_create`, and nobody uses the pointer any more.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_buffers_destroy(buffers: *mut uthread_buffers) {
    // SAFETY: promised by the caller.
    drop(unsafe { Box::from_raw(buffers) });
}

/// Gives a chunk back. Its bytes are not valid any more. May be called after the manager was
/// closed.
///
/// # Safety
///
/// `chunk` comes from an `uthread_received`, and nobody uses it any more.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_chunk_release(chunk: *mut uthread_chunk) {
    // SAFETY: promised by the caller.
    drop(unsafe { Box::from_raw(chunk) });
}

/// Registers a file with the manager's ring, which owns the descriptor from now on. Returns null if
/// the manager has ended. Where it cannot be registered, the calls use the descriptor. Not to be
/// called by a completion, as it waits for the manager.
///
/// # Safety
///
/// The manager is open, and nobody else closes the descriptor.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_file_register(
    manager: *const uthread_manager,
    fd: i32,
) -> *mut uthread_file {
    // SAFETY: the manager is open.
    let manager = unsafe { &(*manager).manager };
    // SAFETY: promised by the caller.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    match manager.call(move || registered::file(fd)) {
        Ok(file) => Box::into_raw(Box::new(uthread_file(file))),
        Err(_) => std::ptr::null_mut(),
    }
}

/// Closes a registered file once its last request has ended. May be called after the manager was
/// closed.
///
/// # Safety
///
/// `file` comes from `uthread_file_register`, and nobody uses the pointer any more.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_file_close(file: *mut uthread_file) {
    // SAFETY: promised by the caller.
    drop(unsafe { Box::from_raw(file) });
}

/// Reserves `count` slots in the file table of the manager's ring, and stores the index of each. A
/// request opens or accepts into a slot if its `file_index` is the index plus one, uses the file with
/// the flag `IOSQE_FIXED_FILE` and the index as `fd`, and closes it by that `file_index`. Returns
/// null, and reserves nothing, if there is no ring, if it has fewer free slots (it has 1024), or if
/// the kernel is older than 5.19. Not to be called by a completion, as it waits for the manager.
///
/// # Safety
///
/// The manager is open. `indexes` has room for `count` numbers.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_slots_reserve(
    manager: *const uthread_manager,
    count: u32,
    indexes: *mut u32,
) -> *mut uthread_slots {
    // SAFETY: the manager is open.
    let manager = unsafe { &(*manager).manager };
    let Ok(Some(slots)) = manager.call(move || registered::slots(count)) else {
        return std::ptr::null_mut();
    };
    for (position, slot) in slots.iter().enumerate() {
        // SAFETY: there are `count` slots, and room for as many numbers.
        unsafe { *indexes.wrapping_add(position) = slot.index() };
    }
    Box::into_raw(Box::new(uthread_slots { _slots: slots }))
}

/// Gives slots back, and closes the files in them, before Linux 6.4 up to a second later. May be
/// called after the manager was closed.
///
/// # Safety
///
/// `slots` comes from `uthread_slots_reserve`, and nobody uses the pointer or the slots any more.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_slots_free(slots: *mut uthread_slots) {
    // SAFETY: promised by the caller.
    drop(unsafe { Box::from_raw(slots) });
}

/// Allocates memory of `bytes` bytes that is registered with the manager's ring, all zeros. Returns
/// null without memory. Where it cannot be registered, requests treat it as any memory. Not to be
/// called by a completion, as it waits for the manager.
///
/// # Safety
///
/// The manager is open.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_memory_create(
    manager: *const uthread_manager,
    bytes: usize,
) -> *mut uthread_memory {
    // SAFETY: the manager is open.
    let manager = unsafe { &(*manager).manager };
    match manager.call(move || registered::memory(bytes)) {
        Ok(Ok(memory)) => Box::into_raw(Box::new(uthread_memory(memory))),
        _ => std::ptr::null_mut(),
    }
}

/// Returns where registered memory begins: at a page.
///
/// # Safety
///
/// `memory` comes from `uthread_memory_create`.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_memory_bytes(memory: *mut uthread_memory) -> *mut u8 {
    // SAFETY: promised by the caller.
    let memory = unsafe { &mut (*memory).0 };
    memory.as_mut_ptr()
}

/// Frees registered memory. May be called after the manager was closed.
///
/// # Safety
///
/// `memory` comes from `uthread_memory_create`, and neither the pointer nor its bytes are used any
/// more.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_memory_free(memory: *mut uthread_memory) {
    // SAFETY: promised by the caller.
    drop(unsafe { Box::from_raw(memory) });
}

/// Reads at most `length` bytes of a registered file, at `offset`, and returns the number of the
/// request. The bytes may be in registered memory, whole or in part.
///
/// # Safety
///
/// The manager is open, and the file is one of it. The bytes are initialized, remain valid until
/// the completion is called, and are not accessed otherwise.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_file_read(
    manager: *const uthread_manager,
    file: *const uthread_file,
    bytes: *mut u8,
    length: usize,
    offset: u64,
    completion: uthread_completion,
    data: *mut c_void,
) -> u64 {
    let completion = Completion::new(Function::Completion(completion), data);
    // SAFETY: promised by the caller.
    unsafe { access(manager, file, (bytes, length, offset), false, completion) }
}

/// Writes bytes to a registered file, as `uthread_file_read` reads them.
///
/// # Safety
///
/// That of `uthread_file_read`.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_file_write(
    manager: *const uthread_manager,
    file: *const uthread_file,
    bytes: *const u8,
    length: usize,
    offset: u64,
    completion: uthread_completion,
    data: *mut c_void,
) -> u64 {
    let completion = Completion::new(Function::Completion(completion), data);
    let bytes = (bytes.cast_mut(), length, offset);
    // SAFETY: promised by the caller. A write only reads the bytes.
    unsafe { access(manager, file, bytes, true, completion) }
}

/// Submits an access to a registered file: its bytes, their number, and the offset in the file.
///
/// # Safety
///
/// That of `uthread_file_read`.
#[allow(unsafe_code, reason = "pointers of a C program")]
unsafe fn access(
    manager: *const uthread_manager,
    file: *const uthread_file,
    (bytes, length, offset): (*mut u8, usize, u64),
    writes: bool,
    completion: Completion,
) -> u64 {
    // SAFETY: the manager is open.
    let manager = unsafe { &(*manager).manager };
    // SAFETY: promised by the caller.
    let file = unsafe { &(*file).0 };
    // SAFETY: promised by the caller.
    let access = unsafe { Access::new(file, bytes, length, offset, writes) };
    manager.access(access, completion)
}
