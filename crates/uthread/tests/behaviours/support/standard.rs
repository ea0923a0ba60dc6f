//! The standard streams of a trial that has a process of its own: put others in their place.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

/// The kinds of files that a standard stream may be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Pipe,
    Socket,
    Terminal,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Pipe, Kind::Socket, Kind::Terminal];

    /// Returns a replacement for an input stream, and the end that writes to it.
    pub(crate) fn input(self) -> (OwnedFd, File) {
        match self {
            Kind::Pipe => {
                let (reader, writer) = std::io::pipe().unwrap();
                (reader.into(), File::from(OwnedFd::from(writer)))
            }
            Kind::Socket | Kind::Terminal => self.two_way(),
        }
    }

    /// Returns a replacement for an output stream, and the end that reads from it.
    pub(crate) fn output(self) -> (OwnedFd, File) {
        match self {
            Kind::Pipe => {
                let (reader, writer) = std::io::pipe().unwrap();
                (writer.into(), File::from(OwnedFd::from(reader)))
            }
            Kind::Socket | Kind::Terminal => self.two_way(),
        }
    }

    fn two_way(self) -> (OwnedFd, File) {
        match self {
            Kind::Terminal => terminal(),
            Kind::Pipe | Kind::Socket => {
                let (ours, theirs) = UnixStream::pair().unwrap();
                (ours.into(), File::from(OwnedFd::from(theirs)))
            }
        }
    }
}

/// Opens a terminal that changes no byte but for ending lines and input, and the end at which a
/// person would sit.
pub(crate) fn terminal() -> (OwnedFd, File) {
    let person = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    rustix::pty::grantpt(&person).unwrap();
    rustix::pty::unlockpt(&person).unwrap();
    let path = rustix::pty::ptsname(&person, Vec::new()).unwrap();
    let terminal = rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let mut settings = tcgetattr(&terminal).unwrap();
    settings.output_modes = rustix::termios::OutputModes::empty();
    settings.local_modes -= rustix::termios::LocalModes::ECHO;
    tcsetattr(&terminal, OptionalActions::Now, &settings).unwrap();
    (terminal, person.into())
}

/// Runs the body while the standard input is another one.
pub(crate) fn with_stdin<T>(input: impl AsFd, body: impl FnOnce() -> T) -> T {
    let before = rustix::stdio::stdin().try_clone_to_owned().unwrap();
    rustix::stdio::dup2_stdin(input).unwrap();
    let result = body();
    rustix::stdio::dup2_stdin(before).unwrap();
    result
}

/// Runs the body while the standard output is another one.
pub(crate) fn with_stdout<T>(output: OwnedFd, body: impl FnOnce() -> T) -> T {
    let before = rustix::stdio::stdout().try_clone_to_owned().unwrap();
    rustix::stdio::dup2_stdout(&output).unwrap();
    drop(output); // So that there is an end when the body has run.
    let result = body();
    std::io::stdout().flush().unwrap();
    rustix::stdio::dup2_stdout(before).unwrap();
    result
}

/// Returns the standard output of a body, which must fit into a pipe.
pub(crate) fn written_by(body: impl FnOnce()) -> String {
    let (output, mut reader) = Kind::Pipe.output();
    with_stdout(output, body);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    text
}
