//! Follows the links of an HTTP site, many at once, and prints the status of each page.
//!
//! ```sh
//! cargo run -p uthread-cli -- serve . --listen 127.0.0.1:8000
//! cargo run -p uthread --example crawler 127.0.0.1:8000 /docs/
//! ```

use std::collections::HashSet;
use std::env;
use std::time::Duration;

use uthread::io::{self, Read, Write};
use uthread::net::TcpStream;
use uthread::sync::{Mutex, Semaphore};
use uthread::thread::Scope;
use uthread::{scope, timeout};

/// Number of pages that are requested at the same time.
const REQUESTS_MAX: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(5);

struct Site {
    address: String,
    requests: Semaphore,
    known: Mutex<HashSet<String>>,
}

#[uthread::main]
fn main() {
    let mut arguments = env::args().skip(1);
    let site = Site {
        address: arguments.next().expect("usage: crawler ADDRESS [PATH]"),
        requests: Semaphore::new(REQUESTS_MAX),
        known: Mutex::default(),
    };
    let start = arguments.next().unwrap_or_else(|| "/".into());
    // Returns when all fibers in it have ended.
    scope(|scope| site.follow(scope, start));
    println!("{} pages", site.known.into_inner().unwrap().len());
}

impl Site {
    /// Requests a page that is not known yet, in a fiber of its own, and then those that it links
    /// to.
    fn follow<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, path: String) {
        if !self.known.lock().unwrap().insert(path.clone()) {
            return;
        }
        scope.spawn(move || match self.request(&path) {
            Ok((status, page)) => {
                println!("{status} {path}");
                links(&path, &page).for_each(|link| self.follow(scope, link));
            }
            Err(error) => println!("{path}: {error}"),
        });
    }

    /// Returns the status of the response and its body.
    fn request(&self, path: &str) -> io::Result<(String, String)> {
        let _permit = self.requests.acquire().unwrap();
        let response = timeout(TIMEOUT, || {
            let mut stream = TcpStream::connect(&self.address)?;
            let host = &self.address;
            write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
            let mut response = Vec::new();
            stream.read_to_end(&mut response)?;
            io::Result::Ok(response)
        })??;
        let response = String::from_utf8_lossy(&response);
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
        let status = head.split(' ').nth(1).unwrap_or("?");
        Ok((status.into(), body.into()))
    }
}

/// Returns the paths of links to the same site.
fn links<'a>(path: &'a str, page: &'a str) -> impl Iterator<Item = String> + 'a {
    let folder = &path[..=path.rfind('/').unwrap_or(0)];
    let targets = page.split("href=\"").skip(1);
    targets.filter_map(move |text| {
        let target = text.split(['"', '#', '?']).next()?;
        match target {
            "" => None,
            _ if target.contains(':') || target.starts_with("//") || target.contains("..") => None,
            _ if target.starts_with('/') => Some(target.to_owned()),
            _ => Some(format!("{folder}{target}")),
        }
    })
}
