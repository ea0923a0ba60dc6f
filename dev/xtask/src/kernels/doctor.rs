//! Parses the output of `uthread doctor --json`: the chosen driver, the replacements for missing
//! features, and the result of the self-test.

use serde_json::Value;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Diagnosis {
    /// The driver, and its configuration.
    pub(super) driver: String,
    /// The kernel's error, if the driver is not the best one.
    pub(super) cause: Option<String>,
    /// Missing features, each with its replacement.
    pub(super) lacking: Vec<String>,
    pub(super) is_healthy: bool,
}

impl Diagnosis {
    /// Parses a report in JSON; returns `None` if it is invalid.
    pub(super) fn parse(page: &str) -> Option<Diagnosis> {
        let page: Value = serde_json::from_str(page).ok()?;
        let (driver, ring) = (&page["driver"], &page["io_uring"]);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let features = [
            &ring["features"],
            &ring["operations"],
            &page["system_features"],
        ];
        let features = features.into_iter().filter_map(Value::as_array).flatten();
        Some(Diagnosis {
            driver: match driver["error"].as_str() {
                Some(error) => format!("none: {error}"),
                None => format!("{} ({})", text(&driver["name"])?, text(&driver["details"])?),
            },
            cause: text(&ring["cause"]),
            lacking: features.filter_map(lacking).collect(),
            is_healthy: page["healthy"].as_bool()?,
        })
    }
}

/// Returns a missing feature and its replacement. Skips features of a ring that could not be
/// tested, and features that are not used yet.
fn lacking(feature: &Value) -> Option<String> {
    let is_wanted = feature["usage"] != "not used yet";
    let (name, instead) = (feature["name"].as_str()?, feature["instead"].as_str()?);
    (is_wanted && feature["available"] == false).then(|| format!("{name} ({instead})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_understood() {
        let page = r#"{
            "driver": {"name": "epoll", "details": "so", "error": null},
            "io_uring": {"cause": "not permitted", "operations": [], "features": [
                {"name": "a", "available": true, "usage": "used", "instead": "b"},
                {"name": "c", "available": false, "usage": "used", "instead": "d"},
                {"name": "e", "available": null, "usage": "used", "instead": "f"},
                {"name": "g", "available": false, "usage": "not used yet", "instead": "h"}]},
            "system_features": [
                {"name": "i", "available": false, "usage": "in reserve", "instead": "j"}],
            "healthy": true}"#;
        let expected = Diagnosis {
            driver: "epoll (so)".into(),
            cause: Some("not permitted".into()),
            lacking: vec!["c (d)".into(), "i (j)".into()],
            is_healthy: true,
        };
        assert_eq!(Diagnosis::parse(page), Some(expected));
    }

    #[test]
    fn where_no_runtime_starts_the_error_is_the_driver() {
        let page = r#"{"driver": {"error": "EPERM"}, "io_uring": {}, "healthy": false}"#;
        let diagnosis = Diagnosis::parse(page).unwrap();
        assert_eq!(diagnosis.driver, "none: EPERM");
        assert!(!diagnosis.is_healthy);
    }

    #[test]
    fn other_text_is_no_page() {
        for text in ["", "{}", "error: a"] {
            assert_eq!(Diagnosis::parse(text), None, "{text}");
        }
    }
}
