//! Whole command lines: those that editors and pickers pass, options from a file, and that the last
//! of several decides.

use super::options::{check, output};
use crate::harness::{command, site};

#[test]
fn the_order_of_options_decides() {
    let files = site(&[("a.rs", "foobar\n"), ("long", "foob\n"), ("short", "foo\n")]);
    check(
        &[
            ("-e foo -f long -o a.rs", "foo\n"),
            ("-f long -e foo -o a.rs", "foob\n"),
            ("--files -l foo a.rs", "a.rs\n"),
            ("--files -c foo a.rs", "1\n"),
            ("-c --files a.rs", "a.rs\n"),
            (
                "--type-clear rust --type-add rust:lo* --files -trust",
                "long\n",
            ),
            (
                "--type-add rust:lo* --type-clear rust -trust --type-add rust:sh* --files",
                "short\n",
            ),
            ("-Trust -trust --files", "a.rs\n"),
        ],
        files.path(),
    );
}

#[test]
fn editors_and_pickers_can_pass_their_options() {
    let files = site(&[("a", "text\n"), ("b.rs", "text\n")]);
    let with_line = "a:1:text\nb.rs:1:text\n";
    let with_column = "a:1:1:text\nb.rs:1:1:text\n";
    let paths = "./a\n./b.rs\n";
    let cases = [
        // Neovim
        ("--vimgrep -uu text", with_column),
        // Telescope
        (
            "--color=never --no-heading --with-filename --line-number --column --smart-case -- text",
            with_column,
        ),
        // fzf-lua
        (
            "--column --line-number --no-heading --color=never --smart-case --max-columns=4096 -e text",
            with_column,
        ),
        ("--color=never --hidden --files -g !.git .", paths),
        // counsel
        (
            "-M 240 --with-filename --no-heading --line-number --color never text",
            with_line,
        ),
        // consult
        (
            "--line-buffered --color=never --max-columns=1000 --path-separator / --smart-case --no-heading \
             --with-filename --line-number --search-zip -e text",
            with_line,
        ),
        // deadgrep
        (
            "--color=never --line-number --no-heading --no-config --with-filename --fixed-strings --smart-case \
             --before-context 0 -- text",
            with_line,
        ),
        // VS Code
        (
            "--files --hidden --case-sensitive --no-require-git -g !**/.git --no-ignore-parent --follow --no-config \
             --no-ignore-global .",
            paths,
        ),
    ];
    let sorted = cases.map(|(arguments, printed)| (format!("--sort path {arguments}"), printed));
    let sorted = sorted
        .each_ref()
        .map(|(arguments, printed)| (&**arguments, *printed));
    check(&sorted, files.path());
    let json = output(
        0,
        "--hidden --no-require-git --ignore-case --no-ignore-parent --no-ignore --no-ignore-global \
         --encoding utf8 --no-config --json --multiline --crlf --engine auto --max-count 20000 \
         --regexp text -- .",
        files.path(),
    );
    let messages = String::from_utf8_lossy(&json.stdout);
    assert_eq!(
        messages.matches("\"type\":\"match\"").count(),
        2,
        "{messages}"
    );
}

#[test]
fn the_last_of_the_options_for_binary_files_decides() {
    let files = site(&[("binary", "text\n\0\n")]);
    let matches = "binary file matches (found \"\\0\" byte around offset 5)\n";
    let matches_with_path = format!("binary: {matches}");
    check(
        &[
            ("-uuu text binary", matches),
            ("-a -uuu text", &matches_with_path),
            ("-uuu -a text", "binary:text\n"),
            ("-a --no-text text binary", matches),
            ("--binary --no-binary -c text .", ""),
            ("-a --binary text", &matches_with_path),
        ],
        files.path(),
    );
}

#[test]
fn options_come_from_a_file_first() {
    let files = site(&[
        ("a", "Text\n"),
        (
            "options",
            "# a comment\n\n  --ignore-case\n--max-columns=2\n",
        ),
    ]);
    let search = |arguments: &[&str], configuration: &str| {
        let mut command = command(&["search"]);
        command.args(arguments).current_dir(files.path());
        let output = command
            .env("RIPGREP_CONFIG_PATH", configuration)
            .output()
            .unwrap();
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        (stdout, stderr)
    };
    let (stdout, stderr) = search(&["text", "a"], "options");
    assert_eq!((&*stdout, &*stderr), ("[Omitted long matching line]\n", ""));
    let (stdout, _) = search(&["text", "a", "-M0"], "options");
    assert_eq!(stdout, "Text\n");
    let (stdout, _) = search(&["text", "a", "--no-config"], "options");
    assert_eq!(stdout, "");
    let (stdout, stderr) = search(&["Text", "a"], "missing");
    assert_eq!(stdout, "Text\n");
    assert!(
        stderr.contains("cannot read missing, which RIPGREP_CONFIG_PATH names"),
        "{stderr}"
    );
}
