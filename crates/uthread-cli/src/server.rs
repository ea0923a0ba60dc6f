//! The course of a server: it starts, accepts, drains, cuts what lasts too long, and reports.

use std::sync::Arc;
use std::time::Duration;

use uthread::Runtime;

use crate::exit::Exit;
use crate::listen::Listening;
use crate::output::tell;
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

/// Where a server runs.
pub(crate) struct Place {
    /// The runtime, as the startup line describes it.
    pub(crate) runtime: String,
    pub(crate) stop: Stop,
}

/// Runs a server on fibers of this runtime, until signals stop it.
pub(crate) fn run(
    runtime: anyhow::Result<Runtime>,
    serve: impl FnOnce(Place) -> Exit + Send,
) -> Exit {
    match runtime.and_then(|runtime| Ok((runtime, Stop::watch()?))) {
        Ok((runtime, stop)) => {
            let (workers, driver) = (runtime.workers(), runtime.driver().driver());
            let place = Place {
                runtime: format!("workers {workers}, driver {driver}"),
                stop,
            };
            runtime.run(|| serve(place))
        }
        Err(error) => could_not_start(&error),
    }
}

/// Runs a server on the caller's runtime until it is stopped and its connections have ended. After `grace`, or
/// if it is stopped again, the others are cut.
pub(crate) fn serve<S: Server>(
    started: anyhow::Result<(Listening, Arc<S>)>,
    stop: Stop,
    grace: Duration,
) -> Exit {
    let (listening, server) = match started {
        Ok(started) => started,
        Err(error) => return could_not_start(&error),
    };
    stop.ready();
    let hurry = stop.accept_until_stop(
        listening,
        || server.drain(),
        |stream, client| server.welcome(stream, client),
    );
    let cut = stop::wait(|| server.open_count() == 0, || server.cut(), grace, &hurry);
    server.finish(cut);
    match cut {
        0 => Exit::Done,
        _ => Exit::ConnectionsCut,
    }
}

/// Reports why there is no server.
pub(crate) fn could_not_start(error: &anyhow::Error) -> Exit {
    tell(format_args!("{error:#}"));
    Exit::CouldNotStart
}
