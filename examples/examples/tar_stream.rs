//! Sends a folder as a `tar` archive over a connection, and unpacks it while it arrives; neither
//! end holds the whole archive.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use tar::{Archive, Builder, EntryType, Header};
use uthread::fs::{self, File};
use uthread::net::{TcpListener, TcpStream};

fn main() -> Result<()> {
    uthread::run(|| {
        let (here, there) = (tempfile::tempdir()?, tempfile::tempdir()?);
        for (number, length) in [0, 1, 511, 512, 513, 3_000_000].into_iter().enumerate() {
            let path = here.path().join(format!("{number}.bin"));
            fs::write(path, vec![number as u8; length])?;
        }
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let from = here.path().to_owned();
        let sender = uthread::spawn(move || pack(&from, TcpStream::connect(address)?));
        let (stream, _) = listener.accept()?;
        let bytes = unpack(stream, there.path())?;
        let files = sender.join().expect("no panic")?;
        for entry in fs::read_dir(here.path())? {
            let name = entry?.file_name();
            let [sent, received] =
                [&here, &there].map(|folder| fs::read(folder.path().join(&name)));
            ensure!(sent? == received?, "{name:?} differs");
        }
        println!("{files} files with {bytes} bytes went over and are the same");
        Ok(())
    })
}

/// Sends the files of a folder. Opens each file here, because `tar` itself would open it with
/// `std`.
fn pack(folder: &Path, stream: TcpStream) -> Result<usize> {
    let mut builder = Builder::new(io::BufWriter::new(stream));
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let file = File::open(entry.path())?;
        let mut header = Header::new_gnu();
        header.set_metadata(&file.metadata()?);
        builder.append_data(&mut header, entry.file_name(), file)?;
        count += 1;
    }
    builder.into_inner()?.flush()?;
    Ok(count)
}

/// Unpacks an archive into a folder, and returns the number of bytes in its files.
fn unpack(stream: TcpStream, folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in Archive::new(stream).entries()? {
        let mut entry = entry?;
        let is_file = entry.header().entry_type() == EntryType::Regular;
        ensure!(is_file, "only files were sent");
        let path = entry.path()?.into_owned();
        let name = path.file_name().context("an entry without a name")?;
        bytes += io::copy(&mut entry, &mut File::create(folder.join(name))?)?;
    }
    Ok(bytes)
}
