//! Changes of files that are no writes: what a crash loses of them, and files that are sent.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Instant;

use uthread::fs::Allocation;
use uthread_simulation::World;

use crate::drivers::on_each_driver;
use crate::entries::{old, outcomes};
use crate::times::{SECOND, assert_takes};

fn open(directory: &Path) -> io::Result<File> {
    let path = directory.join("file");
    File::options().read(true).write(true).open(path)
}

fn open_by_the_library(directory: &Path) -> io::Result<uthread::fs::File> {
    let mut options = uthread::fs::OpenOptions::new();
    options.write(true).open(directory.join("file"))
}

fn check(result: i32) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[test]
fn a_file_that_was_truncated_may_be_whole_again() {
    let found = outcomes(old, |directory| open(directory)?.set_len(1));
    assert_eq!(found, ["file=o", "file=old"]);
    let found = outcomes(old, |directory| open_by_the_library(directory)?.set_len(1));
    assert_eq!(found, ["file=o", "file=old"]);
    let found = outcomes(old, |directory| {
        let path = CString::new(directory.join("file").as_os_str().as_bytes())?;
        // SAFETY: it is a string of C.
        #[allow(unsafe_code, reason = "a function of the C library")]
        check(unsafe { libc::truncate(path.as_ptr(), 1) })
    });
    assert_eq!(found, ["file=o", "file=old"]);
    let found = outcomes(old, |directory| {
        let file = open(directory)?;
        file.set_len(1)?;
        file.sync_all()
    });
    assert_eq!(found, ["file=o"]);
}

#[test]
fn a_file_that_is_written_anew_may_be_old_or_empty() {
    let expected = ["file=", "file=n", "file=ne", "file=new", "file=old"];
    let found = outcomes(old, |directory| fs::write(directory.join("file"), "new"));
    assert_eq!(found, expected);
    let found = outcomes(old, |directory| {
        uthread::fs::write(directory.join("file"), "new")
    });
    assert_eq!(found, expected);
}

#[test]
fn a_file_that_was_extended_may_be_shorter() {
    let expected = ["file=old", "file=old\0", "file=old\0\0"];
    let found = outcomes(old, |directory| open(directory)?.set_len(5));
    assert_eq!(found, expected);
    let found = outcomes(old, |directory| {
        open_by_the_library(directory)?.allocate(0, 5, Allocation::Extend)
    });
    assert_eq!(found, expected);
    let found = outcomes(old, |directory| {
        // SAFETY: it takes numbers only.
        #[allow(unsafe_code, reason = "a function of the C library")]
        check(unsafe { libc::fallocate(open(directory)?.as_raw_fd(), 0, 0, 5) })
    });
    assert_eq!(found, expected);
}

#[test]
fn a_hole_may_be_lost() {
    let found = outcomes(old, |directory| {
        open_by_the_library(directory)?.allocate(0, 2, Allocation::Hole)
    });
    assert_eq!(found, ["file=\0\0d", "file=\0ld", "file=old"]);
}

#[test]
fn a_copy_may_be_lost() {
    let found = outcomes(old, |directory| {
        let mut from = open(directory)?;
        let mut to = File::create(directory.join("tmp"))?;
        assert_eq!(io::copy(&mut (&from).take(2), &mut to)?, 2);
        let mut rest = String::new();
        from.read_to_string(&mut rest)?;
        assert_eq!(rest, "d");
        File::open(directory)?.sync_all()
    });
    let expected = ["file=old tmp=", "file=old tmp=o", "file=old tmp=ol"];
    assert_eq!(found, expected);
    let found = outcomes(old, |directory| {
        uthread::fs::copy(directory.join("file"), directory.join("tmp"))?;
        File::open(directory)?.sync_all()
    });
    assert_eq!(found[..3], expected);
    assert_eq!(found[3..], ["file=old tmp=old"]);
}

#[test]
fn a_disk_that_fails_truncates_nothing() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        let directory = world.directory("host").unwrap();
        old(&directory).unwrap();
        let own = directory.clone();
        let host = world.host("host", move || {
            let file = open(&own)?;
            uthread::sleep(SECOND);
            let failed = [
                file.set_len(1),
                fs::write(own.join("file"), ""),
                fs::copy("Cargo.toml", own.join("file")).map(drop),
            ];
            for result in failed {
                assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EIO));
            }
            Ok(())
        });
        host.set_disk_fails(true);
        host.wait().unwrap();
        assert_eq!(fs::read(directory.join("file")).unwrap(), b"old");
    });
}

/// Measures how long the bytes of a file take to another host that sends them by `send`.
fn assert_takes_the_latency(send: fn(&mut File, &mut TcpStream) -> io::Result<()>) {
    on_each_driver(move || {
        let world = World::new().unwrap();
        world.links().set_latency(SECOND..SECOND);
        let directory = world.directory("server").unwrap();
        fs::write(directory.join("file"), vec![7; 200_000]).unwrap();
        world.host("server", move || {
            let (mut stream, _) = TcpListener::bind("0.0.0.0:7000")?.accept()?;
            stream.read_exact(&mut [0])?;
            send(&mut open(&directory)?, &mut stream)
        });
        let client = world.host("client", || {
            let mut stream = TcpStream::connect("server:7000")?;
            let begin = Instant::now();
            stream.write_all(b"1")?;
            let mut bytes = vec![0];
            stream.read_exact(&mut bytes)?;
            assert_takes(2 * SECOND, begin.elapsed());
            stream.read_to_end(&mut bytes)?;
            assert_eq!(bytes.len(), 200_000);
            Ok(())
        });
        client.wait().unwrap();
    });
}

#[test]
fn a_file_that_is_sent_takes_the_latency_of_the_link() {
    assert_takes_the_latency(|file, stream| io::copy(file, stream).map(drop));
    assert_takes_the_latency(|file, stream| {
        let (mut reader, mut writer) = io::pipe()?;
        let mut file = file.try_clone()?;
        std::thread::spawn(move || io::copy(&mut file, &mut writer));
        io::copy(&mut reader, stream).map(drop)
    });
    assert_takes_the_latency(|file, stream| {
        let mut offset = 0;
        while offset < 200_000 {
            // SAFETY: the offset lives until then.
            #[allow(unsafe_code, reason = "a function of the C library")]
            let sent = unsafe {
                libc::sendfile(
                    stream.as_raw_fd(),
                    file.as_raw_fd(),
                    &raw mut offset,
                    200_000,
                )
            };
            if sent < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    });
}
