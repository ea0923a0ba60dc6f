//! The functions of the C library that open a file, or change a directory: in a world, some are outside of it.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::io;

use uthread::interposition::World as _;
use uthread_interpose::{set_errno, system_call};

use crate::world::{At, Change, Shared};

const HERE: c_int = libc::AT_FDCWD;

/// Defines functions like `open`, whose last argument is a mode if one is passed.
macro_rules! opening {
    ($($name:ident($($directory:ident)?);)*) => {
        $(
            #[allow(unsafe_code, reason = "a function of the C library")]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($directory: c_int,)? path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
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

type Text = *const c_char;

changing! {
    creat(path: Text, mode: c_uint), SYS_creat, one(HERE, path);
    creat64(path: Text, mode: c_uint), SYS_creat, one(HERE, path);
    link(from: Text, to: Text), SYS_link, one(HERE, to);
    linkat(from: c_int, original: Text, to: c_int, path: Text, flags: c_int), SYS_linkat, one(to, path);
    mkdir(path: Text, mode: c_uint), SYS_mkdir, one(HERE, path);
    mkdirat(directory: c_int, path: Text, mode: c_uint), SYS_mkdirat, one(directory, path);
    rename(from: Text, to: Text), SYS_rename, two((HERE, from), (HERE, to));
    renameat(old: c_int, from: Text, new: c_int, to: Text), SYS_renameat, two((old, from), (new, to));
    renameat2(old: c_int, from: Text, new: c_int, to: Text, flags: c_uint), SYS_renameat2, two((old, from), (new, to));
    rmdir(path: Text), SYS_rmdir, one(HERE, path);
    symlink(target: Text, path: Text), SYS_symlink, one(HERE, path);
    symlinkat(target: Text, directory: c_int, path: Text), SYS_symlinkat, one(directory, path);
    truncate(path: Text, length: libc::off_t), SYS_truncate, one(HERE, path);
    truncate64(path: Text, length: libc::off_t), SYS_truncate, one(HERE, path);
    unlink(path: Text), SYS_unlink, one(HERE, path);
    unlinkat(directory: c_int, path: Text, flags: c_int), SYS_unlinkat, one(directory, path);
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
/// The path is null, or a string that lives so long.
#[allow(unsafe_code, reason = "memory of the program")]
unsafe fn one<'a>(directory: c_int, path: Text) -> Option<Change<'a>> {
    // SAFETY: by the caller's contract.
    unsafe { at(directory, path) }.map(Change::One)
}

/// # Safety
///
/// As for `one`.
#[allow(unsafe_code, reason = "memory of the program")]
unsafe fn two<'a>(from: (c_int, Text), to: (c_int, Text)) -> Option<Change<'a>> {
    // SAFETY: by the caller's contract.
    let from = unsafe { at(from.0, from.1) }?;
    // SAFETY: by the caller's contract.
    Some(Change::Rename(from, unsafe { at(to.0, to.1) }?))
}

/// # Safety
///
/// As for `one`.
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
