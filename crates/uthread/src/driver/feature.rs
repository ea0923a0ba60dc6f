//! A feature of the kernel, as found by trying it.

/// A feature of the kernel: whether it is available, and how the library uses it.
///
/// ```
/// use uthread::runtime::{Feature, Usage};
///
/// fn is_missed(feature: &&Feature) -> bool {
///     feature.usage == Usage::Used && feature.available == Some(false)
/// }
///
/// for feature in uthread::runtime::diagnose().system_features.iter().filter(is_missed) {
///     println!("no {}, but {}", feature.name, feature.instead);
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Feature {
    /// A short name for humans.
    pub name: &'static str,
    /// `true` if the feature works here; `None` if it could not be tested, for example without a
    /// ring.
    pub available: Option<bool>,
    /// How the library uses the feature.
    pub usage: Usage,
    /// The replacement that the library uses without the feature.
    pub instead: &'static str,
}

/// How the library uses an available feature. See the example of [`Feature`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Usage {
    /// It is used.
    Used,
    /// It is used only if a better feature is missing.
    Reserve,
    /// It is used if the program requests it.
    OnRequest,
    /// It is not used yet.
    NotYet,
}
