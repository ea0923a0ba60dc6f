//! Formats numbers and paragraphs for people.

/// Formats a number with a comma after every three digits.
pub(crate) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Rounds an estimate down to three digits.
pub(crate) fn rounded(value: u64) -> u64 {
    let unit = 10_u64.pow(value.checked_ilog10().unwrap_or_default().saturating_sub(2));
    value / unit * unit
}

/// Formats a size in the largest unit of which there is at least one.
pub(crate) fn bytes(value: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let Some((unit, name)) = UNITS.into_iter().find(|(unit, _)| value >= *unit) else {
        return format!("{value} bytes");
    };
    match value % unit {
        0 => format!("{} {name}", number(value / unit)),
        _ => format!("{:.1} {name}", value as f64 / unit as f64),
    }
}

/// Breaks a text into lines of at most `width` characters; longer words stay whole.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always one");
        if !line.is_empty() && line.len() + 1 + word.len() > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes() {
        for (value, as_number, as_size) in [
            (0, "0", "0 bytes"),
            (999, "999", "999 bytes"),
            (1_000, "1,000", "1000 bytes"),
            (65_536, "65,536", "64 KiB"),
            (86_016, "86,016", "84 KiB"),
            (1_234_567, "1,234,567", "1.2 MiB"),
            (8 << 30, "8,589,934,592", "8 GiB"),
        ] {
            assert_eq!(number(value), as_number);
            assert_eq!(bytes(value), as_size);
        }
    }

    #[test]
    fn estimates_keep_three_digits() {
        for (value, expected) in [(0, 0), (999, 999), (1_234, 1_230), (4_741_350, 4_740_000)] {
            assert_eq!(rounded(value), expected);
        }
    }

    #[test]
    fn lines_are_as_long_as_they_may_be() {
        assert_eq!(wrap("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrap("longer a", 4), ["longer", "a"]);
        assert_eq!(wrap("", 4), [""]);
    }
}
