//! The course of a server: it starts, accepts, drains, cuts what lasts too long, and reports.

use std::sync::Arc;
use std::time::Duration;
use uthread::Runtime;

use crate::address::Address;
use crate::args::ServerArgs;
use crate::exit::Exit;
use crate::listen::{Listening, listen};
use crate::output::tell;
use crate::runtime;
use crate::stop::{self, Stop};
use crate::stream::{Client, Stream};

/// State shared by all connections of a server. The defaults are for one whose connections end with
/// the program.
pub(crate) trait Server: Send + Sync + 'static {
    /// Starts the fiber of a new connection. Never waits, because the next connection is already
    /// there.
    fn welcome(self: &Arc<Self>, stream: Stream, client: Client);

    /// Lets connections end from now on.
    fn drain(self: &Arc<Self>) {}

    /// Returns the number of open connections.
    fn open_count(&self) -> usize {
        0
    }

    /// Ends all connections, and returns how many were not through.
    fn cut(&self) -> usize {
        0
    }

    /// Writes the last lines of the log, and reports what was served.
    fn finish(&self, _cut: usize) {}
}

/// What a server needs before its first connection.
pub(crate) struct Setup {
    pub(crate) runtime: Runtime,
    pub(crate) listening: Listening,
    stop: Stop,
}

impl Setup {
    pub(crate) fn new(addr: &Address, args: &ServerArgs, counted: bool) -> anyhow::Result<Setup> {
        Ok(Setup {
            runtime: runtime::start(args, counted)?,
            listening: listen(addr, args)?,
            stop: Stop::watch()?,
        })
    }

    /// Returns what the startup line says in parentheses.
    pub(crate) fn summary(&self) -> String {
        format!(
            "workers {}, driver {}{}",
            self.runtime.workers(),
            self.runtime.driver().driver(),
            self.listening.origin()
        )
    }
}

/// Runs a server until a signal arrives and its connections have ended. After `grace`, or at another
/// signal, the others are cut.
pub(crate) fn run<S: Server>(started: anyhow::Result<(Setup, Arc<S>)>, grace: Duration) -> Exit {
    let (setup, server) = match started {
        Ok(started) => started,
        Err(error) => {
            tell(format_args!("{error:#}"));
            return Exit::CouldNotStart;
        }
    };
    setup.stop.ready();
    let cut = setup.runtime.run(|| {
        let hurry = setup.stop.accept_until_signal(
            setup.listening,
            || server.drain(),
            |stream, client| server.welcome(stream, client),
        );
        stop::wait(|| server.open_count() == 0, || server.cut(), grace, &hurry)
    });
    server.finish(cut);
    match cut {
        0 => Exit::Done,
        _ => Exit::ConnectionsCut,
    }
}
