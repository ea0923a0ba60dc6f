//! Checks that relative links in the documentation lead to existing files, and names of internal
//! modules of the library to modules.

use pulldown_cmark::{Event, Parser, Tag};

use super::Finding;
use super::tree::{Tree, line_at};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".md")) {
        for (event, range) in Parser::new(text).into_offset_iter() {
            if let Event::Code(code) = &event
                && !leads_to_module(tree, code)
            {
                let what = format!("`{code}` is no module");
                let line = line_at(text, range.start);
                findings.push(Finding::new(path, line, what, "correct the path"));
            }
            let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event
            else {
                continue;
            };
            let target = dest_url.split('#').next().unwrap_or_default();
            if !target.is_empty()
                && !is_url(&dest_url)
                && !resolve(path, target).is_some_and(|found| tree.exists(&found))
            {
                let line = line_at(text, range.start);
                let what = format!("the link to {target} leads nowhere");
                findings.push(Finding::new(
                    path,
                    line,
                    what,
                    "correct it or write the file",
                ));
            }
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

fn is_url(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
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
        for (text, fault) in [
            (
                "[x](docs/c.md)\n[y](docs/y.md)",
                "2: the link to docs/y.md leads",
            ),
            ("A text [y].\n\n[y]: y.md\n", "1: the link to y.md leads"),
            ("[x](../a.md)", "1: the link to ../a.md leads"),
            ("\n`sched::sleep`\n", "2: `sched::sleep` is no module"),
        ] {
            plant(check, &good, ("a.md", text), &[&format!("a.md:{fault}")]);
        }
    }
}
