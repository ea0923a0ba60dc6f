//! Conditional requests: check the state that the client knows against the current one (RFC 9110,
//! section 13).

use super::date;
use super::request::{Method, Request};

/// Identifies one state of a representation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validators<'a> {
    /// With its quotes; always strong.
    pub(crate) etag: &'a [u8],
    pub(crate) modified_s: i64,
    /// When the file was last changed in any way. No process can set this time.
    pub(crate) changed_s: i64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Proceed,
    NotModified,
    Failed,
}

/// Evaluates the preconditions in the order of section 13.2.2: tags before dates, "must match"
/// before "must not".
pub(crate) fn weigh(request: &Request<'_, '_>, current: &Validators<'_>) -> Verdict {
    debug_assert!(
        request.method != Method::Other,
        "only GET and HEAD have a 304"
    );
    let holds_match = match any_tag(request, "if-match", |tag| tag.strongly(current.etag)) {
        Some(matched) => matched,
        None => date_field(request, "if-unmodified-since")
            .is_none_or(|since_s| current.modified_s <= since_s),
    };
    if !holds_match {
        return Verdict::Failed;
    }
    let has_it = match any_tag(request, "if-none-match", |tag| tag.weakly(current.etag)) {
        Some(matched) => matched,
        None => date_field(request, "if-modified-since")
            .is_some_and(|since_s| current.modified_s <= since_s),
    };
    if has_it {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

/// Returns true if a `Range` applies: without `If-Range` always, otherwise only if the client has a
/// part of this very state.
pub(crate) fn range_holds(request: &Request<'_, '_>, current: &Validators<'_>, now_s: i64) -> bool {
    if request.values("if-range").next().is_none() {
        return true;
    }
    let Some(value) = request.single("if-range") else {
        return false;
    };
    if let Some((tag, _)) = Tag::read(value) {
        return tag.strongly(current.etag);
    }
    // A date identifies a state only after its second is over: until then, the file may change
    // again within it. A file that was changed later may be another one that was given this date.
    let is_strong = current.modified_s < now_s && current.changed_s <= current.modified_s;
    is_strong && date::parse(value) == Some(current.modified_s)
}

/// Returns true if any tag in the field satisfies `same`; `None` if the field is absent.
fn any_tag(
    request: &Request<'_, '_>,
    field: &str,
    same: impl Fn(&Tag<'_>) -> bool,
) -> Option<bool> {
    let mut present = false;
    for value in request.values(field) {
        present = true;
        if value == b"*" {
            return Some(true);
        }
        let mut rest = value;
        while let Some((tag, after)) = Tag::read(rest) {
            if same(&tag) {
                return Some(true);
            }
            rest = after;
        }
    }
    present.then_some(false)
}

/// Parses a date field; an invalid date is no condition.
fn date_field(request: &Request<'_, '_>, field: &str) -> Option<i64> {
    date::parse(request.single(field)?)
}

struct Tag<'a> {
    weak: bool,
    /// With its quotes.
    opaque: &'a [u8],
}

impl<'a> Tag<'a> {
    /// Parses the first tag of a list, and returns the rest of the list.
    fn read(list: &'a [u8]) -> Option<(Tag<'a>, &'a [u8])> {
        let start = list.iter().position(|byte| !b" \t,".contains(byte))?;
        let list = &list[start..];
        let (weak, quoted) = match list.strip_prefix(b"W/") {
            Some(quoted) => (true, quoted),
            None => (false, list),
        };
        let inner = quoted.strip_prefix(b"\"")?;
        let end = inner.iter().position(|&byte| byte == b'"')? + 2;
        let opaque = &quoted[..end];
        Some((Tag { weak, opaque }, &quoted[end..]))
    }

    fn strongly(&self, etag: &[u8]) -> bool {
        !self.weak && self.opaque == etag
    }

    fn weakly(&self, etag: &[u8]) -> bool {
        self.opaque == etag
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request;

    /// Sun, 06 Nov 1994 08:49:37 GMT
    const MODIFIED_S: i64 = 784_111_777;
    const CURRENT: Validators<'_> = Validators {
        etag: b"\"now\"",
        modified_s: MODIFIED_S,
        changed_s: MODIFIED_S,
    };
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn with_request<T>(fields: &str, run: impl FnOnce(&Request<'_, '_>) -> T) -> T {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut slots = request::header_slots();
        run(&request::parse(head.as_bytes(), &mut slots).expect(fields))
    }

    fn check(fields: &str, expected: Verdict) {
        let found = with_request(fields, |request| weigh(request, &CURRENT));
        assert_eq!(found, expected, "{fields}");
    }

    fn check_range(fields: &str, expected: bool) {
        let found = with_request(fields, |request| {
            range_holds(request, &CURRENT, MODIFIED_S + 1)
        });
        assert_eq!(found, expected, "{fields}");
    }

    #[test]
    fn tags() {
        check("", Verdict::Proceed);
        check("If-None-Match: \"now\"\r\n", Verdict::NotModified);
        check("If-None-Match: W/\"now\"\r\n", Verdict::NotModified);
        check("If-None-Match: *\r\n", Verdict::NotModified);
        check("If-None-Match: \"a,b\", \"now\"\r\n", Verdict::NotModified);
        check(
            "If-None-Match: \"a\"\r\nIf-None-Match: \"now\"\r\n",
            Verdict::NotModified,
        );
        check("If-None-Match: \"then\"\r\n", Verdict::Proceed);
        check("If-None-Match: now\r\n", Verdict::Proceed);
        check("If-None-Match: \"now\r\n", Verdict::Proceed);
        check("If-Match: \"now\"\r\n", Verdict::Proceed);
        check("If-Match: *\r\n", Verdict::Proceed);
        check("If-Match: W/\"now\"\r\n", Verdict::Failed);
        check("If-Match: \"then\"\r\n", Verdict::Failed);
    }

    #[test]
    fn dates() {
        check(
            &format!("If-Modified-Since: {BEFORE}\r\n"),
            Verdict::Proceed,
        );
        check(
            &format!("If-Modified-Since: {SAME}\r\n"),
            Verdict::NotModified,
        );
        check(
            &format!("If-Modified-Since: {AFTER}\r\n"),
            Verdict::NotModified,
        );
        check("If-Modified-Since: once\r\n", Verdict::Proceed);
        check(
            &format!("If-Unmodified-Since: {BEFORE}\r\n"),
            Verdict::Failed,
        );
        check(
            &format!("If-Unmodified-Since: {SAME}\r\n"),
            Verdict::Proceed,
        );
    }

    #[test]
    fn a_tag_outweighs_a_date() {
        check(
            &format!("If-None-Match: \"then\"\r\nIf-Modified-Since: {AFTER}\r\n"),
            Verdict::Proceed,
        );
        check(
            &format!("If-Match: \"now\"\r\nIf-Unmodified-Since: {BEFORE}\r\n"),
            Verdict::Proceed,
        );
    }

    #[test]
    fn ranges_continue_only_the_same_state() {
        check_range("", true);
        check_range("If-Range: \"now\"\r\n", true);
        check_range("If-Range: W/\"now\"\r\n", false);
        check_range("If-Range: \"then\"\r\n", false);
        check_range(&format!("If-Range: {SAME}\r\n"), true);
        check_range(&format!("If-Range: {BEFORE}\r\n"), false);
        check_range(&format!("If-Range: {AFTER}\r\n"), false);
        check_range("If-Range: \"now\"\r\nIf-Range: \"now\"\r\n", false);
    }

    #[test]
    fn a_date_of_this_very_second_names_no_state() {
        let fields = format!("If-Range: {SAME}\r\n");
        let holds = with_request(&fields, |request| {
            range_holds(request, &CURRENT, MODIFIED_S)
        });
        assert!(!holds);
    }

    #[test]
    fn a_date_before_the_last_change_names_no_state() {
        let copied = Validators {
            changed_s: MODIFIED_S + 1,
            ..CURRENT
        };
        for (field, expected) in [(SAME, false), ("\"now\"", true)] {
            let holds = with_request(&format!("If-Range: {field}\r\n"), |request| {
                range_holds(request, &copied, MODIFIED_S + 2)
            });
            assert_eq!(holds, expected, "{field}");
        }
    }
}
