//! Reasons why a client gets no tunnel, as it is told: a status, a `Proxy-Status` (RFC 9209) and a
//! sentence.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;

use crate::http::date;
use crate::http::response::Status;
use crate::stream::Stream;

const CHALLENGE: &str = "Proxy-Authenticate: Basic realm=\"uthread\", charset=\"UTF-8\"\r\n";

#[derive(Debug)]
pub(crate) enum Failure {
    /// The handshake of TLS, so that the client cannot be told.
    Handshake(io::Error),
    /// The request is malformed, too large or late.
    Request(Status),
    /// The request names no host that the proxy could connect to.
    NoProxyRequest,
    /// The credentials of a user are missing or wrong.
    NoUser,
    NotAllowed,
    TooMany,
    /// The target's breaker is open.
    Open,
    NoAddress(String),
    LookupTimedOut,
    Refused(SocketAddr, io::Error),
    TimedOut(SocketAddr),
    /// The origin disconnected without a response.
    NoReply(io::Error),
    /// The response is malformed, too large or ambiguous.
    BadReply,
    ReplyTimedOut,
}

impl Failure {
    pub(crate) fn status(&self) -> Status {
        match self {
            Failure::Request(status) => *status,
            Failure::Handshake(_) | Failure::NoProxyRequest => Status::BadRequest,
            Failure::NoUser => Status::ProxyAuthenticationRequired,
            Failure::NotAllowed => Status::Forbidden,
            Failure::TooMany | Failure::Open => Status::Unavailable,
            Failure::Refused(_, error) if is_shortage(error) => Status::Unavailable,
            Failure::NoAddress(_)
            | Failure::Refused(..)
            | Failure::NoReply(_)
            | Failure::BadReply => Status::BadGateway,
            Failure::LookupTimedOut | Failure::TimedOut(_) | Failure::ReplyTimedOut => {
                Status::GatewayTimeout
            }
        }
    }

    /// Returns the error type of RFC 9209, section 2.3.
    fn proxy_error(&self) -> &'static str {
        match self {
            Failure::Handshake(_) => "tls_protocol_error",
            Failure::Request(_) | Failure::NoProxyRequest => "http_request_error",
            Failure::NoUser | Failure::NotAllowed => "http_request_denied",
            Failure::TooMany => "connection_limit_reached",
            Failure::Open => "destination_unavailable",
            Failure::NoAddress(_) => "dns_error",
            Failure::LookupTimedOut => "dns_timeout",
            Failure::Refused(_, error) if is_shortage(error) => "proxy_internal_error",
            Failure::Refused(_, error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                "connection_refused"
            }
            Failure::Refused(..) => "destination_ip_unroutable",
            Failure::TimedOut(_) => "connection_timeout",
            Failure::NoReply(_) => "connection_terminated",
            Failure::BadReply => "http_protocol_error",
            Failure::ReplyTimedOut => "http_response_timeout",
        }
    }

    /// Responds to the client, and waits for a bounded time until it has received the response. One
    /// to HEAD has no body.
    pub(crate) fn send(&self, client: &Stream, is_head: bool) -> io::Result<()> {
        let status = self.status();
        let challenge = match self {
            Failure::NoUser => CHALLENGE,
            _ => "",
        };
        let body = format!("{self}\n");
        let response = format!(
            "HTTP/1.1 {} {}\r\nDate: {}\r\nServer: uthread\r\n{challenge}Proxy-Status: uthread; error={}\r\n\
             Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
            status.code(),
            status.phrase(),
            String::from_utf8_lossy(&date::now()),
            self.proxy_error(),
            body.len(),
            if is_head { "" } else { &body },
        );
        client.refuse(response.as_bytes())
    }
}

/// Returns `true` if this program has run out of descriptors, ports or memory.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    let shortages = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::NOMEM,
        Errno::ADDRNOTAVAIL,
    ];
    Errno::from_io_error(error).is_some_and(|errno| shortages.contains(&errno))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Handshake(error) => write!(f, "the TLS handshake failed: {error}"),
            Failure::Request(status) => f.write_str(status.phrase()),
            Failure::NoProxyRequest => {
                f.write_str("this is a proxy, for CONNECT and for http:// URLs")
            }
            Failure::NoUser => f.write_str("the proxy needs the name and password of a user"),
            Failure::NotAllowed => f.write_str("the target is not allowed"),
            Failure::TooMany => f.write_str("too many connections"),
            Failure::Open => {
                f.write_str("the target has failed several times, and is not tried for a while")
            }
            Failure::NoAddress(error) => write!(f, "the name cannot be resolved: {error}"),
            Failure::LookupTimedOut => f.write_str("resolving the name timed out"),
            Failure::Refused(address, error) => write!(f, "cannot connect to {address}: {error}"),
            Failure::TimedOut(address) => write!(f, "connecting to {address} timed out"),
            Failure::NoReply(error) => write!(f, "the server sent no response: {error}"),
            Failure::BadReply => f.write_str("the server sent a malformed response"),
            Failure::ReplyTimedOut => f.write_str("the response of the server timed out"),
        }
    }
}
