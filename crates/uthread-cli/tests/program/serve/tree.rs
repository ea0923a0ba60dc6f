//! Every file of a tree, fetched over several lasting connections at once, is the file byte for
//! byte.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

use crate::harness::{Program, site};

const CONNECTIONS: usize = 4;
/// Empty, small, around the sizes of pages and pipes, and more than a socket buffers.
const SIZES: [usize; 9] = [0, 1, 4095, 4096, 4097, 65_535, 65_537, 300_000, 3_000_000];
const FOLDERS: [&[u8]; 4] = [b"", b"sub", b"sub/a b", b"100%?#"];
const NAMES: [&[u8]; 4] = [b"plain", b"with space", "\u{e4}.txt".as_bytes(), b"\xff"];

#[test]
fn every_file_of_a_tree_arrives_as_it_is() {
    let site = site(&[]);
    let files = fill(site.path());
    let program = Program::serve_site(site, &["--workers", "2"]);
    let next = AtomicUsize::new(0);
    let fetch = || {
        let mut client = program.connect();
        while let Some((path, content)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            client.send(format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", url(path)));
            let response = client.response();
            assert_eq!(response.status, 200, "{path:?}");
            let difference = response.body.iter().zip(content).position(|(a, b)| a != b);
            assert_eq!(difference, None, "{path:?}");
            assert_eq!(response.body.len(), content.len(), "{path:?}");
        }
    };
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(fetch);
        }
    });
    assert!(next.into_inner() > files.len());
}

/// Writes a file of each name and a further size into each folder. Returns their paths below `root`
/// and their contents.
fn fill(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        fs::create_dir_all(root.join(OsStr::from_bytes(folder))).unwrap();
        for name in NAMES {
            let path = Path::new(OsStr::from_bytes(folder)).join(OsStr::from_bytes(name));
            let (seed, bytes) = (files.len(), SIZES[files.len() % SIZES.len()]);
            let content: Vec<u8> = (0..bytes)
                .map(|index| (index * 131 + index / 251 + seed) as u8)
                .collect();
            fs::write(root.join(&path), &content).unwrap();
            files.push((path, content));
        }
    }
    files
}

fn url(path: &Path) -> String {
    let parts = path.components().map(|part| {
        let bytes = part.as_os_str().as_bytes();
        format!("/{}", percent_encode(bytes, NON_ALPHANUMERIC))
    });
    parts.collect()
}
