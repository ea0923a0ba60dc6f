//! Options: which files are searched.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::output::MODES;
use super::size;

/// Which files are searched.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Files")]
pub(crate) struct SelectionOptions {
    /// Search hidden files and directories
    #[arg(short = '.', long)]
    pub(crate) hidden: bool,

    /// Do not respect .gitignore, .ignore, .rgignore and .git/info/exclude
    #[arg(long)]
    pub(crate) no_ignore: bool,

    /// Do not respect .ignore and .rgignore
    #[arg(long)]
    pub(crate) no_ignore_dot: bool,

    /// Do not respect .git/info/exclude
    #[arg(long)]
    pub(crate) no_ignore_exclude: bool,

    /// Do not respect --ignore-file
    #[arg(long)]
    pub(crate) no_ignore_files: bool,

    /// Do not respect the ignore file of the user's git configuration
    #[arg(long)]
    pub(crate) no_ignore_global: bool,

    /// Do not report errors in ignore files
    #[arg(long)]
    pub(crate) no_ignore_messages: bool,

    /// Do not respect the ignore files of directories above
    #[arg(long)]
    pub(crate) no_ignore_parent: bool,

    /// Do not respect .gitignore and .git/info/exclude
    #[arg(long)]
    pub(crate) no_ignore_vcs: bool,

    /// Respect .gitignore outside of git repositories, too
    #[arg(long)]
    pub(crate) no_require_git: bool,

    /// Respect this file, in the format of .gitignore
    #[arg(long = "ignore-file", value_name = "FILE", allow_hyphen_values = true)]
    pub(crate) ignore_files: Vec<PathBuf>,

    /// Ignore case in the globs of ignore files
    #[arg(long)]
    pub(crate) ignore_file_case_insensitive: bool,

    /// Search more: -u is --no-ignore, -uu also --hidden, -uuu also --binary
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) unrestricted: u8,

    /// Search files that match this glob, or that do not if it begins with !
    #[arg(short, long = "glob", value_name = "GLOB", allow_hyphen_values = true)]
    pub(crate) globs: Vec<String>,

    /// Like --glob, ignoring case
    #[arg(long = "iglob", value_name = "GLOB", allow_hyphen_values = true)]
    pub(crate) iglobs: Vec<String>,

    /// Ignore case in --glob
    #[arg(long)]
    pub(crate) glob_case_insensitive: bool,

    /// Search only files of this type (see --type-list)
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub(crate) types: Vec<String>,

    /// Do not search files of this type
    #[arg(short = 'T', long = "type-not", value_name = "TYPE")]
    pub(crate) types_not: Vec<String>,

    /// Add a glob to a type, as NAME:GLOB, or the globs of others, as NAME:include:OTHER,OTHER
    #[arg(long = "type-add", value_name = "TYPE")]
    pub(crate) types_add: Vec<String>,

    /// Forget the globs of this type
    #[arg(long = "type-clear", value_name = "TYPE")]
    pub(crate) types_clear: Vec<String>,

    /// Follow symbolic links
    #[arg(short = 'L', long)]
    pub(crate) follow: bool,

    /// Search directories down to this depth; 0 searches only files that are named
    #[arg(short = 'd', long, alias = "maxdepth", value_name = "N")]
    pub(crate) max_depth: Option<usize>,

    /// Do not search directories on other file systems
    #[arg(long)]
    pub(crate) one_file_system: bool,

    /// Skip files larger than this, in bytes or with the suffix K, M or G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_filesize: Option<u64>,

    /// Print the files that would be searched, and search none
    #[arg(long, overrides_with_all = MODES)]
    pub(crate) files: bool,

    /// Print the known file types and their globs
    #[arg(long, overrides_with_all = MODES)]
    pub(crate) type_list: bool,
}
