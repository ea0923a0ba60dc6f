//! What nodes and clients send each other: a length, and then JSON.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uthread::net::TcpStream;

use crate::store::{Command, Output};

/// Refuses lengths that no message has, instead of waiting for so many bytes.
const BYTES_MAX: u32 = 1 << 20;

/// An entry of the log. That of a new leader has no command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) term: u64,
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// From a candidate.
    Vote {
        term: u64,
        candidate: String,
        last_index: u64,
        last_term: u64,
    },
    /// From a leader, also without entries.
    Append {
        term: u64,
        previous_index: u64,
        previous_term: u64,
        entries: Vec<Entry>,
        commit: u64,
        /// Number of reads that had begun, for the leader itself.
        round: u64,
    },
    /// From a client.
    Execute(Command),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Vote {
        term: u64,
        granted: bool,
    },
    Append {
        term: u64,
        accepted: bool,
        last_index: u64,
    },
    Done(Output),
    /// The client asks another node.
    NotLeader,
}

pub(crate) fn send(mut stream: &TcpStream, message: &impl Serialize) -> io::Result<()> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() as u32 - 4;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    stream.write_all(&bytes)
}

pub(crate) fn receive<T: DeserializeOwned>(mut stream: &TcpStream) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Sends a request, and returns the reply. The connection is opened if there is none, and closed
/// after an error, so that no late reply is taken for that of another request.
pub(crate) fn call(
    connection: &mut Option<TcpStream>,
    address: &str,
    request: &Request,
) -> io::Result<Reply> {
    let stream = match connection.take() {
        Some(stream) => stream,
        None => TcpStream::connect(address)?,
    };
    send(&stream, request)?;
    let reply = receive(&stream)?;
    *connection = Some(stream);
    Ok(reply)
}
