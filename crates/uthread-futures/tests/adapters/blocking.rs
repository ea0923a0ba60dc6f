//! Async streams as blocking ones.

use std::io::{self, Cursor, ErrorKind, Read, Write};
use std::time::Duration;

use futures_util::io::{AllowStdIo, AsyncReadExt, BufReader};
use uthread::sync::mpsc;
use uthread::{spawn, timeout};
use uthread_futures::{Async, Blocking};

use crate::places::{everywhere, tcp, unix};

#[test]
fn a_stream_is_copied_as_any_other() {
    everywhere(|| {
        let (ours, theirs) = tcp();
        let echo = spawn(move || {
            let (reader, writer) = Async::new(theirs).split();
            let (mut reader, mut writer) = (Blocking::new(reader), Blocking::new(writer));
            let count = io::copy(&mut reader, &mut writer).unwrap();
            writer.close().unwrap();
            count
        });
        let data = vec![9; 1 << 20];
        let sent = data.clone();
        let sender = ours.try_clone().unwrap();
        let sending = spawn(move || {
            let mut sender = Blocking::new(Async::new(sender));
            sender.write_all(&sent).unwrap();
            sender.flush().unwrap();
            sender.close().unwrap();
        });
        let mut received = Vec::new();
        let mut ours = Blocking::new(BufReader::new(Async::new(ours)));
        ours.read_to_end(&mut received).unwrap();
        assert!(received == data);
        sending.join().unwrap();
        assert_eq!(echo.join().unwrap(), 1 << 20);
    });
}

#[test]
fn a_deadline_is_an_error_and_the_stream_goes_on() {
    everywhere(|| {
        let (ours, mut theirs) = unix();
        let mut ours = Blocking::new(Async::new(ours));
        let late = timeout(Duration::from_millis(5), || {
            ours.read(&mut [0]).unwrap_err().kind()
        });
        assert_eq!(late, Ok(ErrorKind::TimedOut));
        theirs.write_all(b"x").unwrap();
        assert_eq!(ours.read(&mut [0]).unwrap(), 1);
    });
}

#[test]
fn cancellation_is_an_error() {
    everywhere(|| {
        let (ours, _theirs) = unix();
        let (started, start) = mpsc::channel();
        let fiber = spawn(move || {
            started.send(()).unwrap();
            let mut ours = Blocking::new(Async::new(ours));
            [(); 2].map(|()| ours.read(&mut [0]).unwrap_err().raw_os_error())
        });
        start.recv().unwrap();
        fiber.cancel();
        assert_eq!(fiber.join().unwrap(), [Some(125); 2], "ECANCELED");
    });
}

#[test]
fn a_stream_without_a_socket() {
    let stream = AllowStdIo::new(Cursor::new(b"bytes".to_vec()));
    let mut stream = Blocking::new(stream);
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    stream.write_all(b" more").unwrap();
    assert_eq!(stream.into_inner().into_inner().into_inner(), b"bytes more");
    assert_eq!(text, "bytes");
}
