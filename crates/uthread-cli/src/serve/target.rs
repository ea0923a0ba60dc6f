//! Converts the path of a request into a path beneath the served directory.
//!
//! Slashes are found first, and each segment is then decoded once, so decoded bytes never become
//! separators and are never decoded again. The result contains no `.`, no `..`, no NUL and no
//! hidden name. The kernel checks again: `root.rs` opens the path with `RESOLVE_BENEATH`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::http::response::Status;

/// Characters to encode: all but the unreserved ones of RFC 3986. The rest becomes `%XX`, so that
/// nothing in a URL has a meaning in HTML or in a header.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The only hidden name that is public (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The path ends in a slash.
    Directory,
    File,
}

/// Appends the decoded path to `out`: relative, without a slash at either end, empty for the root.
pub(crate) fn decode(path_and_query: &str, out: &mut Vec<u8>) -> Result<Kind, Status> {
    let (path, _) = split_query(path_and_query);
    let base = out.len();
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        let depth_zero = out.len() == base;
        if !depth_zero {
            out.push(b'/');
        }
        let start = out.len();
        decode_segment(segment.as_bytes(), out)?;
        check_name(&out[start..], depth_zero)?;
    }
    // No path at all (http://host?query) means the root.
    if path.is_empty() || path.ends_with('/') {
        Ok(Kind::Directory)
    } else {
        Ok(Kind::File)
    }
}

/// Splits a target into the path and the query with its question mark.
pub(crate) fn split_query(path_and_query: &str) -> (&str, &str) {
    path_and_query.split_at(path_and_query.find('?').unwrap_or(path_and_query.len()))
}

/// Appends the URL of a decoded path. It begins with exactly one slash, so it never names another
/// host.
pub(crate) fn encode(path: &[u8], out: &mut String) {
    for segment in path
        .split(|&byte| byte == b'/')
        .filter(|segment| !segment.is_empty())
    {
        out.push('/');
        encode_name(segment, out);
    }
}

/// Appends one name, encoded for a URL path.
pub(crate) fn encode_name(name: &[u8], out: &mut String) {
    out.extend(percent_encoding::percent_encode(name, ENCODED));
}

/// Appends a query as received, encoding characters that a header field cannot contain.
pub(crate) fn encode_query(query: &str, out: &mut String) {
    out.extend(utf8_percent_encode(query, percent_encoding::CONTROLS));
}

fn decode_segment(segment: &[u8], out: &mut Vec<u8>) -> Result<(), Status> {
    let mut bytes = segment.iter();
    while let Some(&byte) = bytes.next() {
        let byte = match byte {
            b'%' => {
                let high = bytes.next().and_then(hex_digit);
                let low = bytes.next().and_then(hex_digit);
                let (Some(high), Some(low)) = (high, low) else {
                    return Err(Status::BadRequest);
                };
                high << 4 | low
            }
            plain => plain,
        };
        // No file name contains NUL or a slash: this request probes the decoder.
        if byte == 0 || byte == b'/' {
            return Err(Status::BadRequest);
        }
        out.push(byte);
    }
    Ok(())
}

fn hex_digit(digit: &u8) -> Option<u8> {
    let value = char::from(*digit).to_digit(16)?;
    u8::try_from(value).ok()
}

fn check_name(name: &[u8], depth_zero: bool) -> Result<(), Status> {
    match name {
        // Clients resolve these segments before sending, so this request is an attack.
        b"." | b".." => Err(Status::BadRequest),
        WELL_KNOWN if depth_zero => Ok(()),
        [b'.', ..] => Err(Status::NotFound),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(path_and_query: &str, expected: Result<(&str, Kind), Status>) {
        let mut out = Vec::new();
        let found = decode(path_and_query, &mut out).map(|kind| (&out[..], kind));
        let expected = expected.map(|(path, kind)| (path.as_bytes(), kind));
        assert_eq!(found, expected, "{path_and_query}");
    }

    #[test]
    fn paths() {
        check("/", Ok(("", Kind::Directory)));
        check("", Ok(("", Kind::Directory)));
        check("?q", Ok(("", Kind::Directory)));
        check("/a", Ok(("a", Kind::File)));
        check("/a/b.html?x=/../y", Ok(("a/b.html", Kind::File)));
        check("/a/", Ok(("a", Kind::Directory)));
        check("//evil//x//", Ok(("evil/x", Kind::Directory)));
        check("/a%20b", Ok(("a b", Kind::File)));
        check("/%C3%a9", Ok(("é", Kind::File)));
        check("/a%252Fb", Ok(("a%2Fb", Kind::File)));
        check("/a%3fb", Ok(("a?b", Kind::File)));
        check("/a\\..\\b", Ok(("a\\..\\b", Kind::File)));
        check("/a+b", Ok(("a+b", Kind::File)));
        check("/a..b/c...", Ok(("a..b/c...", Kind::File)));
    }

    #[test]
    fn refused() {
        for path in [
            "/..",
            "/../x",
            "/a/../b",
            "/a/..",
            "/%2e%2e/x",
            "/.%2E/x",
            "/a/./b",
            "/.",
            "/a%2fb",
            "/a%2Fb",
            "/%00",
            "/a%00.html",
            "/%",
            "/%2",
            "/%zz",
            "/%+1",
            "/a%2",
        ] {
            check(path, Err(Status::BadRequest));
        }
    }

    #[test]
    fn hidden() {
        for path in [
            "/.git/config",
            "/%2egit/config",
            "/a/.env",
            "/...",
            "/.well-known/.x",
            "/a/.well-known/x",
            "/.well-knownx",
        ] {
            check(path, Err(Status::NotFound));
        }
        check("/.well-known/x", Ok((".well-known/x", Kind::File)));
    }

    #[test]
    fn urls() {
        for (path, expected) in [
            ("", ""),
            ("a/b c", "/a/b%20c"),
            ("\"<&'>", "/%22%3C%26%27%3E"),
            ("javascript:x", "/javascript%3Ax"),
        ] {
            let mut url = String::new();
            encode(path.as_bytes(), &mut url);
            assert_eq!(url, expected);
        }
    }

    proptest! {
        #[test]
        fn nothing_accepted_escapes(path in "(/|\\.|%2e|%2F|%5c|%00|%25|[a-z]|\\\\|\\?){0,24}") {
            let mut out = Vec::new();
            if decode(&path, &mut out).is_ok() {
                prop_assert!(!out.contains(&0));
                prop_assert!(!out.starts_with(b"/") && !out.ends_with(b"/"));
                for segment in out.split(|&byte| byte == b'/').filter(|_| !out.is_empty()) {
                    prop_assert!(!segment.is_empty() && segment != b"." && segment != b"..");
                }
            }
        }

        #[test]
        fn encoded_paths_are_decoded(names in prop::collection::vec("[^\0/.][^\0/]{0,8}", 0..5)) {
            let path = names.join("/");
            let mut url = String::new();
            encode(path.as_bytes(), &mut url);
            let mut out = Vec::new();
            prop_assert!(decode(&url, &mut out).is_ok());
            prop_assert_eq!(out, path.as_bytes());
        }

        #[test]
        fn any_text_is_survived(path: String) {
            let _ = decode(&path, &mut Vec::new());
        }
    }
}
