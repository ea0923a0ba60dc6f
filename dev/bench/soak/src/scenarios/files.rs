//! Files: what was written is read, by many fibers at once.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use uthread::blocking;
use uthread::fs::{self, File};

use crate::random::{Choices as _, Random};
use crate::stage::{Stage, expect, join_all, spawn};

/// Number of bytes that a fiber writes at once.
const PIECE_BYTES: usize = 3000;

/// A file that is removed when dropped.
pub(super) struct TemporaryFile(PathBuf);

impl TemporaryFile {
    pub(super) fn create(stage: &Stage) -> io::Result<TemporaryFile> {
        let path = stage.directory.join(stage.next_id().to_string());
        File::create_new(&path)?;
        Ok(TemporaryFile(path))
    }

    pub(super) fn open(&self) -> io::Result<File> {
        File::options().read(true).write(true).open(&self.0)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // A destructor may run during cancellation, and a plain call cannot be cancelled. The
        // directory removes the rest.
        let _ = std::fs::remove_file(&self.0);
    }
}

pub(super) fn in_pieces(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let temporary = TemporaryFile::create(stage)?;
    let file = Arc::new(temporary.open()?);
    let count = 1 + random.usize(..30);
    let handles: Vec<_> = (0..count)
        .map(|piece| {
            let (file, mut random) = (Arc::clone(&file), random.fork());
            spawn(stage, move |_| {
                let mut written = [0; PIECE_BYTES];
                written.fill_with(|| random.u64(..) as u8);
                let offset = (piece * PIECE_BYTES) as u64;
                file.write_all_at(&written, offset)?;
                let mut read = [0; PIECE_BYTES];
                file.read_exact_at(&mut read, offset)?;
                expect(read == written, format_args!("piece {piece} differs"))
            })
        })
        .collect();
    join_all(handles)?;
    let length = file.metadata()?.len();
    expect(
        length == (count * PIECE_BYTES) as u64,
        format_args!("{length} bytes long"),
    )
}

pub(super) fn as_whole(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let temporary = TemporaryFile::create(stage)?;
    let contents: Vec<u8> = (0..random.usize(..50_000))
        .map(|_| random.u64(..) as u8)
        .collect();
    fs::write(&temporary.0, &contents)?;
    expect(fs::read(&temporary.0)? == contents, "it reads otherwise")?;
    if random.percent(20) {
        temporary.open()?.sync_all()?;
    }
    let entries = fs::read_dir(&stage.directory)?.take(10).count();
    expect(entries > 0, "its directory is empty")?;
    let seen = blocking(|| std::fs::read(&temporary.0))?;
    expect(seen == contents, "others read it otherwise")
}
