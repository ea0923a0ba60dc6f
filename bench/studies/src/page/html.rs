//! Text as HTML that is also XML, so that a test can read the whole page with a strict parser.

/// Fit for an element and for a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\n' | '\t' => html.push(' '),
            // A server's message may hold control characters; XML may not.
            control if control.is_control() => html.push(char::REPLACEMENT_CHARACTER),
            '\u{fffe}' | '\u{ffff}' => html.push(char::REPLACEMENT_CHARACTER),
            plain => html.push(plain),
        }
    }
    html
}

/// A sentence, in which `code` stands between backticks.
pub(super) fn prose(text: &str) -> String {
    let parts = text.split('`');
    let count = parts.clone().count();
    let part = |(index, part): (usize, &str)| match index % 2 {
        0 => escape(part),
        // The last backtick of an odd number opens nothing.
        _ if index + 1 == count => format!("`{}", escape(part)),
        _ => format!("<code>{}</code>", escape(part)),
    };
    parts.enumerate().map(part).collect()
}

/// What a link can name: small letters, digits and hyphens.
pub(super) fn anchor(text: &str) -> String {
    let letter = |letter: char| match letter.to_ascii_lowercase() {
        plain @ ('a'..='z' | '0'..='9') => plain,
        _ => '-',
    };
    text.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup() {
        let check = |text, expected: &str| assert_eq!(escape(text), expected);
        check(
            "a < b && c > \"d'\"",
            "a &lt; b &amp;&amp; c &gt; &quot;d&#39;&quot;",
        );
        check(
            "one\ntwo\u{0}\u{1b}[1m\u{ffff}",
            "one two\u{fffd}\u{fffd}[1m\u{fffd}",
        );
        check("µs, 20 %", "µs, 20 %");
    }

    #[test]
    fn code_stands_between_backticks() {
        let check = |text, expected: &str| assert_eq!(prose(text), expected);
        check("a < b", "a &lt; b");
        check("run `a < b` now", "run <code>a &lt; b</code> now");
        check("`a`, `b`", "<code>a</code>, <code>b</code>");
        check("one ` alone", "one ` alone");
    }

    #[test]
    fn an_anchor_has_no_marks() {
        assert_eq!(anchor("Echo <16> B"), "echo--16--b");
    }
}
