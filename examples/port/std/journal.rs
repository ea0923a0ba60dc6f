//! Makes changes durable: one thread writes a journal, with many changes per flush to disk, and
//! sometimes replaces it by a snapshot.
//!
//! Both consist of lines that state the current entry of a key. Reading a line twice does no harm,
//! so a snapshot may be in place before the journal is emptied.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

/// Maximum number of changes that wait for the disk and reach it together; further changes wait.
const PENDING_MAX: usize = 1024;

pub(crate) struct Journal {
    requests: SyncSender<Request>,
    /// Number of requests that have reached the disk.
    written: Arc<(Mutex<u64>, Condvar)>,
    thread: JoinHandle<()>,
}

pub(crate) enum Request {
    Append(String),
    /// Replaces all earlier lines by these.
    Replace(String),
}

impl Journal {
    /// Opens or creates the journal in this folder, and passes its lines to `line`.
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
        // The machine stopped while writing half a line; no client was told that it is durable.
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
                    process::exit(1); // never tell a client that an unwritten change is durable
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
            .expect("the journal receives until it is closed");
    }

    /// Waits until this many requests are on disk.
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
        self.thread.join().expect("the journal does not panic");
    }
}

/// Passes on each whole line, and returns their size in bytes.
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
        // Changes that have arrived during a flush join the next one.
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

    /// Puts a snapshot in place, completely or not at all.
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
