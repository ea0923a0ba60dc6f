//! The patterns of a search, and what finds them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::BinaryDetection;

use super::input::{Binary, NUL};
use super::is_stdin;
use crate::options::{Engine, Options};

/// Collects the patterns in the order of the options, each once.
pub(super) fn patterns(
    options: &Options,
    positional: &mut impl Iterator<Item = OsString>,
    is_stdin_taken: &mut bool,
) -> anyhow::Result<Vec<String>> {
    let given = &options.pattern;
    if given.patterns.is_empty() && given.pattern_files.is_empty() {
        let pattern = positional
            .next()
            .context("no pattern given; try: uthread search PATTERN [PATH...]")?;
        return Ok(vec![utf8(pattern)?]);
    }
    let named = given.patterns.iter().cloned().map(Source::Option);
    let files = given.pattern_files.iter().cloned().map(Source::File);
    let sources = [
        ("patterns", named.collect()),
        ("pattern-files", files.collect()),
    ];
    let mut patterns = Vec::new();
    for source in options.order.merge(sources) {
        match source {
            Source::Option(pattern) => patterns.push(utf8(pattern)?),
            Source::File(path) if is_stdin(&path) => {
                ensure!(
                    !std::mem::replace(is_stdin_taken, true),
                    "patterns can be read from stdin only once"
                );
                patterns.extend(grep_cli::patterns_from_stdin()?);
            }
            Source::File(path) => patterns.extend(grep_cli::patterns_from_path(path)?),
        }
    }
    let mut seen = BTreeSet::new();
    patterns.retain(|pattern| seen.insert(pattern.clone()));
    Ok(patterns)
}

/// Where patterns come from.
enum Source {
    Option(OsString),
    File(PathBuf),
}

fn utf8(pattern: OsString) -> anyhow::Result<String> {
    let refused = |pattern: OsString| {
        let shown = grep_cli::escape_os(&pattern);
        anyhow::anyhow!("the pattern {shown} is not UTF-8; write other bytes as (?-u:\\xFF)")
    };
    pattern.into_string().map_err(refused)
}

/// Returns `true` for a pattern with `\A`, or with a `^` that flags such as `(?-m)` have made mean
/// the same.
pub(super) fn has_text_anchor(pattern: &str) -> bool {
    let mut groups = pattern.split("(?").skip(1);
    let resets_lines = |group: &str| {
        let flags = group.split([')', ':']).next().unwrap_or_default();
        flags
            .split_once('-')
            .is_some_and(|(_, off)| off.contains('m'))
    };
    pattern.contains("\\A") || groups.any(resets_lines)
}

pub(super) fn matcher(
    options: &Options,
    patterns: &[String],
    binary: &Binary,
) -> anyhow::Result<RegexMatcher> {
    let wanted = &options.pattern;
    if wanted.pcre2 || wanted.engine == Engine::Pcre2 {
        bail!("PCRE2 is not available in uthread search");
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .unicode(!wanted.no_unicode)
        .octal(false)
        .fixed_strings(wanted.fixed_strings)
        .case_insensitive(wanted.ignore_case)
        .case_smart(wanted.smart_case)
        .word(wanted.word_regexp)
        .whole_line(wanted.line_regexp)
        .crlf(wanted.crlf);
    match wanted {
        _ if wanted.multiline => {
            builder.dot_matches_new_line(wanted.multiline_dotall);
        }
        // The order matters: CRLF has a terminator of its own.
        _ if wanted.null_data => {
            builder.line_terminator(Some(NUL));
        }
        _ if !wanted.crlf => {
            builder.line_terminator(Some(b'\n'));
        }
        _ => {}
    }
    if wanted.multiline && wanted.crlf {
        builder.line_terminator(None);
    }
    if let Some(limit) = wanted.regex_size_limit {
        builder.size_limit(usize::try_from(limit)?);
    }
    if let Some(limit) = wanted.dfa_size_limit {
        builder.dfa_size_limit(usize::try_from(limit)?);
    }
    if binary.named != BinaryDetection::none() {
        builder.ban_byte(Some(NUL));
    }
    builder
        .build_many(patterns)
        .map_err(|error| remedied(&error, wanted.fixed_strings))
}

/// Returns the error of a pattern with what helps against it.
fn remedied(error: &grep_regex::Error, is_fixed: bool) -> anyhow::Error {
    let text = error.to_string();
    let remedy = match &text {
        text if text.contains("pattern contains \"\\0\"") => {
            "\nUse -a (--text) to search for NUL bytes."
        }
        text if text.contains("the literal") && text.contains("not allowed") => {
            "\nUse -U (--multiline) for matches that span lines, or -e for each alternative."
        }
        text if text.contains("look-around") || text.contains("backreferences") => {
            "\nRegular expressions take time linear in the text here, which excludes these."
        }
        _ if !is_fixed => "\nUse -F to search for the text as it is.",
        _ => "",
    };
    anyhow::anyhow!("{text}{remedy}")
}

#[cfg(test)]
mod tests {
    use super::has_text_anchor;

    #[test]
    fn patterns_that_look_for_the_beginning_of_the_text_are_recognized() {
        for pattern in ["\\Aa", "(?-m)^a", "(?-m:^a)", "b|(?i-sm:^a)"] {
            assert!(has_text_anchor(pattern), "{pattern}");
        }
        for pattern in ["^a", "a-mb", "(?i)-m", "(?m-i)^a", "(?:a-m)"] {
            assert!(!has_text_anchor(pattern), "{pattern}");
        }
    }
}
