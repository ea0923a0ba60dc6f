//! Checks that the commands of the README exist, word for word, in the README, in the continuous
//! integration, and in the guide.

use super::Finding;
use super::tree::Tree;

const TEST: &str = "cargo test --no-fail-fast";

const CI: &str = "cargo xtask ci";

const PORT: &str = "uthread port --main src";

const SAME: &str = "README.md and the guide give the same command";

const PROMISES: [(&str, &str, &str); 5] = [
    (
        "README.md",
        "cargo run --release -- serve .",
        "give it a line of its own",
    ),
    ("README.md", TEST, "give it a line of its own"),
    ("README.md", PORT, SAME),
    ("crates/uthread/src/guide/porting.md", PORT, SAME),
    (
        ".ci/run",
        CI,
        "run what CONTRIBUTING.md tells the reader to run",
    ),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let missing = |(path, command, _): &&(&str, &str, _)| {
        let mut lines = tree.text(path).lines();
        !lines.any(|line| line.trim() == *command)
    };
    let finding = |&(path, command, remedy)| {
        Finding::new(
            path,
            1,
            format!("the command `{command}` is missing"),
            remedy,
        )
    };
    PROMISES.iter().filter(missing).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    #[test]
    fn each_promise_must_be_kept() {
        let run = "cargo run --release -- serve .\n";
        let all = format!("# A\n\n    {run}    {TEST}\n    {PORT}\n");
        let guide = "crates/uthread/src/guide/porting.md";
        let ported = format!("```sh\n{PORT}\n```\n");
        let good = [
            ("README.md", all.as_str()),
            (guide, &ported),
            (".ci/run", "set -e\ncargo xtask ci\n"),
        ];
        plant(
            check,
            &good,
            ("README.md", &all.replace(run, "")),
            &["README.md:1: the command `cargo run --release -- serve .`"],
        );
        plant(
            check,
            &good,
            ("README.md", &all.replace(TEST, "")),
            &["README.md:1: the command `cargo test --no-fail-fast`"],
        );
        for (path, text) in [("README.md", &all), (guide, &ported)] {
            let other = text.replace(PORT, "uthread port src");
            let finding = format!("{path}:1: the command `{PORT}`");
            plant(check, &good, (path, &other), &[&finding]);
        }
        plant(
            check,
            &good,
            (".ci/run", "cargo test --no-fail-fast\n"),
            &[".ci/run:1: the command `cargo xtask ci`"],
        );
    }
}
