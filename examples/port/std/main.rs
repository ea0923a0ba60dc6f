//! `keep`, a key-value store: a server with a journal and snapshots, and its clients.
//!
//! An ordinary program of blocking threads: one accepts, one writes the journal, one expires keys,
//! and one serves each connection.

mod client;
mod journal;
mod server;
mod store;

use std::env;
use std::process::ExitCode;

const USAGE: &str =
    "usage: keep serve ADDRESS FOLDER IDLE-MS | talk ADDRESS | load ADDRESS CLIENTS ROUNDS";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["serve", address, folder, idle_ms] => server::serve(address, folder.as_ref(), idle_ms),
        ["talk", address] => client::talk(address),
        ["load", address, clients, rounds] => client::load(address, clients, rounds),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("keep: {error}");
            ExitCode::FAILURE
        }
    }
}
