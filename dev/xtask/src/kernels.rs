//! `cargo xtask kernels`: runs the library's tests on Debian's kernels, old and new, under qemu.
//!
//! For each machine of the [`plan`], the kernel comes from the [`archive`]. The [`programs`] are
//! built here and packed into an [`initramfs`]. The [`guest`] boots and runs them. Its output
//! becomes the [`results`], and the [`report`] draws them. [`echo`] measures instead.

mod plan;

pub(crate) mod tools;

pub(crate) mod archive;

pub(crate) mod programs;

mod initramfs;

pub(crate) mod cpio;

pub(crate) mod guest;

mod doctor;

mod results;

mod report;

mod echo;

use std::fs;
use std::io;
use std::path::Path;

use archive::Archive;
use guest::{Execution, Guest};
use plan::{MACHINES, Machine};
use results::Results;

/// Path of the table.
const REPORT: &str = "docs/results/kernels.md";

/// Runs the machines with these names, or all of them; returns true if every test passed. Updates
/// the table only after running all.
pub(crate) fn run(root: &Path, names: &[&str]) -> io::Result<bool> {
    if names == ["echo"] {
        return echo::run(root);
    }
    let machines = chosen(names)?;
    tools::check(&[])?;
    let folder = programs::target(root).join("kernels");
    fs::create_dir_all(&folder)?;
    let archive = Archive::of_this_machine(&folder)?;
    let busybox = archive.suite(plan::TOOLS)?.busybox()?;
    let programs = programs::build(root)?;
    let initramfs = folder.join("initramfs");
    fs::write(&initramfs, initramfs::pack(root, &busybox, &programs)?)?;
    let mut all = Vec::new();
    for machine in machines {
        eprintln!("{}:", machine.name);
        let kernel = archive.suite(machine.suite)?.kernel()?;
        let folder = folder.join(machine.name);
        fs::create_dir_all(&folder)?;
        let guest = Guest {
            kernel: &kernel,
            initramfs: &initramfs,
            arguments: machine.arguments,
            execution: Execution::Emulated,
            limit: plan::GUEST_LIMIT,
        };
        let output = guest.run(&folder)?;
        all.push((machine, Results::parse(&output)));
    }
    let report = report::markdown(&all);
    println!("{report}");
    if names.is_empty() {
        let old = fs::read_to_string(root.join(REPORT)).unwrap_or_default();
        let echo = old.find(echo::HEADING).map_or("", |start| &old[start..]);
        fs::write(root.join(REPORT), report + echo)?;
    }
    Ok(all.iter().all(|(_, results)| results.failures().is_empty()))
}

fn chosen(names: &[&str]) -> io::Result<Vec<&'static Machine>> {
    let known = |name: &str| MACHINES.iter().any(|machine| machine.name == name);
    if let Some(stranger) = names.iter().find(|name| !known(name)) {
        let all: Vec<_> = MACHINES.iter().map(|machine| machine.name).collect();
        let text = format!("no machine {stranger}; choose from {}", all.join(", "));
        return Err(io::Error::other(text));
    }
    let is_chosen = |machine: &&Machine| names.is_empty() || names.contains(&machine.name);
    Ok(MACHINES.iter().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_chosen_by_name() {
        let names = |chosen: Vec<&Machine>| -> Vec<_> {
            chosen.into_iter().map(|machine| machine.name).collect()
        };
        assert_eq!(names(chosen(&["6.1"]).unwrap()), ["6.1"]);
        assert_eq!(chosen(&[]).unwrap().len(), MACHINES.len());
        let error = chosen(&["6.1", "2.4"]).err().unwrap().to_string();
        assert!(error.starts_with("no machine 2.4; "), "{error}");
    }
}
