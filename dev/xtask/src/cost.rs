//! `cargo xtask cost`: counts the instructions of the library's operations under callgrind, and
//! compares them with the committed counts. Wall time varies by a third from run to run;
//! instructions vary by less than a percent. Of a crowd of fibers, it counts the cache lines: the
//! misses of a cache in which what the worker uses remains, and nothing of a fiber.

use std::env;
use std::fs;
use std::io::{self, Error, ErrorKind};
use std::path::Path;
use std::process::{Command, Stdio};

/// The committed counts.
const COUNTS: &str = "dev/bench/cost/counts.tsv";

const HEADER: &str = "# operation, instructions of one on the epoll driver, of a crowd the cache lines of 100; `cargo xtask cost --write` writes this file\n";

/// The largest difference to a committed count that is accepted, in percent.
const TOLERANCE_PERCENT: f64 = 3.0;

/// The smallest difference that counts: that of one more or less per iteration of a loop is in the
/// noise.
const TOLERANCE_INSTRUCTIONS: f64 = 2.0;

/// Operations per run. A second run performs twice as many; the difference leaves out the start and
/// the end.
const OPERATIONS: u64 = 4000;

/// Runs of which the least count is taken where it matters: beside other load a run takes longer, and
/// the monitor, which samples by the clock, more instructions.
const ATTEMPTS: usize = 3;

/// Makes glibc copy memory in the same way on every CPU.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX_Usable,-AVX2_Usable,-AVX,-AVX2,-AVX512F,-AVX512VL,-ERMS,-FSRM,-AVX_Fast_Unaligned_Load";

/// The end of the names of the operations of which lines are counted.
const CROWD: &str = "crowd";

/// A cache of 64 KiB: a crowd touches ten times as much between two turns of a fiber.
const CACHE: [&str; 2] = ["--cache-sim=yes", "--D1=65536,16,64"];

/// The misses of reads and writes.
const MISSES: [&str; 2] = ["D1mr", "D1mw"];

/// An operation with its count.
type Count = (String, f64);

/// Measures the counts and compares them with the committed ones, or writes them. Returns whether
/// they agree.
pub(crate) fn run(root: &Path, writes: bool) -> io::Result<bool> {
    if !is_available() {
        let what = "valgrind is not installed: it counts the instructions (Debian: apt-get install valgrind)";
        return Err(Error::new(ErrorKind::NotFound, what));
    }
    let program = build(root)?;
    let names = output(Command::new(&program).arg("list"))?.0;
    let path = root.join(COUNTS);
    let committed = if writes {
        Vec::new()
    } else {
        parse(&fs::read_to_string(&path)?)?
    };
    let measure = |name: &str| {
        let count = cost(&program, name, 1)?;
        let agrees = |(other, before): &Count| other == name && !differ(count, *before);
        if committed.iter().any(agrees) {
            return Ok((name.to_owned(), count));
        }
        Ok((name.to_owned(), cost(&program, name, ATTEMPTS)?))
    };
    let measured: io::Result<Vec<Count>> = names.lines().map(measure).collect();
    let measured = measured?;
    if writes {
        fs::write(path, written(&measured))?;
        println!("cost: written into {COUNTS}");
        return Ok(true);
    }
    let (lines, agree) = compare(&measured, &committed);
    print!("{lines}");
    if !agree {
        eprintln!(
            "cost: counts differ by more than {TOLERANCE_PERCENT} %: find the cause, or commit the new ones \
             (`cargo xtask cost --write`) with the change and its reason"
        );
    }
    Ok(agree)
}

/// Returns `true` if instructions can be counted here.
pub(crate) fn is_available() -> bool {
    let version = Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

/// Builds the program, and returns its path.
fn build(root: &Path) -> io::Result<std::path::PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root);
    command.args(["build", "--quiet", "--release", "--package", "uthread-cost"]);
    if !command.status()?.success() {
        return Err(Error::other("cannot build uthread-cost"));
    }
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(root.join(target).join("release/uthread-cost"))
}

/// Counts the instructions of one operation, or the lines of 100, by the least counts of some attempts.
fn cost(program: &Path, name: &str, attempts: usize) -> io::Result<f64> {
    let is_crowd = name.ends_with(CROWD);
    let total = |operations: u64| {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        if is_crowd {
            valgrind.args(CACHE);
        }
        valgrind.arg(program).arg(name).arg(operations.to_string());
        valgrind.env("GLIBC_TUNABLES", TUNABLES);
        let (_, log) = output(&mut valgrind)?;
        let events = if is_crowd { &MISSES[..] } else { &["Ir"] };
        collected(&log, events)
            .ok_or_else(|| Error::other(format!("no count in the output of valgrind:\n{log}")))
    };
    let least = |operations| {
        let totals: io::Result<Vec<u64>> = (0..attempts).map(|_| total(operations)).collect();
        Ok::<_, Error>(totals?.into_iter().min().unwrap_or_default())
    };
    let (once, twice) = (least(OPERATIONS)?, least(2 * OPERATIONS)?);
    let factor = if is_crowd { 100.0 } else { 1.0 };
    Ok(factor * (twice as f64 - once as f64) / OPERATIONS as f64)
}

/// Finds the sum of some events in the log of callgrind.
fn collected(log: &str, events: &[&str]) -> Option<u64> {
    let line = |name| log.lines().find_map(|line| line.split_once(name));
    let (names, counts) = (line("Events    : ")?.1, line("Collected : ")?.1);
    let pairs = names.split_whitespace().zip(counts.split_whitespace());
    let counted = pairs.filter(|(name, _)| events.contains(name));
    counted.map(|(_, count)| count.parse::<u64>().ok()).sum()
}

/// Runs a command, and returns its output and errors.
fn output(command: &mut Command) -> io::Result<(String, String)> {
    let output = command.stdin(Stdio::null()).output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(Error::other(format!(
            "{command:?} failed: {}\n{errors}",
            output.status
        )));
    }
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), errors))
}

fn parse(text: &str) -> io::Result<Vec<Count>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let count = |line: &str| {
        let (name, count) = line.split_once('\t')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    lines
        .map(|line| {
            count(line).ok_or_else(|| Error::other(format!("{COUNTS}: not a count: {line}")))
        })
        .collect()
}

fn written(counts: &[Count]) -> String {
    let lines = counts
        .iter()
        .map(|(name, count)| format!("{name}\t{count:.0}\n"));
    lines.fold(HEADER.to_owned(), |text, line| text + &line)
}

fn differ(count: f64, before: f64) -> bool {
    let difference = (count - before).abs();
    difference > TOLERANCE_INSTRUCTIONS && 100.0 * difference > TOLERANCE_PERCENT * before
}

/// Compares measured counts with committed ones. Returns a line for each, and whether all agree.
fn compare(measured: &[Count], committed: &[Count]) -> (String, bool) {
    let mut lines = String::new();
    let mut agree = true;
    for (name, count) in measured {
        let before = committed.iter().find(|(other, _)| other == name);
        let percent = before.map(|(_, before)| 100.0 * (count - before) / before);
        let differs = before.is_none_or(|(_, before)| differ(*count, *before));
        agree &= !differs;
        let before = before.map_or("-".into(), |(_, before)| format!("{before:.0}"));
        let percent = percent.map_or(String::new(), |percent| format!("{percent:+.1} %"));
        let mark = if differs { "  differs" } else { "" };
        lines += &format!("{name:<12}{before:>8}{count:>8.0}{percent:>10}{mark}\n");
    }
    for (name, _) in committed {
        if !measured.iter().any(|(other, _)| other == name) {
            agree = false;
            lines += &format!("{name:<12} is not an operation any more\n");
        }
    }
    (lines, agree)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[(&str, f64)]) -> Vec<Count> {
        counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    }

    #[test]
    fn a_detour_of_four_percent_is_found_and_one_of_two_is_not() {
        let committed = counts(&[("yield", 100.0), ("spawn", 1000.0)]);
        let (lines, agree) = compare(&counts(&[("yield", 102.0), ("spawn", 990.0)]), &committed);
        assert!(agree, "{lines}");
        let (lines, agree) = compare(&counts(&[("yield", 104.0), ("spawn", 1000.0)]), &committed);
        assert!(!agree);
        assert_eq!(
            lines
                .lines()
                .filter(|line| line.ends_with("differs"))
                .count(),
            1,
            "{lines}"
        );
    }

    #[test]
    fn an_improvement_and_a_missing_count_differ() {
        let committed = counts(&[("yield", 100.0)]);
        assert!(!compare(&counts(&[("yield", 90.0)]), &committed).1);
        assert!(!compare(&counts(&[("yield", 100.0), ("park", 1.0)]), &committed).1);
        assert!(!compare(&[], &committed).1);
    }

    #[test]
    fn written_counts_are_read_again() {
        let some = counts(&[("yield", 102.0), ("echo", 6500.0)]);
        assert_eq!(parse(&written(&some)).unwrap(), some);
        assert!(parse("yield 102").is_err());
    }

    #[test]
    fn the_log_of_callgrind_contains_the_count() {
        let log = "==7== Events    : Ir\n==7== Collected : 1234567\n==7== \n";
        assert_eq!(collected(log, &["Ir"]), Some(1_234_567));
        assert_eq!(collected("==7== Events    : Ir\n", &["Ir"]), None);
        let log = "==7== Events    : Ir Dr D1mr D1mw\n==7== Collected : 9 8 70 600\n";
        assert_eq!(collected(log, &MISSES), Some(670));
    }
}
