//! The server to load, and what it is asked. Everything is checked here, before anything starts.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use uthread::net::TcpStream;

use crate::Error;
use crate::clock::End;
use crate::exchange::Exchange;
use crate::http::Accepted;

/// The server to load, and the requests to send.
///
/// ```
/// use uthread_load::Target;
///
/// let echo = Target::tcp("127.0.0.1:7000", 16)?;
/// assert_eq!(echo.to_string(), "tcp 127.0.0.1:7000, 16 bytes");
/// let page = Target::http("http://127.0.0.1:8080/index.html")?;
/// assert_eq!(page.to_string(), "http://127.0.0.1:8080/index.html");
/// assert!(Target::http("https://127.0.0.1/").is_err());
/// # Ok::<(), uthread_load::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Addresses of the server, at least one. The load goes to the first.
    addresses: Vec<SocketAddr>,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Echo {
        bytes: usize,
    },
    Http {
        host: String,
        path: String,
        ask: Ask,
        body: Option<Vec<u8>>,
    },
}

/// The request over HTTP, and the responses that it accepts. [`Ask::default`] is `GET` with a
/// response of status 200.
///
/// ```
/// use uthread_load::{Ask, Target};
///
/// let ask = Ask {
///     method: "POST".to_owned(),
///     headers: vec!["Content-Type: application/json".to_owned()],
///     body: b"{}".to_vec(),
///     statuses: vec![200, 201],
///     is_checked: false,
/// };
/// let target = Target::http("127.0.0.1:8080/items")?.asking(ask)?;
/// let wrong = Ask { headers: vec!["no colon".to_owned()], ..Ask::default() };
/// assert!(target.asking(wrong).is_err());
/// # Ok::<(), uthread_load::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Method: "GET".
    pub method: String,
    /// Further header fields: "Accept: text/html".
    pub headers: Vec<String>,
    /// Body of the request; with one, the request has a Content-Length.
    pub body: Vec<u8>,
    /// Statuses of a response that is no failure.
    pub statuses: Vec<u16>,
    /// `true` if the body of each response must equal that of the first.
    pub is_checked: bool,
}

impl Default for Ask {
    fn default() -> Ask {
        Ask {
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            statuses: vec![200],
            is_checked: true,
        }
    }
}

impl Ask {
    fn check(&self) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::Usage(text));
        let is_token = |text: &str| {
            let other =
                |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            !text.is_empty() && text.bytes().all(other)
        };
        if !is_token(&self.method) {
            return refuse(format!("{:?} is no method, such as POST", self.method));
        }
        for header in &self.headers {
            let (name, value) = header.split_once(':').unwrap_or_default();
            let is_value = value
                .bytes()
                .all(|byte| byte == b'\t' || byte >= b' ' && byte != 0x7f);
            if !is_token(name) || !is_value {
                return refuse(format!(
                    "{header:?} is no header field, such as \"Accept: text/html\""
                ));
            }
            let ours = ["host", "content-length", "transfer-encoding", "connection"];
            if ours.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
                return refuse(format!("{name} follows from the other options"));
            }
        }
        match self
            .statuses
            .iter()
            .find(|status| !(200..=599).contains(*status))
        {
            Some(status) => refuse(format!("{status} is no final status: 200 to 599")),
            None => Ok(()),
        }
    }

    fn request(&self, host: &str, path: &str) -> Vec<u8> {
        let mut head = format!(
            "{} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: uthread-load\r\n",
            self.method
        );
        for header in &self.headers {
            head += &format!("{header}\r\n");
        }
        if !self.body.is_empty() || ["POST", "PUT", "PATCH"].contains(&self.method.as_str()) {
            head += &format!("Content-Length: {}\r\n", self.body.len());
        }
        let mut request = (head + "\r\n").into_bytes();
        request.extend_from_slice(&self.body);
        request
    }

    fn accepted(&self) -> Accepted {
        Accepted {
            statuses: self.statuses.clone(),
            is_head: self.method == "HEAD",
        }
    }
}

/// A request whose response has to be learnt first.
pub(crate) struct Unknown {
    pub(crate) request: Vec<u8>,
    pub(crate) accepted: Accepted,
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.what {
            What::Echo { bytes } => write!(formatter, "tcp {}, {bytes} bytes", self.address()),
            What::Http { host, path, .. } => write!(formatter, "http://{host}{path}"),
        }
    }
}

impl Target {
    /// Sends messages of this size to the echo server at `HOST:PORT`. See the example of
    /// [`Target`].
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the address is invalid or cannot be resolved, and for messages of zero
    /// bytes.
    pub fn tcp(address: &str, message_bytes: usize) -> Result<Target, Error> {
        if message_bytes == 0 {
            return Err(Error::Usage("a message needs at least one byte".to_owned()));
        }
        Ok(Target {
            addresses: resolve(address)?,
            what: What::Echo {
                bytes: message_bytes,
            },
        })
    }

    /// Requests `HOST:PORT/PATH` over HTTP/1.1, with or without a leading `http://`. The port
    /// defaults to 80, the path to `/`. See the example of [`Target`].
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the address is invalid or cannot be resolved.
    pub fn http(url: &str) -> Result<Target, Error> {
        let rest = match url.split_once("://") {
            Some(("http", rest)) => rest,
            Some((scheme, _)) => {
                return Err(Error::Usage(format!(
                    "{scheme}:// is not supported, only http://"
                )));
            }
            None => url,
        };
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_text = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_text(rest) || rest.contains('#') {
            return Err(Error::Usage(format!(
                "{url:?} contains a byte that a request cannot contain: encode it, such as a blank as %20"
            )));
        }
        // The last colon of `[::1]` does not separate a port.
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.ends_with(']'));
        let addresses = if has_port {
            resolve(host)?
        } else {
            resolve(&format!("{host}:80"))?
        };
        let path = if path.is_empty() { "/" } else { path };
        Ok(Target {
            addresses,
            what: What::Http {
                host: host.to_owned(),
                path: path.to_owned(),
                ask: Ask::default(),
                body: None,
            },
        })
    }

    /// Sets the expected body of every HTTP response. By default it is that of the first response.
    ///
    /// ```
    /// use uthread_load::Target;
    ///
    /// let page = Target::http("127.0.0.1:8080/hello")?.expecting(b"hello\n".to_vec());
    /// # drop(page);
    /// # Ok::<(), uthread_load::Error>(())
    /// ```
    #[must_use]
    pub fn expecting(mut self, expected: Vec<u8>) -> Target {
        if let What::Http { body, .. } = &mut self.what {
            *body = Some(expected);
        }
        self
    }

    /// Sets the request, of a target over HTTP. See the example of [`Ask`].
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the method, a header field or a status is none.
    pub fn asking(mut self, asked: Ask) -> Result<Target, Error> {
        asked.check()?;
        if let What::Http { ask, .. } = &mut self.what {
            *ask = asked;
        }
        Ok(self)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Moves the first address that accepts a connection to the front: `localhost` is often `::1`
    /// and `127.0.0.1`, and a server listens on one of them. Without any, the first stays, and the
    /// connections of the load report why.
    pub(crate) fn choose_address(&mut self, timeout: Duration, end: &End) {
        if self.addresses.len() == 1 {
            return;
        }
        // An address that does not answer leaves time for the others.
        let time = timeout / self.addresses.len() as u32;
        let accepts = |address| TcpStream::connect_timeout(address, time).is_ok();
        let mut addresses = self.addresses.iter();
        let chosen = addresses.position(|address| end.is_stopped() || accepts(address));
        self.addresses.swap(0, chosen.unwrap_or(0));
    }

    /// Returns the exchange, if it is known without a first request.
    pub(crate) fn exchange(&self) -> Result<Exchange, Unknown> {
        let (request, accepted, ask, body) = match &self.what {
            What::Echo { bytes } => return Ok(Exchange::Echo { bytes: *bytes }),
            What::Http {
                host,
                path,
                ask,
                body,
            } => (ask.request(host, path), ask.accepted(), ask, body),
        };
        match body {
            None if ask.is_checked => Err(Unknown { request, accepted }),
            body => Ok(Exchange::Http {
                request,
                accepted,
                body: body.clone(),
            }),
        }
    }
}

fn resolve(address: &str) -> Result<Vec<SocketAddr>, Error> {
    let found = address
        .to_socket_addrs()
        .map_err(|error| Error::Usage(format!("{address:?} is not HOST:PORT: {error}")))?;
    let addresses: Vec<_> = found.collect();
    if addresses.is_empty() {
        return Err(Error::Usage(format!("{address:?} has no address")));
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Crowd, Plan};
    use std::net::TcpListener;
    use std::num::NonZeroUsize;

    #[test]
    fn a_url_has_a_host_a_port_and_a_path_or_their_defaults() {
        let check = |url: &str, address: &str, expected_host: &str, expected_path: &str| {
            let target = Target::http(url).unwrap();
            assert_eq!(target.address().to_string(), address, "{url}");
            let What::Http { host, path, .. } = target.what else {
                panic!("{url}");
            };
            assert_eq!(
                (host.as_str(), path.as_str()),
                (expected_host, expected_path),
                "{url}"
            );
        };
        check(
            "127.0.0.1:81/a/b?c=d",
            "127.0.0.1:81",
            "127.0.0.1:81",
            "/a/b?c=d",
        );
        check("http://127.0.0.1:81", "127.0.0.1:81", "127.0.0.1:81", "/");
        check("http://127.0.0.1/x", "127.0.0.1:80", "127.0.0.1", "/x");
        check("http://[::1]:81/", "[::1]:81", "[::1]:81", "/");
        check("[::1]/", "[::1]:80", "[::1]", "/");
    }

    #[test]
    fn the_load_goes_to_the_first_address_that_accepts() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let closed = |last| SocketAddr::new([127, 0, 0, last].into(), open.port());
        let check = |addresses: &[SocketAddr], expected| {
            let mut target = Target::tcp("127.0.0.1:1", 16).unwrap();
            target.addresses = addresses.to_vec();
            target.choose_address(Duration::from_secs(20), &End::new());
            assert_eq!(target.address(), expected, "{addresses:?}");
        };
        check(&[closed(2), open], open);
        check(&[closed(2), closed(3), open], open);
        check(&[open, closed(2)], open);
        check(&[closed(2), closed(3)], closed(2));
    }

    #[test]
    fn a_server_is_loaded_at_the_last_of_its_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // The client resets its connections at the end.
                let _ = std::io::copy(&mut stream.try_clone().unwrap(), &mut stream);
            }
        });
        let mut target = Target::tcp("127.0.0.1:1", 16).unwrap();
        let closed = SocketAddr::new([127, 0, 0, 2].into(), address.port());
        target.addresses = vec![closed, address];
        let plan = Plan {
            connections: NonZeroUsize::MIN,
            ..Plan::new(target)
        };
        assert_eq!(Crowd::connect(&plan).unwrap().connected(), 1);
    }

    #[test]
    fn invalid_addresses_are_refused() {
        for url in [
            "https://127.0.0.1/",
            "127.0.0.1:x/",
            "127.0.0.1/a b",
            "127.0.0.1/#x",
            "127.0.0.1/\r\nA:b",
            "/",
        ] {
            assert!(matches!(Target::http(url), Err(Error::Usage(_))), "{url}");
        }
        assert!(Target::tcp("127.0.0.1", 16).is_err());
        assert!(Target::tcp("127.0.0.1:1", 0).is_err());
    }

    #[test]
    fn a_request_has_its_method_fields_and_body() {
        let text = |ask: Ask| String::from_utf8(ask.request("h", "/p")).unwrap();
        let get = "GET /p HTTP/1.1\r\nHost: h\r\nUser-Agent: uthread-load\r\n\r\n";
        assert_eq!(text(Ask::default()), get);
        let post = Ask {
            method: "POST".to_owned(),
            headers: vec!["A: b".to_owned()],
            body: b"xyz".to_vec(),
            ..Ask::default()
        };
        let expected = "POST /p HTTP/1.1\r\nHost: h\r\nUser-Agent: uthread-load\r\nA: b\r\nContent-Length: 3\r\n\r\nxyz";
        assert_eq!(text(post), expected);
    }

    #[test]
    fn invalid_requests_are_refused() {
        let refused = |ask: Ask| {
            let target = Target::http("127.0.0.1:1/").unwrap();
            assert!(matches!(target.asking(ask), Err(Error::Usage(_))));
        };
        for method in ["", "GET /", "A\r\n"] {
            let method = method.to_owned();
            refused(Ask {
                method,
                ..Ask::default()
            });
        }
        for header in [
            "",
            "a",
            ": b",
            "a b: c",
            "a: b\r\nc: d",
            "Content-Length: 5",
            "host: x",
        ] {
            let headers = vec![header.to_owned()];
            refused(Ask {
                headers,
                ..Ask::default()
            });
        }
        for status in [0, 100, 600] {
            let statuses = vec![status];
            refused(Ask {
                statuses,
                ..Ask::default()
            });
        }
    }
}
