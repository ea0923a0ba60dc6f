//! A client: it sends a request to any node, and again until the leader has answered.

use uthread::{thread, time};

use crate::message::{self, Reply, Request};
use crate::node::CLIENT_TIME_MAX;
use crate::random::{random, random_ms};
use crate::store::{Command, Operation, Output};

#[derive(Debug)]
pub(crate) struct Client {
    number: usize,
    sequence: u64,
    nodes: Vec<String>,
}

impl Client {
    /// Creates a client of the nodes at these addresses. No other one has its number.
    pub(crate) fn new(number: usize, nodes: Vec<String>) -> Client {
        Client {
            number,
            sequence: 0,
            nodes,
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
            let node = &self.nodes[random(0..self.nodes.len() as u64) as usize];
            let call = || message::call(&mut None, node, &request);
            if let Ok(Reply::Done(output)) = time::try_timeout(CLIENT_TIME_MAX, call) {
                return output;
            }
            thread::sleep(random_ms(5..50));
        }
    }
}
