//! Requests where the kernel refuses io_uring.
//!
//! What may wait for ever can be cancelled meanwhile: it waits in epoll, and is a non-blocking
//! system call then; or, where a device has none, a call on a thread that a signal interrupts.
//! Anything else is a call on the thread pool of the runtime. The results are those of io_uring.

use std::ffi::c_void;
use std::io::{self, Read, Write};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{BorrowedFd, FromRawFd, RawFd};
use std::slice;
use std::time::Duration;

use uthread::fs::File;
use uthread::ring::io_uring::opcode;
use uthread::ring::{self, Events};
use uthread::thread::Builder;

use crate::completion::errno;
use crate::entry::io_uring_sqe;

/// The offset that means the position of the file.
const POSITION: u64 = u64::MAX;

/// Pause before a Unix socket tries again to connect to a listener whose queue is full, for which
/// there is no event.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// Stack of a thread that makes one system call.
const CALL_STACK_BYTES: usize = 64 * 1024;

/// Values of a flag of a descriptor.
static ON: i32 = 1;
static OFF: i32 = 0;

/// Flags of a timeout that are understood: those of an absolute time are not.
const TIMEOUT_RELATIVE: u32 = 0;

/// Performs a request in the calling fiber, and returns its result.
///
/// # Safety
///
/// The contract of [`ring::submit`].
#[allow(unsafe_code, reason = "system calls with the pointers of the request")]
pub(crate) unsafe fn perform(entry: &io_uring_sqe) -> i32 {
    let call = Call(*entry);
    let result = match entry.opcode {
        opcode::Nop::CODE => ring::nop().map(|()| 0),
        opcode::Timeout::CODE if entry.op_flags == TIMEOUT_RELATIVE => call.timeout(),
        opcode::PollAdd::CODE => events(entry.op_flags).and_then(|events| wait(entry.fd, events)),
        opcode::Recv::CODE => call.retry(Events::READABLE, Call::recv),
        opcode::RecvMsg::CODE => call.retry(Events::READABLE, Call::recvmsg),
        opcode::Send::CODE => call.retry(Events::WRITABLE, Call::send),
        opcode::SendMsg::CODE => call.retry(Events::WRITABLE, Call::sendmsg),
        opcode::Accept::CODE => call.accept(),
        opcode::Read::CODE if call.has_no_offsets() => call.retry(Events::READABLE, Call::read_now),
        opcode::Write::CODE if call.has_no_offsets() => {
            call.retry(Events::WRITABLE, Call::write_now)
        }
        opcode::Read::CODE if entry.off == POSITION => call.on_thread(Call::read),
        opcode::Write::CODE if entry.off == POSITION => call.on_thread(Call::write),
        opcode::Read::CODE => call.on_thread(Call::pread),
        opcode::Write::CODE => call.on_thread(Call::pwrite),
        opcode::Connect::CODE => call.connect(),
        opcode::OpenAt::CODE => call.open(),
        opcode::Close::CODE => call.on_thread(Call::close),
        opcode::Fsync::CODE => call.on_thread(Call::fsync),
        opcode::Shutdown::CODE => call.on_thread(Call::shutdown),
        _ => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
    };
    result.unwrap_or_else(|error| errno(&error))
}

/// Returns `true` if a socket is one of the Unix domain.
///
/// # Errors
///
/// Any error that `getsockname(2)` reports.
#[allow(unsafe_code, reason = "a system call that std has no function for")]
pub(crate) fn is_unix(fd: i32) -> io::Result<bool> {
    let mut address = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: the address has room for `length` bytes.
    let result = unsafe { libc::getsockname(fd, address.as_mut_ptr().cast(), &raw mut length) };
    outcome(result as isize)?;
    // SAFETY: the structure was zeroed, and each bit pattern is valid.
    let address = unsafe { address.assume_init() };
    Ok(i32::from(address.ss_family) == libc::AF_UNIX)
}

/// Returns the events of these `POLL*` bits.
///
/// # Errors
///
/// `InvalidInput` if there is none that can be waited for.
pub(crate) fn events(bits: u32) -> io::Result<Events> {
    let known = [
        Events::READABLE,
        Events::WRITABLE,
        Events::PRIORITY,
        Events::READ_CLOSED,
    ];
    let mut wanted = (known.into_iter()).filter(|event| u32::from(event.bits()) & bits != 0);
    let first = wanted.next().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(wanted.fold(first, |all, event| all | event))
}

/// Returns the result of a system call, or the error that it reports.
///
/// # Errors
///
/// The errno of the calling thread, if the result is negative.
fn outcome(result: isize) -> io::Result<i32> {
    match result {
        0.. => Ok(result as i32),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The system call of a request.
#[derive(Clone, Copy)]
struct Call(io_uring_sqe);

impl Call {
    /// Repeats a non-blocking call whenever the descriptor is ready.
    fn retry(self, events: Events, call: fn(Call) -> isize) -> io::Result<i32> {
        loop {
            match outcome(call(self)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(self.0.fd, events)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A device that cannot be asked not to wait.
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                    return match self.0.opcode {
                        opcode::Read::CODE => self.interruptibly(events, Call::read_file),
                        opcode::Write::CODE => self.interruptibly(events, Call::write_file),
                        _ => Err(error),
                    };
                }
                result => return result,
            }
        }
    }

    /// Makes a call of the library when the descriptor is ready, on a thread of its own: the call
    /// waits if others were faster, or if there is not enough room. A cancellation interrupts it.
    fn interruptibly(self, events: Events, call: fn(Call) -> io::Result<usize>) -> io::Result<i32> {
        if self.0.len > 0 && !self.is_nonblocking() {
            wait(self.0.fd, events)?;
        }
        let mut result = Err(io::Error::from_raw_os_error(libc::ECANCELED));
        let thread = Builder::new().dedicated().stack_size(CALL_STACK_BYTES);
        uthread::scope(|scope| {
            let call = || result = call(self);
            thread.spawn_scoped(scope, call).map(drop)
        })?;
        result.map(|count| count as i32)
    }

    #[allow(unsafe_code, reason = "reads into the memory of a request")]
    fn read_file(self) -> io::Result<usize> {
        let mut file = &*borrow::<File>(self.0.fd);
        match self.0.len as usize {
            // Perhaps of no memory.
            0 => file.read(&mut []),
            // SAFETY: the contract of `perform`.
            length => file.read(unsafe { slice::from_raw_parts_mut(self.buffer().cast(), length) }),
        }
    }

    #[allow(unsafe_code, reason = "writes from the memory of a request")]
    fn write_file(self) -> io::Result<usize> {
        let mut file = &*borrow::<File>(self.0.fd);
        match self.0.len as usize {
            0 => file.write(&[]),
            // SAFETY: the contract of `perform`.
            length => file.write(unsafe { slice::from_raw_parts(self.buffer().cast(), length) }),
        }
    }

    /// Connects a socket, which is non-blocking meanwhile.
    fn connect(self) -> io::Result<i32> {
        let _mode = Nonblocking::enter(self)?;
        let mut has_begun = false;
        loop {
            let connected = outcome(self.connect_now());
            let errno = connected.as_ref().err().and_then(io::Error::raw_os_error);
            match errno {
                Some(libc::EINPROGRESS) => has_begun = true,
                Some(libc::EALREADY) if has_begun => {}
                Some(libc::EISCONN) if has_begun => return Ok(0),
                Some(libc::EAGAIN) => {
                    uthread::sleep(FULL_PAUSE);
                    continue;
                }
                _ => return connected,
            }
            wait(self.0.fd, Events::WRITABLE)?;
        }
    }

    /// Opens without waiting for the other end of a FIFO, as the ring does.
    fn open(self) -> io::Result<i32> {
        let flags = self.0.op_flags as i32;
        if flags & (libc::O_PATH | libc::O_NONBLOCK | libc::O_DIRECTORY) != 0 {
            return self.on_thread(Call::openat);
        }
        let op_flags = (flags | libc::O_NONBLOCK) as u32;
        match Call(io_uring_sqe { op_flags, ..self.0 }).on_thread(Call::openat) {
            // The file is locked: wait until it is released.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.on_thread(Call::openat),
            Err(error) => Err(error),
            Ok(fd) => {
                // Changes no other flag. A failure would leave a flag that regular files ignore.
                Call(io_uring_sqe { fd, ..self.0 }).set_flags();
                Ok(fd)
            }
        }
    }

    /// Makes a call that waits for a disk at most on another thread.
    fn on_thread(self, call: fn(Call) -> isize) -> io::Result<i32> {
        uthread::blocking(move || outcome(call(self)))
    }

    #[allow(unsafe_code, reason = "reads the time of a request")]
    fn timeout(self) -> io::Result<i32> {
        // SAFETY: the contract of `perform`.
        let time = unsafe { *(self.0.addr as *const [i64; 2]) };
        let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(time[0]), u32::try_from(time[1]))
        else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        uthread::sleep(Duration::new(seconds, nanoseconds));
        Err(io::Error::from_raw_os_error(libc::ETIME))
    }

    /// Leaves the listener non-blocking, as `accept4` has no flag for a call that does not wait.
    fn accept(self) -> io::Result<i32> {
        outcome(self.set_nonblocking())?;
        self.retry(Events::READABLE, Call::accept_now)
    }

    /// Returns `true` for a pipe, a socket, a device such as a terminal, or what is no file, such
    /// as an eventfd: what can be waited for, and has no offsets.
    #[allow(unsafe_code, reason = "a system call that takes a descriptor")]
    fn has_no_offsets(self) -> bool {
        let mut status = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: the status has room for the result.
        unsafe { libc::fstat(self.0.fd, status.as_mut_ptr()) };
        // SAFETY: the structure was zeroed, and each bit pattern is valid.
        let mode = unsafe { status.assume_init() }.st_mode & libc::S_IFMT;
        [libc::S_IFIFO, libc::S_IFSOCK, libc::S_IFCHR, 0].contains(&mode)
    }

    fn is_nonblocking(self) -> bool {
        self.get_flags() as i32 & libc::O_NONBLOCK != 0
    }

    fn buffer(self) -> *mut c_void {
        self.0.addr as *mut c_void
    }
}

/// The time in which a socket is non-blocking. Empty if the program has made it so.
struct Nonblocking(Option<Call>);

impl Nonblocking {
    fn enter(call: Call) -> io::Result<Nonblocking> {
        if call.is_nonblocking() {
            return Ok(Nonblocking(None));
        }
        outcome(call.set_nonblocking())?;
        Ok(Nonblocking(Some(call)))
    }
}

impl Drop for Nonblocking {
    fn drop(&mut self) {
        if let Some(call) = self.0 {
            call.set_blocking();
        }
    }
}

/// Defines the system calls, whose arguments come from the entry of a request.
macro_rules! calls {
    ($($name:ident: |$call:ident| $body:expr;)*) => {
        #[allow(unsafe_code, reason = "system calls with the pointers of the request")]
        impl Call {
            $(
                fn $name(self) -> isize {
                    let $call = self.0;
                    // SAFETY: the contract of `perform` covers what the entry refers to.
                    (unsafe { $body }) as isize
                }
            )*
        }
    };
}

calls! {
    recv: |entry| libc::recv(entry.fd, Call(entry).buffer(), entry.len as usize, entry.op_flags as i32 | libc::MSG_DONTWAIT);
    send: |entry| libc::send(
        entry.fd, Call(entry).buffer(), entry.len as usize, entry.op_flags as i32 | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    recvmsg: |entry| libc::recvmsg(entry.fd, entry.addr as *mut _, entry.op_flags as i32 | libc::MSG_DONTWAIT);
    sendmsg: |entry| libc::sendmsg(
        entry.fd, entry.addr as *const _, entry.op_flags as i32 | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    get_flags: |entry| libc::fcntl(entry.fd, libc::F_GETFL);
    set_flags: |entry| libc::fcntl(entry.fd, libc::F_SETFL, entry.op_flags);
    set_nonblocking: |entry| libc::ioctl(entry.fd, libc::FIONBIO, &raw const ON);
    set_blocking: |entry| libc::ioctl(entry.fd, libc::FIONBIO, &raw const OFF);
    accept_now: |entry| libc::accept4(entry.fd, entry.addr as *mut _, entry.off as *mut _, entry.op_flags as i32);
    connect_now: |entry| libc::connect(entry.fd, entry.addr as *const _, entry.off as libc::socklen_t);
    read_now: |entry| libc::preadv2(entry.fd, &vector(&entry), 1, -1, libc::RWF_NOWAIT);
    write_now: |entry| libc::pwritev2(entry.fd, &vector(&entry), 1, -1, libc::RWF_NOWAIT);
    read: |entry| libc::read(entry.fd, Call(entry).buffer(), entry.len as usize);
    write: |entry| libc::write(entry.fd, Call(entry).buffer(), entry.len as usize);
    pread: |entry| libc::pread(entry.fd, Call(entry).buffer(), entry.len as usize, entry.off as i64);
    pwrite: |entry| libc::pwrite(entry.fd, Call(entry).buffer(), entry.len as usize, entry.off as i64);
    openat: |entry| libc::openat(entry.fd, entry.addr as *const _, entry.op_flags as i32, entry.len);
    close: |entry| libc::close(entry.fd);
    fsync: |entry| match entry.op_flags & 1 {
        0 => libc::fsync(entry.fd),
        _ => libc::fdatasync(entry.fd),
    };
    shutdown: |entry| libc::shutdown(entry.fd, entry.len as i32);
}

/// Waits until a descriptor is ready, and returns its events.
#[allow(unsafe_code, reason = "a descriptor that the program keeps open")]
pub(crate) fn wait(fd: RawFd, events: Events) -> io::Result<i32> {
    // SAFETY: promised by the submitter.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    Ok(i32::from(ring::poll_once(&fd, events)?.bits()))
}

/// Returns a type of the library for a descriptor that the program keeps open.
#[allow(unsafe_code, reason = "a descriptor that the program keeps open")]
pub(crate) fn borrow<T: FromRawFd>(fd: RawFd) -> ManuallyDrop<T> {
    // SAFETY: promised by the submitter; nothing closes it here.
    ManuallyDrop::new(unsafe { T::from_raw_fd(fd) })
}

fn vector(entry: &io_uring_sqe) -> libc::iovec {
    libc::iovec {
        iov_base: Call(*entry).buffer(),
        iov_len: entry.len as usize,
    }
}
