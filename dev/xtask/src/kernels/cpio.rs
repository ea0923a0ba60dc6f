//! The archive format from which Linux fills its first file system: cpio, "newc".
//!
//! Each entry consists of a header with 13 hexadecimal numbers, the path, and the contents. Path
//! and contents are padded to a multiple of four bytes. An entry with a fixed name ends the
//! archive.

use std::collections::BTreeSet;
use std::path::Path;

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// Magic number of each header.
const MAGIC: &str = "070701";

#[derive(Default)]
pub(crate) struct Cpio {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

impl Cpio {
    /// Adds an executable file by its absolute path, and its parent folders.
    pub(crate) fn file(&mut self, path: &str, contents: &[u8]) {
        self.folders_above(path);
        self.entry(path, PROGRAM, contents);
    }

    pub(crate) fn folder(&mut self, path: &str) {
        self.folders_above(path);
        if self.folders.insert(path.to_owned()) {
            self.entry(path, FOLDER, &[]);
        }
    }

    fn folders_above(&mut self, path: &str) {
        let above = Path::new(path).parent().and_then(Path::to_str);
        if let Some(above) = above.filter(|above| *above != "/") {
            self.folder(above);
        }
    }

    /// Returns the whole archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("/TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, contents: &[u8]) {
        let path = path.trim_start_matches('/');
        let size = u32::try_from(contents.len()).expect("the format ends at 4 GiB");
        self.entries += 1;
        let links = 1;
        // Owner, group, time, devices and checksum stay 0.
        let fields = [
            self.entries,
            mode,
            0,
            0,
            links,
            0,
            size,
            0,
            0,
            0,
            0,
            path.len() as u32 + 1,
            0,
        ];
        self.bytes.extend_from_slice(MAGIC.as_bytes());
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.fill();
        self.bytes.extend_from_slice(contents);
        self.fill();
    }

    fn fill(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The magic number and 13 numbers of eight digits.
    const HEADER_BYTES: usize = 110;

    /// Returns the path, mode and contents of each entry.
    fn entries(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut found = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let header = str::from_utf8(&rest[..HEADER_BYTES]).unwrap();
            assert!(header.starts_with(MAGIC));
            let field = |index: usize| {
                u32::from_str_radix(&header[6 + index * 8..14 + index * 8], 16).unwrap()
            };
            let (size, name) = (field(6) as usize, field(11) as usize);
            let path = &rest[HEADER_BYTES..HEADER_BYTES + name - 1];
            let start = (HEADER_BYTES + name).next_multiple_of(4);
            let contents = rest[start..start + size].to_vec();
            found.push((
                String::from_utf8(path.to_vec()).unwrap(),
                field(1),
                contents,
            ));
            rest = &rest[(start + size).next_multiple_of(4)..];
        }
        found
    }

    #[test]
    fn folders_come_once_and_before_what_is_in_them() {
        let mut cpio = Cpio::default();
        cpio.file("/a/b/c", b"12345");
        cpio.file("/a/d", b"");
        cpio.folder("/a");
        let expected = [
            ("a", FOLDER, &b""[..]),
            ("a/b", FOLDER, b""),
            ("a/b/c", PROGRAM, b"12345"),
            ("a/d", PROGRAM, b""),
            ("TRAILER!!!", 0, b""),
        ];
        let expected = expected.map(|(path, mode, bytes)| (path.to_owned(), mode, bytes.to_vec()));
        assert_eq!(entries(&cpio.finish()), expected);
    }
}
