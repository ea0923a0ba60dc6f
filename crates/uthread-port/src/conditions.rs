//! Evaluates conditions of `cfg`, for a library on Linux that runs a program and is not tested.
//! Flags are unknown, so what depends on them may or may not be there, and so are features that the
//! library has: they may be those of its builds or tests.

use std::env::consts::ARCH;

use super::tokens::Tokens;

/// Returns whether the condition that begins at a token is met; `None` if that is unknown.
pub(super) fn is_met(tokens: &Tokens<'_>, features: &[String], at: usize) -> Option<bool> {
    let own = tokens.text(at);
    match tokens.text(at + 1) {
        "(" => {
            let mut parts = parts(tokens, at + 1).map(|part| is_met(tokens, features, part));
            match own {
                "not" => parts.next()?.map(|is_met| !is_met),
                "all" => fold(parts, false),
                "any" => fold(parts, true),
                _ => None,
            }
        }
        "=" => match (own, tokens.text(at + 2).trim_matches('"')) {
            ("feature", name) => (!features.iter().any(|own| own == name)).then_some(false),
            (own, value) => is_equal(own, value),
        },
        _ => match own {
            "unix" | "true" => Some(true),
            "test" | "windows" | "wasm" | "loom" | "miri" | "doc" | "doctest" | "false" => {
                Some(false)
            }
            _ => None,
        },
    }
}

/// Returns `decisive` if a part is that, the opposite if all are, and `None` otherwise.
fn fold(parts: impl Iterator<Item = Option<bool>>, decisive: bool) -> Option<bool> {
    let mut result = Some(!decisive);
    for part in parts {
        match part {
            Some(part) if part == decisive => return Some(decisive),
            Some(_) => {}
            None => result = None,
        }
    }
    result
}

/// Returns the first tokens of the conditions in the brackets that open at a token.
fn parts<'a>(tokens: &'a Tokens<'_>, open: usize) -> impl Iterator<Item = usize> + 'a {
    let (first, depth) = (open + 1, tokens.depth(open) + 1);
    let inside = (first..tokens.len()).take_while(move |at| tokens.depth(*at) >= depth);
    inside
        .filter(move |at| tokens.depth(*at) == depth && (*at == first || tokens.before(*at) == ","))
}

fn is_equal(name: &str, value: &str) -> Option<bool> {
    let own = match name {
        "target_os" => "linux",
        "target_family" => "unix",
        "target_arch" => ARCH,
        _ => return None,
    };
    Some(value == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(condition: &str, expected: Option<bool>) {
        let tokens = Tokens::new(condition).unwrap();
        let features = ["a".to_owned()];
        assert_eq!(is_met(&tokens, &features, 0), expected, "{condition}");
    }

    #[test]
    fn conditions_are_met_unless_they_are_of_tests_or_other_systems() {
        check("test", Some(false));
        check("windows", Some(false));
        check("unix", Some(true));
        check("not(test)", Some(true));
        check("not(unix)", Some(false));
        check("target_os = \"linux\"", Some(true));
        check("target_os = \"macos\"", Some(false));
        check("target_family = \"wasm\"", Some(false));
        check("all()", Some(true));
        check("any()", Some(false));
        check("any(windows, target_os = \"linux\",)", Some(true));
        check("any(windows, target_os = \"macos\")", Some(false));
        check("all(unix, not(target_os = \"linux\"))", Some(false));
        check("all(feature = \"a\", test)", Some(false));
        check("feature = \"b\"", Some(false));
        check("not(feature = \"b\")", Some(true));
    }

    #[test]
    fn flags_and_own_features_are_unknown() {
        for condition in [
            "feature = \"a\"",
            "tokio_unstable",
            "target_env = \"musl\"",
            "not(feature = \"a\")",
            "all(unix, feature = \"a\")",
            "any(test, feature = \"a\")",
            "other(test)",
        ] {
            check(condition, None);
        }
    }
}
