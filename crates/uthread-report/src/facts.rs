//! The facts of a run without which nobody can judge or repeat its results: the date, the version
//! and the command. Every page has them.

use std::env;
use std::path::Path;
use std::time::SystemTime;

use crate::results::Facts;

/// The name of the fact with the command.
pub const COMMAND: &str = "command";

/// Returns the version of uthread and the command of this process. A study adds the date on which
/// it begins.
#[must_use]
pub fn of_run(version: &str) -> Facts {
    let arguments = env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    vec![
        ("uthread".to_owned(), version.to_owned()),
        (COMMAND.to_owned(), command(arguments)),
    ]
}

/// Returns the facts of results of today.
#[must_use]
pub fn of_today(of_run: &Facts) -> Facts {
    // Without the time, so that the studies of one run share their facts.
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let day = now.split('T').next().unwrap_or_default();
    with_day(day, of_run)
}

fn with_day(day: &str, of_run: &Facts) -> Facts {
    let day = ("date".to_owned(), day.to_owned());
    [day].into_iter().chain(of_run.iter().cloned()).collect()
}

/// Returns arguments as a line for a shell, which begins with the name of the program.
fn command(mut arguments: impl Iterator<Item = String>) -> String {
    let program = arguments.next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default();
    let words = [name.to_string_lossy().into_owned()]
        .into_iter()
        .chain(arguments);
    // An argument has no zero byte, which alone cannot be quoted.
    let quoted = words.map(|word| shlex::try_quote(&word).map_or(word.clone(), Into::into));
    quoted.collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        let check = |words: &[&str], expected: &str| {
            let words = words.iter().map(|&word| word.to_owned());
            assert_eq!(command(words), expected);
        };
        check(
            &["/usr/bin/uthread", "model", "slower"],
            "uthread model slower",
        );
        let latency = ["uthread", "async", "-l", "20ms*9,30s", "-N", "a title"];
        check(&latency, "uthread async -l '20ms*9,30s' -N 'a title'");
        check(&[], "''");
    }

    #[test]
    fn the_date_comes_first() {
        let facts = of_today(&of_run("1.2.3"));
        let names = Vec::from_iter(facts.iter().map(|(name, _)| &**name));
        assert_eq!(names, ["date", "uthread", COMMAND]);
        let day = &facts[0].1;
        assert!(day.len() == 10 && day.starts_with("20"), "{day}");
    }
}
