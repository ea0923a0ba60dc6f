//! Ports the program of `port/std` to fibers, as `uthread port --main` does, for the example
//! `keep`.

use std::path::Path;
use std::{env, fs, io};

use uthread_port::{Options, port};

fn main() -> io::Result<()> {
    let from = Path::new("port/std");
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    let to = Path::new(&out).join("keep");
    println!("cargo::rerun-if-changed={}", from.display());
    fs::create_dir_all(&to)?;
    let options = Options {
        main: true,
        ..Options::default()
    };
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let ported = port(&fs::read_to_string(entry.path())?, options);
        assert!(ported.notes.is_empty(), "{:?}", ported.notes);
        fs::write(to.join(entry.file_name()), includable(&ported.text))?;
    }
    Ok(())
}

/// Returns the text without the documentation of its module, which `include!` refuses.
fn includable(text: &str) -> String {
    let lines = text.lines().skip_while(|line| line.starts_with("//!"));
    lines.map(|line| format!("{line}\n")).collect()
}
