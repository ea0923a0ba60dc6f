//! The modules of the library form layers, and a layer knows only those below it. The layers are
//! the rows of the table in ARCHITECTURE.md.

use super::Finding;
use super::cycles::imports;
use super::tree::{Tree, line_at, words};

const LIBRARY: &str = "crates/uthread/src/";

const TABLE: &str = "| layer | what lives there | may use |";

/// Modules outside the layers: any layer may use them, and they use nothing.
const OUTSIDE: [&str; 7] = [
    "atomic",
    "cache",
    "clock",
    "forked",
    "priorities",
    "root",
    "world",
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

const NAME: &str = "add it to a layer in ARCHITECTURE.md";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let layers = layers(tree.text("ARCHITECTURE.md"));
    let layer_of = |module: &str| layers.iter().find(|(own, _)| own.contains(&module));
    let mut findings = Vec::new();
    let (imports, _) = imports(tree);
    for ((from, to), (path, line)) in imports.get(LIBRARY).into_iter().flatten() {
        if OUTSIDE.contains(&&**to) {
            continue;
        }
        let to = layer_of(to).map_or("root", |_| to);
        if !layer_of(from).is_none_or(|(own, below)| own.contains(&to) || below.contains(&to)) {
            let what = format!("`{from}` may not use `{to}`");
            findings.push(Finding::new(path, *line, what, MOVE));
        }
    }
    for (path, code) in tree.code() {
        let Some(inside) = path.strip_prefix(LIBRARY) else {
            continue;
        };
        let mut parts = inside.split(['/', '.']);
        let module = parts.next().unwrap_or_default();
        if parts.any(|part| part == "tests") {
            continue;
        }
        if module != "lib" && layer_of(module).is_none() && !OUTSIDE.contains(&module) {
            let what = format!("the module `{module}` is in no layer");
            findings.push(Finding::new(path, 1, what, NAME));
        }
        for (name, may) in &CRATES {
            let is_allowed = match may {
                May::Only(modules) => modules.contains(&module),
                May::AllBut(modules) => !modules.contains(&module) || inside == OUTSIDE_MODELS,
            };
            if !is_allowed && let Some(line) = first_use(code, name) {
                let what = format!("`{module}` may not use the crate `{name}`");
                findings.push(Finding::new(path, line, what, MOVE));
            }
        }
    }
    findings
}

/// Returns the rows of the table: the modules of a layer, and the modules that they may use.
fn layers(text: &str) -> Vec<(Vec<&str>, Vec<&str>)> {
    let rows = text.lines().skip_while(|line| *line != TABLE).skip(2);
    let rows = rows.map_while(|row| {
        let cells: Vec<&str> = row.strip_prefix('|')?.split('|').collect();
        Some((cells[0], *cells.get(2)?))
    });
    let rows: Vec<_> = rows.collect();
    let own: Vec<Vec<&str>> = rows.iter().map(|(own, _)| words(own).collect()).collect();
    let below = rows.iter().enumerate().map(|(index, (_, below))| {
        if below.contains("all below") {
            own[index..].concat()
        } else {
            words(below).collect()
        }
    });
    let below: Vec<_> = below.collect();
    own.into_iter().zip(below).collect()
}

/// Returns the line where the crate `name` is used first.
fn first_use(code: &str, name: &str) -> Option<usize> {
    let start = format!("{name}::");
    let is_inside = |c: char| c.is_alphanumeric() || c == ':';
    let mut uses = code.match_indices(&start);
    let (offset, _) = uses.find(|(offset, _)| !code[..*offset].ends_with(is_inside))?;
    Some(line_at(code, offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    const LAYERS: &str = "| layer | what lives there | may use |
| --- | --- | --- |
| face: `net fs sync` and the root | `sched` | all below |
| `sched` | the scheduler | `op` |
| `driver` | drivers | `op` |
| `op` | operations | no other layer |

More.
";

    #[test]
    fn a_layer_uses_those_that_its_row_names() {
        let good = [
            ("/ARCHITECTURE.md", LAYERS),
            ("lib.rs", "pub use net::A;"),
            ("net.rs", "use crate::{fs::B, sched::C, spawn, op::D};"),
            ("sched/wait.rs", "use crate::{atomic::A, op::D, sched::C};"),
        ];
        #[rustfmt::skip]
        let cases = [
            ("sched/a.rs", "use crate::net::A;", "sched/a.rs:1: `sched` may not use `net`"),
            ("sched/a.rs", "use crate::spawn;", "sched/a.rs:1: `sched` may not use `root`"),
            ("sched.rs", "use crate::driver::E;", "sched.rs:1: `sched` may not use `driver`"),
            ("op.rs", "fn a() -> super::sched::C {}", "op.rs:1: `op` may not use `sched`"),
            ("helpers.rs", "", "helpers.rs:1: the module `helpers` is in no layer"),
            ("sched.rs", "use io_uring::A;", "sched.rs:1: `sched` may not use the crate `io_u"),
            ("sync/a.rs", "rustix::a();", "sync/a.rs:1: `sync` may not use the crate `rustix`"),
        ];
        plant(check, LIBRARY, &good, &cases);
    }
}
