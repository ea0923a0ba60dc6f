//! Files registered with a ring.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};

use crate::resource::descriptor::{FdState, HasFdState};
use crate::resource::registration::Registration;
use crate::sched::features::ring;

/// Types that a [`RegisteredFile`] can wrap: a [`File`](crate::fs::File), a socket of
/// [`net`](crate::net), an end of a [`pipe`](crate::io::pipe()), or a mutable reference to one of
/// these. The trait is sealed: it cannot be implemented for other types.
///
/// ```
/// use uthread::ring::{Registrable, RegisteredFile};
/// use uthread::{fs::File, net::UdpSocket};
///
/// fn is_on_a_ring(file: impl Registrable) -> bool {
///     RegisteredFile::new(file).is_registered()
/// }
///
/// let mut file = File::open("Cargo.toml")?;
/// assert!(!is_on_a_ring(&mut file), "no fiber");
/// assert!(!is_on_a_ring(UdpSocket::bind("127.0.0.1:0")?));
/// # Ok::<(), std::io::Error>(())
/// ```
#[allow(
    private_bounds,
    reason = "sealed: drivers keep state for each of these types"
)]
pub trait Registrable: Sealed {
    /// The wrapped type, without the reference.
    type File: AsFd;

    #[doc(hidden)]
    fn file(&self) -> &Self::File;
}

pub(crate) trait Sealed: HasFdState {}

impl<F: Registrable> Registrable for &mut F {
    type File = F::File;

    fn file(&self) -> &F::File {
        (**self).file()
    }
}

impl<F: Sealed> Sealed for &mut F {}

impl<F: HasFdState> HasFdState for &mut F {
    fn fd_state(&mut self) -> &mut FdState {
        (**self).fd_state()
    }
}

/// A file, socket or pipe that is registered with the ring of a worker.
///
/// For a registered file the kernel need not look up the descriptor and count a reference in each
/// call. This saves most if threads share the descriptor table.
///
/// Use it like the wrapped file: through all of its methods, with its timeouts, and as [`Read`],
/// [`Write`] and [`Seek`]. The registration belongs to the worker on which it was created; on other
/// workers, threads and drivers, the calls use the descriptor. They also do so if the file could
/// not be registered, because the ring has 1024 files, because the process may open fewer, or
/// because the kernel is older than 5.19; [`is_registered`](RegisteredFile::is_registered) reports
/// this.
///
/// Dropping it closes the file, on any thread, or ends the borrow. Before Linux 6.4 a registered
/// file is closed up to a second later.
///
/// ```
/// use std::io::{Read, Write};
/// use uthread::net::{TcpListener, TcpStream};
/// use uthread::ring::RegisteredFile;
///
/// uthread::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let mut client = TcpStream::connect(listener.local_addr()?)?;
///     let (server, _) = listener.accept()?;
///     let mut server = RegisteredFile::new(server);
///     server.write_all(b"hello")?;
///     assert_eq!(server.peer_addr()?, client.local_addr()?);
///     drop(server);
///     let mut text = String::new();
///     client.read_to_string(&mut text)?;
///     assert_eq!(text, "hello");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Calls on it borrow it:
///
/// ```compile_fail,E0505
/// use std::os::unix::fs::FileExt;
/// use uthread::{fs::File, ring::RegisteredFile};
///
/// let registered = RegisteredFile::new(File::open("Cargo.toml").unwrap());
/// let file = &registered;
/// uthread::scope(|scope| {
///     scope.spawn(move || file.read_at(&mut [0], 0));
///     drop(registered);
/// });
/// ```
///
/// The file in it cannot be replaced by another one, which would not be registered:
///
/// ```compile_fail,E0594
/// use uthread::{fs::File, ring::RegisteredFile};
///
/// let mut file = RegisteredFile::new(File::open("Cargo.toml").unwrap());
/// *file = File::open("/dev/null").unwrap();
/// ```
///
/// A borrowed file can be used again only when the registration has ended:
///
/// ```compile_fail,E0502
/// use std::os::unix::fs::FileExt;
/// use uthread::{fs::File, ring::RegisteredFile};
///
/// let mut file = File::open("Cargo.toml").unwrap();
/// let registered = RegisteredFile::new(&mut file);
/// file.read_at(&mut [0], 0).unwrap();
/// registered.read_at(&mut [0], 0).unwrap();
/// ```
pub struct RegisteredFile<F: Registrable> {
    /// `None` only while it is dropped.
    file: Option<F>,
    registration: Option<Registration>,
}

impl<F: Registrable> RegisteredFile<F> {
    /// Registers a file with the ring of the caller's worker, if there is one.
    ///
    /// ```
    /// use std::os::unix::fs::FileExt;
    /// use uthread::{fs::File, ring::RegisteredFile};
    ///
    /// let file = RegisteredFile::new(File::open("Cargo.toml")?);
    /// let mut text = [0; 9];
    /// file.read_exact_at(&mut text, 0)?;
    /// assert_eq!(&text, b"[package]");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(mut file: F) -> RegisteredFile<F> {
        let registration = ring::register_file(file.file().as_fd());
        let slot = registration.as_ref().map(Registration::in_ring);
        file.fd_state().set_slot(slot);
        RegisteredFile {
            file: Some(file),
            registration,
        }
    }

    /// Returns `true` if the file is registered with a ring.
    ///
    /// ```
    /// use uthread::{fs::File, ring::RegisteredFile};
    ///
    /// let file = RegisteredFile::new(File::open("Cargo.toml")?);
    /// assert!(!file.is_registered(), "no fiber");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.registration.is_some()
    }

    /// Ends the registration and returns the wrapped file.
    ///
    /// ```
    /// use uthread::{fs::File, ring::RegisteredFile};
    ///
    /// let file = RegisteredFile::new(File::open("Cargo.toml")?);
    /// let file: File = file.into_inner();
    /// # drop(file);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn into_inner(mut self) -> F {
        self.take().expect("taken only here and on drop")
    }

    /// Takes the file, and clears the registration from its driver state.
    fn take(&mut self) -> Option<F> {
        let mut file = self.file.take()?;
        file.fd_state().set_slot(None);
        Some(file)
    }
}

impl<F: Registrable> Drop for RegisteredFile<F> {
    fn drop(&mut self) {
        // Dropped before the registration, so that the file is closed when the ring releases it.
        drop(self.take());
    }
}

impl<F: Registrable> Deref for RegisteredFile<F> {
    type Target = F::File;

    fn deref(&self) -> &F::File {
        self.file.as_ref().expect("set until it is dropped").file()
    }
}

impl<F: Registrable> AsFd for RegisteredFile<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (**self).as_fd()
    }
}

impl<F: Registrable> fmt::Debug for RegisteredFile<F>
where
    F::File: fmt::Debug,
{
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RegisteredFile")
            .field("file", &**self)
            .field("registered", &self.is_registered())
            .finish()
    }
}

impl<F: Registrable> Read for RegisteredFile<F>
where
    for<'a> &'a F::File: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&**self).read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&**self).read_vectored(buffers)
    }

    fn read_to_end(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        (&**self).read_to_end(bytes)
    }

    fn read_to_string(&mut self, text: &mut String) -> io::Result<usize> {
        (&**self).read_to_string(text)
    }
}

impl<F: Registrable> Write for RegisteredFile<F>
where
    for<'a> &'a F::File: Write,
{
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&**self).write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (&**self).write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&**self).flush()
    }
}

impl<F: Registrable> Seek for RegisteredFile<F>
where
    for<'a> &'a F::File: Seek,
{
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        (&**self).seek(position)
    }
}

macro_rules! impl_registrable {
    ($($file:ty),* $(,)?) => {$(
        impl Registrable for $file {
            type File = $file;

            fn file(&self) -> &$file {
                self
            }
        }

        impl Sealed for $file {}
    )*};
}

impl_registrable!(
    crate::fs::File,
    crate::io::PipeReader,
    crate::io::PipeWriter,
    crate::net::TcpListener,
    crate::net::TcpStream,
    crate::net::UdpSocket,
    crate::net::UnixDatagram,
    crate::net::UnixListener,
    crate::net::UnixStream,
    crate::process::ChildStdin,
    crate::process::ChildStdout,
    crate::process::ChildStderr,
);
