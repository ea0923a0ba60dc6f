//! How a plan reads files: binary ones, encodings, ends of lines.

use grep_matcher::LineTerminator;
use grep_searcher::{BinaryDetection, Encoding, SearcherBuilder};

use crate::options::Options;

/// Maximum length of a line in bytes. A longer one is an error, so that a search cannot take all
/// memory.
pub(crate) const LINE_MAX: usize = 128 * 1024 * 1024;

/// The byte that makes a file binary.
pub(super) const NUL: u8 = 0;

/// How files with NUL bytes are searched.
pub(super) struct Binary {
    pub(super) found: BinaryDetection,
    pub(super) named: BinaryDetection,
}

/// The options that decide how files with NUL bytes are searched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Text,
    Binary,
    Nothing,
}

impl Binary {
    pub(super) fn new(options: &Options) -> Binary {
        let unrestricted = match options.selection.unrestricted {
            ..=2 => "",
            _ => "unrestricted",
        };
        let wish = options.order.last(&[
            ("text", Wish::Text),
            ("binary", Wish::Binary),
            (unrestricted, Wish::Binary),
            ("no-text", Wish::Nothing),
            ("no-binary", Wish::Nothing),
        ]);
        let is_text = wish == Some(Wish::Text) || options.pattern.null_data;
        let found = match wish {
            _ if is_text => BinaryDetection::none(),
            Some(Wish::Binary) => BinaryDetection::convert(NUL),
            _ => BinaryDetection::quit(NUL),
        };
        // A file that the user names is always searched.
        let named = if is_text {
            BinaryDetection::none()
        } else {
            BinaryDetection::convert(NUL)
        };
        Binary { found, named }
    }
}

pub(super) fn searcher(options: &Options, line_numbers: bool) -> anyhow::Result<SearcherBuilder> {
    let (output, pattern) = (&options.output, &options.pattern);
    let around = output.context.unwrap_or(0);
    let mut builder = SearcherBuilder::new();
    builder
        .heap_limit(Some(LINE_MAX))
        .max_matches(pattern.max_count)
        .invert_match(pattern.invert_match)
        .line_number(line_numbers)
        .multi_line(pattern.multiline)
        .stop_on_nonmatch(pattern.stop_on_nonmatch)
        .line_terminator(match pattern {
            _ if pattern.crlf => LineTerminator::crlf(),
            _ if pattern.null_data => LineTerminator::byte(NUL),
            _ => LineTerminator::byte(b'\n'),
        });
    if output.passthru {
        builder.passthru(true)
    } else {
        builder
            .before_context(output.before_context.unwrap_or(around))
            .after_context(output.after_context.unwrap_or(around))
    };
    match options.input.encoding.as_str() {
        "auto" => {}
        "none" => {
            builder.bom_sniffing(false);
        }
        label => {
            let encoding = Encoding::new(label).map_err(|_| {
                anyhow::anyhow!(
                    "unknown encoding {label:?}; use auto, none, or a label of the WHATWG \
                     encoding standard, such as utf-16le"
                )
            })?;
            builder.encoding(Some(encoding));
        }
    }
    Ok(builder)
}
