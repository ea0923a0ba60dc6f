//! Checks that relative links in the documentation lead to existing files, and names of internal
//! modules of the library to modules.

use pulldown_cmark::{Event, Parser, Tag};

use super::Finding;
use super::tree::{Tree, line_at};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".md")) {
        for (event, range) in Parser::new(text).into_offset_iter() {
            let (what, remedy) = match event {
                Event::Code(code) if !leads_to_module(tree, &code) => {
                    (format!("`{code}` is no module"), "correct the path")
                }
                Event::Start(Tag::Link { dest_url: to, .. } | Tag::Image { dest_url: to, .. })
                    if !leads_to_file(tree, path, &to) =>
                {
                    let what = format!("the link to {to} leads nowhere");
                    (what, "correct it or write the file")
                }
                _ => continue,
            };
            let line = line_at(text, range.start);
            findings.push(Finding::new(path, line, what, remedy));
        }
    }
    findings
}

/// Returns `false` if this is the path of a module of an internal layer, or of an item in one, that
/// does not exist.
fn leads_to_module(tree: &Tree, code: &str) -> bool {
    const INTERNAL: [&str; 7] = [
        "driver", "fiber", "pool", "resource", "sched", "stack", "tls",
    ];
    let segments: Vec<_> = code.split("::").collect();
    let is_name =
        |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    if segments.len() < 2 || !INTERNAL.contains(&segments[0]) || !segments.iter().all(is_name) {
        return true;
    }
    let exists = |segments: &[&str]| {
        let path = format!("crates/uthread/src/{}", segments.join("/"));
        tree.exists(&format!("{path}.rs")) || tree.exists(&format!("{path}/mod.rs"))
    };
    // The last segment may be a function.
    let (_, module) = segments.split_last().expect("there are two segments");
    exists(&segments) || module.len() > 1 && exists(module)
}

/// Returns `false` if this is a relative link in the file `from` to a file that does not exist.
fn leads_to_file(tree: &Tree, from: &str, link: &str) -> bool {
    let target = link.split('#').next().unwrap_or_default();
    let is_url = target.contains("://") || target.starts_with("mailto:");
    is_url || target.is_empty() || resolve(from, target).is_some_and(|path| tree.exists(&path))
}

/// Resolves the link `target` in the file `from` to a path from the root; `None` outside the
/// repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    #[test]
    fn links_and_paths_lead_somewhere() {
        let page = "[a](../a.md#part) [b](b/) [c](https://a.example/x) [d](#a) ![e](b/e.svg)\n\
                    `[f](f.md)` `sched::idle::wake` `std::fs` `sched::Idle` [g]\n\n[g]: .\n";
        let good = [
            ("a.md", ""),
            ("docs/b/e.svg", ""),
            ("docs/c.md", page),
            ("crates/uthread/src/sched/idle.rs", ""),
        ];
        #[rustfmt::skip]
        let cases = [
            ("a.md", "[x](docs/c.md)\n[y](docs/y.md)", "a.md:2: the link to docs/y.md leads"),
            ("a.md", "A text [y].\n\n[y]: y.md\n", "a.md:1: the link to y.md leads"),
            ("a.md", "[x](../a.md)", "a.md:1: the link to ../a.md leads"),
            ("a.md", "\n`sched::sleep`\n", "a.md:2: `sched::sleep` is no module"),
        ];
        plant(check, "", &good, &cases);
    }
}
