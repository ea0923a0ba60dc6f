//! A configuration file: the long options of a subcommand in TOML.
//!
//! The file becomes arguments in front of those of the command line, without the options that the
//! command line has. So a value is checked in one place, wherever it comes from.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, Error, FromArgMatches};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::CommandLine;

/// Options that a file cannot have, as they are about the file or end the program.
const NOT_IN_FILES: [&str; 3] = ["config", "check", "help"];

/// An option in a file, with its line.
struct Entry {
    name: String,
    line: usize,
    arguments: Vec<String>,
}

/// Parses the arguments of the program once more, with the file behind its subcommand, which comes
/// first. Of `alternatives`, the file has none if the command line has any.
pub(super) fn parse(
    arguments: &[OsString],
    path: &Path,
    alternatives: &[&str],
) -> anyhow::Result<CommandLine> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration in {}", path.display()))?;
    with_text(arguments, &text, alternatives)
        .map_err(|problem| anyhow!("{}:{problem:#}", path.display()))
}

/// A problem begins with the number of its line, if it has one.
fn with_text(
    arguments: &[OsString],
    text: &str,
    alternatives: &[&str],
) -> anyhow::Result<CommandLine> {
    let program = CommandLine::command();
    let matches = program.clone().try_get_matches_from(arguments)?;
    let (name, given) = matches.subcommand().context("a subcommand has options")?;
    let command = program.find_subcommand(name).context("it was found")?;
    let mut entries = entries(command, text)?;
    let is_given = |name: &str| is_given(command, given, name);
    let has_alternative = alternatives.iter().any(|name| is_given(name));
    entries.retain(|entry| {
        let is_alternative = alternatives.contains(&entry.name.as_str());
        let loses = is_given(&entry.name) || (is_alternative && has_alternative);
        !loses
    });
    let (begin, rest) = arguments.split_at(2);
    let from_file = entries.iter().flat_map(|entry| &entry.arguments);
    let merged: Vec<_> = begin
        .iter()
        .cloned()
        .chain(from_file.map(OsString::from))
        .chain(rest.iter().cloned())
        .collect();
    let parsed = CommandLine::command().try_get_matches_from(merged);
    parsed
        .and_then(|matches| CommandLine::from_arg_matches(&matches))
        .map_err(|error| explain(&error, &entries))
}

fn is_given(command: &Command, given: &ArgMatches, name: &str) -> bool {
    option(command, name)
        .and_then(|option| given.value_source(option.get_id().as_str()))
        .is_some_and(|source| source == ValueSource::CommandLine)
}

fn option<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    command
        .get_arguments()
        .find(|option| option.get_long() == Some(name))
}

fn entries(command: &Command, text: &str) -> anyhow::Result<Vec<Entry>> {
    let line_at = |offset: usize| text[..offset].matches('\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let line = line_at(error.span().map_or(0, |span| span.start));
        anyhow!("{line}: {}", error.message())
    })?;
    let mut entries = Vec::new();
    for (key, value) in table.get_ref() {
        let (name, line) = (key.get_ref().as_ref(), line_at(key.span().start));
        let option = option(command, name).filter(|_| !NOT_IN_FILES.contains(&name));
        let Some(option) = option else {
            bail!(
                "{line}: there is no option {name:?}: see `uthread help {}`",
                command.get_name()
            );
        };
        entries.push(Entry {
            name: name.to_owned(),
            line,
            arguments: to_arguments(option, name, value).with_context(|| line.to_string())?,
        });
    }
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}

/// Returns an option of the file as arguments.
fn to_arguments(
    option: &Arg,
    name: &str,
    value: &Spanned<DeValue<'_>>,
) -> anyhow::Result<Vec<String>> {
    let argument = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::String(text) => Ok(format!("--{name}={text}")),
        DeValue::Integer(number) if number.radix() == 10 => Ok(format!("--{name}={number}")),
        _ => bail!("{name} must be a text in quotes or a number"),
    };
    match (option.get_action(), value.get_ref()) {
        (ArgAction::SetTrue, DeValue::Boolean(true)) => Ok(vec![format!("--{name}")]),
        (ArgAction::SetTrue, DeValue::Boolean(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, _) => bail!("{name} must be true or false"),
        (ArgAction::Append, DeValue::Array(values)) => values.iter().map(argument).collect(),
        _ => Ok(vec![argument(value)?]),
    }
}

/// Returns the first line of the error of a parser, with the line of the option that it is about.
fn explain(error: &Error, entries: &[Entry]) -> anyhow::Error {
    let text = error.to_string();
    let problem = text.lines().next().unwrap_or_default();
    let problem = problem.trim_start_matches("error: ");
    let entry = match error.get(ContextKind::InvalidArg) {
        // As in "--rate <BYTES>".
        Some(ContextValue::String(option)) => entries.iter().find(|entry| {
            let name = option.split(' ').next().unwrap_or_default();
            name.strip_prefix("--") == Some(&entry.name)
        }),
        _ => None,
    };
    match entry {
        Some(entry) => anyhow!("{}: {problem}", entry.line),
        None => anyhow!(" {problem}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Command as Parsed;
    use super::*;

    fn check(arguments: &[&str], text: &str, expected: Result<&str, &str>) {
        let begin = ["uthread", "tunnel", "--config", "file"];
        let arguments: Vec<_> = begin.iter().chain(arguments).map(OsString::from).collect();
        let found = with_text(&arguments, text, &["allow", "to"]);
        let found = found.map(|line| match line.command {
            Parsed::Tunnel(args) => format!(
                "{:?} {:?} {} {:?}",
                args.to.map(|target| target.to_string()),
                args.allow.len(),
                args.server.verbose,
                args.max_connections
            ),
            other => panic!("{other:?}"),
        });
        let found = found.map_err(|error| format!("{error:#}"));
        assert_eq!(
            found.as_deref().map_err(|error| error.as_str()),
            expected,
            "{text}"
        );
    }

    #[test]
    fn files() {
        check(&[], "", Ok("None 0 false 8000"));
        let file = "# proxy\nallow = ['*:443', \"*:80\"]\nmax-connections = 10\nverbose = true\n";
        check(&[], file, Ok("None 2 true 10"));
        check(
            &[],
            "max-connections = '10'\nallow = '*:80'\nverbose = false",
            Ok("None 1 false 10"),
        );
    }

    #[test]
    fn the_command_line_wins() {
        let file = "allow = ['*:443', '*:80']\nmax-connections = 10";
        check(&["--max-connections", "5"], file, Ok("None 2 false 5"));
        check(&["--allow", "a:1"], file, Ok("None 1 false 10"));
        check(&["--to", "a:1"], file, Ok("Some(\"a:1\") 0 false 10"));
        check(&["--allow=a:1"], "to = 'b:1'", Ok("None 1 false 8000"));
        check(&["-p", "1"], "listen = 'wrong'", Ok("None 0 false 8000"));
    }

    #[test]
    fn problems_have_lines() {
        for (text, problem) in [
            (
                "a = 1",
                "1: there is no option \"a\": see `uthread help tunnel`",
            ),
            (
                "\nverbose = true\n[limits]\n",
                "3: there is no option \"limits\": see `uthread help tunnel`",
            ),
            (
                "config = 'a'",
                "1: there is no option \"config\": see `uthread help tunnel`",
            ),
            (
                "check = true",
                "1: there is no option \"check\": see `uthread help tunnel`",
            ),
            (
                "max_connections = 1",
                "1: there is no option \"max_connections\": see `uthread help tunnel`",
            ),
            ("rate = '1M'\nrate = '1M'", "2: duplicate key"),
            ("\nverbose = 1", "2: verbose must be true or false"),
            (
                "idle-timeout = 1.5",
                "1: idle-timeout must be a text in quotes or a number",
            ),
            (
                "rate = ['1M', '2M']",
                "1: rate must be a text in quotes or a number",
            ),
            (
                "allow = [['a:1']]",
                "1: allow must be a text in quotes or a number",
            ),
            (
                "max-connections = 0x10",
                "1: max-connections must be a text in quotes or a number",
            ),
            (
                "\n\nrate = 0",
                "3: invalid value '0' for '--rate <BYTES>': must be a number of bytes, such as 500K or 10M",
            ),
            (
                "allow = ['a:1']\nto = 'a:1'",
                "1: the argument '--allow <TARGET>' cannot be used with '--to <HOST:PORT>'",
            ),
        ] {
            check(&[], text, Err(problem));
        }
    }
}
