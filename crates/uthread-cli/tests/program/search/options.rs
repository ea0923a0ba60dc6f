//! The options of ripgrep: what each prints.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, SystemTime};

use super::{DRIVERS, search_on};
use crate::harness::site;

/// Returns the output of a search with these arguments, separated by spaces. Each case runs on
/// another driver.
pub(super) fn output(index: usize, arguments: &str, folder: &Path) -> Output {
    let driver = DRIVERS[index % DRIVERS.len()];
    let arguments = Vec::from_iter(arguments.split_whitespace());
    search_on(driver, &arguments, folder).output().unwrap()
}

#[track_caller]
pub(super) fn check(cases: &[(&str, &str)], folder: &Path) {
    for (index, (arguments, printed)) in cases.iter().enumerate() {
        let output = output(index, arguments, folder);
        let shown = String::from_utf8_lossy(&output.stdout);
        assert_eq!(shown, *printed, "{arguments}");
        let messages = String::from_utf8_lossy(&output.stderr);
        assert_eq!(messages, "", "{arguments}");
        let code = i32::from(printed.is_empty());
        assert_eq!(output.status.code(), Some(code), "{arguments}");
    }
}

#[test]
fn lines_are_printed_as_the_options_say() {
    let files = site(&[
        ("a", "one fox\n  two foxes, a fox\nthree\n"),
        ("sub/b", "fox\n"),
    ]);
    let cases = [
        (
            "--vimgrep fox a",
            "a:1:5:one fox\na:2:7:  two foxes, a fox\na:2:16:  two foxes, a fox\n",
        ),
        ("--vimgrep --no-column -I one", "1:one fox\n"),
        ("-p --color never one a", "1:one fox\n"),
        (
            "--color never -p -N one a",
            "\x1b[0m\x1b[1m\x1b[31mone\x1b[0m fox\n",
        ),
        ("-p --color never -N --no-heading one -H a", "a:one fox\n"),
        ("-M 8 fox a", "one fox\n[Omitted long matching line]\n"),
        (
            "-M 8 --max-columns-preview two a",
            "  two fo [... omitted end of long line]\n",
        ),
        (
            "-M 8 --max-columns-preview --no-max-columns-preview two a",
            "[Omitted long matching line]\n",
        ),
        ("--trim two a", "two foxes, a fox\n"),
        ("--trim --no-trim two a", "  two foxes, a fox\n"),
        ("-r <$1> (on)e a", "<on> fox\n"),
        ("-or -$1 fox(es)? a", "-\n-es\n-\n"),
        (
            "--passthru -n t.. a",
            "1-one fox\n2:  two foxes, a fox\n3:three\n",
        ),
        ("--passthru -A0 three a", "three\n"),
        ("-b three a", "27:three\n"),
        ("--field-match-separator \\t -n three a", "3\tthree\n"),
        (
            "--field-context-separator ! -nB1 three a",
            "2!  two foxes, a fox\n3:three\n",
        ),
        (
            "--context-separator == -C0 -A0 one|three a",
            "one fox\nthree\n",
        ),
        ("--path-separator + -H fox sub", "sub+b:fox\n"),
        ("--include-zero -c two --sort path", "a:1\nsub/b:0\n"),
        (
            "--include-zero --no-include-zero -c two --sort path",
            "a:1\n",
        ),
        ("--stop-on-nonmatch fox a", "one fox\n  two foxes, a fox\n"),
        ("--json --no-json three a", "three\n"),
        ("-F --no-fixed-strings n. a", "one fox\n"),
        ("-v --no-invert-match three a", "three\n"),
        ("-m 0 --stats three a", ""),
    ];
    check(&cases, files.path());
}

#[test]
fn lines_end_and_matches_span_them_as_the_options_say() {
    let files = site(&[
        ("dos", "a fox\r\nfoxes\r\n"),
        ("nul", "a fox\0foxes\0"),
        ("unix", "a\nfox\n\nfox\nb\n"),
    ]);
    check(
        &[
            ("fox$ dos", ""),
            ("--crlf fox$ dos", "a fox\r\n"),
            ("--crlf --no-crlf fox$ dos", ""),
            ("--null-data fox$ nul", "a fox\0"),
            ("-c --null-data fox nul", "2\0"),
            ("-U a\\nfox unix", "a\nfox\n"),
            ("-Uo a\\nf unix", "a\nf\n"),
            ("-U --multiline-dotall -c a.*b unix", "1\n"),
            ("-U a.*b unix", ""),
            ("-Uc --crlf s$ dos", "1\r\n"),
            ("-i --no-unicode FOX unix", "fox\nfox\n"),
        ],
        files.path(),
    );
    let refused = output(0, "-U --no-multiline a\\nfox unix", files.path());
    let messages = String::from_utf8_lossy(&refused.stderr);
    assert!(messages.contains("Use -U (--multiline)"), "{messages}");
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn files_are_selected_as_the_options_say() {
    let files = site(&[
        (".git/info/exclude", "excluded\n"),
        (".gitignore", "by-git\n"),
        (".ignore", "by-dot\n"),
        ("by-git", "x\n"),
        ("by-dot", "x\n"),
        ("deep/er/file", "x\n"),
        ("deep/file.rs", "x\n"),
        ("excluded", "x\n"),
        ("mine", "er\n"),
        (".hidden", "x\n"),
    ]);
    let shown = "deep/er/file\ndeep/file.rs\nmine\n";
    check(
        &[
            ("--files --sort path", shown),
            ("--files --sort path -d 1", "mine\n"),
            ("--files --sort path --max-depth=2", "deep/file.rs\nmine\n"),
            ("--files --sort path --maxdepth 0", ""),
            (
                "--files --sort path --no-ignore-vcs",
                "by-git\ndeep/er/file\ndeep/file.rs\nexcluded\nmine\n",
            ),
            (
                "--files --sort path --no-ignore-dot",
                "by-dot\ndeep/er/file\ndeep/file.rs\nmine\n",
            ),
            (
                "--files --sort path --no-ignore-exclude",
                "deep/er/file\ndeep/file.rs\nexcluded\nmine\n",
            ),
            ("--files --sort path --no-ignore --ignore", shown),
            ("--files --sort path -u --ignore", shown),
            (
                "--files --sort path --no-ignore --ignore-vcs",
                "by-dot\ndeep/er/file\ndeep/file.rs\nexcluded\nmine\n",
            ),
            (
                "--files --sort path --ignore-file mine",
                "deep/file.rs\nmine\n",
            ),
            (
                "--files --sort path --ignore-file mine --no-ignore-files",
                shown,
            ),
            ("--files --sort path --hidden --no-hidden", shown),
            ("--files --sortr path", "mine\ndeep/file.rs\ndeep/er/file\n"),
            ("--files -g *.RS --glob-case-insensitive", "deep/file.rs\n"),
            ("--files --iglob *.RS", "deep/file.rs\n"),
            ("--files --type-add own:mi* -t own", "mine\n"),
            (
                "--files --type-add own:mi* --type-add both:include:own,rust -tboth --sort path",
                "deep/file.rs\nmine\n",
            ),
            (
                "--files -trust --type-clear rust --type-add rust:mine",
                "mine\n",
            ),
        ],
        files.path(),
    );
    let listed = output(0, "--type-list --type-add own:mi*", files.path());
    let listed = String::from_utf8_lossy(&listed.stdout);
    assert!(listed.contains("\nown: mi*\n"), "{listed}");
}

#[test]
fn files_are_sorted_by_their_times() {
    let files = site(&[("a", "x\n"), ("b/c", "x\n"), ("d", "x\n")]);
    for (age, name) in ["b/c", "d", "a"].iter().enumerate() {
        let file = File::options().write(true).open(files.path().join(name));
        let time = SystemTime::now() - Duration::from_secs(100 - age as u64);
        file.unwrap().set_modified(time).unwrap();
    }
    check(
        &[
            ("--sort modified x", "b/c:x\nd:x\na:x\n"),
            ("--sortr modified x", "a:x\nd:x\nb/c:x\n"),
            ("--sortr modified --sort path -l x", "a\nb/c\nd\n"),
            ("--sort modified --files", "b/c\nd\na\n"),
            ("--sortr modified --sort-files -l x", "a\nb/c\nd\n"),
        ],
        files.path(),
    );
    for arguments in ["--sort created -l x", "--sortr accessed -l x"] {
        let output = output(0, arguments, files.path());
        assert_eq!(output.stdout.len(), "a\nb/c\nd\n".len(), "{arguments}");
    }
}

#[test]
fn programs_read_files_for_the_search() {
    let files = site(&[
        ("upper", "#!/bin/sh\ntr a-z A-Z\n"),
        ("fails", "#!/bin/sh\necho it hurts >&2\nexit 1\n"),
        ("a", "some text\n"),
        ("b.txt", "more text\n"),
    ]);
    for name in ["upper", "fails"] {
        let path = files.path().join(name);
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    check(
        &[
            (
                "--pre ./upper --sort path TEXT",
                "a:SOME TEXT\nb.txt:MORE TEXT\n",
            ),
            (
                "--pre ./upper --pre-glob *.txt -i text a b.txt --sort path",
                "a:some text\nb.txt:MORE TEXT\n",
            ),
            ("--pre ./upper --no-pre text a", "some text\n"),
            ("--pre ./upper -z text a", "some text\n"),
        ],
        files.path(),
    );
    for (program, message) in [
        ("./fails", "uthread: a: fails a failed: it hurts\n"),
        (
            "./missing",
            "uthread: a: cannot start ./missing: No such file or directory (os error 2)\n",
        ),
    ] {
        for driver in DRIVERS {
            let arguments = ["--pre", program, "text", "a"];
            let output = search_on(driver, &arguments, files.path())
                .output()
                .unwrap();
            let messages = String::from_utf8_lossy(&output.stderr);
            assert_eq!(messages, message, "{driver}");
            assert_eq!(output.status.code(), Some(2));
        }
    }
}

#[test]
fn compressed_files_are_searched() {
    let files = site(&[("a", "in a file\n"), ("plain", "in a file\n")]);
    let gzip = std::process::Command::new("gzip")
        .arg(files.path().join("a"))
        .status();
    if !gzip.is_ok_and(|status| status.success()) {
        println!("not tested: this takes gzip");
        return;
    }
    fs::write(files.path().join("broken.gz"), "no gzip").unwrap();
    check(
        &[
            (
                "-z file a.gz plain --sort path",
                "a.gz:in a file\nplain:in a file\n",
            ),
            ("-z -m1 -c file a.gz", "1\n"),
            ("-z --no-search-zip file a.gz", ""),
        ],
        files.path(),
    );
    let broken = output(0, "-z file broken.gz", files.path());
    let messages = String::from_utf8_lossy(&broken.stderr);
    assert!(
        messages.starts_with("uthread: broken.gz: gzip broken.gz failed: "),
        "{messages}"
    );
    assert_eq!(broken.status.code(), Some(2));
}

#[test]
fn hyperlinks_and_colors_have_their_formats() {
    let files = site(&[("a", "text\n")]);
    let folder = fs::canonicalize(files.path()).unwrap();
    let link = format!("x://{}/a:1", folder.display());
    let printed =
        format!("\x1b]8;;{link}\x1b\\\x1b[0ma\x1b[0m:\x1b[0m1\x1b[0m\x1b]8;;\x1b\\:text\n");
    check(
        &[
            (
                "-nH --color always --colors match:none --colors path:none --colors line:none \
                 --hyperlink-format x://{path}:{line} text a",
                &*printed,
            ),
            ("--hyperlink-format vscode text a", "text\n"),
            ("--hyperlink-format= text a", "text\n"),
        ],
        files.path(),
    );
    for (arguments, message) in [
        (
            "--hyperlink-format x text",
            "invalid value 'x' for '--hyperlink-format",
        ),
        (
            "--colors match:style: text",
            "unrecognized style attribute ''",
        ),
        ("--path-separator ab text", "it has 2 bytes instead of one"),
        ("-P text", "PCRE2 is not available"),
        ("--regex-size-limit 1K \\w{20}", "exceeds size limit"),
        (
            "-uuuu text",
            "-u (--unrestricted) can be given up to three times",
        ),
    ] {
        let output = output(0, arguments, files.path());
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(messages.contains(message), "{messages}");
        assert_eq!(output.status.code(), Some(2));
    }
    let version = output(0, "--version", files.path());
    assert!(String::from_utf8_lossy(&version.stdout).contains("ripgrep 15."));
    let version = output(0, "--pcre2-version", files.path());
    assert_eq!(version.status.code(), Some(1));
}

#[test]
fn the_user_names_a_program_for_the_name_of_the_host() {
    let files = site(&[("a", "text\n"), ("host", "#!/bin/sh\necho nowhere\n")]);
    fs::set_permissions(files.path().join("host"), Permissions::from_mode(0o755)).unwrap();
    let arguments =
        "--hyperlink-format x://{host}{path} --hostname-bin ./host --color always -H text a";
    let output = output(0, arguments, files.path());
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("\x1b]8;;x://nowhere/"), "{shown}");
}

#[test]
fn other_file_systems_are_left_out_if_wanted() {
    let files = site(&[]);
    let lists_processes = |arguments: &str| {
        let output = output(0, arguments, files.path());
        String::from_utf8_lossy(&output.stdout).contains("/proc/version\n")
    };
    assert!(lists_processes("--files --no-messages -d 2 -u /"));
    assert!(!lists_processes(
        "--files --no-messages -d 2 -u --one-file-system /"
    ));
    assert!(lists_processes(
        "--files --no-messages -d 1 -u --one-file-system /proc"
    ));
}

#[test]
fn ignore_files_above_and_other_cases_are_respected_as_the_options_say() {
    let files = site(&[
        ("a/.ignore", "FILE\nb/other\n"),
        ("a/b/file", "x\n"),
        ("a/b/other", "x\n"),
    ]);
    let below = files.path().join("a/b");
    check(
        &[
            ("--files .", "./file\n"),
            (
                "--files --no-ignore-parent --sort path .",
                "./file\n./other\n",
            ),
            ("--files --ignore-file-case-insensitive .", ""),
            (
                "--files --ignore-file-case-insensitive --no-ignore-file-case-insensitive .",
                "./file\n",
            ),
        ],
        &below,
    );
}
