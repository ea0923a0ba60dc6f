//! Output to a pipe without a reader is dropped, as behind `| head`: `println!` would panic, and a study that runs for an hour
//! writes its results to files too.

/// Writes a line to stdout.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{}\n", format_args!($($text)*)));
    }};
}

/// Writes a line to stderr.
#[macro_export]
macro_rules! tell {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($text)*)));
    }};
}
