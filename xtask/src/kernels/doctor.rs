//! What `uthread doctor --json` says of a machine: the driver that the library chose, what it does in place of
//! what the kernel lacks, and whether its self-test went well.

use serde_json::Value;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Diagnosis {
    /// The driver, and how it was set up.
    pub(super) driver: String,
    /// Why it is not the best one, by the kernel's error.
    pub(super) cause: Option<String>,
    /// Each feature that the library would use, with what it uses instead.
    pub(super) lacking: Vec<String>,
    pub(super) is_healthy: bool,
}

impl Diagnosis {
    /// Of a page in JSON; `None` where it is none.
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

/// What a feature is not there for and what is used instead. Those of a ring are not known where none is
/// allowed, and some are for later.
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
    fn what_is_no_page_is_none() {
        for text in ["", "{}", "error: a"] {
            assert_eq!(Diagnosis::parse(text), None, "{text}");
        }
    }
}
