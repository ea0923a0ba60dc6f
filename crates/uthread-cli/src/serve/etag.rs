//! Entity tags: each names one state of one file in one coding.

use super::root::Regular;
use crate::http::negotiate::Coding;

/// Maximum size of a tag: two quotes, three hexadecimal numbers of at most 16 digits, three dashes,
/// and room for the longest coding.
const TAG_BYTES_MAX: usize = 64;

/// A strong tag: modification time in nanoseconds, size and coding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Etag {
    text: [u8; TAG_BYTES_MAX],
    length: usize,
}

impl Etag {
    pub(crate) fn new(regular: &Regular, coding: Coding) -> Etag {
        let mut tag = Etag {
            text: [0; TAG_BYTES_MAX],
            length: 0,
        };
        tag.push(b"\"");
        // Two's complement also represents times before 1970.
        tag.push_hex(regular.modified_s.cast_unsigned());
        tag.push(b"-");
        tag.push_hex(regular.modified_subsec_ns.cast_unsigned());
        tag.push(b"-");
        tag.push_hex(regular.bytes);
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
    use crate::serve::root::Content;
    use uthread::fs::File;

    fn check(modified_s: i64, modified_subsec_ns: i64, bytes: u64, coding: Coding, expected: &str) {
        let regular = Regular {
            content: Content::File(File::open("/dev/null").unwrap()),
            bytes,
            modified_s,
            modified_subsec_ns,
        };
        let tag = Etag::new(&regular, coding);
        assert_eq!(std::str::from_utf8(tag.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn tags() {
        check(0, 0, 0, Coding::Identity, "\"0-0-0\"");
        check(
            0x65a0_1234,
            0x1f,
            0x400,
            Coding::Brotli,
            "\"65a01234-1f-400-br\"",
        );
        check(
            -1,
            999_999_999,
            u64::MAX,
            Coding::Zstd,
            "\"ffffffffffffffff-3b9ac9ff-ffffffffffffffff-zstd\"",
        );
    }
}
