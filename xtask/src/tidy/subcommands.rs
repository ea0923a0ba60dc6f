//! The code and the tests of `uthread X` are where ARCHITECTURE.md says.

use super::Finding;
use super::source::Source;
use super::tree::Tree;

const ARGUMENTS: &str = "crates/uthread-cli/src/args/mod.rs";

const CODE: &str = "crates/uthread-cli/src/";

const TESTS: &str = "crates/uthread-cli/tests/program/";

const TOOLS: &str = "tools/";

/// Tools that are no subcommands: others are built on them.
const LIBRARIES: [&str; 1] = ["report"];

/// Modules of tests about several subcommands, and what the tests share.
const SHARED: [&str; 5] = ["main", "harness", "memory", "sockets", "startup"];

const REMEDY: &str = "ARCHITECTURE.md says where the code and the tests of a subcommand are";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some((_, arguments)) = tree.sources().find(|(path, _)| *path == ARGUMENTS) else {
        return Vec::new();
    };
    let subcommands = subcommands(arguments);
    let is_known = |name: &str| subcommands.iter().any(|(_, known)| known == name);
    let mut findings = Vec::new();
    for (line, name) in &subcommands {
        let missing = match module(tree, CODE, name) {
            None => format!("there is no module {CODE}{name}"),
            Some(source) if tree.exists(&format!("{TOOLS}{name}")) && !uses_tool(source, name) => {
                format!("{CODE}{name} does not use the crate {TOOLS}{name}")
            }
            Some(_) => continue,
        };
        findings.push(Finding::new(ARGUMENTS, *line, missing, REMEDY));
    }
    for (path, _) in tree.files() {
        let crate_of_tool = path.strip_prefix(TOOLS);
        let tool = crate_of_tool.and_then(|inside| inside.strip_suffix("/Cargo.toml"));
        if let Some(tool) = tool
            && !is_known(tool)
            && !LIBRARIES.contains(&tool)
        {
            let what = format!("`{tool}` is no subcommand");
            findings.push(Finding::new(path, 1, what, REMEDY));
        }
        if let Some(test) = path.strip_prefix(TESTS).and_then(first_module)
            && !is_known(test)
            && !SHARED.contains(&test)
        {
            let what = format!("the tests `{test}` are of no subcommand");
            findings.push(Finding::new(path, 1, what, REMEDY));
        }
    }
    findings
}

/// Returns the variants of `Command` as they are written on the command line, with their lines.
fn subcommands(arguments: &Source) -> Vec<(usize, String)> {
    let mut tokens = 0..arguments.tokens.len();
    let Some(start) =
        tokens.find(|&at| arguments.text(at) == "enum" && arguments.text(at + 1) == "Command")
    else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for mut at in arguments.elements(start + 2) {
        while arguments.text(at) == "#" {
            at = arguments.after(at + 1);
        }
        if arguments.text(at) != "}" {
            let name = arguments.text(at).to_lowercase();
            found.push((arguments.tokens[at].line, name));
        }
    }
    found
}

fn module<'a>(tree: &'a Tree, folder: &str, name: &str) -> Option<&'a Source> {
    let paths = ["", "/mod"].map(|end| format!("{folder}{name}{end}.rs"));
    let mut sources = tree.sources();
    let found = sources.find(|(path, _)| paths.iter().any(|known| known == path));
    found.map(|(_, source)| source)
}

fn uses_tool(source: &Source, name: &str) -> bool {
    let tool = format!("uthread_{name}");
    source.tokens.iter().any(|token| token.text == tool)
}

fn first_module(inside: &str) -> Option<&str> {
    inside.split(['/', '.']).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    const GOOD: [(&str, &str); 7] = [
        (
            ARGUMENTS,
            "enum Command { /// Serve\n Serve(Args), #[command(a = B)] Load(Box<b::Args>), }",
        ),
        ("crates/uthread-cli/src/serve/mod.rs", "fn run() {}"),
        ("crates/uthread-cli/src/load.rs", "use uthread_load::Plan;"),
        ("crates/uthread-cli/tests/program/serve/mod.rs", ""),
        ("crates/uthread-cli/tests/program/harness.rs", ""),
        ("tools/load/Cargo.toml", ""),
        ("tools/report/Cargo.toml", ""),
    ];

    #[test]
    fn a_subcommand_has_a_module() {
        let more = "enum Command {\nServe(Args),\nLoad(Args),\nEcho }";
        let fault = format!("{ARGUMENTS}:4: there is no module {CODE}echo");
        plant(check, &GOOD, (ARGUMENTS, more), &[&fault]);
    }

    #[test]
    fn a_tool_is_used_by_its_subcommand() {
        let fault = format!("{ARGUMENTS}:2: {CODE}load does not use the crate tools/load");
        let path = "crates/uthread-cli/src/load.rs";
        plant(check, &GOOD, (path, "fn run() {}"), &[&fault]);
        let path = "tools/other/Cargo.toml";
        let fault = format!("{path}:1: `other` is no subcommand");
        plant(check, &GOOD, (path, ""), &[&fault]);
    }

    #[test]
    fn tests_are_those_of_a_subcommand() {
        let path = "crates/uthread-cli/tests/program/ranges.rs";
        let fault = format!("{path}:1: the tests `ranges` are of no subcommand");
        plant(check, &GOOD, (path, ""), &[&fault]);
    }
}
