//! Managers that were published for `r2d2`, as managers of this crate's pool.

use r2d2::ManageConnection;

use crate::Manage;

/// A manager of `r2d2`, such as `r2d2_postgres::PostgresConnectionManager`, with the feature `r2d2`.
///
/// A program changes the line that builds the pool:
///
/// ```
/// use r2d2::ManageConnection;
/// use uthread_pool::{Pool, R2d2};
/// # use std::io;
/// # use std::net::{TcpListener, TcpStream};
/// # struct Manager(TcpListener);
/// # impl ManageConnection for Manager {
/// #     type Connection = TcpStream;
/// #     type Error = io::Error;
/// #     fn connect(&self) -> io::Result<TcpStream> {
/// #         TcpStream::connect(self.0.local_addr()?)
/// #     }
/// #     fn is_valid(&self, stream: &mut TcpStream) -> io::Result<()> {
/// #         stream.take_error()?.map_or(Ok(()), Err)
/// #     }
/// #     fn has_broken(&self, _: &mut TcpStream) -> bool {
/// #         false
/// #     }
/// # }
/// # let manager = Manager(TcpListener::bind("127.0.0.1:0")?);
///
/// // let pool = r2d2::Pool::builder().max_size(2).build(manager)?;
/// let pool = Pool::builder(R2d2(manager)).max(2).build();
/// let connection = pool.get().unwrap();
/// # drop(connection);
/// # Ok::<(), io::Error>(())
/// ```
///
/// The pool of `r2d2` is unfair: a caller that comes while a connection is free takes it before those
/// that were woken for it, so that some wait for long under load. It also connects on threads of its
/// own, and checks a connection each time it is lent.
///
/// | `r2d2` | here |
/// | --- | --- |
/// | `max_size` | [`max`](crate::Builder::max) |
/// | `connection_timeout`, 30 seconds by default | [`wait`](crate::Builder::wait), and the deadline of the caller; an error of `connect` returns at once |
/// | `test_on_check_out` | [`check_after`](crate::Builder::check_after) a time without use; zero checks always |
/// | `min_idle`, by default `max_size` | [`idle_min`](crate::Builder::idle_min), by default none, which [`tend`](crate::Pool::tend) opens |
/// | `idle_timeout`, `max_lifetime` | [`idle_time`](crate::Builder::idle_time), [`lifetime`](crate::Builder::lifetime) |
/// | `CustomizeConnection` | a [`Manage`] of the program |
#[derive(Debug, Clone, Copy, Default)]
pub struct R2d2<M>(pub M);

impl<M: ManageConnection> Manage for R2d2<M> {
    type Connection = M::Connection;
    type Error = M::Error;

    fn connect(&self) -> Result<M::Connection, M::Error> {
        self.0.connect()
    }

    fn is_usable(&self, connection: &mut M::Connection) -> bool {
        self.0.is_valid(connection).is_ok()
    }

    fn has_broken(&self, connection: &mut M::Connection) -> bool {
        self.0.has_broken(connection)
    }
}
