//! Options: how files are read.

use std::path::PathBuf;

use clap::Args;

/// How files are read.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputOptions {
    /// Search binary files as if they were text
    #[arg(short = 'a', long, overrides_with = "binary")]
    pub(crate) text: bool,

    /// Search binary files, but do not print their matches
    #[arg(long, overrides_with = "text")]
    pub(crate) binary: bool,

    /// Encoding of the files: auto, none, or a label such as utf-16le
    #[arg(short = 'E', long, value_name = "ENCODING", default_value = "auto")]
    pub(crate) encoding: String,

    /// Search what is in compressed files, with gzip, xz and other programs
    #[arg(short = 'z', long, overrides_with = "pre")]
    pub(crate) search_zip: bool,

    /// Search the output of this program, which gets the path and the contents of each file
    #[arg(long, value_name = "COMMAND", overrides_with = "search_zip")]
    pub(crate) pre: Option<PathBuf>,

    /// Run --pre only for files that match this glob
    #[arg(long = "pre-glob", value_name = "GLOB", allow_hyphen_values = true)]
    pub(crate) pre_globs: Vec<String>,

    /// Number of workers [default: one per CPU]
    #[arg(short = 'j', long, value_name = "N")]
    pub(crate) threads: Option<usize>,

    /// Do not read options from the file that RIPGREP_CONFIG_PATH names
    #[arg(long)]
    pub(crate) no_config: bool,
}
