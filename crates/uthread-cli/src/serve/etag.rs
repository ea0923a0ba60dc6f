//! Entity tags: each names one state of one file in one coding.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::cache::Stamp;
use crate::http::negotiate::Coding;

/// Maximum size of a tag: two quotes, four hexadecimal numbers of at most 16 digits, four dashes,
/// and room for the longest coding.
const TAG_BYTES_MAX: usize = 80;

/// A strong tag: modification time in nanoseconds, size, a hash of inode and change time, and
/// coding.
///
/// A file that is replaced by one of equal size and modification time, as by `cp -p` and by builds
/// with a fixed time, has another inode or change time. These are hashed, since clients have no use
/// for the numbers of inodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Etag {
    text: [u8; TAG_BYTES_MAX],
    length: usize,
}

impl Etag {
    pub(crate) fn new(stamp: &Stamp, coding: Coding) -> Etag {
        let mut tag = Etag {
            text: [0; TAG_BYTES_MAX],
            length: 0,
        };
        // Without a random key: a tag holds beyond the process.
        let mut identity = DefaultHasher::new();
        (stamp.inode, stamp.changed).hash(&mut identity);
        tag.push(b"\"");
        // Two's complement also represents times before 1970.
        tag.push_hex(stamp.modified.0.cast_unsigned());
        tag.push(b"-");
        tag.push_hex(stamp.modified.1.cast_unsigned());
        tag.push(b"-");
        tag.push_hex(stamp.bytes);
        tag.push(b"-");
        tag.push_hex(identity.finish());
        if coding != Coding::Identity {
            tag.push(b"-");
            tag.push(coding.name().as_bytes());
        }
        tag.push(b"\"");
        tag
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.text[self.length..][..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn push_hex(&mut self, value: u64) {
        let digits = (u64::BITS - value.leading_zeros()).div_ceil(4).max(1);
        for index in (0..digits).rev() {
            let digit = (value >> (4 * index) & 0xf) as usize;
            self.push(&b"0123456789abcdef"[digit..=digit]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(modified: (i64, i64), bytes: u64, coding: Coding, [start, end]: [&str; 2]) {
        let stamp = Stamp {
            device: 1,
            inode: 2,
            bytes,
            modified,
            changed: (3, 4),
        };
        let text = |stamp: &Stamp| {
            let tag = Etag::new(stamp, coding);
            String::from_utf8(tag.as_bytes().to_vec()).unwrap()
        };
        let tag = text(&stamp);
        assert!(tag.starts_with(start) && tag.ends_with(end), "{tag}");
        assert_eq!(tag, text(&stamp));
        for other in [
            Stamp { inode: 5, ..stamp },
            Stamp {
                changed: (3, 5),
                ..stamp
            },
        ] {
            assert_ne!(tag, text(&other), "{other:?}");
        }
    }

    #[test]
    fn tags() {
        check((0, 0), 0, Coding::Identity, ["\"0-0-0-", "\""]);
        check(
            (0x65a0_1234, 0x1f),
            0x400,
            Coding::Brotli,
            ["\"65a01234-1f-400-", "-br\""],
        );
        check(
            (-1, 999_999_999),
            u64::MAX,
            Coding::Zstd,
            ["\"ffffffffffffffff-3b9ac9ff-ffffffffffffffff-", "-zstd\""],
        );
    }
}
