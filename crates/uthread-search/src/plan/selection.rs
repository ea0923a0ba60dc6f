//! Which files a plan searches.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};

use crate::options::{Options, SelectionOptions};

/// Which files are searched.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    /// The working directory, to which globs and ignore files that the user names are relative.
    pub(crate) current: PathBuf,
    pub(crate) hidden: bool,
    pub(crate) ignore: IgnoreFiles,
    pub(crate) follow: bool,
    pub(crate) max_depth: Option<usize>,
    pub(crate) one_file_system: bool,
    pub(crate) max_filesize: Option<u64>,
    pub(crate) globs: Override,
    pub(crate) types: Types,
}

/// Which ignore files are respected.
#[derive(Debug, Clone)]
pub(crate) struct IgnoreFiles {
    /// `.ignore` and `.rgignore`.
    pub(crate) dot: bool,
    pub(crate) vcs: bool,
    pub(crate) exclude: bool,
    pub(crate) global: bool,
    pub(crate) parent: bool,
    pub(crate) outside_git: bool,
    pub(crate) ignores_case: bool,
    /// Named by the user.
    pub(crate) named: Vec<PathBuf>,
    /// `true` if errors in them are reported.
    pub(crate) messages: bool,
}

impl Selection {
    /// Returns `true` if every regular file is searched.
    pub(crate) fn is_everything(&self) -> bool {
        self.hidden && !self.ignore.dot && !self.ignore.vcs && self.excludes_nothing_itself()
    }

    /// Returns `true` if only ignore files that are found, and names of hidden files, exclude
    /// anything.
    pub(crate) fn has_only_found_rules(&self) -> bool {
        !self.ignore.outside_git && self.excludes_nothing_itself()
    }

    /// Returns `true` if no option but those about found ignore files and hidden files excludes
    /// anything.
    fn excludes_nothing_itself(&self) -> bool {
        self.ignore.named.is_empty()
            && self.max_depth.is_none()
            && self.max_filesize.is_none()
            && self.globs.is_empty()
            && self.types.is_empty()
    }
}

pub(super) fn selection(options: &Options) -> anyhow::Result<Selection> {
    let given = &options.selection;
    let current = current_directory();
    ensure!(
        given.unrestricted <= 3,
        "-u (--unrestricted) can be given up to three times"
    );
    let unrestricted = match given.unrestricted {
        ..=1 => "",
        _ => "unrestricted",
    };
    let hidden = [("hidden", true), (unrestricted, true), ("no-hidden", false)];
    let has_types = !given.types.is_empty() || !given.types_not.is_empty();
    Ok(Selection {
        hidden: options.order.last(&hidden).unwrap_or(false),
        ignore: ignore_files(options),
        follow: given.follow,
        max_depth: given.max_depth,
        one_file_system: given.one_file_system,
        max_filesize: given.max_filesize,
        globs: globs(given, &current)?,
        // The known types take longer to be prepared than a small tree to be searched.
        types: if has_types || !given.types_add.is_empty() {
            types(options)?
        } else {
            Types::empty()
        },
        current,
    })
}

/// Returns the working directory. One that was removed has no path, and neither has one below a
/// directory that may not be read: then the shell's, as in ripgrep, or else a relative one.
fn current_directory() -> PathBuf {
    env::current_dir().unwrap_or_else(|_| {
        let of_shell = env::var_os("PWD").filter(|path| !path.is_empty());
        of_shell.unwrap_or_else(|| ".".into()).into()
    })
}

fn globs(given: &SelectionOptions, current: &Path) -> anyhow::Result<Override> {
    let mut globs = OverrideBuilder::new(current);
    globs.case_insensitive(given.glob_case_insensitive)?;
    for glob in &given.globs {
        globs.add(glob)?;
    }
    globs.case_insensitive(true)?;
    for glob in &given.iglobs {
        globs.add(glob)?;
    }
    Ok(globs.build()?)
}

fn ignore_files(options: &Options) -> IgnoreFiles {
    let given = &options.selection;
    // The last one decides of the options for all of them and of those for a kind.
    let reads = |no_kind: &str, kind: &str| {
        let decide = [
            ("no-ignore", false),
            ("unrestricted", false),
            ("ignore", true),
            (no_kind, false),
            (kind, true),
        ];
        options.order.last(&decide).unwrap_or(true)
    };
    let vcs = reads("no-ignore-vcs", "ignore-vcs");
    IgnoreFiles {
        dot: reads("no-ignore-dot", "ignore-dot"),
        vcs,
        exclude: vcs && reads("no-ignore-exclude", "ignore-exclude"),
        global: vcs && reads("no-ignore-global", "ignore-global"),
        parent: reads("no-ignore-parent", "ignore-parent"),
        outside_git: given.no_require_git,
        ignores_case: given.ignore_file_case_insensitive,
        named: if given.no_ignore_files {
            Vec::new()
        } else {
            given.ignore_files.clone()
        },
        messages: !given.no_ignore_messages,
    }
}

/// A change of the file types by an option.
enum Change {
    Clear(String),
    Add(String),
    Select(String),
    Negate(String),
}

/// Builds the matcher of file types.
///
/// # Errors
///
/// A type is unknown, or a definition is wrong.
pub(crate) fn types(options: &Options) -> anyhow::Result<Types> {
    let given = &options.selection;
    let mut types = TypesBuilder::new();
    types.add_defaults();
    let changes = |names: &[String], change: fn(String) -> Change| {
        Vec::from_iter(names.iter().cloned().map(change))
    };
    let changes = options.order.merge([
        ("types-clear", changes(&given.types_clear, Change::Clear)),
        ("types-add", changes(&given.types_add, Change::Add)),
        ("types", changes(&given.types, Change::Select)),
        ("types-not", changes(&given.types_not, Change::Negate)),
    ]);
    for change in changes {
        match change {
            Change::Clear(name) => types.clear(&name),
            Change::Select(name) => types.select(&name),
            Change::Negate(name) => types.negate(&name),
            Change::Add(definition) => {
                let added = types.add_def(&definition);
                added.with_context(|| format!("--type-add {definition}"))?;
                continue;
            }
        };
    }
    types
        .build()
        .context("see uthread search --type-list for the known types")
}
