//! The `Range` field: selects bytes of a representation (RFC 9110, section 14).

/// Maximum number of ranges in a response. Readers of PDF and video request a few; for more, the
/// whole file is cheaper.
pub(crate) const RANGES_MAX: usize = 16;

/// A range of bytes inside the representation; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Span {
    pub(crate) fn last(self) -> u64 {
        self.offset + self.bytes - 1
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// The field does not apply: send everything.
    Whole,
    /// In the requested order; at least one.
    Spans(Vec<Span>),
    Unsatisfiable,
}

/// Returns the ranges that `field` selects from a representation of `total` bytes.
pub(crate) fn select(field: &[u8], total: u64) -> Selection {
    // Some clients send a range with every request to limit its size: a range of an empty file is
    // not an error.
    if total == 0 {
        return Selection::Whole;
    }
    let Some(list) = list_of_bytes(field) else {
        return Selection::Whole;
    };
    let mut spans = Vec::new();
    for (index, item) in list.split(|&byte| byte == b',').enumerate() {
        if index == RANGES_MAX {
            return Selection::Whole;
        }
        match span(item.trim_ascii(), total) {
            Ok(Some(span)) => spans.push(span),
            Ok(None) => {}
            Err(Malformed) => return Selection::Whole,
        }
    }
    if spans.is_empty() {
        return Selection::Unsatisfiable;
    }
    // Overlapping ranges turn a small request into a large response, and have no use.
    if overlap(&spans) {
        return Selection::Whole;
    }
    Selection::Spans(spans)
}

struct Malformed;

/// Returns the list in `bytes=LIST`.
fn list_of_bytes(field: &[u8]) -> Option<&[u8]> {
    let equals = field.iter().position(|&byte| byte == b'=')?;
    field[..equals]
        .eq_ignore_ascii_case(b"bytes")
        .then(|| &field[equals + 1..])
}

/// Parses one of `first-last`, `first-` and `-suffix`; returns `None` for a range outside the
/// representation.
fn span(item: &[u8], total: u64) -> Result<Option<Span>, Malformed> {
    let dash = item
        .iter()
        .position(|&byte| byte == b'-')
        .ok_or(Malformed)?;
    let (first, last) = (number(&item[..dash])?, number(&item[dash + 1..])?);
    let (first, last) = match (first, last) {
        (None, None) => return Err(Malformed),
        (None, Some(0)) => return Ok(None),
        (None, Some(suffix)) => (total.saturating_sub(suffix), total - 1),
        (Some(first), None) => (first, total - 1),
        (Some(first), Some(last)) if first > last => return Err(Malformed),
        (Some(first), Some(last)) => (first, last.min(total - 1)),
    };
    Ok((first < total).then(|| Span {
        offset: first,
        bytes: last - first + 1,
    }))
}

/// Parses a number of any length: any number beyond `u64` means "past the end".
fn number(digits: &[u8]) -> Result<Option<u64>, Malformed> {
    if digits.is_empty() {
        return Ok(None);
    }
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(Malformed);
    }
    let value = digits.iter().fold(0_u64, |value, digit| {
        value
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    });
    Ok(Some(value))
}

fn overlap(spans: &[Span]) -> bool {
    let mut sorted = spans.to_vec();
    sorted.sort_unstable_by_key(|span| span.offset);
    sorted
        .windows(2)
        .any(|pair| pair[0].last() >= pair[1].offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(field: &str, total: u64, expected: &str) {
        let found = match select(field.as_bytes(), total) {
            Selection::Whole => "whole".to_owned(),
            Selection::Unsatisfiable => "unsatisfiable".to_owned(),
            Selection::Spans(spans) => spans
                .iter()
                .map(|span| format!("{}-{}", span.offset, span.last()))
                .collect::<Vec<_>>()
                .join(" "),
        };
        assert_eq!(found, expected, "{field} of {total}");
    }

    #[test]
    fn selections() {
        check("bytes=0-499", 1000, "0-499");
        check("Bytes=0-0", 1000, "0-0");
        check("bytes=500-", 1000, "500-999");
        check("bytes=-1", 1000, "999-999");
        check("bytes=-5000", 1000, "0-999");
        check("bytes=990-5000", 1000, "990-999");
        check("bytes=0-99999999999999999999999", 1000, "0-999");
        check("bytes=0-0, 2-3 ,-1", 10, "0-0 2-3 9-9");
        check("bytes=8-9,0-1", 10, "8-9 0-1");
        check("bytes=0-1,5000-", 10, "0-1");
    }

    #[test]
    fn outside() {
        check("bytes=1000-", 1000, "unsatisfiable");
        check("bytes=-0", 1000, "unsatisfiable");
        check("bytes=99999999999999999999999-", 10, "unsatisfiable");
        check("bytes=0-", 0, "whole");
    }

    #[test]
    fn malformed_is_as_if_absent() {
        for field in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-2",
            "bytes=1-2,",
            "lines=0-1",
            "bytes=+1-2",
            "bytes =0-1",
            "bytes=0-1-2",
            "bytes=0x1-2",
        ] {
            check(field, 1000, "whole");
        }
    }

    #[test]
    fn abuse_gets_the_whole() {
        check("bytes=0-5,5-9", 10, "whole");
        check("bytes=0-,0-,0-", 10, "whole");
        let many: Vec<String> = (0..=RANGES_MAX)
            .map(|index| format!("{}-{}", index * 2, index * 2))
            .collect();
        check(&format!("bytes={}", many.join(",")), 1000, "whole");
    }

    proptest! {
        #[test]
        fn spans_lie_within_and_apart(field in "bytes=[-0-9, ]{0,40}", total in 0..2000_u64) {
            if let Selection::Spans(spans) = select(field.as_bytes(), total) {
                prop_assert!(!spans.is_empty() && spans.len() <= RANGES_MAX);
                prop_assert!(spans.iter().all(|span| span.bytes > 0 && span.last() < total));
                prop_assert!(spans.iter().map(|span| span.bytes).sum::<u64>() <= total);
            }
        }

        #[test]
        fn any_bytes_are_survived(field in prop::collection::vec(any::<u8>(), 0..60), total: u64) {
            select(&field, total);
        }
    }
}
