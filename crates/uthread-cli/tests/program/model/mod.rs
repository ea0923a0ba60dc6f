//! `uthread model`: its results as text, JSON and page, and its refusals.

mod original;
mod outputs;
mod real;
mod refusals;
mod results;

use std::path::Path;

use crate::harness::command;

/// Runs it in a folder. Returns exit code, output and errors.
fn model(arguments: &[&str], folder: &Path) -> (i32, String, String) {
    let mut command = command(&["model"]);
    let output = command.args(arguments).current_dir(folder).output();
    let output = output.unwrap();
    let [shown, errors] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code().unwrap(), shown, errors)
}
