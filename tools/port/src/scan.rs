//! Finds paths in the source of a crate by which it may block the worker of a fiber that calls it.

use std::collections::HashMap;

use super::imports::Tree;
use super::tokens::Tokens;

/// Effects of code on the worker of a fiber that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Waits by a call that blocks the worker.
    Blocks,
    /// Keeps values in thread-locals, which the fibers of a worker share.
    Context,
    /// Calls functions of C, of which the source says nothing.
    CallsC,
    /// Waits for locks, which block the worker while another fiber holds them.
    Locks,
    /// Reads or writes files, which takes as long as the disk does.
    Files,
    /// Starts threads.
    Threads,
}

/// A place in a file, and what it may do. See the example of [`scan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The effect.
    pub effect: Effect,
    /// The path or item.
    pub what: String,
    /// The line in the source, from 1.
    pub line: usize,
}

/// Paths, with all below them, and their effects. `libc::write` is missing, as it usually wakes
/// another thread.
const EFFECTS: &[(Effect, &[&str])] = &[
    (
        Effect::Blocks,
        &[
            "std::sync::Condvar",
            "std::sync::Barrier",
            "std::sync::mpsc",
            "std::thread::park",
            "std::thread::park_timeout",
            "std::thread::sleep",
            "std::thread::JoinHandle",
            "std::thread::scope",
            "std::net::TcpStream",
            "std::net::TcpListener",
            "std::net::UdpSocket",
            "std::net::ToSocketAddrs",
            "std::os::unix::net::UnixStream",
            "std::os::unix::net::UnixListener",
            "std::os::unix::net::UnixDatagram",
            "std::process::Command",
            "parking_lot::Condvar",
            "libc::accept",
            "libc::accept4",
            "libc::connect",
            "libc::epoll_wait",
            "libc::flock",
            "libc::getaddrinfo",
            "libc::nanosleep",
            "libc::poll",
            "libc::ppoll",
            "libc::recv",
            "libc::recvfrom",
            "libc::recvmsg",
            "libc::select",
            "libc::waitpid",
        ],
    ),
    (
        Effect::Context,
        &["std::thread::current", "std::thread::LocalKey"],
    ),
    (
        Effect::Locks,
        &[
            "std::sync::Mutex",
            "std::sync::RwLock",
            "std::sync::Once",
            "std::sync::OnceLock",
            "std::sync::LazyLock",
            "parking_lot::Mutex",
            "parking_lot::RwLock",
            "parking_lot::ReentrantMutex",
        ],
    ),
    (Effect::Files, &["std::fs"]),
    (
        Effect::Threads,
        &["std::thread::spawn", "std::thread::Builder"],
    ),
];

/// A file without any of these is not parsed: tables of generated code take long.
const ROOTS: [&str; 5] = ["std", "libc", "parking_lot", "thread_local", "extern"];

/// Returns the places of a file that may keep a fiber's worker from other fibers, in the order of
/// their lines. Leaves out tests and code for other systems. A text that is not Rust has none.
///
/// ```
/// use uthread_port::{Effect, scan};
///
/// let found = scan("use std::{fmt, sync::Condvar};\n\nfn wait() {\n    std::thread::park();\n}\n");
/// let places: Vec<_> = found.iter().map(|found| (found.what.as_str(), found.line)).collect();
/// assert_eq!(places, [("std::sync::Condvar", 1), ("std::thread::park", 4)]);
/// assert_eq!(found[0].effect, Effect::Blocks);
/// ```
#[must_use]
pub fn scan(source: &str) -> Vec<Finding> {
    let source = source.trim_start_matches('\u{feff}');
    if !ROOTS.iter().any(|root| source.contains(root)) {
        return Vec::new();
    }
    let Ok(tokens) = Tokens::new(source) else {
        return Vec::new();
    };
    let mut scan = Scan {
        tokens,
        imported: HashMap::new(),
        found: Vec::new(),
    };
    let mut at = 0;
    while at < scan.tokens.len() {
        at = scan.step(at);
    }
    scan.found
}

struct Scan<'a> {
    tokens: Tokens<'a>,
    /// The paths of imported names.
    imported: HashMap<String, String>,
    found: Vec<Finding>,
}

impl Scan<'_> {
    /// Looks at the code that begins at a token, and returns the next token.
    fn step(&mut self, at: usize) -> usize {
        match self.tokens.text(at) {
            "#" if self.is_left_out(at) => self.item_end(at),
            "use" => match Tree::parse(&self.tokens, at + 1) {
                Some(tree) => {
                    self.import(&tree);
                    tree.end
                }
                None => at + 1,
            },
            "thread_local" if self.tokens.text(at + 1) == "!" => {
                self.record(Effect::Context, "thread_local!".to_owned(), at);
                at + 2
            }
            "extern" if self.is_block_of_c(at) => {
                self.record(Effect::CallsC, "extern".to_owned(), at);
                at + 3
            }
            _ if self.begins_path(at) => self.path(at),
            _ => at + 1,
        }
    }

    /// Returns `true` for a block that declares functions of C.
    fn is_block_of_c(&self, at: usize) -> bool {
        let is_of_c = ["\"C\"", "\"C-unwind\"", "\"system\""].contains(&self.tokens.text(at + 1));
        is_of_c && self.tokens.text(at + 2) == "{"
    }

    /// Returns `true` for the first name of a path with more names.
    fn begins_path(&self, at: usize) -> bool {
        let is_name =
            |text: &str| text.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        let is_below = |text: &str| text == ">" || is_name(text);
        is_name(self.tokens.text(at))
            && self.tokens.text(at + 1) == "::"
            && (self.tokens.before(at) != "::" || !is_below(self.tokens.before(at - 1)))
    }

    /// Returns `true` for an attribute of code that is not in the library here.
    fn is_left_out(&self, at: usize) -> bool {
        let conditions: [&[&str]; 5] = [
            &["all", "(", "test"],
            &["test"],
            &["windows"],
            &["loom"],
            &["target_os", "=", "\"windows\""],
        ];
        self.tokens.starts_with(at, &["#", "[", "cfg", "("])
            && conditions
                .iter()
                .any(|condition| self.tokens.starts_with(at + 4, condition))
    }

    /// Returns the token after the item that begins at a token with its attributes.
    fn item_end(&self, at: usize) -> usize {
        let depth = self.tokens.depth(at);
        let is_end = |index: &usize| {
            self.tokens.depth(*index) == depth && ["}", ";"].contains(&self.tokens.text(*index))
        };
        (at..self.tokens.len())
            .find(is_end)
            .map_or(self.tokens.len(), |end| end + 1)
    }

    fn import(&mut self, tree: &Tree<'_>) {
        for (token, name, path) in tree.imports() {
            self.check(&path, token);
            self.imported.insert(name, path);
        }
    }

    /// Looks at a path with at least two names, and returns the token after it.
    fn path(&mut self, at: usize) -> usize {
        let mut path = self.tokens.text(at).to_owned();
        if let Some(imported) = self.imported.get(&path) {
            // The path of a type was recorded at its import.
            path.clone_from(imported);
        }
        let mut end = at + 1;
        while self.tokens.text(end) == "::" {
            path = path + "::" + self.tokens.text(end + 1);
            end += 2;
        }
        self.check(&path, at);
        end
    }

    fn check(&mut self, path: &str, token: usize) {
        let fits = |name: &&&str| {
            let rest = path.strip_prefix(**name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        for (effect, names) in EFFECTS {
            if let Some(name) = names.iter().find(fits) {
                self.record(*effect, (*name).to_owned(), token);
            }
        }
    }

    fn record(&mut self, effect: Effect, what: String, token: usize) {
        let line = self.tokens.line(token);
        self.found.push(Finding { effect, what, line });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &[(&str, usize)]) {
        let found = scan(source);
        let found: Vec<_> = found
            .iter()
            .map(|found| (found.what.as_str(), found.line))
            .collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn paths_are_found_where_they_are_named() {
        check(
            "use std::net::{IpAddr, TcpStream};",
            &[("std::net::TcpStream", 1)],
        );
        check(
            "use std::thread;\nfn a() { thread::sleep(b) }",
            &[("std::thread::sleep", 2)],
        );
        check(
            "use std::thread as t;\nfn a() { t::park() }",
            &[("std::thread::park", 2)],
        );
        check("use std::sync::*;", &[]);
        check("fn a() { ::std::fs::read(b) }", &[("std::fs", 1)]);
        check("fn a() { crate::std::fs::read(b) }", &[]);
        check(
            "use parking_lot::{Condvar as C, Mutex};",
            &[("parking_lot::Condvar", 1), ("parking_lot::Mutex", 1)],
        );
        check(
            "thread_local! { static A: u8 = 0; }",
            &[("thread_local!", 1)],
        );
        check(
            "extern \"C\" { fn a(); }\nextern \"C\" fn b() {}",
            &[("extern", 1)],
        );
        check(
            "// std::thread::park\nconst A: &str = \"std::thread::park\";",
            &[],
        );
    }

    #[test]
    fn tests_and_other_systems_are_left_out() {
        let source = "#[cfg(test)]\nmod tests { use std::thread::sleep; }\n#[cfg(windows)]\nuse std::fs;\nuse std::thread::park;";
        check(source, &[("std::thread::park", 5)]);
        check(
            "#[cfg(unix)]\nuse std::thread::park;",
            &[("std::thread::park", 2)],
        );
        check("fn a( {", &[]);
    }
}
