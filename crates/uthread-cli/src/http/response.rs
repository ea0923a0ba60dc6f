//! Response heads: the statuses of this server, and a writer for heads.

use std::io::Write;

use super::date;

/// Every status that the servers of this program send. The set is closed, so each has its phrase
/// and its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok = 200,
    PartialContent = 206,
    MovedPermanently = 301,
    NotModified = 304,
    BadRequest = 400,
    Forbidden = 403,
    NotFound = 404,
    MethodNotAllowed = 405,
    NotAcceptable = 406,
    ProxyAuthenticationRequired = 407,
    RequestTimeout = 408,
    LengthRequired = 411,
    PreconditionFailed = 412,
    ContentTooLarge = 413,
    UriTooLong = 414,
    RangeNotSatisfiable = 416,
    HeaderFieldsTooLarge = 431,
    InternalError = 500,
    NotImplemented = 501,
    BadGateway = 502,
    Unavailable = 503,
    GatewayTimeout = 504,
    VersionNotSupported = 505,
}

impl Status {
    /// Statuses with a page: those of `uthread serve`.
    pub(crate) const ERRORS: [Status; 16] = [
        Status::BadRequest,
        Status::Forbidden,
        Status::NotFound,
        Status::MethodNotAllowed,
        Status::NotAcceptable,
        Status::RequestTimeout,
        Status::LengthRequired,
        Status::PreconditionFailed,
        Status::ContentTooLarge,
        Status::UriTooLong,
        Status::RangeNotSatisfiable,
        Status::HeaderFieldsTooLarge,
        Status::InternalError,
        Status::NotImplemented,
        Status::Unavailable,
        Status::VersionNotSupported,
    ];

    pub(crate) fn code(self) -> u16 {
        self as u16
    }

    pub(crate) fn phrase(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::PartialContent => "Partial Content",
            Status::MovedPermanently => "Moved Permanently",
            Status::NotModified => "Not Modified",
            Status::BadRequest => "Bad Request",
            Status::Forbidden => "Forbidden",
            Status::NotFound => "Not Found",
            Status::MethodNotAllowed => "Method Not Allowed",
            Status::NotAcceptable => "Not Acceptable",
            Status::ProxyAuthenticationRequired => "Proxy Authentication Required",
            Status::RequestTimeout => "Request Timeout",
            Status::LengthRequired => "Length Required",
            Status::PreconditionFailed => "Precondition Failed",
            Status::ContentTooLarge => "Content Too Large",
            Status::UriTooLong => "URI Too Long",
            Status::RangeNotSatisfiable => "Range Not Satisfiable",
            Status::HeaderFieldsTooLarge => "Request Header Fields Too Large",
            Status::InternalError => "Internal Server Error",
            Status::NotImplemented => "Not Implemented",
            Status::BadGateway => "Bad Gateway",
            Status::Unavailable => "Service Unavailable",
            Status::GatewayTimeout => "Gateway Timeout",
            Status::VersionNotSupported => "HTTP Version Not Supported",
        }
    }
}

/// The state of the connection after the response, and how the head announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// HTTP/1.1 keeps the connection open by default.
    Open,
    /// HTTP/1.0 keeps the connection open only with a header field.
    OpenAsAsked,
    Close,
}

/// Fields of every response: the server's name, and restrictions for browsers.
const COMMON_FIELDS: &[u8] = b"\r\nServer: uthread\
    \r\nX-Content-Type-Options: nosniff\
    \r\nReferrer-Policy: strict-origin-when-cross-origin\
    \r\nX-Frame-Options: SAMEORIGIN\r\n";

/// Writes one head, field by field, at the end of a buffer.
pub(crate) struct HeadWriter<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> HeadWriter<'o> {
    pub(crate) fn begin(out: &'o mut Vec<u8>, status: Status) -> HeadWriter<'o> {
        out.extend_from_slice(b"HTTP/1.1 ");
        push_decimal(out, u64::from(status.code()));
        out.push(b' ');
        out.extend_from_slice(status.phrase().as_bytes());
        out.extend_from_slice(b"\r\nDate: ");
        out.extend_from_slice(&date::now());
        out.extend_from_slice(COMMON_FIELDS);
        HeadWriter { out }
    }

    pub(crate) fn text(&mut self, name: &str, value: impl AsRef<[u8]>) -> &mut Self {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        self.out.extend_from_slice(value.as_ref());
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Writes a value of two parts, without an intermediate buffer.
    pub(crate) fn text_pair(&mut self, name: &str, first: &str, second: &str) -> &mut Self {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        self.out.extend_from_slice(first.as_bytes());
        self.out.extend_from_slice(second.as_bytes());
        self.out.extend_from_slice(b"\r\n");
        self
    }

    pub(crate) fn number(&mut self, name: &str, value: u64) -> &mut Self {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        push_decimal(self.out, value);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    pub(crate) fn formatted(&mut self, name: &str, value: std::fmt::Arguments<'_>) -> &mut Self {
        write!(self.out, "{name}: {value}\r\n").expect("a vector takes every write");
        self
    }

    pub(crate) fn end(&mut self, persistence: Persistence) {
        self.out.extend_from_slice(match persistence {
            Persistence::Open => b"\r\n",
            Persistence::OpenAsAsked => b"Connection: keep-alive\r\n\r\n",
            Persistence::Close => b"Connection: close\r\n\r\n",
        });
    }
}

/// Appends `value` in decimal. It is on the path of every response, where `write!` would cost more
/// than the rest of the head.
pub(crate) fn push_decimal(out: &mut Vec<u8>, mut value: u64) {
    // u64::MAX has 20 digits.
    let mut digits = [0_u8; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals() {
        for value in [0, 7, 10, 1024, 999_999, u64::MAX] {
            let mut out = Vec::new();
            push_decimal(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }

    #[test]
    fn a_head_says_how_the_connection_goes_on() {
        for (persistence, expected) in [
            (Persistence::Open, "Content-Length: 5\r\n\r\n"),
            (
                Persistence::OpenAsAsked,
                "Content-Length: 5\r\nConnection: keep-alive\r\n\r\n",
            ),
            (
                Persistence::Close,
                "Content-Length: 5\r\nConnection: close\r\n\r\n",
            ),
        ] {
            let mut out = Vec::new();
            HeadWriter::begin(&mut out, Status::NotFound)
                .number("Content-Length", 5)
                .end(persistence);
            let head = String::from_utf8(out).unwrap();
            assert!(
                head.starts_with("HTTP/1.1 404 Not Found\r\nDate: "),
                "{head}"
            );
            assert!(head.ends_with(expected), "{head}");
        }
    }
}
