//! The sources of the kernel: one tree, with or without the patches, so that the second build
//! compiles only what they change.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::kernels::tools::output;

/// Prefix of a line with the path of a changed file.
const CHANGED: &str = "+++ b/";

/// Replaces `/` in the path of a file, which is the name of its copy.
const SEPARATOR: &str = "%";

pub(super) struct Source {
    pub(super) tree: PathBuf,
    /// Files that the patches have changed, as they were before.
    originals: PathBuf,
}

impl Source {
    /// Unpacks the archive below `folder`, unless an earlier run did.
    pub(super) fn unpack(archive: &Path, folder: &Path) -> io::Result<Source> {
        let (tree, partial) = (folder.join("linux"), folder.join("partial"));
        if !tree.exists() {
            if partial.exists() {
                fs::remove_dir_all(&partial)?;
            }
            fs::create_dir(&partial)?;
            let mut tar = Command::new("tar");
            tar.args(["--extract", "--strip-components=1", "--file"]);
            output(tar.arg(archive).arg("--directory").arg(&partial))?;
            fs::rename(&partial, &tree)?;
        }
        Ok(Source {
            tree,
            originals: folder.join("originals"),
        })
    }

    /// Undoes the patches of an earlier run, whatever became of it.
    pub(super) fn restore(&self) -> io::Result<()> {
        if !self.originals.exists() {
            return Ok(());
        }
        for file in fs::read_dir(&self.originals)? {
            let file = file?.path();
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            fs::copy(&file, self.tree.join(name.replace(SEPARATOR, "/")))?;
        }
        fs::remove_dir_all(&self.originals)
    }

    /// Applies the patches of a folder in the order of their names, without the cover letter.
    pub(super) fn apply(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir(&self.originals)?;
        let files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
        let mut files = files.collect::<io::Result<Vec<_>>>()?;
        files.sort();
        for file in files {
            let text = fs::read_to_string(&file)?;
            let paths = changed(&text);
            if paths.is_empty() {
                continue;
            }
            for path in paths {
                let original = self.originals.join(path.replace('/', SEPARATOR));
                if !original.exists() {
                    fs::copy(self.tree.join(path), original)?;
                }
            }
            let mut patch = Command::new("patch");
            patch.args(["--strip=1", "--forward", "--fuzz=0", "--directory"]);
            output(patch.arg(&self.tree).arg("--input").arg(&file))?;
        }
        Ok(())
    }
}

/// Returns the paths of the files that a patch changes.
fn changed(patch: &str) -> Vec<&str> {
    let lines = patch.lines();
    lines
        .filter_map(|line| line.strip_prefix(CHANGED))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{env, process};

    use super::*;

    const PATCH: &str = "\
Subject: [PATCH 1/1] change b

---
 a/b.c | 2 +-

diff --git a/a/b.c b/a/b.c
--- a/a/b.c
+++ b/a/b.c
@@ -1 +1 @@
-old
+new
";

    #[test]
    fn patches_are_applied_and_undone() {
        if Command::new("patch").arg("--version").output().is_err() {
            println!("skipped: the program patch is not installed");
            return;
        }
        let folder = env::temp_dir().join(format!("kernel-patch-{}", process::id()));
        let (tree, patches) = (folder.join("linux"), folder.join("patches"));
        fs::create_dir_all(tree.join("a")).unwrap();
        fs::create_dir_all(&patches).unwrap();
        fs::write(tree.join("a/b.c"), "old\n").unwrap();
        fs::write(patches.join("0000-cover-letter.patch"), "Subject: why\n").unwrap();
        fs::write(patches.join("0001-change-b.patch"), PATCH).unwrap();
        let source = Source::unpack(Path::new("none"), &folder).unwrap();
        let text = || fs::read_to_string(tree.join("a/b.c")).unwrap();
        source.restore().unwrap();
        source.apply(&patches).unwrap();
        assert_eq!(text(), "new\n");
        source.restore().unwrap();
        assert_eq!(text(), "old\n");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_changed_files_are_found() {
        assert_eq!(changed(PATCH), ["a/b.c"]);
    }
}
