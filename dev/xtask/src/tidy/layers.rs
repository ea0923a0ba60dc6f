//! The modules of the library form layers, and a layer knows only those below it.

use std::collections::BTreeSet;

use super::Finding;
use super::paths::used_paths;
use super::source::Source;
use super::tree::Tree;

pub(super) const LIBRARY: &str = "crates/uthread/src/";

type Layer = (&'static [&'static str], &'static [&'static str]);

/// From the top: the modules of a layer, and the modules below that they may use. Within a layer
/// all may use all.
const LAYERS: [Layer; 12] = [
    (
        FACE,
        &[
            "op",
            "resource",
            "sched",
            "driver",
            "fiber",
            "stack",
            "tls",
            "pool",
            "atomic",
            "priorities",
            "forked",
        ],
    ),
    (
        &["sched"],
        &[
            "op",
            "resource",
            "driver",
            "fiber",
            "stack",
            "tls",
            "pool",
            "atomic",
            "priorities",
            "forked",
        ],
    ),
    (
        &["driver"],
        &["op", "resource", "pool", "tls", "atomic", "priorities"],
    ),
    (&["op"], &["resource"]),
    (&["resource"], &["atomic"]),
    (&["pool"], &["atomic", "priorities", "forked"]),
    (
        &["fiber"],
        &["stack", "tls", "atomic", "priorities", "forked"],
    ),
    (&["stack"], &["atomic"]),
    (&["tls"], &["atomic", "forked"]),
    (&["atomic"], &[]),
    (&["priorities"], &[]),
    (&["forked"], &[]),
];

/// The public face: mirrors of `std`, and the root, which is `lib`.
pub(super) const FACE: &[&str] = &[
    "lib",
    "net",
    "os",
    "fs",
    "guide",
    "io",
    "os",
    "time",
    "sync",
    "process",
    "signal",
    "thread",
    "local",
    "ring",
    "runtime",
    "simulation",
    "join",
    "priority",
];

/// The ring and the context switch are each the secret of one place, but for the entries of raw
/// requests, which `ring` takes and `op` carries as plain data, and those of a buffer group, which
/// `resource` lays out; what `loom` and Miri have to run makes no system call.
const CRATES: [(&str, May); 3] = [
    ("corosensei", May::Only(&["fiber", "stack"])),
    ("io_uring", May::Only(&["driver", "op", "resource", "ring"])),
    ("rustix", May::AllBut(&["sched", "sync"])),
];

/// The one file of these modules that no model runs: it asks the kernel for the readiness of
/// descriptors.
const OUTSIDE_MODELS: &str = "sync/select/readiness.rs";

/// The modules that may use a crate.
enum May {
    Only(&'static [&'static str]),
    AllBut(&'static [&'static str]),
}

const MOVE: &str = "move the code to a layer that may, or pass the value as an argument";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in tree.sources() {
        let Some(inside) = path.strip_prefix(LIBRARY) else {
            continue;
        };
        let mut modules: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
        modules.pop_if(|last| *last == "mod");
        match modules[..] {
            [.., "tests"] => {}
            ["lib"] => check_file(path, source, "lib", &[], &mut findings),
            _ => check_file(path, source, modules[0], &modules, &mut findings),
        }
    }
    findings
}

/// Checks a file of the root module `own`, whose path is `module`.
fn check_file(path: &str, source: &Source, own: &str, module: &[&str], out: &mut Vec<Finding>) {
    let Some((layer, below)) = layer_of(own) else {
        let what = format!("the module `{own}` is in no layer");
        let remedy = "move it to the folder of a layer, or add it to a layer in dev/xtask/src/tidy/layers.rs";
        out.push(Finding::new(path, 1, what, remedy));
        return;
    };
    let used = used_paths(source, module);
    let used: BTreeSet<_> = used.iter().map(|(line, path)| (*line, path[0])).collect();
    for (line, used) in used {
        let used = layer_of(used).map_or("lib", |_| used);
        if !layer.contains(&used) && !below.contains(&used) {
            out.push(Finding::new(
                path,
                line,
                format!("`{own}` may not use `{used}`"),
                MOVE,
            ));
        }
    }
    for (name, may) in &CRATES {
        let allowed = match may {
            May::Only(modules) => modules.contains(&own),
            May::AllBut(modules) => !modules.contains(&own) || path.ends_with(OUTSIDE_MODELS),
        };
        for line in uses_of_crate(source, name).into_iter().filter(|_| !allowed) {
            out.push(Finding::new(
                path,
                line,
                format!("`{own}` may not use the crate `{name}`"),
                MOVE,
            ));
        }
    }
}

fn layer_of(module: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|(layer, _)| layer.contains(&module))
}

/// Returns the lines where a path starts with the crate `name`, or an import brings it in.
fn uses_of_crate(source: &Source, name: &str) -> Vec<usize> {
    let is_use = |index: usize| {
        let before = |back: usize| {
            index
                .checked_sub(back)
                .map_or("", |index| source.text(index))
        };
        let is_name = |text: &str| text != "use" && text.starts_with(char::is_alphanumeric);
        let inside_path = before(1) == "::" && is_name(before(2));
        before(1) == "use" || before(1) == "crate" || source.text(index + 1) == "::" && !inside_path
    };
    let code = source
        .tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| !token.nesting.tests);
    code.filter(|(index, token)| token.text == name && is_use(*index))
        .map(|(_, token)| token.line)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    /// Plants `code` in the file `path` of the library and expects one finding per entry.
    fn plant_code(path: &str, code: &str, expected: &[&str]) {
        let path = format!("{LIBRARY}{path}");
        let expected: Vec<String> = expected
            .iter()
            .map(|expected| format!("{path}:{expected}"))
            .collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        plant(
            check,
            &[(&path, "//! Nothing yet.\n")],
            (&path, code),
            &expected,
        );
    }

    #[test]
    fn each_layer_is_kept_from_those_above() {
        let cases = [
            ("stack/slab.rs", "fiber"),
            ("fiber/join.rs", "sched"),
            ("fiber/join.rs", "driver"),
            ("op.rs", "driver"),
            ("op/net.rs", "stack"),
            ("driver/uring/ring.rs", "fiber"),
            ("driver/mod.rs", "sched"),
            ("sched.rs", "net"),
        ];
        for (path, used) in cases {
            let (module, _) = path.split_once(['/', '.']).expect("a file");
            plant_code(
                path,
                &format!("use crate::{used}::A;"),
                &[&format!("1: `{module}` may not use `{used}`")],
            );
        }
    }

    #[test]
    fn each_layer_may_use_what_its_row_names() {
        for (layer, below) in LAYERS {
            for module in layer {
                let code: String = layer
                    .iter()
                    .chain(below)
                    .map(|used| format!("use crate::{used}::A;"))
                    .collect();
                plant_code(&format!("{module}.rs"), &code, &[]);
            }
        }
    }

    #[test]
    fn every_shape_of_path_is_seen() {
        let upward = ["1: `driver` may not use `fiber`"];
        plant_code(
            "driver.rs",
            "fn a() -> crate::fiber::Fiber { loop {} }",
            &upward,
        );
        plant_code(
            "driver.rs",
            "use crate::{op::Op, fiber::{Fiber, Id}};",
            &upward,
        );
        plant_code("driver.rs", "use super::fiber;", &upward);
        plant_code("driver/uring.rs", "use super::super::fiber;", &upward);
        plant_code(
            "driver/uring.rs",
            "mod a { use super::super::{super::fiber::Fiber, Driver}; }",
            &upward,
        );
        plant_code(
            "driver.rs",
            "use crate::{\n    op,\n    fiber,\n};",
            &["3: `driver` may not use `fiber`"],
        );
    }

    #[test]
    fn the_root_is_the_public_face() {
        plant_code(
            "sched.rs",
            "use crate::spawn;",
            &["1: `sched` may not use `lib`"],
        );
        plant_code(
            "sched.rs",
            "use crate::*;",
            &["1: `sched` may not use `lib`"],
        );
        plant_code("net.rs", "use crate::spawn;", &[]);
        plant_code("lib.rs", "use crate::sched::Worker;", &[]);
    }

    #[test]
    fn neighbours_comments_strings_and_tests_are_no_imports() {
        plant_code(
            "driver/uring.rs",
            "use super::fiber; // crate::fiber\nconst A: &str = \"crate::fiber\";",
            &[],
        );
        plant_code(
            "driver.rs",
            "use crate::driver::A;\npub(crate) struct B;",
            &[],
        );
        plant_code(
            "driver.rs",
            "#[cfg(test)]\nmod tests { use crate::fiber::Fiber; }",
            &[],
        );
        plant_code("driver/tests.rs", "use crate::fiber::Fiber;", &[]);
        plant_code(
            "driver.rs",
            "#[cfg(test)]\nuse a;\nmod b { use crate::fiber; }",
            &["3: `driver` may not"],
        );
    }

    #[test]
    fn a_module_outside_the_layers_is_found() {
        plant(
            check,
            &[],
            (&format!("{LIBRARY}helpers.rs"), ""),
            &["crates/uthread/src/helpers.rs:1: the module `helpers`"],
        );
        plant(
            check,
            &[],
            ("crates/uthread-cli/src/helpers.rs", "use crate::anything;"),
            &[],
        );
    }

    #[test]
    fn each_crate_stays_in_its_home() {
        plant_code(
            "sched.rs",
            "use io_uring::IoUring;",
            &["1: `sched` may not use the crate `io_uring`"],
        );
        plant_code(
            "fs.rs",
            "fn a(ring: &::io_uring::IoUring) {}",
            &["1: `fs` may not use the crate `io_uring`"],
        );
        plant_code(
            "lib.rs",
            "pub use corosensei;",
            &["1: `lib` may not use the crate `corosensei`"],
        );
        plant_code(
            "sync.rs",
            "use ::rustix::thread;",
            &["1: `sync` may not use the crate `rustix`"],
        );
        plant_code("driver/uring.rs", "use io_uring::IoUring;", &[]);
        plant_code("fiber.rs", "use corosensei::Coroutine;", &[]);
        plant_code(
            "runtime.rs",
            "fn io_uring() -> Kind { Kind::io_uring() }\nuse a::io_uring::B;",
            &[],
        );
    }
}
