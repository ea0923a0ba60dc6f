//! The order of the options, where the last one counts, and the options that only take others back.

use std::collections::HashMap;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// Options that take others back: their names, and the options. They are not in the help.
const NEGATIONS: [(&str, &[&str]); 44] = [
    ("ignore", &["no_ignore"]),
    ("ignore-dot", &["no_ignore_dot"]),
    ("ignore-exclude", &["no_ignore_exclude"]),
    ("ignore-files", &["no_ignore_files"]),
    ("ignore-global", &["no_ignore_global"]),
    ("ignore-messages", &["no_ignore_messages"]),
    ("ignore-parent", &["no_ignore_parent"]),
    ("ignore-vcs", &["no_ignore_vcs"]),
    ("messages", &["no_messages"]),
    (
        "no-auto-hybrid-regex",
        &["auto_hybrid_regex", "engine", "pcre2"],
    ),
    ("no-binary", &["binary", "text"]),
    ("no-block-buffered", &["block_buffered", "line_buffered"]),
    ("no-byte-offset", &["byte_offset"]),
    ("no-column", &["column"]),
    ("no-context-separator", &["context_separator"]),
    ("no-crlf", &["crlf"]),
    ("no-encoding", &["encoding"]),
    ("no-fixed-strings", &["fixed_strings"]),
    ("no-follow", &["follow"]),
    ("no-glob-case-insensitive", &["glob_case_insensitive"]),
    ("no-hidden", &["hidden"]),
    (
        "no-ignore-file-case-insensitive",
        &["ignore_file_case_insensitive"],
    ),
    ("no-include-zero", &["include_zero"]),
    ("no-invert-match", &["invert_match"]),
    ("no-json", &["json"]),
    ("no-line-buffered", &["line_buffered", "block_buffered"]),
    ("no-max-columns-preview", &["max_columns_preview"]),
    // Files are never mapped.
    ("mmap", &[]),
    ("no-mmap", &[]),
    ("no-multiline", &["multiline"]),
    ("no-multiline-dotall", &["multiline_dotall"]),
    ("no-one-file-system", &["one_file_system"]),
    ("no-pcre2", &["pcre2", "engine", "auto_hybrid_regex"]),
    ("no-pre", &["pre"]),
    ("no-search-zip", &["search_zip"]),
    ("no-sort-files", &["sort_files", "sort", "sortr"]),
    ("no-stats", &["stats"]),
    ("no-text", &["text", "binary"]),
    ("no-trim", &["trim"]),
    ("pcre2-unicode", &["no_unicode"]),
    ("require-git", &["no_require_git"]),
    ("unicode", &["no_unicode"]),
    // Nothing is logged.
    ("debug", &[]),
    ("trace", &[]),
];

/// The positions of each option on the command line, by its long name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Order(HashMap<String, Vec<usize>>);

impl Order {
    /// Returns `true` if an option was given, and no later one has taken it back.
    pub(crate) fn has(&self, option: &str) -> bool {
        self.0.contains_key(option)
    }

    /// Returns the value of the option that was given last, if any was.
    pub(crate) fn last<T: Copy>(&self, options: &[(&str, T)]) -> Option<T> {
        let given = options.iter().filter(|(option, _)| self.has(option));
        let last = given.max_by_key(|(option, _)| self.0[*option].last());
        last.map(|(_, value)| *value)
    }

    /// Returns the values of several options in the order in which they were given.
    pub(crate) fn merge<T>(
        &self,
        options: impl IntoIterator<Item = (&'static str, Vec<T>)>,
    ) -> Vec<T> {
        let mut values = Vec::new();
        for (option, of_option) in options {
            let positions = self.0.get(option).into_iter().flatten();
            values.extend(positions.zip(of_option));
        }
        values.sort_by_key(|(position, _)| **position);
        values.into_iter().map(|(_, value)| value).collect()
    }
}

impl Args for Order {
    fn augment_args(command: Command) -> Command {
        command.args(NEGATIONS.iter().map(|(name, options)| {
            Arg::new(*name)
                .long(*name)
                // Without a default value, which is prepared for each flag at every start.
                .action(ArgAction::Set)
                .num_args(0)
                .default_missing_value("")
                .overrides_with_all(*options)
                .hide(true)
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Order::augment_args(command)
    }
}

impl FromArgMatches for Order {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Order, clap::Error> {
        let given = matches.ids().map(|id| id.as_str());
        let given = given.filter(|id| matches.value_source(id) == Some(ValueSource::CommandLine));
        let positions = |id: &str| {
            let name = id.replace('_', "-");
            Some((name, matches.indices_of(id)?.collect()))
        };
        Ok(Order(given.filter_map(positions).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Order::from_arg_matches(matches)?;
        Ok(())
    }
}
