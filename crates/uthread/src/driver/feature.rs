//! A feature of the kernel, as found by trying it.

/// A feature of the kernel: whether it is here, and what that means.
///
/// ```
/// use uthread::{Feature, Usage};
///
/// fn is_missed(feature: &&Feature) -> bool {
///     feature.usage == Usage::Used && feature.available == Some(false)
/// }
///
/// for feature in uthread::diagnose().system_features.iter().filter(is_missed) {
///     println!("no {}, but {}", feature.name, feature.instead);
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Feature {
    /// In a few words, for people.
    pub name: &'static str,
    /// Whether it works here; `None` where it could not be tried, as what needs a ring without one.
    pub available: Option<bool>,
    /// Whether the library makes use of it.
    pub usage: Usage,
    /// What the library does without it.
    pub instead: &'static str,
}

/// What the library makes of a feature that is there; see the example of [`Feature`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Usage {
    /// It uses it.
    Used,
    /// It would use it if something better were missing.
    Reserve,
    /// It uses it where the program asks for it.
    OnRequest,
    /// It does not use it yet.
    NotYet,
}
