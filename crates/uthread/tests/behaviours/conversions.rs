//! Conversions between the types of `std` and of this crate preserve flags, timeouts and modes.

use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::time::Duration;

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, behaviours};
use crate::support::FREE;
use rustix::fs::OFlags;
use tempfile::tempdir;
use uthread::fs::{File, OpenOptions};
use uthread::net::{TcpListener, TcpStream};
use uthread::spawn;

behaviours![
    (
        EVERYWHERE,
        [
            a_timeout_taken_back_is_taken_off_the_socket,
            a_clone_converted_to_std_leaves_send_file_waiting_as_before,
            the_type_bits_of_a_mode_are_ignored
        ]
    ),
    (IN_FIBERS, [a_name_with_a_nul_byte_is_refused]),
];

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(FREE).unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

fn a_timeout_taken_back_is_taken_off_the_socket(place: Place) {
    place.run(|| {
        let (ours, _peer) = pair();
        let native = std::net::TcpStream::from(ours);
        native
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        native
            .set_write_timeout(Some(Duration::from_secs(6)))
            .unwrap();
        let ours = TcpStream::from(native);
        assert_eq!(ours.read_timeout().unwrap(), Some(Duration::from_secs(5)));
        assert_eq!(ours.write_timeout().unwrap(), Some(Duration::from_secs(6)));
        ours.set_read_timeout(None).unwrap();
        ours.set_write_timeout(None).unwrap();
        let native = std::net::TcpStream::from(ours);
        assert_eq!(native.read_timeout().unwrap(), None);
        assert_eq!(native.write_timeout().unwrap(), None);
    });
}

fn a_clone_converted_to_std_leaves_send_file_waiting_as_before(place: Place) {
    const LENGTH: u64 = 16 << 20;
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::File::create(&path)
        .unwrap()
        .set_len(LENGTH)
        .unwrap();
    let received = place.run(|| {
        let (sender, mut receiver) = pair();
        let file = File::open(&path)?;
        sender.send_file(&file, 0, 1)?;
        let native = std::net::TcpStream::from(sender.try_clone()?);
        let flags = rustix::fs::fcntl_getfl(&native)?;
        assert!(!flags.contains(OFlags::NONBLOCK), "a converted clone waits");
        drop(native);
        // An only worker must serve the receiver too: a sender that blocks it waits forever.
        let sending = spawn(move || sender.send_file(&file, 0, LENGTH));
        let received = io::copy(&mut receiver, &mut io::sink())?;
        assert_eq!(sending.join().unwrap()?, LENGTH);
        Ok::<u64, io::Error>(received)
    });
    assert_eq!(received.unwrap(), LENGTH + 1);
}

fn the_type_bits_of_a_mode_are_ignored(place: Place) {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    let mode = place.run(|| {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o100_600)
            .open(&path)?;
        file.write_all(b"private")?;
        Ok::<u32, io::Error>(file.metadata()?.permissions().mode())
    });
    assert_eq!(mode.unwrap(), 0o100_600);
    assert_eq!(std::fs::read(&path).unwrap(), b"private");
}

fn a_name_with_a_nul_byte_is_refused(place: Place) {
    let refused = place.builder().name("a\0b").build().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}
