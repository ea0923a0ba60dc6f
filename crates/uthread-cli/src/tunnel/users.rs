//! Users of the proxy: a file of names and bcrypt hashes, and the check of a client's credentials
//! (RFC 9110, section 11.7; RFC 7617).
//!
//! A hash takes milliseconds of a CPU on purpose. So the checks run beside the workers, a few at a
//! time, and a password that was right is known again by its digest, one for each user. A wrong
//! password always takes the time of a hash, and so does an unknown user.

use std::collections::HashMap;
use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::sync::OnceLock;
use uthread::blocking;
use uthread::sync::Semaphore;

use anyhow::{Context, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bcrypt::HashParts;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Highest cost of a hash: it takes about a second. Each further one doubles that.
const COST_MAX: u32 = 14;

const REMEDY: &str = "make the line with `htpasswd -nB NAME`";

#[derive(Debug)]
pub(crate) struct Users {
    users: HashMap<String, User>,
    /// The hash that is compared in place of that of an unknown user.
    decoy: String,
    /// One check for each CPU: more would only take turns.
    checks: Semaphore,
}

#[derive(Debug)]
struct User {
    hash: String,
    /// The digest of a password that has been found right.
    verified: OnceLock<[u8; 32]>,
}

impl Users {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Users> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read the users in {}", path.display()))?;
        Users::parse(&text).map_err(|problem| anyhow::anyhow!("{}:{problem:#}", path.display()))
    }

    /// Parses lines of `NAME:HASH`. A problem begins with the number of its line.
    fn parse(text: &str) -> anyhow::Result<Users> {
        let mut users = HashMap::new();
        for (number, line) in (1_u32..).zip(text.lines()) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, hash) = parse_line(line).context(number)?;
            let user = User {
                hash: hash.to_owned(),
                verified: OnceLock::new(),
            };
            if users.insert(name.to_owned(), user).is_some() {
                bail!("{number}: the user {name:?} is there twice: remove one of the lines");
            }
        }
        let Some(user) = users.values().next() else {
            bail!(" there are no users: {REMEDY}");
        };
        Ok(Users {
            decoy: user.hash.clone(),
            users,
            checks: Semaphore::new(std::thread::available_parallelism().map_or(1, NonZero::get)),
        })
    }

    /// Returns the name of the user that the value of `Proxy-Authorization` is right for. Waits for
    /// a turn and for the hash.
    pub(crate) fn check(&self, authorization: &[u8]) -> Option<&str> {
        let credentials = decode(authorization)?;
        let (name, password) = credentials.split_once(':')?;
        let digest: [u8; 32] = Sha256::digest(password).into();
        let found = self.users.get_key_value(name);
        if let Some((name, user)) = found
            && let Some(verified) = user.verified.get()
            && verified.ct_eq(&digest).into()
        {
            return Some(name);
        }
        let hash = found.map_or(&self.decoy, |(_, user)| &user.hash);
        let turn = self.checks.acquire();
        // The hash has been parsed, so that there is no error.
        let is_right = blocking(|| bcrypt::verify(password, hash).unwrap_or(false));
        drop(turn);
        let (name, user) = found.filter(|_| is_right)?;
        // Of several passwords with the same hash, which are long ones, the first stays.
        let _ = user.verified.set(digest);
        Some(name)
    }
}

/// Decodes the value `Basic BASE64`.
fn decode(authorization: &[u8]) -> Option<String> {
    let (scheme, encoded) = authorization.split_at_checked("Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let decoded = BASE64_STANDARD.decode(encoded.trim_ascii()).ok()?;
    String::from_utf8(decoded).ok()
}

fn parse_line(line: &str) -> anyhow::Result<(&str, &str)> {
    let Some((name, hash)) = line.split_once(':') else {
        bail!("the line is not NAME:HASH: {REMEDY}");
    };
    // The log separates its fields by spaces.
    if name.is_empty()
        || name.contains(|letter: char| letter.is_whitespace() || letter.is_control())
    {
        bail!("the name {name:?} is empty or has a space: choose another");
    }
    let Ok(parts) = hash.trim_end().parse::<HashParts>() else {
        bail!("the hash of {name:?} is not bcrypt, as in $2y$..: {REMEDY}");
    };
    if !(4..=COST_MAX).contains(&parts.get_cost()) {
        bail!("the cost of the hash of {name:?} is not 4 to {COST_MAX}: {REMEDY}");
    }
    Ok((name, hash.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of "secret".
    const HASH: &str = "$2y$04$0nPVL9NnDoTTZH/ctdMUqOOJlmMlj/z2mpVI.6Fggee.y6fKWoLKy";

    fn encoded(text: &str) -> Vec<u8> {
        format!("Basic {}", BASE64_STANDARD.encode(text)).into_bytes()
    }

    #[test]
    fn credentials() {
        let users = Users::parse(&format!("# two\n\nann:{HASH}\nbob:{HASH} \r\n")).unwrap();
        for (text, expected) in [
            ("ann:secret", Some("ann")),
            ("bob:secret", Some("bob")),
            ("ann:secret", Some("ann")),
            ("ann:Secret", None),
            ("ann:", None),
            ("ann", None),
            ("Ann:secret", None),
            ("eve:secret", None),
            (":secret", None),
            ("", None),
        ] {
            assert_eq!(users.check(&encoded(text)), expected, "{text}");
        }
        let right = String::from_utf8(encoded("ann:secret")).unwrap();
        let bare = right.trim_start_matches("Basic ");
        for (value, expected) in [
            (format!("bAsIc   {bare}"), Some("ann")),
            (format!("Bearer {bare}"), None),
            (format!("Basic{bare}"), None),
            (format!("{right}, {right}"), None),
            (right.trim_end_matches('=').to_owned() + "!", None),
            ("Basic".to_owned(), None),
            ("Basic /////w==".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(users.check(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn only_a_right_password_is_remembered() {
        let users = Users::parse(&format!("ann:{HASH}")).unwrap();
        for (text, is_known) in [
            ("ann:wrong", false),
            ("eve:secret", false),
            ("ann:secret", true),
            ("ann:wrong", true),
        ] {
            users.check(&encoded(text));
            assert_eq!(
                users.users["ann"].verified.get().is_some(),
                is_known,
                "{text}"
            );
        }
    }

    #[test]
    fn files_that_are_refused() {
        let strong = HASH.replace("$04$", "$15$");
        for (text, problem) in [
            (String::new(), " there are no users: make"),
            ("# none\n".to_owned(), " there are no users"),
            ("ann\n".to_owned(), "1: the line is not NAME:HASH"),
            (
                format!("ann:{HASH}\n\nann:{HASH}"),
                "3: the user \"ann\" is there twice",
            ),
            (format!(":{HASH}"), "1: the name \"\" is empty"),
            (
                format!("a b:{HASH}"),
                "1: the name \"a b\" is empty or has a space",
            ),
            (
                "ann:secret".to_owned(),
                "1: the hash of \"ann\" is not bcrypt",
            ),
            (
                "ann:$apr1$x$y".to_owned(),
                "1: the hash of \"ann\" is not bcrypt",
            ),
            (
                format!("ann:{HASH}x"),
                "1: the hash of \"ann\" is not bcrypt",
            ),
            (
                format!("ann:{strong}"),
                "1: the cost of the hash of \"ann\" is not 4 to 14",
            ),
        ] {
            let error = format!("{:#}", Users::parse(&text).unwrap_err());
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
