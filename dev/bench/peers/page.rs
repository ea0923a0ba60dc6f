//! What a service answers in the benchmarks: a text, a value as JSON, and a page of rows, which it sorts and
//! escapes for each request as if a database had returned them.

use std::fmt::Write as _;

pub(crate) const TEXT: &str = "Hello, World!";

/// Returns the page.
pub(crate) fn page() -> String {
    let rows = (1..=20_u32).map(|id| (id, format!("<row {:02}> of \"20\" & more", id * 7 % 20)));
    let mut rows = Vec::from_iter(rows);
    rows.sort_by(|(_, left), (_, right)| left.cmp(right));
    let mut page = "<!DOCTYPE html><table>".to_owned();
    for (id, text) in rows {
        write!(page, "<tr><td>{id}<td>").expect("text has room");
        for character in text.chars() {
            match character {
                '<' => page.push_str("&lt;"),
                '>' => page.push_str("&gt;"),
                '&' => page.push_str("&amp;"),
                '"' => page.push_str("&#34;"),
                _ => page.push(character),
            }
        }
    }
    page.push_str("</table>\n");
    page
}
