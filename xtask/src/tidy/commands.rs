//! The commands that the README promises, word for word, there and in what the continuous
//! integration runs.

use super::Finding;
use super::tree::Tree;

const TEST: &str = "cargo test";

const PROMISES: [(&str, &str, &str); 3] = [
    (
        "README.md",
        "cargo run --release -- serve .",
        "give it a line of its own",
    ),
    ("README.md", TEST, "give it a line of its own"),
    (
        ".ci/run",
        TEST,
        "run what README.md tells the reader to run",
    ),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let missing = |(path, command, _): &&(&str, &str, _)| {
        !tree.text(path).lines().any(|line| line.trim() == *command)
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
        let both = format!("# A\n\n    {run}    {TEST}\n");
        let good = [
            ("README.md", both.as_str()),
            (".ci/run", "set -e\ncargo test\n"),
        ];
        plant(
            check,
            &good,
            ("README.md", TEST),
            &["README.md:1: the command `cargo run --release -- serve .`"],
        );
        plant(
            check,
            &good,
            ("README.md", run),
            &["README.md:1: the command `cargo test`"],
        );
        plant(
            check,
            &good,
            (".ci/run", "cargo test --workspace\n"),
            &[".ci/run:1: the command `cargo test`"],
        );
    }
}
