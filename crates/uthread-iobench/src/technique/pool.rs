//! A pool of threads with blocking calls: requests and results travel through queues, as in a
//! program that must not wait.

use std::fs::File;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use uthread::fs::AlignedBuffer;

use super::call;
use super::engine::{Done, Engine};
use crate::test_files;
use crate::walk::Request;

struct Task {
    slot: usize,
    request: Request,
    buffer: AlignedBuffer,
}

struct Finished {
    done: Done,
    buffer: AlignedBuffer,
}

/// A thread for each request at a time.
pub(super) struct Pool {
    /// `None` while a thread has the buffer.
    buffers: Vec<Option<AlignedBuffer>>,
    /// `None` only while it is dropped.
    tasks: Option<Sender<Task>>,
    finished: Receiver<Finished>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    pub(super) fn new(file: &File, depth: usize) -> io::Result<Pool> {
        let (tasks, waiting) = mpsc::channel();
        let (finish, finished) = mpsc::channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let start = |_| {
            let (file, waiting, finish) = (file.try_clone()?, Arc::clone(&waiting), finish.clone());
            thread::Builder::new().spawn(move || serve(&file, &waiting, &finish))
        };
        let threads = (0..depth).map(start).collect::<io::Result<_>>()?;
        let buffers = (0..depth).map(|_| test_files::buffer(file).map(Some));
        Ok(Pool {
            buffers: buffers.collect::<io::Result<_>>()?,
            tasks: Some(tasks),
            finished,
            threads,
        })
    }

    fn take_back(&mut self, finished: Finished, done: &mut Vec<Done>) {
        self.buffers[finished.done.slot] = Some(finished.buffer);
        done.push(finished.done);
    }
}

impl Engine for Pool {
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.buffers[slot]
            .as_mut()
            .expect("no thread has the buffer")
    }

    fn push(&mut self, slot: usize, request: Request) -> io::Result<()> {
        let buffer = self.buffers[slot].take().expect("no thread has the buffer");
        let task = Task {
            slot,
            request,
            buffer,
        };
        let tasks = self.tasks.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        tasks
            .send(task)
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn wait(&mut self, least: usize, done: &mut Vec<Done>) -> io::Result<()> {
        while done.len() < least {
            let finished = self.finished.recv();
            self.take_back(finished.map_err(|_| io::ErrorKind::BrokenPipe)?, done);
        }
        while let Ok(finished) = self.finished.try_recv() {
            self.take_back(finished, done);
        }
        Ok(())
    }

    /// Returns `None`: the queues make calls to sleep and wake, which depend on timing.
    fn calls(&self) -> Option<u64> {
        None
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.tasks = None;
        for thread in self.threads.drain(..) {
            // Its panic has been printed.
            let _ = thread.join();
        }
    }
}

/// Performs tasks until there are no more.
fn serve(file: &File, waiting: &Mutex<Receiver<Task>>, finish: &Sender<Finished>) {
    loop {
        // One thread waits in the queue, the others for the lock.
        let next = waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok(Task {
            slot,
            request,
            mut buffer,
        }) = next
        else {
            return;
        };
        let result = call(file, request, &mut buffer);
        let done = Done { slot, result };
        if finish.send(Finished { done, buffer }).is_err() {
            return;
        }
    }
}
