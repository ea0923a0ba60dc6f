//! The value that each request reads.

use std::io;

use crate::eventfd::ONE;

/// Checks that a request has read the expected value.
pub(crate) fn check(value: [u8; 8]) -> io::Result<()> {
    if value == ONE {
        Ok(())
    } else {
        Err(io::Error::other(format!("read {value:?}")))
    }
}
