//! Raises the limit of open files to the number of connections.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to `needed`, if it is lower.
///
/// # Errors
///
/// [`io::ErrorKind::QuotaExceeded`] if the hard limit is lower, with the remedy in the message.
///
/// ```
/// uthread_load::raise_open_files(1)?;
/// assert!(uthread_load::raise_open_files(u64::MAX - 1).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn raise_open_files(needed: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(maximum) = limit.maximum.filter(|&maximum| maximum < needed) {
        let text = format!(
            "{needed} open files are needed, but the limit is {maximum}: use fewer connections, or raise the hard limit \
             (ulimit -Hn)"
        );
        return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    Ok(setrlimit(Resource::Nofile, raised)?)
}
