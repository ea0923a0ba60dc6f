//! `cargo xtask foreign`: runs the tests of crates written for `std`, ported to fibers, on each
//! driver.
//!
//! Cargo fetches the [`sources`] of the crates in the [`plan`], and `uthread port` ports them. The
//! [`programs`] are built, and each test is a [`trial`]. The [`table`] is compared with the one in
//! the repository, and the [`report`] draws it.

mod plan;

mod sources;

mod std_tests;

mod programs;

mod cargo;

mod files;

mod trial;

mod table;

mod report;

use std::path::Path;
use std::{env, fs, io, process};

use crate::kernels::programs::target;
use plan::{CRATES, Crate, DRIVERS};
use sources::{Form, Sources};
use table::{Table, Verdict};

/// Paths of the data and the document.
const DATA: &str = "docs/results/foreign.tsv";
const REPORT: &str = "docs/results/foreign.md";

/// A selection from the plan; empty lists select everything.
#[derive(Debug, Default, PartialEq, Eq)]
struct Choice {
    crates: Vec<&'static str>,
    drivers: Vec<&'static str>,
    write: bool,
}

/// Runs the selected tests; returns true if the results equal those in the repository.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> io::Result<bool> {
    let kept = match fs::read_to_string(root.join(DATA)) {
        Ok(text) => Table::parse(&text).map_err(io::Error::other)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Table::default(),
        Err(error) => return Err(error),
    };
    if arguments == ["--draw"] {
        keep(root, &kept)?;
        return Ok(true);
    }
    let choice = Choice::parse(arguments)?;
    let folder = target(root).join("foreign");
    fs::create_dir_all(&folder)?;
    let sources = Sources::fetch(root, &folder)?;
    let (mut table, mut found) = (kept.clone(), Table::default());
    for of in CRATES.iter().filter(|of| choice.has_crate(of.name)) {
        for (driver, tests) in try_crate(&sources, of, &choice, &folder)? {
            table.note(of.name, driver, tests.clone());
            found.note(of.name, driver, tests);
        }
        if choice.write {
            keep(root, &table)?;
        }
    }
    if choice.write {
        return Ok(true);
    }
    let differences = found.differences(&kept);
    for difference in &differences {
        println!("{difference}");
    }
    eprintln!("{} difference(s) from {DATA}", differences.len());
    Ok(differences.is_empty())
}

/// Writes the data, and draws the document.
fn keep(root: &Path, table: &Table) -> io::Result<()> {
    fs::write(root.join(DATA), table.text())?;
    fs::write(root.join(REPORT), report::markdown(table))
}

type Tests = Vec<(String, Verdict)>;

/// Runs the tests of a crate on each driver; if they do not build, records only that.
fn try_crate(
    sources: &Sources,
    of: &Crate,
    choice: &Choice,
    folder: &Path,
) -> io::Result<Vec<(&'static str, Tests)>> {
    let mut all = Vec::new();
    for form in Form::ALL {
        let drivers = DRIVERS.into_iter().filter(|it| Form::on(it) == form);
        let drivers = drivers.filter(|it| of.has_driver(it));
        let drivers: Vec<_> = drivers.filter(|it| choice.has_driver(it)).collect();
        if drivers.is_empty() {
            continue;
        }
        let (copy, refused) = sources.copy(of, form)?;
        let mut programs = match programs::build(of, &copy, &folder.join("build")) {
            Ok(programs) => programs,
            Err(error) => {
                eprintln!("{}: {error}", of.name);
                let failed = |driver| (driver, vec![("build".to_owned(), Verdict::Failed)]);
                all.extend(drivers.into_iter().map(failed));
                continue;
            }
        };
        if let Some(behind) = of.behind.as_ref().filter(|_| form == Form::Ported) {
            let place = folder.join("behind").join(of.name);
            programs = programs::put_behind(programs, behind, &sources.program, &place)?;
        }
        for driver in drivers {
            let logs = folder.join("logs").join(of.name).join(driver);
            // Outside of the target folder: inside a Git work tree, ripgrep applies `.gitignore`
            // files, and a test of it expects that it does not.
            let temporary = env::temp_dir().join(format!("uthread-foreign-{}", process::id()));
            let refused = refused.iter().map(|test| (test.clone(), Verdict::Failed));
            let mut tests: Tests = refused.collect();
            for program in &programs {
                let names = program.tests()?;
                tests.extend(trial::run(
                    program, &names, driver, of.at_once, &logs, &temporary,
                )?);
            }
            if temporary.exists() {
                fs::remove_dir_all(&temporary)?;
            }
            let passed = tests.iter().filter(|(_, it)| *it == Verdict::Passed);
            let (passed, count) = (passed.count(), tests.len());
            eprintln!("{} on {driver}: {passed} of {count} passed", of.name);
            all.push((driver, tests));
        }
    }
    Ok(all)
}

impl Choice {
    fn parse(arguments: &[&str]) -> io::Result<Choice> {
        let mut choice = Choice::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let (known, chosen) = match *argument {
                "--write" => {
                    choice.write = true;
                    continue;
                }
                "--only" => (CRATES.map(|it| it.name).to_vec(), &mut choice.crates),
                "--driver" => (DRIVERS.to_vec(), &mut choice.drivers),
                other => return Err(io::Error::other(format!("unknown argument: {other}"))),
            };
            let value = arguments.next().copied().unwrap_or_default();
            let Some(value) = known.iter().find(|it| **it == value) else {
                let all = known.join(", ");
                let text = format!("{argument} {value}: there are {all}");
                return Err(io::Error::other(text));
            };
            chosen.push(value);
        }
        Ok(choice)
    }

    fn has_crate(&self, name: &str) -> bool {
        self.crates.is_empty() || self.crates.contains(&name)
    }

    fn has_driver(&self, name: &str) -> bool {
        self.drivers.is_empty() || self.drivers.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_and_drivers_are_chosen_by_name() {
        let choice = Choice::parse(&["--only", "flume", "--driver", "epoll", "--write"]).unwrap();
        assert!(choice.has_crate("flume") && !choice.has_crate("duct"));
        assert!(choice.has_driver("epoll") && !choice.has_driver("std"));
        assert!(choice.write);
        let all = Choice::parse(&[]).unwrap();
        assert!(all.has_crate("duct") && all.has_driver("std") && !all.write);
        for (arguments, expected) in [
            (
                &["--only", "nothing"][..],
                "--only nothing: there are std-tests, ",
            ),
            (&["--driver"], "--driver : there are std, uring"),
            (&["flume"], "unknown argument: flume"),
        ] {
            let error = Choice::parse(arguments).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
