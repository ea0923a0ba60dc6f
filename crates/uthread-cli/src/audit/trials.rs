//! Crates that were tried in fibers.

/// The outcome of a trial with fibers that share the thread-locals of their worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trial {
    /// It works as it is.
    Works,
    /// It blocks its worker: the trial hangs, or other fibers pause.
    Blocks,
    /// Its context is that of another fiber.
    Mixes,
}

/// The crates, by name. A test compares them with the results.
const TRIALS: &[(&str, Trial)] = &[
    ("arc-swap", Trial::Works),
    ("crossbeam-channel", Trial::Blocks),
    ("dashmap", Trial::Blocks),
    ("env_logger", Trial::Works),
    ("flume", Trial::Blocks),
    ("kanal", Trial::Blocks),
    ("moka", Trial::Blocks),
    ("mysql", Trial::Blocks),
    ("native-tls", Trial::Blocks),
    ("once_cell", Trial::Blocks),
    ("parking_lot", Trial::Mixes),
    ("pollster", Trial::Blocks),
    ("postgres", Trial::Blocks),
    ("r2d2", Trial::Blocks),
    ("rand", Trial::Works),
    ("rayon", Trial::Blocks),
    ("rusqlite", Trial::Mixes),
    ("scoped-tls", Trial::Mixes),
    ("threadpool", Trial::Blocks),
    ("tiny_http", Trial::Blocks),
    ("tokio", Trial::Blocks),
    ("tracing", Trial::Mixes),
    ("ureq", Trial::Blocks),
];

/// Returns the outcome of the trial with this crate, if there was one.
pub(super) fn of(name: &str) -> Option<Trial> {
    let index = TRIALS.binary_search_by_key(&name, |(name, _)| name).ok()?;
    Some(TRIALS[index].1)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_table_is_that_of_the_results() {
        // The rows of a crate begin with its name. Its outcome is `Mixes` if any of them is wrong,
        // and `Works` only if all of them are ok.
        let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/crates.md");
        let results = fs::read_to_string(results).unwrap();
        let rows: Vec<(&str, &str)> = results
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
            .filter(|(_, cells)| cells.contains("ok,"))
            .collect();
        assert!(TRIALS.is_sorted_by_key(|(name, _)| name));
        for (name, expected) in TRIALS {
            let of_crate = |row: &&(&str, &str)| {
                let rest = row.0.strip_prefix(name);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            };
            // The columns behind those of the default mode: with one worker, and with two.
            let lean = rows
                .iter()
                .filter(of_crate)
                .flat_map(|row| row.1.split(" | ").skip(2));
            let lean: Vec<_> = lean.collect();
            let found = match &lean[..] {
                [] => None,
                lean if lean.iter().any(|cell| cell.starts_with("wrong")) => Some(Trial::Mixes),
                lean if lean.iter().all(|cell| cell.starts_with("ok")) => Some(Trial::Works),
                _ => Some(Trial::Blocks),
            };
            assert_eq!(found, Some(*expected), "{name}: {lean:?}");
            assert_eq!(of(name), Some(*expected));
        }
        assert_eq!(of("serde"), None);
    }
}
