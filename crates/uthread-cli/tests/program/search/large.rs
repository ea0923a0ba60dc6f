//! Large files. Where only the number of matching lines matters, several workers search parts of
//! them. The results must be those of ripgrep.

use std::fs;

use fastrand::Rng;
use tempfile::TempDir;

use super::like_ripgrep::compare;
use super::{DRIVERS, is_exhaustive};

const KIB: usize = 1024;
/// Size of a file, above that searched by one worker.
const FILE_BYTES: usize = 4500 * KIB;
/// The distance between the positions of two successive parts.
const PART_BYTES: usize = 256 * KIB;

/// The files whose parts are searched.
const IN_PARTS: [&str; 6] = [
    "random",
    "no-newline",
    "short-lines",
    "shifted-lines",
    "line-across",
    "long-line-across",
];
/// The files whose search in parts is given up: they are searched as streams instead.
const AS_STREAMS: [&str; 6] = [
    "very-long-line-across",
    "one-line",
    "binary",
    "binary-behind-match",
    "utf-8",
    "utf-16",
];

/// Generates lines of random words, of about 80 bytes on average.
fn random_lines(rng: &mut Rng) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < FILE_BYTES {
        for _ in 0..rng.usize(0..32) {
            text.extend_from_slice(
                ["alpha ", "beta ", "of ", "\u{e9}t\u{e9} "][rng.usize(0..4)].as_bytes(),
            );
        }
        text.push(b'\n');
    }
    text
}

/// Generates lines of 64 bytes, so that some end where parts do.
fn short_lines() -> Vec<u8> {
    let line = |index| format!("{index:057} alpha\n");
    (0..FILE_BYTES / 64)
        .flat_map(|index| line(index).into_bytes())
        .collect()
}

fn files() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Rng::with_seed(7);
    let write = |name: &str, text: &[u8]| fs::write(folder.path().join(name), text).unwrap();
    let text = random_lines(&mut rng);
    write("random", &text);
    write("no-newline", &[&text[..], b"alpha"].concat());
    // Lines that end before a part does, and with its first byte.
    write("short-lines", &short_lines());
    write("shifted-lines", &[b"x", &short_lines()[..]].concat());
    // A line crosses the boundary of two parts, by at least `count` bytes on each side.
    let line_across = |count: usize| {
        let mut text = short_lines();
        let boundary = 9 * PART_BYTES;
        text[boundary - count..boundary + count].fill(b'x');
        text
    };
    write("line-across", &line_across(2 * KIB));
    write("long-line-across", &line_across(40 * KIB));
    write("very-long-line-across", &line_across(300 * KIB));
    write("one-line", &vec![b'x'; FILE_BYTES]);
    let mut binary = short_lines();
    binary[FILE_BYTES - 100 * KIB] = 0;
    write("binary", &binary);
    // The only match, and a NUL byte so near that a stream has read both when it finds one.
    let mut binary = vec![b'\n'; FILE_BYTES];
    binary[12 * PART_BYTES - 8..][..5].copy_from_slice(b"alpha");
    binary[12 * PART_BYTES + 20] = 0;
    write("binary-behind-match", &binary);
    write("utf-8", &[b"\xEF\xBB\xBFalpha\n", &text[..]].concat());
    let utf16 = String::from_utf8(text).unwrap();
    let utf16 = utf16.encode_utf16().flat_map(u16::to_le_bytes);
    write("utf-16", &[b"\xFF\xFE".to_vec(), utf16.collect()].concat());
    folder
}

/// Compares each of the options with some of the files, or with all.
fn compare_options(driver: usize) {
    const OPTIONS: [&str; 14] = [
        "-c alpha",
        "-l alpha",
        "--files-without-match alpha",
        "-c ^alpha",
        "-v -c alpha",
        "-w -c alpha",
        "-x -c .*alpha",
        "-a -c a",
        "-a -l nothing",
        "-0 -c -i ALPHA",
        "-0 -l alpha$",
        "-n -C2 -c \\bof\\b",
        "--color always -c alpha",
        "--color always -l alpha",
    ];
    let folder = files();
    for (index, options) in OPTIONS.into_iter().enumerate() {
        let options = Vec::from_iter(options.split(' '));
        let is_first = index < DRIVERS.len();
        if index % DRIVERS.len() == driver && (is_first || is_exhaustive()) {
            compare(
                &[&options[..], &["."]].concat(),
                DRIVERS[driver],
                folder.path(),
            );
        }
        let files = IN_PARTS.map(|name| (name, 2)).into_iter();
        let files = files.chain(AS_STREAMS.map(|name| (name, 4)));
        for (number, (name, seldom)) in files.enumerate() {
            // How a file is divided does not depend on the driver.
            let seldom = if is_exhaustive() { 1 } else { seldom };
            if (index + number) % (seldom * DRIVERS.len()) == driver {
                let arguments = [&options[..], &["-H", name]].concat();
                compare(&arguments, DRIVERS[driver], folder.path());
            }
        }
    }
}

#[test]
fn on_uring() {
    compare_options(0);
}

#[test]
fn on_epoll() {
    compare_options(1);
}

#[test]
fn on_threads() {
    compare_options(2);
}
