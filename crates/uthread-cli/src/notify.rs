//! Reports the state of a server to the service manager, by the protocol of `sd_notify(3)`.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use uthread::net::UnixDatagram;
use uthread::net::unix::SocketAddr;

use anyhow::Context;

use crate::output::tell;

/// The service manager, if one waits for reports.
#[derive(Debug, Default)]
pub(crate) struct Manager(Option<UnixDatagram>);

impl Manager {
    /// Connects to the manager that `NOTIFY_SOCKET` names.
    pub(crate) fn from_env() -> anyhow::Result<Manager> {
        let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(Manager(None));
        };
        let socket = connect(&name).with_context(|| {
            let name = name.display();
            format!("cannot notify the service manager at NOTIFY_SOCKET={name}; unset it to start without")
        })?;
        Ok(Manager(Some(socket)))
    }

    /// Reports that the server listens.
    pub(crate) fn ready(&self) {
        self.send("READY=1");
    }

    /// Reports that the server accepts no more connections.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, state: &str) {
        if let Some(socket) = &self.0
            && let Err(error) = socket.send(state.as_bytes())
        {
            // The server works without.
            tell(format_args!(
                "cannot send {state} to the service manager: {error}"
            ));
        }
    }
}

fn connect(name: &OsString) -> io::Result<UnixDatagram> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(name)?,
        _ => {
            let why = "it begins with neither / nor @";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    Ok(socket)
}
