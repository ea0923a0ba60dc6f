//! What leaves a world is reported with its place, or denied.

use std::collections::HashSet;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::time::{Duration, Instant};

use uthread::Runtime;
use uthread_simulation::World;

/// Runs a program on a host, in a world that denies escapes if so asked. Returns those, and the trace.
fn run(
    denies: bool,
    program: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) -> (String, String) {
    let builder = uthread_simulation::seeded(Runtime::builder(), 1);
    builder.build().unwrap().run(|| {
        let world = World::new().unwrap();
        if denies {
            world.deny_escapes();
        }
        // A kernel may refuse it.
        let _ = world.trap_system_calls();
        let ended = world.host("host", program).wait();
        ended.unwrap();
        let found = (world.escapes(), world.trace());
        if denies {
            assert_ends_with_a_panic(world);
        }
        found
    })
}

fn assert_ends_with_a_panic(world: World) {
    let end = std::panic::AssertUnwindSafe(|| drop(world));
    let payload = std::panic::catch_unwind(end).expect_err("it denies something");
    let message = payload.downcast_ref::<String>().unwrap();
    assert!(message.starts_with("something was to happen outside of the world:\nhost: "));
}

/// Checks that a program leaves the world once, in this file at the line of `program`, and that this is denied
/// on demand.
#[track_caller]
fn assert_leaves(what: &str, program: fn() -> io::Result<()>) {
    let line = std::panic::Location::caller().line();
    let (escapes, trace) = run(false, move || program().and_then(|()| program()));
    let (text, place) = escapes.trim_end().rsplit_once(':').unwrap();
    let begin = format!("host: {what}");
    assert!(text.starts_with(&begin), "{escapes}");
    assert!(
        text.ends_with(", at tests/simulation/escapes.rs"),
        "{escapes}"
    );
    let place: u32 = place.parse().unwrap();
    assert!((line..line + 16).contains(&place), "{line}: {escapes}");
    assert!(trace.contains(escapes.trim_end()), "{trace}");
    let (denied, _) = run(true, move || {
        let error = program().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        Ok(())
    });
    assert_eq!(denied, escapes);
}

/// A file outside of the world that is not there.
const MISSING: &str = "/tmp/uthread-escapes/missing";

/// The kernel has looked for the file.
fn has_looked(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[test]
fn changes_of_files_outside_are_reported() {
    let what = "changes a file outside of the world, `/tmp/uthread-escapes/missing`";
    assert_leaves(what, || has_looked(std::fs::write(MISSING, "1")));
    assert_leaves(what, || has_looked(uthread::fs::write(MISSING, "1")));
    assert_leaves(what, || has_looked(std::fs::create_dir(MISSING)));
    assert_leaves(what, || has_looked(std::fs::remove_dir(MISSING)));
    assert_leaves(what, || has_looked(std::fs::remove_file(MISSING)));
    assert_leaves(what, || has_looked(uthread::fs::remove_file(MISSING)));
    assert_leaves(what, || has_looked(std::fs::rename(MISSING, "/dev/null")));
    assert_leaves(what, || has_looked(std::fs::rename("/dev/null", MISSING)));
    assert_leaves(what, || {
        has_looked(std::fs::hard_link("/dev/null", MISSING))
    });
    assert_leaves(what, || {
        has_looked(std::os::unix::fs::symlink("target", MISSING))
    });
    assert_leaves(what, || {
        let directory = uthread::fs::Dir::open("/tmp/")?;
        let mut options = uthread::fs::OpenOptions::new();
        options.write(true);
        has_looked(
            directory
                .open_beneath("uthread-escapes/missing", &options)
                .map(drop),
        )
    });
}

#[test]
fn random_devices_are_reported() {
    assert_leaves("takes random bytes from `/dev/urandom`", || {
        std::fs::File::open("/dev/urandom")?.read_exact(&mut [0])
    });
}

#[test]
fn processes_are_reported() {
    let what = "starts a process";
    assert_leaves(what, || {
        std::process::Command::new("true").status().map(drop)
    });
    assert_leaves(what, || {
        uthread::process::Command::new("true").status().map(drop)
    });
    assert_leaves(what, || {
        // SAFETY: it is a string of C.
        #[allow(unsafe_code, reason = "a function of the C library")]
        match unsafe { libc::system(c"true".as_ptr()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    });
    assert_leaves(what, || {
        // SAFETY: these are strings of C.
        #[allow(unsafe_code, reason = "a function of the C library")]
        let pipe = unsafe { libc::popen(c"true".as_ptr(), c"r".as_ptr()) };
        if pipe.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was opened above.
        #[allow(unsafe_code, reason = "a function of the C library")]
        unsafe {
            libc::pclose(pipe)
        };
        Ok(())
    });
    assert_leaves(what, || {
        let mut command = std::process::Command::new("true");
        // Without `posix_spawn`.
        std::os::unix::process::CommandExt::uid(&mut command, rustix::process::getuid().as_raw());
        command.status().map(drop)
    });
}

#[test]
fn threads_and_runtimes_are_reported() {
    assert_leaves("starts a thread, for a dedicated fiber", || {
        let builder = uthread::thread::Builder::new().dedicated();
        builder.spawn(|| ())?.join().unwrap();
        Ok(())
    });
    assert_leaves("builds a runtime, with threads of its own", || {
        Runtime::new().map(drop)
    });
    let (escapes, _) = run(false, || {
        uthread::blocking(|| ());
        Ok(())
    });
    let begin = "host: runs a closure beside the fibers of the world, by `blocking`, at tests/";
    assert!(escapes.starts_with(begin), "{escapes}");
}

#[test]
fn names_outside_are_reported() {
    let (escapes, _) = run(false, || {
        assert!("name.invalid:80".to_socket_addrs().is_err());
        assert!(uthread::net::TcpStream::connect("name.invalid:80").is_err());
        Ok(())
    });
    let lines: Vec<_> = escapes.lines().collect();
    assert_eq!(lines.len(), 2);
    for line in lines {
        let begin =
            "host: looks up a name outside of the world, `name.invalid`, at tests/simulation";
        assert!(line.starts_with(begin), "{line}");
    }
}

#[test]
fn addresses_outside_are_reported_if_the_test_uses_them() {
    let runtime = uthread_simulation::seeded(Runtime::builder(), 1).build();
    runtime.unwrap().run(|| {
        let world = World::new().unwrap();
        let host = world.host("host", || {
            // This is as in a network without a way out, and so inside.
            let unreachable = io::ErrorKind::NetworkUnreachable;
            for address in ["192.0.2.1:9", "[2001:db8::1]:9"] {
                let error = TcpStream::connect(address).unwrap_err();
                assert_eq!(error.kind(), unreachable);
                let error = uthread::net::TcpStream::connect(address).unwrap_err();
                assert_eq!(error.kind(), unreachable);
            }
            Ok(())
        });
        host.wait().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(world.escapes(), "");
        world.deny_escapes();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = socket.send_to(b"1", "192.0.2.1:9").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let error = TcpStream::connect("[2001:db8::1]:9").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let escapes = world.escapes();
        let begin = "the test: uses an address outside of the world, `192.0.2.1:9`, at tests/";
        assert!(escapes.starts_with(begin), "{escapes}");
        assert!(
            escapes.contains("`[2001:db8::1]:9`, at tests/"),
            "{escapes}"
        );
        assert!(std::panic::catch_unwind(|| drop(world)).is_err());
    });
}

#[test]
#[allow(unsafe_code, reason = "system calls")]
fn system_calls_of_its_own_are_reported() {
    assert_leaves("makes the system call `nanosleep` itself", || {
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 1,
        };
        let rest = std::ptr::null_mut::<libc::timespec>();
        // SAFETY: the time is valid for a read, and no rest is wanted.
        let result = unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, rest) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    });
    assert_leaves("makes the system call `openat` itself", || {
        let path = c"/dev/null".as_ptr();
        // SAFETY: the path is a string.
        let result = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, libc::O_PATH) };
        if result >= 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    });
}

#[test]
#[allow(unsafe_code, reason = "system calls")]
fn system_calls_for_a_clock_and_random_bytes_are_of_the_world() {
    let bytes = || {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (escapes, _) = run(false, move || {
            let start = Instant::now();
            uthread::sleep(Duration::from_secs(3600));
            let mut time = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            // SAFETY: there is room for the time.
            unsafe {
                libc::syscall(
                    libc::SYS_clock_gettime,
                    libc::CLOCK_MONOTONIC,
                    &raw mut time,
                )
            };
            let mut start_too = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            // SAFETY: as above.
            unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut start_too) };
            assert_eq!(
                (time.tv_sec, time.tv_nsec),
                (start_too.tv_sec, start_too.tv_nsec)
            );
            assert!(start.elapsed().as_secs() >= 3600);
            let mut bytes = [0_u8; 16];
            // SAFETY: there is room for the bytes.
            unsafe { libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), bytes.len(), 0) };
            sender.send(bytes).unwrap();
            Ok(())
        });
        assert_eq!(escapes, "");
        receiver.recv().unwrap()
    };
    assert_eq!(bytes(), bytes());
}

#[test]
fn the_instruction_is_reported() {
    let runtime = uthread_simulation::virtual_time(Runtime::builder()).build();
    let trap = || World::new().unwrap().trap_system_calls();
    if runtime.unwrap().run(trap).is_err() {
        eprintln!("skipped: the kernel refuses it");
        return;
    }
    assert_leaves("makes the system call `open` itself", || {
        let flags = rustix::fs::OFlags::PATH;
        rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty())?;
        Ok(())
    });
}

#[test]
fn files_that_are_read_are_in_the_trace_only() {
    let (escapes, trace) = run(false, || {
        std::fs::read("/etc/passwd")?;
        uthread::fs::read("/etc/passwd").map(drop)
    });
    assert_eq!(escapes, "");
    let what = "host: reads a file outside of the world, `/etc/passwd`, at tests/simulation/";
    assert_eq!(trace.matches(what).count(), 2, "{trace}");
}

#[test]
fn files_of_other_hosts_are_reported() {
    let runtime = uthread_simulation::seeded(Runtime::builder(), 1).build();
    runtime.unwrap().run(|| {
        let world = World::new().unwrap();
        let (own, others) = (world.directory("a").unwrap(), world.directory("b").unwrap());
        std::fs::write(others.join("file"), "1").unwrap(); // The test may do it.
        let host = world.host("a", move || {
            std::fs::write(own.join("file"), "1")?;
            std::fs::read(others.join("file")).map(drop)
        });
        host.wait().unwrap();
        let escapes = world.escapes();
        assert!(
            escapes.starts_with("a: uses a file of another host, `"),
            "{escapes}"
        );
        assert!(
            escapes.contains("/b/file`, at tests/simulation/escapes.rs:"),
            "{escapes}"
        );
        assert_eq!(escapes.lines().count(), 1);
    });
}

#[test]
fn abstract_names_are_reported() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
    let what = "uses an abstract name of a Unix socket, `uthread-escapes`";
    fn address() -> io::Result<SocketAddr> {
        SocketAddr::from_abstract_name("uthread-escapes")
    }
    fn refused<T>(result: io::Result<T>) -> io::Result<()> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            result => result.map(drop),
        }
    }
    assert_leaves(what, || UnixListener::bind_addr(&address()?).map(drop));
    assert_leaves(what, || refused(UnixStream::connect_addr(&address()?)));
    assert_leaves(what, || {
        refused(UnixDatagram::unbound()?.send_to_addr(b"1", &address()?))
    });
    assert_leaves(what, || {
        uthread::net::UnixListener::bind_addr(&address()?).map(drop)
    });
    assert_leaves(what, || {
        refused(uthread::net::UnixStream::connect_addr(&address()?))
    });
    assert_leaves(what, || {
        refused(uthread::net::UnixDatagram::unbound()?.send_to_addr(b"1", &address()?))
    });
}

#[test]
fn unix_sockets_of_other_hosts_are_reported() {
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
    let runtime = uthread_simulation::seeded(Runtime::builder(), 1).build();
    runtime.unwrap().run(|| {
        let world = World::new().unwrap();
        world.deny_escapes();
        let [own, other] = ["a", "b"].map(|name| world.directory(name).unwrap().join("socket"));
        let path = other.clone();
        world.host("b", move || {
            let listener = UnixListener::bind(&path)?;
            let within = UnixStream::connect(&path)?;
            uthread::net::UnixStream::connect(&path)?;
            drop((listener.accept()?, within));
            uthread::sleep(Duration::from_secs(60));
            Ok(())
        });
        let host = world.host("a", move || {
            uthread::sleep(Duration::from_secs(1));
            let denied = io::ErrorKind::PermissionDenied;
            let kind = |error: io::Error| error.kind();
            assert_eq!(
                UnixStream::connect(&other).map_err(kind).err(),
                Some(denied)
            );
            let connected = uthread::net::UnixStream::connect(&other);
            assert_eq!(connected.map_err(kind).err(), Some(denied));
            let bound = uthread::net::UnixListener::bind(other.with_extension("new"));
            assert_eq!(bound.map_err(kind).err(), Some(denied));
            let datagrams = UnixDatagram::bind(&own)?;
            let sent = datagrams.send_to(b"1", &other);
            assert_eq!(sent.map_err(kind).err(), Some(denied));
            let datagrams = uthread::net::UnixDatagram::unbound()?;
            let sent = datagrams.send_to(b"1", &other);
            assert_eq!(sent.map_err(kind).err(), Some(denied));
            Ok(())
        });
        host.wait().unwrap();
        let escapes = world.escapes();
        assert_eq!(escapes.lines().count(), 5, "{escapes}");
        for line in escapes.lines() {
            assert!(
                line.starts_with("a: uses a file of another host, `"),
                "{escapes}"
            );
            assert!(
                line.contains(", at tests/simulation/escapes.rs:"),
                "{escapes}"
            );
        }
        assert!(std::panic::catch_unwind(|| drop(world)).is_err());
    });
}

#[test]
fn a_program_that_stays_in_its_world_is_not_reported() {
    let runtime = uthread_simulation::seeded(Runtime::builder(), 1).build();
    runtime.unwrap().run(|| {
        let world = World::new().unwrap();
        world.deny_escapes();
        // A kernel may refuse it.
        let _ = world.trap_system_calls();
        let directory = world.directory("server").unwrap();
        world.host("server", move || {
            let listener = TcpListener::bind("0.0.0.0:7000")?;
            std::fs::create_dir_all(directory.join("data/new"))?;
            for stream in listener.incoming() {
                let mut stream = stream?;
                let path = directory.join("data/new/file");
                std::thread::spawn(move || {
                    let mut byte = [0];
                    stream.read_exact(&mut byte)?;
                    std::fs::write(&path, byte)?;
                    uthread::fs::rename(&path, path.with_extension("old"))?;
                    stream.write_all(&byte)
                });
            }
            Ok(())
        });
        let client = world.host("client", || {
            uthread::sleep(Duration::from_millis(1));
            let mut stream = TcpStream::connect("server:7000")?;
            stream.write_all(b"1")?;
            assert_eq!(HashSet::from([1]).len(), 1);
            println!("A line, {:?}", std::time::SystemTime::now());
            stream.read_exact(&mut [0])
        });
        client.wait().unwrap();
        assert_eq!(world.escapes(), "");
        assert!(!world.trace().contains("outside"), "{}", world.trace());
    });
}
