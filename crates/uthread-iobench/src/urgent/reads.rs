//! Urgent reads beside writes to the same disk.

use std::io;
use std::os::unix::fs::FileExt;

use fastrand::Rng;
use uthread::fs::{AlignedBuffer, File, OpenOptions};
use uthread::try_scope;

use super::Stage;
use crate::blocks::{self, BLOCK_BYTES};
use crate::load::{Load, Rivals};
use crate::tally::Tally;
use crate::walk::Request;

/// Reads random blocks of the file, one at a time, while each rival writes others.
pub(super) fn perform(load: &Load, rivals: Rivals) -> io::Result<Tally> {
    let path = load.files.first().ok_or(io::ErrorKind::InvalidInput)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .direct(true)
        .open(path)?;
    let blocks = file.metadata()?.len() / BLOCK_BYTES as u64;
    if blocks == 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let stage = Stage::new(load, rivals, blocks);
    try_scope(|scope| {
        let (file, stage) = (&file, &stage);
        stage.as_rival(|| {
            for index in 0..stage.count {
                let random = Rng::with_seed(load.seed.wrapping_add(index as u64 + 1));
                scope.spawn(move || write(file, stage, blocks, random));
            }
        });
        stage.as_urgent(|| read(file, stage))
    })?;
    Ok(stage.into_tally())
}

fn read(file: &File, stage: &Stage) -> io::Result<()> {
    let mut buffer = AlignedBuffer::for_file(file, BLOCK_BYTES)?;
    stage.urgent(|block| {
        let request = Request::Read(block);
        blocks::prepare(request, &mut buffer);
        let result = file.read_at(&mut buffer, block * BLOCK_BYTES as u64);
        blocks::check(request, result, &buffer)
    })
}

/// Writes blocks that a read of them finds whole.
fn write(file: &File, stage: &Stage, blocks: u64, mut random: Rng) -> io::Result<()> {
    let mut buffer = AlignedBuffer::for_file(file, BLOCK_BYTES)?;
    stage.rival(|| {
        let block = random.u64(..blocks);
        let request = Request::Write(block);
        blocks::prepare(request, &mut buffer);
        let result = file.write_at(&buffer, block * BLOCK_BYTES as u64);
        blocks::check(request, result, &buffer)
    })
}
