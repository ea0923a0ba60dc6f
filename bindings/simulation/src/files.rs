//! The functions of the C library that open a file, or change a directory: in a world, some are outside of it.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::io;

use rustix::fs::RenameFlags;
use uthread::interposition::World as _;
use uthread_interpose::{set_errno, system_call};

use crate::world::{At, Change, Shared};

type Text = *const c_char;

const HERE: c_int = libc::AT_FDCWD;

/// Defines functions like `open`, whose last argument is a mode if one is passed.
macro_rules! opening {
    ($($name:ident($($directory:ident)?);)*) => {
        $(
            #[allow(unsafe_code, reason = "a function of the C library")]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($directory: c_int,)? path: Text, flags: c_int, mode: c_uint) -> c_int {
                let at = [$($directory,)? HERE][0];
                // SAFETY: by the caller's contract.
                unsafe { open_at(at, path, flags, mode) }
            }
        )*
    };
}

opening! {
    open();
    open64();
    openat(directory);
    openat64(directory);
}

/// Does what `creat(2)` does.
///
/// # Safety
///
/// As for that function.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn creat(path: Text, mode: c_uint) -> c_int {
    let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
    // SAFETY: by the caller's contract.
    unsafe { open_at(HERE, path, flags, mode) }
}

/// Defines functions that change a directory, each with its system call and what it changes.
macro_rules! changing {
    ($($name:ident($($argument:ident: $kind:ty),*), $number:ident, $change:expr;)*) => {
        $(
            #[allow(unsafe_code, reason = "a function of the C library")]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                // SAFETY: by the caller's contract.
                let change = unsafe { $change };
                // SAFETY: by the caller's contract.
                changed(change, || unsafe { system_call(libc::$number, [$($argument as usize),*]) })
            }
        )*
    };
}

changing! {
    link(from: Text, to: Text), SYS_link, create(HERE, to);
    linkat(from: c_int, original: Text, to: c_int, path: Text, flags: c_int), SYS_linkat, create(to, path);
    mkdir(path: Text, mode: c_uint), SYS_mkdir, create(HERE, path);
    mkdirat(directory: c_int, path: Text, mode: c_uint), SYS_mkdirat, create(directory, path);
    rename(from: Text, to: Text), SYS_rename, rename_of((HERE, from), (HERE, to), 0);
    renameat(old: c_int, from: Text, new: c_int, to: Text), SYS_renameat, rename_of((old, from), (new, to), 0);
    renameat2(old: c_int, from: Text, new: c_int, to: Text, flags: c_uint), SYS_renameat2, rename_of((old, from), (new, to), flags);
    rmdir(path: Text), SYS_rmdir, remove(HERE, path, libc::AT_REMOVEDIR);
    symlink(target: Text, path: Text), SYS_symlink, create(HERE, path);
    symlinkat(target: Text, directory: c_int, path: Text), SYS_symlinkat, create(directory, path);
    truncate(path: Text, length: libc::off_t), SYS_truncate, resize(HERE, path, length);
    truncate64(path: Text, length: libc::off_t), SYS_truncate, resize(HERE, path, length);
    unlink(path: Text), SYS_unlink, remove(HERE, path, 0);
    unlinkat(directory: c_int, path: Text, flags: c_int), SYS_unlinkat, remove(directory, path, flags);
}

/// # Safety
///
/// As for `openat(2)`.
#[allow(unsafe_code, reason = "a system call")]
unsafe fn open_at(directory: c_int, path: Text, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: by the caller's contract.
    let at = unsafe { at(directory, path) };
    if let (Some(world), Some((directory, path))) = (Shared::current(), at)
        && let Err(error) = world.open(directory, path, flags as u64)
    {
        return refuse(&error);
    }
    let words = [
        directory as usize,
        path.addr(),
        flags as usize,
        mode as usize,
    ];
    // SAFETY: by the caller's contract.
    (unsafe { system_call(libc::SYS_openat, words) }) as c_int
}

fn changed(change: Option<Change<'_>>, call: impl FnOnce() -> isize) -> c_int {
    let (Some(world), Some(change)) = (Shared::current(), change) else {
        return call() as c_int;
    };
    match world.change(&change, call) {
        Ok(result) => result as c_int,
        Err(error) => refuse(&error),
    }
}

/// # Safety
///
/// As for [`at`].
#[allow(unsafe_code, reason = "memory of the program")]
unsafe fn create<'a>(directory: c_int, path: Text) -> Option<Change<'a>> {
    // SAFETY: by the caller's contract.
    unsafe { at(directory, path) }.map(Change::Create)
}

/// # Safety
///
/// As for [`at`].
#[allow(unsafe_code, reason = "memory of the program")]
unsafe fn remove<'a>(directory: c_int, path: Text, flags: c_int) -> Option<Change<'a>> {
    // SAFETY: by the caller's contract.
    let at = unsafe { at(directory, path) }?;
    Some(Change::Remove(at, flags & libc::AT_REMOVEDIR != 0))
}

/// # Safety
///
/// As for [`at`].
#[allow(unsafe_code, reason = "memory of the program")]
unsafe fn rename_of<'a>(
    from: (c_int, Text),
    to: (c_int, Text),
    flags: c_uint,
) -> Option<Change<'a>> {
    // SAFETY: by the caller's contract.
    let from = unsafe { at(from.0, from.1) }?;
    // SAFETY: by the caller's contract.
    let to = unsafe { at(to.0, to.1) }?;
    Some(Change::Rename(
        from,
        to,
        RenameFlags::from_bits_retain(flags),
    ))
}

/// # Safety
///
/// As for [`at`].
#[allow(unsafe_code, reason = "memory of the program")]
unsafe fn resize<'a>(directory: c_int, path: Text, length: libc::off_t) -> Option<Change<'a>> {
    // SAFETY: by the caller's contract.
    let at = unsafe { at(directory, path) }?;
    Some(Change::Resize(at, u64::try_from(length).ok()?))
}

/// # Safety
///
/// The path is null, or a string that lives so long.
#[allow(unsafe_code, reason = "memory of the program")]
unsafe fn at<'a>(directory: c_int, path: Text) -> Option<At<'a>> {
    if path.is_null() {
        return None;
    }
    // SAFETY: by the caller's contract.
    let path = unsafe { CStr::from_ptr(path) };
    Some(((directory != HERE).then_some(directory), path))
}

/// Returns what a function of the C library does that fails.
pub(crate) fn refuse(error: &io::Error) -> c_int {
    set_errno(error.raw_os_error().unwrap_or(libc::EIO));
    -1
}
