//! What makes changes last: a journal, which a thread of its own writes, many changes per flush to the disk, and at
//! times a snapshot in its place.
//!
//! Both are lines that say of one key what it is from then on. Read twice they do no harm, so a snapshot may be in
//! place before the journal is emptied.

use std::path::{Path, PathBuf};
use uthread::fs::{self, File, OpenOptions};
use uthread::io::{self, BufRead, BufReader, ErrorKind, Write};
use uthread::process;
use uthread::sync::mpsc::{self, Receiver, SyncSender};
use uthread::sync::{Arc, Condvar, Mutex};
use uthread::thread::{self, JoinHandle};

/// How many changes may wait for the disk, and go to it together; who comes then, waits.
const PENDING_MAX: usize = 1024;

pub(crate) struct Journal {
    requests: SyncSender<Request>,
    /// How many requests have reached the disk.
    written: Arc<(Mutex<u64>, Condvar)>,
    thread: JoinHandle<()>,
}

pub(crate) enum Request {
    Append(String),
    /// All lines that are needed: those before it are not any more.
    Replace(String),
}

impl Journal {
    /// Opens or makes the journal in this folder, and hands what it says to `line`.
    pub(crate) fn open(folder: &Path, mut line: impl FnMut(&str)) -> io::Result<Journal> {
        fs::create_dir_all(folder)?;
        match File::open(folder.join("snapshot")) {
            Ok(snapshot) => drop(replay(snapshot, &mut line)?),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .append(true)
            .create(true)
            .open(folder.join("journal"))?;
        // Half a line was being written when the machine stopped; nobody was told that it lasts.
        file.set_len(replay(file.try_clone()?, &mut line)?)?;

        let (requests, receiver) = mpsc::sync_channel(PENDING_MAX);
        let written = Arc::new((Mutex::new(0), Condvar::new()));
        let mut writer = Writer {
            folder: folder.to_owned(),
            file,
            written: Arc::clone(&written),
        };
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || {
                if let Err(error) = writer.run(&receiver) {
                    eprintln!("keep: the journal cannot be written: {error}");
                    process::exit(1); // what was not written, nobody may be told to last
                }
            })?;
        Ok(Journal {
            requests,
            written,
            thread,
        })
    }

    pub(crate) fn send(&self, request: Request) {
        self.requests
            .send(request)
            .expect("it receives until it is closed");
    }

    /// Waits until this many requests are on the disk.
    pub(crate) fn await_written(&self, requests: u64) {
        let (written, changed) = &*self.written;
        let is_behind = |written: &mut u64| *written < requests;
        drop(
            changed
                .wait_while(written.lock().unwrap(), is_behind)
                .unwrap(),
        );
    }

    pub(crate) fn close(self) {
        drop(self.requests);
        self.thread.join().expect("it does not panic");
    }
}

/// Hands over each whole line, and returns how many bytes they are.
fn replay(file: File, line: &mut impl FnMut(&str)) -> io::Result<u64> {
    let mut reader = BufReader::new(file);
    let (mut bytes, mut text) = (0, String::new());
    loop {
        text.clear();
        let length = reader.read_line(&mut text)?;
        let Some(whole) = text.strip_suffix('\n') else {
            return Ok(bytes);
        };
        line(whole);
        bytes += length as u64;
    }
}

struct Writer {
    folder: PathBuf,
    file: File,
    written: Arc<(Mutex<u64>, Condvar)>,
}

impl Writer {
    fn run(&mut self, receiver: &Receiver<Request>) -> io::Result<()> {
        // What has gathered during a flush goes along with the next.
        while let Ok(first) = receiver.recv() {
            let (mut lines, mut count) = (String::new(), 0);
            for request in std::iter::once(first).chain(receiver.try_iter().take(PENDING_MAX)) {
                count += 1;
                match request {
                    Request::Append(line) => lines += &line,
                    Request::Replace(all) => {
                        lines.clear();
                        self.replace(&all)?;
                    }
                }
            }
            self.file.write_all(lines.as_bytes())?;
            self.file.sync_data()?;
            *self.written.0.lock().unwrap() += count;
            self.written.1.notify_all();
        }
        Ok(())
    }

    /// Puts a snapshot in place, as a whole or not at all.
    fn replace(&mut self, lines: &str) -> io::Result<()> {
        let new = self.folder.join("snapshot.new");
        let mut file = File::create(&new)?;
        file.write_all(lines.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, self.folder.join("snapshot"))?;
        File::open(&self.folder)?.sync_all()?;
        self.file.set_len(0)
    }
}
