//! A client: it repeats a request until the leader has answered.

use uthread::net::TcpStream;
use uthread::{thread, time};

use crate::message::{self, Reply, Request};
use crate::node::CLIENT_TIME_MAX;
use crate::random::random_ms;
use crate::store::{Command, Operation, Output};

#[derive(Debug)]
pub(crate) struct Client {
    number: usize,
    sequence: u64,
    nodes: Vec<String>,
    /// The node that it asks next.
    node: usize,
    connection: Option<TcpStream>,
}

impl Client {
    /// Creates a client of the nodes at these addresses. No other one has its number.
    pub(crate) fn new(number: usize, nodes: Vec<String>) -> Client {
        Client {
            number,
            sequence: 0,
            nodes,
            node: number,
            connection: None,
        }
    }

    pub(crate) fn execute(&mut self, key: &str, operation: Operation) -> Output {
        self.sequence += 1;
        let request = Request::Execute(Command {
            client: self.number,
            sequence: self.sequence,
            key: key.to_owned(),
            operation,
        });
        loop {
            let node = &self.nodes[self.node % self.nodes.len()];
            let call = || message::call(&mut self.connection, node, &request);
            if let Ok(Reply::Done(output)) = time::try_timeout(CLIENT_TIME_MAX, call) {
                return output;
            }
            self.connection = None;
            self.node += 1;
            thread::sleep(random_ms(5..50));
        }
    }
}
