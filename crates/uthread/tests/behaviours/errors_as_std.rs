//! Errors that are not those of a single system call have the kind, errno and text of `std`; values
//! are formatted as in `std`.

use std::fmt::Debug;
use std::io::{Error, ErrorKind, Result, SeekFrom};
use std::path::Path;
use std::time::Duration;

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use crate::support::{FREE, refusing_socket};
use tempfile::tempdir;

behaviours![(
    EVERYWHERE,
    [
        files_fail_alike,
        sockets_fail_alike,
        commands_fail_alike,
        files_and_commands_look_alike,
        errors_of_joins_and_locks_look_as_in_std
    ]
)];

/// Kind, number and text of an error.
type Failure = (ErrorKind, Option<i32>, String);

fn failure<T>(result: Result<T>) -> Option<Failure> {
    let described = |error: Error| (error.kind(), error.raw_os_error(), error.to_string());
    result.map_err(described).err()
}

/// Compares what the same expression fails with, where the names are those of either library.
macro_rules! compare {
    ($place:expr, $($call:expr;)*) => {
        $place.run(|| {
            let theirs = {
                #[allow(unused_imports, reason = "each comparison is of one module or two")]
                use std::{fs, net, os, process};
                vec![$((stringify!($call), failure($call))),*]
            };
            let ours = {
                #[allow(unused_imports, reason = "each comparison is of one module or two")]
                use uthread::{fs, net, os, process};
                vec![$((stringify!($call), failure($call))),*]
            };
            let mut differ = Vec::new();
            for (ours, theirs) in ours.into_iter().zip(theirs) {
                assert!(theirs.1.is_some(), "{}", theirs.0);
                if ours != theirs {
                    differ.push((ours, theirs.1));
                }
            }
            assert!(differ.is_empty(), "ours, then theirs: {differ:#?}");
        });
    };
}

fn files_fail_alike(place: Place) {
    use std::io::{Read, Seek, Write};
    use std::os::unix::fs::FileExt;

    let directory = tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("file"), b"not utf-8 \xff").unwrap();
    std::fs::create_dir(at("full")).unwrap();
    std::fs::write(at("full/file"), "").unwrap();
    let nul = Path::new("a\0b");
    let mut text = String::new();
    compare!(
        place,
        fs::read_to_string(at("file"));
        fs::read_to_string(at("missing"));
        fs::read(directory.path());
        fs::write(directory.path(), "");
        fs::File::open(at("file")).unwrap().read_to_string(&mut text);
        fs::File::open(at("file")).unwrap().read_exact(&mut [0; 100]);
        fs::File::open(at("file")).unwrap().read_exact_at(&mut [0; 100], 5);
        fs::File::open(at("file")).unwrap().write_all(b"x");
        fs::File::open(at("file")).unwrap().write_all_at(b"x", 1);
        fs::File::open(at("file")).unwrap().seek(SeekFrom::Current(-1));
        fs::File::open(at("file")).unwrap().seek(SeekFrom::End(-100));
        fs::File::open(at("file")).unwrap().set_len(1);
        fs::OpenOptions::new().write(true).open(at("file")).unwrap().set_len(u64::MAX);
        fs::copy(directory.path(), at("copy"));
        fs::copy(at("missing"), at("copy"));
        fs::copy(at("file"), directory.path());
        fs::create_dir(at("file"));
        fs::create_dir_all(at("file/below"));
        fs::create_dir_all(at("file"));
        fs::remove_dir(at("full"));
        fs::remove_dir(at("file"));
        fs::remove_dir_all(at("missing"));
        fs::remove_dir_all(at("file"));
        fs::remove_file(directory.path());
        fs::rename(at("missing"), at("other"));
        fs::hard_link(at("missing"), at("other"));
        fs::read_link(at("file"));
        fs::canonicalize(at("missing"));
        fs::read_dir(at("file"));
        fs::exists(at("file/below\0"));
        fs::set_permissions(at("missing"), std::fs::metadata(at("file")).unwrap().permissions());
        fs::metadata(nul);
        fs::symlink_metadata(nul);
        fs::create_dir(nul);
        fs::create_dir_all(nul);
        fs::remove_file(nul);
        fs::remove_dir(nul);
        fs::remove_dir_all(nul);
        fs::rename(nul, "other");
        fs::hard_link("other", nul);
        fs::read_link(nul);
        fs::read_dir(nul);
        fs::canonicalize(nul);
        fs::copy(nul, "other");
        fs::copy(at("file"), nul);
        fs::read(nul);
        fs::write(nul, "");
        os::unix::fs::symlink("other", nul);
        os::unix::fs::symlink("file", at("file"));
        os::unix::fs::chown(nul, None, None);
        os::unix::fs::lchown(at("missing"), None, None);
    );
}

fn sockets_fail_alike(place: Place) {
    let directory = tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("file"), "").unwrap();
    let nothing: &[std::net::SocketAddr] = &[];
    let long = "n".repeat(200);
    let taken = std::net::TcpListener::bind(FREE).unwrap();
    let taken = taken.local_addr().unwrap();
    let (_socket, closed) = refusing_socket();
    compare!(
        place,
        net::TcpStream::connect(nothing);
        net::TcpStream::connect("no port");
        net::TcpStream::connect("127.0.0.1:66000");
        net::TcpStream::connect(closed);
        net::TcpStream::connect_timeout(&closed, Duration::ZERO);
        net::TcpListener::bind(nothing);
        net::TcpListener::bind("203.0.113.1:0");
        net::UdpSocket::bind(nothing);
        net::UdpSocket::bind("203.0.113.1:0");
        net::UdpSocket::bind(FREE).unwrap().send_to(b"", nothing);
        net::UdpSocket::bind(FREE).unwrap().send(b"");
        net::UdpSocket::bind(FREE).unwrap().connect(nothing);
        net::UdpSocket::bind(FREE).unwrap().peer_addr();
        net::UdpSocket::bind(FREE).unwrap().set_read_timeout(Some(Duration::ZERO));
        net::UdpSocket::bind(FREE).unwrap().set_write_timeout(Some(Duration::ZERO));
        os::unix::net::UnixStream::connect(&long);
        os::unix::net::UnixStream::connect("a\0b");
        os::unix::net::UnixStream::connect(at("missing"));
        os::unix::net::UnixStream::connect(at("file"));
        os::unix::net::UnixStream::pair().unwrap().0.set_read_timeout(Some(Duration::ZERO));
        os::unix::net::UnixListener::bind(&long);
        os::unix::net::UnixListener::bind("a\0b");
        os::unix::net::UnixListener::bind(at("file"));
        os::unix::net::UnixDatagram::bind(&long);
        os::unix::net::UnixDatagram::unbound().unwrap().send_to(b"", &long);
        os::unix::net::UnixDatagram::unbound().unwrap().connect(at("missing"));
        os::unix::net::UnixDatagram::unbound().unwrap().send(b"");
        os::unix::net::UnixDatagram::pair().unwrap().0.set_write_timeout(Some(Duration::ZERO));
    );
    let _ = taken;
}

fn commands_fail_alike(place: Place) {
    compare!(
        place,
        process::Command::new("no-such-program").spawn();
        process::Command::new("/no/such/program").output();
        process::Command::new("/").status();
        process::Command::new("nul\0").spawn();
        process::Command::new("true").arg("nul\0").spawn();
        process::Command::new("true").env("nul\0", "").spawn();
        process::Command::new("true").current_dir("/no/such/directory").spawn();
        process::Command::new("").spawn();
    );
}

fn files_and_commands_look_alike(place: Place) {
    macro_rules! texts {
        ($library:ident) => {{
            use $library::{fs, process};
            let mut command = process::Command::new("echo");
            command.arg("two words").env("A", "1").env_remove("B");
            command.current_dir("/");
            let mut child = process::Command::new("true").spawn().unwrap();
            let running = shown(&child);
            child.wait().unwrap();
            let mut directory = fs::read_dir("tests/behaviours/harness").unwrap();
            let unread = shown(&directory);
            let entry = directory.find(|entry| entry.as_ref().unwrap().file_name() == "mod.rs");
            vec![
                shown((command, running, child)),
                shown((unread, entry)),
                shown(fs::DirBuilder::new().recursive(true)),
            ]
        }};
    }
    place.run(|| assert_eq!(texts!(uthread), texts!(std)));
}

/// Returns the text of a value, plain and alternate.
fn shown(value: impl Debug) -> String {
    format!("{value:?} {value:#?}")
}

fn errors_of_joins_and_locks_look_as_in_std(place: Place) {
    macro_rules! texts {
        ($library:ident) => {{
            use $library::{sync, thread};
            let panicked = thread::spawn(|| panic!("on purpose")).join().unwrap_err();
            let (sender, receiver) = sync::mpsc::sync_channel::<i32>(0);
            let full = sender.try_send(1);
            let empty = receiver.try_recv();
            let late = receiver.recv_timeout(Duration::ZERO);
            drop(receiver);
            let gone = (sender.send(1), sender.try_send(1));
            let mutex = sync::Mutex::new(1);
            let guard = mutex.lock().unwrap();
            let taken = shown(mutex.try_lock());
            let locked = shown(&mutex);
            let held = shown(&guard);
            drop(guard);
            let lock = sync::RwLock::new(1);
            let lazy: sync::LazyLock<i32> = sync::LazyLock::new(|| 1);
            let unmade = shown(&lazy);
            let (barrier, condvar) = (sync::Barrier::new(1), sync::Condvar::new());
            vec![
                shown(panicked.downcast_ref::<&str>()),
                shown((full, empty, late, gone)),
                shown((taken, locked, held, &mutex)),
                shown((&lock, lock.read().unwrap(), lock.try_write().is_err())),
                shown((unmade, *lazy, &lazy)),
                shown((&barrier, barrier.wait(), &condvar)),
                shown((sync::Once::new(), sync::OnceLock::<i32>::new())),
                shown(sync::OnceLock::from(1)),
                shown(sync::mpsc::channel::<i32>()),
                shown(sync::mpsc::sync_channel::<i32>(1)),
            ]
        }};
    }
    place.run(|| {
        for (ours, theirs) in texts!(uthread).into_iter().zip(texts!(std)) {
            assert_eq!(ours, theirs);
        }
    });
}
