//! The questions this program answers, one per file.

pub(crate) mod compute;
mod contest;
pub(crate) mod disk;
pub(crate) mod drivers;
pub(crate) mod echo;
pub(crate) mod http;
pub(crate) mod idle;
pub(crate) mod latency;
pub(crate) mod load_check;
pub(crate) mod micro;
pub(crate) mod paths;
mod printed;
pub(crate) mod report;
pub(crate) mod requests;
pub(crate) mod slow;
pub(crate) mod threads;
pub(crate) mod verify;

use anyhow::{Result, ensure};

use crate::client::Connection;
use crate::files::Size;
use crate::servers::Server;

/// Before a file is requested a million times: is it served at all, and whole?
fn check_served(server: &Server, size: &Size) -> Result<()> {
    let head = Connection::open(server.address())?.get(&format!("/{}", size.name), |_| Ok(()))?;
    ensure!(
        head.status == 200,
        "{} was answered with status {}",
        size.name,
        head.status
    );
    ensure!(
        head.body_bytes == size.bytes,
        "{} came with {} bytes",
        size.name,
        head.body_bytes
    );
    Ok(())
}
