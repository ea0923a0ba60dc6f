//! The functions of the C library that change the contents of a file besides writes, or send one: copies are reads
//! and writes in a world.

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FileType, SeekFrom};
use uthread::interposition::{self, World as _};
use uthread_interpose::system_call;

use crate::files::refuse;
use crate::world::{Shared, borrow};

/// Number of bytes that one call copies at most, as it may copy fewer than it was asked for.
const COPY_BYTES_MAX: usize = 64 << 10;

/// Where a copy reads or writes: at an offset, which it advances, or at the position of the descriptor.
type End<'a> = (c_int, Option<&'a mut i64>);

/// Defines functions that change the size of a file.
macro_rules! resizing {
    ($($name:ident)*) => {
        $(
            /// Does what `ftruncate(2)` does.
            ///
            /// # Safety
            ///
            /// As for that function.
            #[allow(unsafe_code, reason = "a function of the C library")]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(fd: c_int, size: libc::off_t) -> c_int {
                if let (Some(world), Ok(size)) = (Shared::current(), u64::try_from(size))
                    && let Err(error) = world.resize(borrow(fd), size)
                {
                    return refuse(&error);
                }
                // SAFETY: by the caller's contract.
                (unsafe { system_call(libc::SYS_ftruncate, [fd as usize, size as usize]) }) as c_int
            }
        )*
    };
}

resizing! { ftruncate ftruncate64 }

/// Defines functions that allocate space for a file.
macro_rules! allocating {
    ($($name:ident, $posix_name:ident;)*) => {
        $(
            /// Does what `fallocate(2)` does.
            ///
            /// # Safety
            ///
            /// As for that function.
            #[allow(unsafe_code, reason = "a function of the C library")]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(fd: c_int, mode: c_int, offset: libc::off_t, length: libc::off_t) -> c_int {
                allocate(fd, mode, offset, length)
            }

            /// Does what `posix_fallocate(3)` does.
            ///
            /// # Safety
            ///
            /// As for that function.
            #[allow(unsafe_code, reason = "a function of the C library")]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $posix_name(fd: c_int, offset: libc::off_t, length: libc::off_t) -> c_int {
                match allocate(fd, 0, offset, length) {
                    0 => 0,
                    _ => io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
                }
            }
        )*
    };
}

allocating! {
    fallocate, posix_fallocate;
    fallocate64, posix_fallocate64;
}

#[allow(unsafe_code, reason = "a system call")]
fn allocate(fd: c_int, mode: c_int, offset: i64, length: i64) -> c_int {
    let range = u64::try_from(offset).and_then(|offset| Ok((offset, u64::try_from(length)?)));
    if let (Some(world), Ok((offset, length))) = (Shared::current(), range)
        && let Err(error) = world.allocate(fd, mode as u32, offset, length)
    {
        return refuse(&error);
    }
    let words = [fd as usize, mode as usize, offset as usize, length as usize];
    // SAFETY: the call takes numbers only.
    (unsafe { system_call(libc::SYS_fallocate, words) }) as c_int
}

/// Does what `copy_file_range(2)` does.
///
/// # Safety
///
/// As for that function.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_offset: *mut i64,
    to: c_int,
    to_offset: *mut i64,
    length: usize,
    flags: c_uint,
) -> isize {
    if is_of_host() {
        // SAFETY: by the caller's contract, it is null or an offset.
        let from_offset = unsafe { from_offset.as_mut() };
        // SAFETY: as above.
        let to_offset = unsafe { to_offset.as_mut() };
        if !is_of_type(borrow(to), FileType::RegularFile) {
            return invalid();
        }
        return copy((from, from_offset), (to, to_offset), length);
    }
    // SAFETY: by the caller's contract.
    unsafe {
        transfer(
            libc::SYS_copy_file_range,
            (from, from_offset),
            (to, to_offset),
            length,
            flags,
        )
    }
}

/// Defines functions that send a file.
macro_rules! sending {
    ($($name:ident)*) => {
        $(
            /// Does what `sendfile(2)` does.
            ///
            /// # Safety
            ///
            /// As for that function.
            #[allow(unsafe_code, reason = "a function of the C library")]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(to: c_int, from: c_int, offset: *mut i64, length: usize) -> isize {
                if is_of_host() {
                    // SAFETY: by the caller's contract, it is null or an offset.
                    let offset = unsafe { offset.as_mut() };
                    return copy((from, offset), (to, None), length);
                }
                let words = [to as usize, from as usize, offset.addr(), length];
                // SAFETY: by the caller's contract.
                unsafe { system_call(libc::SYS_sendfile, words) }
            }
        )*
    };
}

sending! { sendfile sendfile64 }

/// Does what `splice(2)` does. A world has none to a socket: callers then read and write instead.
///
/// # Safety
///
/// As for that function.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn splice(
    from: c_int,
    from_offset: *mut i64,
    to: c_int,
    to_offset: *mut i64,
    length: usize,
    flags: c_uint,
) -> isize {
    if is_of_host() && is_of_type(borrow(to), FileType::Socket) {
        return invalid();
    }
    // SAFETY: by the caller's contract.
    unsafe {
        transfer(
            libc::SYS_splice,
            (from, from_offset),
            (to, to_offset),
            length,
            flags,
        )
    }
}

/// Makes a system call that moves bytes from one descriptor to another.
///
/// # Safety
///
/// The contract of the system call.
#[allow(unsafe_code, reason = "a system call")]
unsafe fn transfer(
    number: c_long,
    (from, from_offset): (c_int, *mut i64),
    (to, to_offset): (c_int, *mut i64),
    length: usize,
    flags: c_uint,
) -> isize {
    let words = [
        from as usize,
        from_offset.addr(),
        to as usize,
        to_offset.addr(),
        length,
        flags as usize,
    ];
    // SAFETY: by the caller's contract.
    unsafe { system_call(number, words) }
}

/// Returns what a call does that has descriptors of another kind.
fn invalid() -> isize {
    refuse(&io::Error::from_raw_os_error(libc::EINVAL)) as isize
}

fn is_of_host() -> bool {
    interposition::host().is_some()
}

fn is_of_type(fd: impl AsFd, kind: FileType) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == kind)
}

/// Copies at most so many bytes. Returns their number, or -1 with the error number in `errno`.
fn copy(from: End<'_>, to: End<'_>, length: usize) -> isize {
    if !is_of_type(borrow(from.0), FileType::RegularFile) {
        return invalid();
    }
    let mut bytes = vec![0; length.min(COPY_BYTES_MAX)];
    let read = match &from.1 {
        Some(offset) => rustix::io::pread(borrow(from.0), &mut bytes, **offset as u64),
        None => rustix::io::read(borrow(from.0), &mut bytes),
    };
    let read = match read {
        Ok(read) => read,
        Err(errno) => return refuse(&errno.into()) as isize,
    };
    let written = write(to, &bytes[..read]);
    let copied = written.max(0);
    match from.1 {
        Some(offset) => *offset += copied as i64,
        // What was not written is read again.
        None => {
            let back = copied as i64 - read as i64;
            _ = rustix::fs::seek(borrow(from.0), SeekFrom::Current(back));
        }
    }
    written
}

#[allow(unsafe_code, reason = "functions of the C library")]
fn write((to, offset): End<'_>, bytes: &[u8]) -> isize {
    let (start, length) = (bytes.as_ptr().cast::<c_void>(), bytes.len());
    if !is_of_type(borrow(to), FileType::RegularFile) {
        // SAFETY: these are so many bytes.
        return unsafe { libc::write(to, start, length) };
    }
    let at = offset.as_deref().copied();
    let world = Shared::current();
    let told = world.map_or(Ok(()), |world| {
        world.write(to, at.map(|at| at as u64), length)
    });
    // Not by `libc::write`: a call of the library is no call of the program, of which the world would hear.
    let written = told.and_then(|()| {
        Ok(match at {
            Some(at) => rustix::io::pwrite(borrow(to), bytes, at as u64)?,
            None => rustix::io::write(borrow(to), bytes)?,
        })
    });
    let written = match written {
        Ok(written) => written,
        Err(error) => return refuse(&error) as isize,
    };
    if let Some(offset) = offset {
        *offset += written as i64;
    }
    written as isize
}
