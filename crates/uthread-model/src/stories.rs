//! Ready-made scenarios, each with one thing to learn.

use anyhow::Context;

use crate::scenario::Scenario;

macro_rules! stories {
    ($($name:literal),* $(,)?) => {
        /// The names of all stories and their texts.
        const STORIES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../stories/", $name, ".toml")))),*];
    };
}

stories![
    "fast",
    "slower",
    "one-in-ten-hangs",
    "one-in-ten-hangs-3100-threads",
    "short-timeout",
    "outage",
    "outage-breaker",
    "retry-storm",
    "retry-budget",
    "cascade",
    "cascade-breaker",
    "slow-server",
    "slow-server-hedge",
    "unhealthy-server",
    "unhealthy-server-shards",
    "unhealthy-server-breaker",
    "bursts",
    "cpu-bound",
];

/// Returns the names of all stories, in the order in which they build on each other.
pub fn names() -> impl Iterator<Item = &'static str> {
    STORIES.iter().map(|(name, _)| *name)
}

/// Returns all stories with their names.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, Scenario)> {
    let parse = |text| Scenario::parse(text).expect("a test parses all stories");
    STORIES.iter().map(move |&(name, text)| (name, parse(text)))
}

/// Returns the text of a story.
///
/// # Errors
///
/// There is no story of this name.
pub(crate) fn text(name: &str) -> anyhow::Result<&'static str> {
    let story = STORIES.iter().find(|(known, _)| *known == name);
    story.map(|(_, text)| *text).with_context(|| {
        let known = Vec::from_iter(names()).join(", ");
        format!("there is no scenario {name:?}, but {known}, and files that end with .toml")
    })
}

/// Returns a story.
///
/// # Errors
///
/// There is no story of this name.
///
/// ```
/// use uthread_model::{Mode, simulate, stories};
///
/// let outcome = simulate(&stories::find("slower")?, Mode::Async)?;
/// assert_eq!(outcome.succeeded, 10_000);
/// # Ok::<(), anyhow::Error>(())
/// ```
pub fn find(name: &str) -> anyhow::Result<Scenario> {
    Scenario::parse(text(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_stories_compare_both_services_and_have_words() {
        for (name, story) in all() {
            assert!(!story.name.is_empty() && !story.about.is_empty(), "{name}");
            assert!(story.sync.is_some() && story.fibers.is_some(), "{name}");
        }
        let error = find("unknown").unwrap_err().to_string();
        assert!(error.contains("slower"), "{error}");
    }
}
