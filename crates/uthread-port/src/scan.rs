//! Finds paths in the source of a crate by which it may block the worker of a fiber that calls it.

use std::collections::HashMap;
use std::mem;
use std::ops::Range;

use super::conditions;
use super::imports::Tree;
use super::tokens::Tokens;

/// Effects of code on the worker of a fiber that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Waits by a call that blocks the worker.
    Blocks,
    /// Keeps values in thread-locals, which the fibers of a worker share.
    Context,
    /// Changes a thread-local until a guard is dropped: other fibers of the worker see that.
    Guards,
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

/// What a file contains. See the example of [`scan`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scanned {
    /// The places that may keep a fiber's worker from other fibers, in the order of their lines.
    pub findings: Vec<Finding>,
    /// The modules in other files that it declares.
    pub modules: Vec<Module>,
}

/// A module in another file. See the example of [`scan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The path from the folder of the file's modules, without an ending: `a`, or `a/b` if `a` is
    /// declared with a body. If the attribute `path` names a file, that name.
    pub path: String,
    /// `true` if `path` is the value of that attribute.
    pub is_named: bool,
    /// `true` if it is only for tests, other systems, or features that the crate does not have.
    pub is_left_out: bool,
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
            "libc::SYS_futex",
            "libc::accept",
            "libc::accept4",
            "libc::connect",
            "libc::epoll_wait",
            "libc::flock",
            "libc::getaddrinfo",
            "libc::nanosleep",
            "libc::poll",
            "libc::ppoll",
            "libc::pthread_cond_timedwait",
            "libc::pthread_cond_wait",
            "libc::recv",
            "libc::recvfrom",
            "libc::recvmsg",
            "libc::select",
            "libc::sem_wait",
            "libc::sleep",
            "libc::usleep",
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

/// Beginnings of what is found, each a name and what follows it.
const ROOTS: [(&str, &str); 4] = [
    ("std", "::"),
    ("libc", "::"),
    ("parking_lot", "::"),
    ("thread_local", "!"),
];

/// Returns the places of a file that may keep a fiber's worker from other fibers, and the modules
/// in other files. Leaves out the places in tests, in code for other systems, and in code for
/// features that the crate does not have. A text that is not Rust has none of either.
///
/// ```
/// use uthread_port::{Effect, scan};
///
/// let source = "use std::{fmt, sync::Condvar};\n\nfn wait() {\n    std::thread::park();\n}\n";
/// let found = scan(source, &[]).findings;
/// let places: Vec<_> = found.iter().map(|found| (found.what.as_str(), found.line)).collect();
/// assert_eq!(places, [("std::sync::Condvar", 1), ("std::thread::park", 4)]);
/// assert_eq!(found[0].effect, Effect::Blocks);
///
/// let declared = scan("mod a;\n#[cfg(windows)]\nmod b {\n    mod c;\n}\n", &[]).modules;
/// let found: Vec<_> = declared.iter().map(|module| (module.path.as_str(), module.is_left_out)).collect();
/// assert_eq!(found, [("a", false), ("b/c", true)]);
/// ```
#[must_use]
pub fn scan(source: &str, features: &[String]) -> Scanned {
    // Tables of generated code take long to parse.
    let is_of_interest = ROOTS.iter().any(|(name, next)| follows(source, name, next))
        || has_block_of_c(source)
        || follows(source, "mod", " ");
    if !is_of_interest {
        return Scanned::default();
    }
    let Some(mut scan) = Scan::of(source, features) else {
        return Scanned::default();
    };
    scan.find_guards();
    scan.found.sort_by_key(|finding| finding.line);
    Scanned {
        findings: scan.found,
        modules: scan.modules,
    }
}

/// Returns `true` if `next` follows a name anywhere, maybe after spaces.
fn follows(source: &str, name: &str, next: &str) -> bool {
    source.match_indices(name).any(|(at, _)| {
        let rest = &source[at + name.len()..];
        rest.starts_with(next) || rest.trim_start().starts_with(next)
    })
}

/// Returns `true` for a text that may contain a block of C functions.
fn has_block_of_c(source: &str) -> bool {
    source.match_indices("extern").any(|(at, name)| {
        let rest = source[at + name.len()..].trim_start();
        let after_quote = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
        let rest = after_quote.map_or(rest, |(_, rest)| rest);
        rest.trim_start().starts_with('{')
    })
}

struct Scan<'a> {
    tokens: Tokens<'a>,
    features: &'a [String],
    /// The paths of imported names.
    imported: HashMap<String, String>,
    /// The names of thread-locals, and the first tokens of implementations of `Drop`.
    locals: Vec<String>,
    drops: Vec<usize>,
    /// The modules with a body around the token, each with the end of that.
    around: Vec<(String, usize)>,
    /// Where the code ends that is left out.
    left_out_to: usize,
    found: Vec<Finding>,
    modules: Vec<Module>,
}

impl<'a> Scan<'a> {
    fn of(source: &'a str, features: &'a [String]) -> Option<Scan<'a>> {
        let source = source.trim_start_matches('\u{feff}');
        let mut scan = Scan {
            tokens: Tokens::new(source).ok()?,
            features,
            imported: HashMap::new(),
            locals: Vec::new(),
            drops: Vec::new(),
            around: Vec::new(),
            left_out_to: 0,
            found: Vec::new(),
            modules: Vec::new(),
        };
        let mut at = 0;
        while at < scan.tokens.len() {
            scan.around.retain(|(_, end)| at < *end);
            at = scan.step(at);
        }
        Some(scan)
    }

    /// Looks at the code that begins at a token, and returns the next token.
    fn step(&mut self, at: usize) -> usize {
        match self.tokens.text(at) {
            "#" => {
                if self.is_left_out(at) {
                    self.left_out_to = self.left_out_to.max(self.left_out_end(at));
                }
                at + 1
            }
            "mod" => self.module(at),
            _ if at < self.left_out_to => at + 1,
            "use" => match Tree::parse(&self.tokens, at + 1) {
                Some(tree) => {
                    self.import(&tree);
                    tree.end
                }
                None => at + 1,
            },
            "thread_local" if self.tokens.text(at + 1) == "!" => {
                self.record(Effect::Context, "thread_local!".to_owned(), at);
                let names = self
                    .group(at + 2)
                    .filter(|name| self.tokens.before(*name) == "static");
                let names = names.map(|name| self.tokens.text(name).to_owned());
                self.locals.extend(names.collect::<Vec<_>>());
                at + 2
            }
            "Drop" if self.tokens.text(at + 1) == "for" => {
                self.drops.push(at);
                at + 2
            }
            "extern" if self.is_block_of_c(at) => {
                self.record(Effect::CallsC, "extern".to_owned(), at);
                at + 2
            }
            _ if self.begins_path(at) => self.path(at),
            _ => at + 1,
        }
    }

    /// Returns `true` for a block that declares functions of C.
    fn is_block_of_c(&self, at: usize) -> bool {
        let is_of_c = ["\"C\"", "\"C-unwind\"", "\"system\""].contains(&self.tokens.text(at + 1));
        self.tokens.text(at + 1 + usize::from(is_of_c)) == "{"
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
        let bracket = at + 1 + usize::from(self.tokens.text(at + 1) == "!");
        self.tokens.starts_with(bracket, &["[", "cfg", "("])
            && conditions::is_met(&self.tokens, self.features, bracket + 3) == Some(false)
    }

    /// Returns the token after what an attribute leaves out: the rest of the code around it, or an
    /// item, a field, a variant, an arm or a statement.
    fn left_out_end(&self, at: usize) -> usize {
        let depth = self.tokens.depth(at);
        let around_ends = |index: &usize| self.tokens.depth(*index) < depth;
        if self.tokens.text(at + 1) == "!" {
            let end = (at..self.tokens.len()).find(around_ends);
            return end.unwrap_or(self.tokens.len());
        }
        let mut first = at;
        while self.tokens.text(first) == "#" {
            first = self.group(first + 1).end + 1;
        }
        let ends: &[&str] = if self.begins_item(first) {
            &["}", ";"]
        } else {
            &["}", ";", ","]
        };
        let is_end = |index: &usize| {
            self.tokens.depth(*index) == depth && ends.contains(&self.tokens.text(*index))
        };
        (first..self.tokens.len())
            .find(|index| is_end(index) || around_ends(index))
            .map_or(self.tokens.len(), |end| end + usize::from(is_end(&end)))
    }

    /// Returns `true` for the first token of an item, in which commas may separate parameters.
    fn begins_item(&self, first: usize) -> bool {
        const KEYWORDS: [&str; 15] = [
            "async",
            "const",
            "enum",
            "extern",
            "fn",
            "impl",
            "macro_rules",
            "mod",
            "static",
            "struct",
            "trait",
            "type",
            "union",
            "unsafe",
            "use",
        ];
        let mut at = first;
        if self.tokens.text(at) == "pub" {
            at += 1;
            if self.tokens.text(at) == "(" {
                at = self.group(at).end + 1;
            }
        }
        KEYWORDS.contains(&self.tokens.text(at))
    }

    /// Returns the tokens in the brackets that open at a token.
    fn group(&self, open: usize) -> Range<usize> {
        let depth = self.tokens.depth(open);
        let first = (open + 1).min(self.tokens.len());
        let end = (first..self.tokens.len()).find(|at| self.tokens.depth(*at) <= depth);
        first..end.unwrap_or(self.tokens.len())
    }

    /// Looks at the declaration of a module, and returns the next token.
    fn module(&mut self, at: usize) -> usize {
        let name = self.tokens.text(at + 1).trim_start_matches("r#").to_owned();
        match self.tokens.text(at + 2) {
            "{" => self.around.push((name, self.group(at + 2).end)),
            ";" => {
                self.modules_by_condition(at);
                let named = self.named_path(at);
                let is_named = named.is_some();
                let around = self.around.iter().map(|(around, _)| around.as_str());
                let below = || around.chain([name.as_str()]).collect::<Vec<_>>().join("/");
                self.modules.push(Module {
                    path: named.unwrap_or_else(below),
                    is_named,
                    is_left_out: at < self.left_out_to,
                });
            }
            _ => {}
        }
        at + 2
    }

    /// Returns the value of the attribute `path` before a token, if there is one.
    fn named_path(&self, item: usize) -> Option<String> {
        let is_path = |index: &usize| self.tokens.starts_with(*index, &["[", "path", "="]);
        let value = self.tokens.text(self.before_item(item).find(is_path)? + 3);
        Some(value.trim_matches('"').to_owned())
    }

    /// Adds the files that the attributes `cfg_attr` before a token name.
    fn modules_by_condition(&mut self, item: usize) {
        for at in self.before_item(item) {
            if !self.tokens.starts_with(at, &["[", "cfg_attr", "("]) {
                continue;
            }
            let mut inside = self.group(at + 2);
            let is_path = |index: &usize| self.tokens.starts_with(*index, &["path", "="]);
            let Some(path) = inside.find(is_path) else {
                continue;
            };
            let is_met = conditions::is_met(&self.tokens, self.features, at + 3);
            self.modules.push(Module {
                path: self.tokens.text(path + 2).trim_matches('"').to_owned(),
                is_named: true,
                is_left_out: item < self.left_out_to || is_met == Some(false),
            });
        }
    }

    /// Returns the tokens from the end of the item before.
    fn before_item(&self, item: usize) -> Range<usize> {
        let is_end = |index: &usize| [";", "}"].contains(&self.tokens.text(*index));
        (0..item).rfind(is_end).map_or(0, |end| end + 1)..item
    }

    /// Records the thread-locals that an implementation of `Drop` names.
    fn find_guards(&mut self) {
        for at in mem::take(&mut self.drops) {
            let open = (at..self.tokens.len()).find(|index| self.tokens.text(*index) == "{");
            let mut body = self.group(open.unwrap_or(at));
            let local = body.find_map(|index| {
                let text = self.tokens.text(index);
                self.locals.iter().find(|local| *local == text)
            });
            if let Some(local) = local.cloned() {
                self.record(Effect::Guards, format!("a guard of {local}"), at);
            }
        }
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
        let found = scan(source, &[]).findings;
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
        check(
            "fn a() { libc::syscall(libc::SYS_futex, b) }",
            &[("libc::SYS_futex", 1)],
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
            "extern \"C\" { fn a(); }\nextern \"C\" fn b() {}\nextern\n{ fn c(); }",
            &[("extern", 1), ("extern", 3)],
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
        check("#![cfg(windows)]\nuse std::thread::park;", &[]);
        check(
            "mod a {\n    #![cfg(test)]\n    use std::thread::park;\n}\nuse std::thread::park;",
            &[("std::thread::park", 5)],
        );
        check(
            "#[cfg(any(windows, target_os = \"macos\"))]\n#[inline]\npub(crate) fn a<A, B>(b: A) { std::thread::park() }",
            &[],
        );
        check(
            "cfg_if! { if #[cfg(windows)] { use std::fs; } else { use std::thread::park; } }",
            &[("std::thread::park", 1)],
        );
    }

    #[test]
    fn code_that_is_left_out_ends_with_its_field_variant_arm_or_statement() {
        let blocks = "std::thread::park()";
        for source in [
            "struct A { #[cfg(windows)] b: C }\nfn d() { BLOCKS; }",
            "struct A { #[cfg(windows)] pub b: C, d: E }\nfn f() { BLOCKS; }",
            "enum A { #[cfg(windows)] B, C }\nfn d() { BLOCKS; }",
            "fn a() { match b { #[cfg(windows)] C => d(),\nE => BLOCKS } }",
            "fn a() { #[cfg(windows)] b();\nBLOCKS }",
            "fn a(#[cfg(windows)] b: C) {\nBLOCKS }",
        ] {
            check(
                &source.replace("BLOCKS", blocks),
                &[("std::thread::park", 2)],
            );
        }
    }

    #[test]
    fn a_guard_of_a_thread_local_is_found() {
        let guard = "struct Guard;\nimpl Drop for Guard {\n    fn drop(&mut self) { CURRENT.with(pop) }\n}\nthread_local! {\n    static CURRENT: A = B;\n}";
        check(guard, &[("a guard of CURRENT", 2), ("thread_local!", 5)]);
        check(
            "thread_local!(static CACHE: A = B);\nimpl Drop for C { fn drop(&mut self) { d() } }",
            &[("thread_local!", 1)],
        );
    }

    #[test]
    fn modules_in_other_files_have_a_path_and_a_condition() {
        let source = "mod a;\n#[cfg(test)]\nmod b;\npub mod c { pub(crate) mod d; }\nmod e;\n\
                      #[cfg(windows)]\n#[path = \"f_windows.rs\"]\nmod f;\n#[cfg(unix)]\n\
                      #[path = \"f_unix.rs\"]\nmod f;\n\
                      #[cfg_attr(unix, path = \"g_unix.rs\")]\n\
                      #[cfg_attr(not(unix), path = \"g_other.rs\")]\nmod g;";
        let found: Vec<_> = scan(source, &[])
            .modules
            .into_iter()
            .map(|module| (module.path, module.is_named, module.is_left_out))
            .collect();
        let expected = [
            ("a", false, false),
            ("b", false, true),
            ("c/d", false, false),
            ("e", false, false),
            ("f_windows.rs", true, true),
            ("f_unix.rs", true, false),
            ("g_unix.rs", true, false),
            ("g_other.rs", true, true),
            ("g", false, false),
        ];
        let expected =
            expected.map(|(path, is_named, is_left_out)| (path.to_owned(), is_named, is_left_out));
        assert_eq!(found, expected);
    }
}
