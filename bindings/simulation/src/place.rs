//! Where in the program a call comes from: the first function that is neither of `std` nor of the library.

use std::ffi::c_void;
use std::path::Path;
use std::{env, ptr};

use backtrace::Symbol;

/// Number of functions that are looked at.
const FRAMES_MAX: usize = 64;

/// The crates whose functions are on the way to the kernel, or below the function of a fiber.
const ON_THE_WAY: [&str; 11] = [
    "alloc",
    "backtrace",
    "core",
    "corosensei",
    "libc",
    "rustix",
    "std",
    "uthread",
    "uthread_interpose",
    "uthread_pthread",
    "uthread_simulation",
];

/// Those that may be between the program and an instruction of `rustix`.
const BETWEEN: [&str; 4] = ["alloc", "core", "rustix", "std"];

/// The sources of `std`, and crates that were downloaded.
const SOURCES_OF_STD: &str = "/rustc/";
const DOWNLOADED: &str = "/registry/src/";

/// Returns the addresses of the functions that are being called, the caller's first.
pub(crate) fn frames() -> Vec<usize> {
    let mut frames = Vec::with_capacity(FRAMES_MAX);
    backtrace::trace(|frame| {
        frames.push(frame.ip().addr());
        frames.len() < FRAMES_MAX
    });
    frames
}

/// Returns the file and the line of the program's function; for one of a dependency, those of its caller,
/// too. Without information for debuggers, the name of the function.
pub(crate) fn of(frames: &[usize]) -> String {
    let (mut dependency, mut own) = (None, None);
    for address in frames {
        let address = ptr::without_provenance_mut::<c_void>(*address);
        backtrace::resolve(address, |symbol| {
            if own.is_none()
                && let Some((place, is_downloaded)) = place(symbol)
            {
                let found = if is_downloaded {
                    &mut dependency
                } else {
                    &mut own
                };
                found.get_or_insert(place);
            }
        });
        if own.is_some() {
            break;
        }
    }
    match (dependency, own) {
        (Some(dependency), Some(own)) => format!("{dependency}, called at {own}"),
        (None, Some(place)) | (Some(place), None) => place,
        (None, None) => "an unknown place".to_owned(),
    }
}

/// Returns `true` if the code before this address, which is being called, is the program's, or that of `rustix` or
/// `std` which the program has called.
pub(crate) fn is_of_program(address: usize) -> bool {
    let frames = frames();
    let called = frames.iter().skip_while(|frame| **frame != address);
    let mut is_program = None;
    for frame in called {
        backtrace::resolve(ptr::without_provenance_mut::<c_void>(*frame), |symbol| {
            let name = symbol.name().map(|name| format!("{name:#}"));
            let file = symbol.filename().map(Path::to_string_lossy);
            let name = name.unwrap_or_default();
            let of_crate = crate_with(&name, file.as_deref());
            if !of_crate.is_some_and(|found| BETWEEN.contains(&&*found)) {
                is_program.get_or_insert(!is_on_the_way(&name, file.as_deref()));
            }
        });
        if is_program.is_some() {
            break;
        }
    }
    is_program.unwrap_or(false)
}

/// Returns the place of a function of the program, and whether it is one of a crate that was downloaded.
fn place(symbol: &Symbol) -> Option<(String, bool)> {
    let name = format!("{:#}", symbol.name()?);
    let file = symbol.filename().map(Path::to_string_lossy);
    if is_on_the_way(&name, file.as_deref()) {
        return None;
    }
    let (Some(file), Some(line)) = (file, symbol.lineno()) else {
        return Some((name, false));
    };
    let here = env::current_dir().unwrap_or_default();
    let short = Path::new(&*file).strip_prefix(here);
    let short = short.map_or(file.clone(), Path::to_string_lossy);
    let short = short
        .split_once(DOWNLOADED)
        .and_then(|(_, below)| below.split_once('/'))
        .map_or(&*short, |(_, crate_and_below)| crate_and_below);
    Some((format!("{short}:{line}"), file.contains(DOWNLOADED)))
}

fn is_on_the_way(name: &str, file: Option<&str>) -> bool {
    match crate_with(name, file) {
        Some(found) => ON_THE_WAY.contains(&&*found),
        // A function of the C library.
        None => file.is_none(),
    }
}

/// Returns the crate of a function, by its file or its name. One without a path is not of Rust.
fn crate_with(name: &str, file: Option<&str>) -> Option<String> {
    if let Some(file) = file {
        return crate_of(file);
    }
    let path = name.trim_start_matches(['<', '&', '*', '(']);
    let path = path.trim_start_matches("mut ").trim_start_matches("dyn ");
    // A generic type, or one of the language, has no path, but its trait has.
    let path = match path.split_once(" as ") {
        Some((of_type, of_trait)) if !of_type.contains("::") => of_trait,
        _ => path,
    };
    Some(path.split_once("::")?.0.to_owned())
}

/// Returns the name of the crate of a file in its folder `src`, by the name of its directory.
fn crate_of(file: &str) -> Option<String> {
    if file.starts_with(SOURCES_OF_STD) {
        return Some("std".to_owned());
    }
    let (directory, _) = file.rsplit_once("/src/")?;
    let (above, name) = directory.rsplit_once('/')?;
    let is_binding = Path::new(env!("CARGO_MANIFEST_DIR")).parent() == Some(Path::new(above));
    let version = name.rfind('-').filter(|_| above.contains("/registry/"));
    let name = name[..version.unwrap_or(name.len())].replace('-', "_");
    Some(if is_binding {
        format!("uthread_{name}")
    } else {
        name
    })
}

#[cfg(test)]
mod tests {
    use super::is_on_the_way;

    #[test]
    fn functions_of_std_and_the_library_are_passed_over() {
        let file = |path: &str| Some(path.to_owned());
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/src/files.rs");
        for (name, file) in [
            ("{closure#0}", file("/rustc/59807616/library/std/src/fs.rs")),
            ("open64", file(here)),
            (
                "trace<F>",
                file("/home/a/.cargo/registry/src/i-1/backtrace-0.3.77/src/backtrace/mod.rs"),
            ),
            (
                "{closure#0}<F>",
                file("/home/a/uthread/crates/uthread/src/fiber/mod.rs"),
            ),
            ("<std::fs::File as std::io::Write>::write", None),
            ("<&mut uthread::fs::File>::open", None),
            (
                "<str as uthread::net::ToSocketAddrs>::to_socket_addrs",
                None,
            ),
            ("__libc_start_main", None),
        ] {
            assert!(is_on_the_way(name, file.as_deref()), "{name}");
        }
        for (name, file) in [
            ("uthread_pool::Pool::get", None),
            (
                "get",
                file("/home/a/uthread/crates/uthread-pool/src/lib.rs"),
            ),
            ("{closure#0}", file("/app/src/main.rs")),
            ("a_test", file("/app/tests/a.rs")),
            ("sqlite3_open", file("/app/sqlite3.c")),
        ] {
            assert!(!is_on_the_way(name, file.as_deref()), "{name}");
        }
    }
}
