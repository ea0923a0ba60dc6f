//! What survives the way from `std`'s types to ours and back: flags, timeouts, modes.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::time::Duration;

use rustix::fs::OFlags;
use uthread::fs::{File, OpenOptions};
use uthread::net::{TcpListener, TcpStream};
use uthread::{Runtime, spawn};

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

#[test]
fn a_timeout_taken_back_is_taken_off_the_socket() {
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
}

#[test]
fn a_clone_converted_to_std_leaves_send_file_waiting_in_the_ring() -> io::Result<()> {
    const LENGTH: u64 = 16 << 20;
    let path = std::env::temp_dir().join(format!("uthread-conversions-{}", std::process::id()));
    std::fs::File::create(&path)?.set_len(LENGTH)?;
    let runtime = Runtime::builder().workers(1).build()?;
    let received = runtime.run(|| {
        let (sender, mut receiver) = pair();
        let file = File::open(&path)?;
        sender.send_file(&file, 0, 1)?;
        let native = std::net::TcpStream::from(sender.try_clone()?);
        let flags = rustix::fs::fcntl_getfl(&native)?;
        assert!(!flags.contains(OFlags::NONBLOCK), "a converted clone waits");
        drop(native);
        // The only worker must serve the receiver too: a sender that blocks it waits for ever.
        let sending = spawn(move || sender.send_file(&file, 0, LENGTH));
        let received = io::copy(&mut receiver, &mut io::sink())?;
        assert_eq!(sending.join().unwrap()?, LENGTH);
        Ok::<u64, io::Error>(received)
    })?;
    assert_eq!(received, LENGTH + 1);
    std::fs::remove_file(path)
}

#[test]
fn the_type_bits_of_a_mode_are_ignored() -> io::Result<()> {
    let runtime = Runtime::builder().workers(1).build()?;
    let folder = std::env::temp_dir();
    let path = folder.join(format!("uthread-mode-{}", std::process::id()));
    let mode = runtime.run(|| {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o100_600)
            .open(&path)?;
        file.write_all(b"private")?;
        Ok::<u32, io::Error>(file.metadata()?.permissions().mode())
    })?;
    assert_eq!(mode, 0o100_600);
    let mut text = String::new();
    std::fs::File::open(&path)?.read_to_string(&mut text)?;
    assert_eq!(text, "private");
    std::fs::remove_file(path)
}

#[test]
fn a_name_with_a_nul_byte_is_refused() {
    let refused = Runtime::builder().name("a\0b").build().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}
