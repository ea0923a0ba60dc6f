//! Heads of responses that a proxy receives. As strict as for requests: a response whose end two
//! readers could see in different places is refused.

use super::request::{self, Body, HeaderSlots, Version};

/// One unambiguous response head.
#[derive(Debug)]
pub(crate) struct Reply<'h, 'b> {
    pub(crate) code: u16,
    pub(crate) reason: &'b str,
    /// The stated length; `None` if the body lasts to the end of the connection, or there is none.
    pub(crate) length: Option<Body>,
    pub(crate) headers: &'h [httparse::Header<'b>],
}

/// Parses a whole head, or returns `None` if it is refused.
pub(crate) fn parse<'h, 'b>(
    head: &'b [u8],
    slots: &'h mut HeaderSlots<'b>,
) -> Option<Reply<'h, 'b>> {
    let mut parsed = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    match config.parse_response_with_uninit_headers(&mut parsed, head, slots) {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        Ok(_) | Err(_) => return None,
    }
    let version = match parsed.version? {
        0 => Version::Http10,
        _ => Version::Http11,
    };
    let headers: &'h [httparse::Header<'b>] = parsed.headers;
    Some(Reply {
        code: parsed.code.filter(|&code| code >= 100)?,
        reason: parsed.reason?,
        length: request::body_length(headers, version).ok()?,
        headers,
    })
}

impl Reply<'_, '_> {
    /// Returns `true` for a status that has no body, whatever its fields say.
    pub(crate) fn is_bodiless(&self) -> bool {
        matches!(self.code, 100..=199 | 204 | 304)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, expected: Option<(u16, Option<Body>)>) {
        let mut slots = request::header_slots();
        let reply = parse(head.as_bytes(), &mut slots);
        let found = reply.map(|reply| (reply.code, reply.length));
        assert_eq!(found, expected, "{head:?}");
    }

    #[test]
    fn lengths() {
        for (fields, length) in [
            ("", Some(None)),
            ("Content-Length: 5\r\n", Some(Some(Body::Bytes(5)))),
            ("Transfer-Encoding: chunked\r\n", Some(Some(Body::Chunked))),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", None),
            ("Content-Length: 5, 5\r\n", None),
            ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", None),
            ("Transfer-Encoding: gzip\r\n", None),
            ("Transfer-Encoding: gzip, chunked\r\n", None),
        ] {
            let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
            check(&head, length.map(|length| (200, length)));
        }
    }

    #[test]
    fn heads() {
        for (head, expected) in [
            ("HTTP/1.1 204 \r\n\r\n", Some((204, None))),
            ("HTTP/1.0 404 Not Found\r\nX: y\r\n\r\n", Some((404, None))),
            (
                "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                None,
            ),
            ("HTTP/1.1 099 OK\r\n\r\n", None),
            ("HTTP/1.1 20 OK\r\n\r\n", None),
            ("HTTP/2.0 200 OK\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\nX : a\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n", None),
            ("<html>\r\n\r\n", None),
        ] {
            check(head, expected);
        }
    }
}
