//! Is every byte served right? Fetches every regular file below a folder and compares it with the file.

use std::fs::{self, File};
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::json;

use crate::Common;
use crate::client::Connection;
use crate::report::write_json;
use crate::say::say;
use crate::servers::Peer;
use crate::setup::{OPEN_FILES_SPARE, Setup};

/// The list is held in memory; Linux's whole source is under 100,000 files.
const FILES_MAX: usize = 1_000_000;
/// A tree deeper than this is a loop of mounts.
const DEPTH_MAX: usize = 256;
/// Whoever repairs a server needs examples, not all of a million.
const MISMATCHES_SHOWN_MAX: usize = 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Folder to serve and compare; dotfiles and symbolic links are left out
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Keep-alive connections that fetch at the same time, one request each
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=256))]
    connections: u64,
}

/// Whether all peers served every file right.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let setup = Setup::prepare(
        &args.common,
        &[Peer::Uthread],
        2 * args.connections + OPEN_FILES_SPARE,
    )?;
    let root = args
        .folder
        .canonicalize()
        .with_context(|| format!("open {}", args.folder.display()))?;
    let mut files = Vec::new();
    list_files(&root, 0, &mut files)?;
    ensure!(
        !files.is_empty(),
        "{} holds no file to verify",
        root.display()
    );
    let mut reports = Vec::new();
    let mut all_right = true;
    for &peer in &setup.peers {
        let server = setup.start(peer, &root, args.connections as usize)?;
        let outcome = verify(server.address(), &root, &files, args.connections as usize)?;
        let Outcome {
            files,
            bytes,
            mismatches,
        } = &outcome;
        say!(
            "{peer}: {files} files, {bytes} bytes, {} mismatches",
            mismatches.len()
        );
        mismatches
            .iter()
            .take(MISMATCHES_SHOWN_MAX)
            .for_each(|mismatch| say!("  {mismatch}"));
        if mismatches.len() > MISMATCHES_SHOWN_MAX {
            say!("  and {} more", mismatches.len() - MISMATCHES_SHOWN_MAX);
        }
        all_right &= mismatches.is_empty();
        let server = peer.to_string();
        reports.push(
            json!({ "server": server, "files": files, "bytes": bytes, "mismatches": mismatches }),
        );
    }
    let json = json!({ "study": "verify", "setup": setup.to_json(), "servers": reports });
    write_json(args.common.json.as_deref(), &json)?;
    Ok(all_right)
}

#[derive(Debug, Default)]
struct Outcome {
    files: usize,
    bytes: u64,
    mismatches: Vec<String>,
}

fn list_files(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    ensure!(
        depth <= DEPTH_MAX,
        "{} is deeper than {DEPTH_MAX} folders",
        folder.display()
    );
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if entry.file_name().as_bytes().starts_with(b".") {
            continue;
        }
        if kind.is_dir() {
            list_files(&entry.path(), depth + 1, files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
        ensure!(files.len() <= FILES_MAX, "more than {FILES_MAX} files");
    }
    Ok(())
}

fn verify(
    address: SocketAddr,
    root: &Path,
    files: &[PathBuf],
    connections: usize,
) -> Result<Outcome> {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let fetchers: Vec<_> = (0..connections.min(files.len()))
            .map(|_| scope.spawn(|| fetch(address, root, files, &next)))
            .collect();
        let mut sum = Outcome::default();
        for fetcher in fetchers {
            let part = fetcher
                .join()
                .map_err(|_| anyhow!("a fetching thread has panicked"))??;
            sum.files += part.files;
            sum.bytes += part.bytes;
            sum.mismatches.extend(part.mismatches);
        }
        Ok(sum)
    })
}

/// Takes the next file of the list until none is left, on one connection for as long as the server keeps it.
fn fetch(
    address: SocketAddr,
    root: &Path,
    files: &[PathBuf],
    next: &AtomicUsize,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut kept = None;
    while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => Connection::open(address)?,
        };
        outcome.files += 1;
        match compare(&mut connection, root, file) {
            Ok(compared) => {
                outcome.bytes += compared.bytes;
                kept = Some(connection).filter(|_| !compared.closes);
            }
            // What is left of the response is unknown, so the connection goes too.
            Err(error) => outcome
                .mismatches
                .push(format!("{}: {error:#}", file.display())),
        }
    }
    Ok(outcome)
}

struct Compared {
    bytes: u64,
    closes: bool,
}

fn compare(connection: &mut Connection, root: &Path, path: &Path) -> Result<Compared> {
    let mut file = File::open(path).context("open it to compare")?;
    let mut expected = Vec::new();
    let mut bytes = 0;
    let url = url_path(path.strip_prefix(root)?);
    let head = connection.get(&url, |piece| {
        expected.resize(piece.len(), 0);
        let in_file = file.read_exact(&mut expected);
        if in_file.is_err() {
            bail!("served bytes past the end of the file, from offset {bytes}");
        }
        let different = piece
            .iter()
            .zip(&expected)
            .position(|(served, in_file)| served != in_file);
        if let Some(at) = different {
            bail!("differs from byte {}", bytes + at as u64);
        }
        bytes += piece.len() as u64;
        Ok(())
    });
    let head = head?;
    ensure!(head.status == 200, "status {}", head.status);
    let file_bytes = file.metadata()?.len();
    ensure!(bytes == file_bytes, "{bytes} bytes served of {file_bytes}");
    Ok(Compared {
        bytes,
        closes: head.closes,
    })
}

/// Percent-encodes all but what a path may hold unencoded (RFC 3986, unreserved).
fn url_path(relative: &Path) -> String {
    let mut url = String::new();
    for part in relative.components() {
        url.push('/');
        for &byte in part.as_os_str().as_bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    url.push(char::from(byte))
                }
                _ => url.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn a_path_is_encoded_part_by_part() {
        let check = |path: &[u8], expected: &str| {
            assert_eq!(url_path(Path::new(OsStr::from_bytes(path))), expected)
        };
        check(b"index.html", "/index.html");
        check(b"a/b_c-d~e.txt", "/a/b_c-d~e.txt");
        check(b"a b/100%?#", "/a%20b/100%25%3F%23");
        check("\u{e4}".as_bytes(), "/%C3%A4");
        check(b"\xff", "/%FF");
    }

    #[test]
    fn only_visible_regular_files_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("sub/.hidden")).unwrap();
        for name in ["a", "sub/b", ".c", "sub/.hidden/d"] {
            fs::write(path(name), name).unwrap();
        }
        std::os::unix::fs::symlink(path("a"), path("link")).unwrap();
        let mut files = Vec::new();
        list_files(folder.path(), 0, &mut files).unwrap();
        files.sort();
        assert_eq!(files, [path("a"), path("sub/b")]);
    }

    /// Serves `response` to one client, which expects a file holding `hello`; empty means the bytes were right.
    fn mismatch(response: &'static str) -> String {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("f"), "hello").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let _ = client.read(&mut [0; 1024]).unwrap();
            client.write_all(response.as_bytes()).unwrap();
        });
        let outcome = verify(address, folder.path(), &[folder.path().join("f")], 3).unwrap();
        server.join().unwrap();
        assert_eq!(outcome.files, 1);
        outcome.mismatches.join("\n")
    }

    #[test]
    fn every_kind_of_wrong_answer_is_a_mismatch() {
        let check = |response, reason: &str| {
            let found = mismatch(response);
            assert!(found.contains(reason), "{found:?} does not say {reason:?}");
        };
        assert_eq!(
            mismatch("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
            ""
        );
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelLo",
            "differs from byte 3",
        );
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell",
            "4 bytes served of 5",
        );
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!",
            "past the end",
        );
        check(
            "HTTP/1.1 206 Partial\r\nContent-Length: 5\r\n\r\nhello",
            "status 206",
        );
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!",
            "after the body",
        );
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
            "closed the connection",
        );
        check("HTTP/1.1 200 OK\r\n\r\nhello", "no Content-Length");
    }
}
