//! How a plan prints results.

use std::path::Path;
use std::process::{Command, Stdio};

use grep_printer::{ColorSpecs, HyperlinkConfig, HyperlinkEnvironment, default_color_specs};

use super::Mode;
use super::input::NUL;
use crate::options::{Color, Options};

/// In which form the totals of the search are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Totals {
    None,
    Text,
    Json,
}

/// How results are printed.
#[derive(Debug, Clone)]
pub(crate) struct Print {
    pub(crate) colors: bool,
    pub(crate) color_specs: ColorSpecs,
    pub(crate) hyperlinks: HyperlinkConfig,
    /// `true` if paths are hyperlinks where they can be.
    pub(crate) has_hyperlinks: bool,
    pub(crate) column: bool,
    pub(crate) byte_offset: bool,
    pub(crate) heading: bool,
    pub(crate) with_path: bool,
    pub(crate) path_end: Option<u8>,
    pub(crate) path_separator: Option<u8>,
    pub(crate) only_matching: bool,
    pub(crate) per_match: bool,
    pub(crate) replacement: Option<Vec<u8>>,
    pub(crate) columns_max: Option<u64>,
    pub(crate) columns_preview: bool,
    pub(crate) trim: bool,
    pub(crate) include_zero: bool,
    /// Printed between lines of a file that are not neighbours.
    pub(crate) context_separator: Option<Vec<u8>>,
    pub(crate) field_context_separator: Vec<u8>,
    pub(crate) field_match_separator: Vec<u8>,
    /// Printed between the results of two files.
    pub(crate) separator: Option<Vec<u8>>,
    pub(crate) totals: Totals,
    /// Nothing but totals is printed; without them the first match ends the search.
    pub(crate) quiet: bool,
    pub(crate) messages: bool,
    pub(crate) to_terminal: bool,
    /// Each result is printed at once, and each line of a single file.
    pub(crate) line_buffered: bool,
    /// `true` if a single file is searched.
    pub(crate) is_single: bool,
}

/// Returns whether the user wants line numbers, if there is such a wish.
pub(super) fn line_numbers(options: &Options) -> Option<bool> {
    let wishes = [
        ("line-number", true),
        ("no-line-number", false),
        ("pretty", true),
    ];
    options.order.last(&wishes)
}

pub(super) fn print(
    options: &Options,
    mode: Mode,
    to_terminal: bool,
    is_single: bool,
) -> anyhow::Result<Print> {
    let output = &options.output;
    let heading = [("heading", true), ("no-heading", false), ("pretty", true)];
    let heading = options.order.last(&heading).unwrap_or(to_terminal) && !output.vimgrep;
    let with_path = [("with-filename", true), ("no-filename", false)];
    let with_path = options.order.last(&with_path);
    let has_context = [output.before_context, output.after_context, output.context]
        .iter()
        .any(|lines| lines.is_some_and(|lines| lines > 0));
    let unescaped = |text: &Option<String>, usual: &[u8]| match text {
        Some(text) => grep_cli::unescape(text),
        None => usual.to_vec(),
    };
    let context_separator = unescaped(&output.context_separator, b"--");
    let context_separator =
        (!options.order.has("no-context-separator")).then_some(context_separator);
    let mut color_specs = default_color_specs();
    color_specs.extend(output.colors.iter().cloned());
    Ok(Print {
        colors: colors(options, to_terminal),
        color_specs: ColorSpecs::new(&color_specs),
        hyperlinks: hyperlinks(options),
        has_hyperlinks: output
            .hyperlink_format
            .as_ref()
            .is_some_and(|format| !format.is_empty()),
        column: output.column || output.vimgrep && !options.order.has("no-column"),
        byte_offset: output.byte_offset,
        heading,
        with_path: with_path.unwrap_or(output.vimgrep || !is_single),
        path_end: output.null.then_some(NUL),
        path_separator: output.path_separator.flatten(),
        only_matching: output.only_matching,
        per_match: output.vimgrep,
        replacement: output.replace.as_ref().map(|text| text.as_bytes().to_vec()),
        columns_max: output.max_columns.filter(|count| *count > 0),
        columns_preview: output.max_columns_preview,
        trim: output.trim,
        include_zero: output.include_zero,
        separator: match mode {
            Mode::Lines if heading => Some(Vec::new()),
            Mode::Lines if has_context => context_separator.clone(),
            _ => None,
        },
        context_separator,
        field_context_separator: unescaped(&output.field_context_separator, b"-"),
        field_match_separator: unescaped(&output.field_match_separator, b":"),
        totals: match output {
            output if output.json && mode != Mode::Path => Totals::Json,
            output if output.stats && mode != Mode::Path => Totals::Text,
            _ => Totals::None,
        },
        quiet: output.quiet,
        messages: !output.no_messages,
        to_terminal,
        line_buffered: output.line_buffered || to_terminal && !output.block_buffered,
        is_single,
    })
}

fn colors(options: &Options, to_terminal: bool) -> bool {
    let color = options.output.color;
    let wishes = [("color", color), ("pretty", Color::Always)];
    match options.order.last(&wishes).unwrap_or(color) {
        Color::Always | Color::Ansi => true,
        Color::Never => false,
        Color::Auto => to_terminal && environment_wants_colors(),
    }
}

/// Returns `false` for terminals without colors, and for users without the wish for them
/// (<https://no-color.org>).
fn environment_wants_colors() -> bool {
    let refuses = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refuses && std::env::var_os("TERM").is_some_and(|terminal| terminal != "dumb")
}

fn hyperlinks(options: &Options) -> HyperlinkConfig {
    let mut environment = HyperlinkEnvironment::new();
    let format = options.output.hyperlink_format.clone().unwrap_or_default();
    if !format.is_empty() {
        environment.host(host(options.output.hostname_bin.as_deref()));
        let distribution = std::env::var("WSL_DISTRO_NAME").ok();
        environment.wsl_prefix(distribution.map(|name| format!("wsl$/{name}")));
    }
    format.into_config(environment)
}

/// Returns the name of the host, by this program if it has one.
fn host(program: Option<&Path>) -> Option<String> {
    let output = program.and_then(|program| {
        let mut command = Command::new(program);
        command
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()
    });
    let named = output.filter(|output| output.status.success());
    let named = named.and_then(|output| String::from_utf8(output.stdout).ok());
    let named = named.map(|name| name.trim().to_owned());
    let of_system = || grep_cli::hostname().ok()?.into_string().ok();
    named.filter(|name| !name.is_empty()).or_else(of_system)
}
