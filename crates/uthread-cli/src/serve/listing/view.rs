//! The order of a listing, and the page of it, by the query of the request:
//! `?sort=size&order=desc&page=2`.
//!
//! What a query does not say, or says in another way, has its default: a link with a query of some
//! other program still shows the directory.

use std::cmp::{Ordering, Reverse};
use std::fmt::Write;
use std::ops::Range;

use alphanumeric_sort::compare_str;

use super::Entry;

/// Number of entries on a page: more than people read.
pub(super) const PAGE_ENTRIES: usize = 1_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Key {
    #[default]
    Name,
    Size,
    Modified,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    key: Key,
    is_descending: bool,
    /// From 0.
    page: usize,
}

impl View {
    /// Parses a query with its question mark.
    pub(crate) fn of(query: &str) -> View {
        let mut view = View::default();
        let pairs = query.trim_start_matches('?').split('&');
        for (name, value) in pairs.filter_map(|pair| pair.split_once('=')) {
            match (name, value) {
                ("sort", "size") => view.key = Key::Size,
                ("sort", "modified") => view.key = Key::Modified,
                ("sort", _) => view.key = Key::Name,
                ("order", value) => view.is_descending = value == "desc",
                ("page", value) => view.page = value.parse().unwrap_or(1_usize).saturating_sub(1),
                _ => {}
            }
        }
        view
    }

    /// Sorts entries: directories first, and by name where the key is the same.
    ///
    /// Numbers in names count by their values: `file2` is before `file10`.
    pub(super) fn sort(self, entries: &mut [Entry]) {
        let by_key = |a: &Entry, b: &Entry| match self.key {
            Key::Name => by_name(a, b),
            Key::Size => a.bytes.cmp(&b.bytes),
            Key::Modified => a.modified_s.cmp(&b.modified_s),
        };
        entries.sort_unstable_by(|a, b| {
            let directories = Reverse(a.directory).cmp(&Reverse(b.directory));
            let keys = if self.is_descending {
                by_key(b, a)
            } else {
                by_key(a, b)
            };
            let names = || match self.key {
                Key::Name => Ordering::Equal,
                Key::Size | Key::Modified => by_name(a, b),
            };
            directories.then(keys).then_with(names)
        });
    }

    /// Returns the entries of the page among so many; those of the last page if it is beyond.
    pub(super) fn range(self, entries: usize) -> Range<usize> {
        let page = self.page.min(pages(entries) - 1);
        let start = page * PAGE_ENTRIES;
        start..entries.min(start + PAGE_ENTRIES)
    }

    /// Appends the head of the table, whose names are links that sort by the column, and then the
    /// other way round.
    pub(super) fn push_head(self, body: &mut String) {
        body.push_str("<thead><tr>");
        self.push_column(Key::Name, "Name", "", body);
        self.push_column(Key::Size, "Size", " class=\"n\"", body);
        let modified = "Modified<span> (UTC)</span>";
        self.push_column(Key::Modified, modified, " class=\"n date\"", body);
        body.push_str("</tr></thead>\n");
    }

    fn push_column(self, key: Key, name: &str, class: &str, body: &mut String) {
        let is_current = self.key == key;
        let (sorted, mark) = match (is_current, self.is_descending) {
            (false, _) => ("", ""),
            (true, false) => (" aria-sort=\"ascending\"", " \u{2191}"),
            (true, true) => (" aria-sort=\"descending\"", " \u{2193}"),
        };
        // The largest and the newest are what people look for.
        let is_descending = if is_current {
            !self.is_descending
        } else {
            key != Key::Name
        };
        let other = View {
            key,
            is_descending,
            page: 0,
        };
        let _ = write!(body, "<th{class}{sorted}><a href=\"");
        other.push_query(body);
        let _ = write!(body, "\">{name}</a>{mark}</th>");
    }

    /// Appends links to the pages, if there are several.
    pub(super) fn push_pages(self, entries: usize, body: &mut String) {
        let range = self.range(entries);
        let (page, pages) = (range.start / PAGE_ENTRIES, pages(entries));
        if pages == 1 {
            return;
        }
        let (first, last) = (range.start + 1, range.end);
        let _ = write!(body, "<p>{first} to {last} of {entries}:");
        let mut push_link = |page: usize, name: &str| {
            body.push_str(" <a href=\"");
            View { page, ..self }.push_query(body);
            let _ = write!(body, "\">{name}</a>");
        };
        push_link(0, "first");
        if page > 0 {
            push_link(page - 1, "previous");
        }
        if page + 1 < pages {
            push_link(page + 1, "next");
        }
        push_link(pages - 1, "last");
        body.push_str("</p>\n");
    }

    fn push_query(self, body: &mut String) {
        let key = match self.key {
            Key::Name => "name",
            Key::Size => "size",
            Key::Modified => "modified",
        };
        let order = if self.is_descending { "desc" } else { "asc" };
        let _ = write!(body, "?sort={key}&amp;order={order}");
        if self.page > 0 {
            let _ = write!(body, "&amp;page={}", self.page + 1);
        }
    }
}

/// Compares names as people count, and by their bytes where they differ in nothing else.
fn by_name(a: &Entry, b: &Entry) -> Ordering {
    let [shown_a, shown_b] = [a, b].map(|entry| String::from_utf8_lossy(&entry.name));
    compare_str(shown_a, shown_b).then_with(|| a.name.cmp(&b.name))
}

fn pages(entries: usize) -> usize {
    entries.div_ceil(PAGE_ENTRIES).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_chooses_order_and_page() {
        let view = |key, is_descending, page| View {
            key,
            is_descending,
            page,
        };
        for (query, expected) in [
            ("", View::default()),
            ("?sort=size&order=desc&page=3", view(Key::Size, true, 2)),
            ("?page=2", view(Key::Name, false, 1)),
            ("?page=0&sort=modified", view(Key::Modified, false, 0)),
            ("?page=x&sort=evil\"><&order=up&a=b&c", View::default()),
            ("?page=99999999999999999999", View::default()),
        ] {
            assert_eq!(View::of(query), expected, "{query}");
        }
    }

    #[test]
    fn numbers_in_names_count_by_their_values() {
        let sorted = |view: View, names: &[&[u8]]| {
            let entry = |name: &&[u8]| Entry {
                directory: false,
                name: name.to_vec(),
                bytes: 1,
                modified_s: 0,
            };
            let mut entries = Vec::from_iter(names.iter().map(entry));
            view.sort(&mut entries);
            Vec::from_iter(entries.into_iter().map(|entry| entry.name))
        };
        let check = |names: &[&[u8]]| {
            let ascending = sorted(View::default(), names);
            assert_eq!(ascending, names);
            let mut descending = sorted(View::of("?sort=name&order=desc"), names);
            descending.reverse();
            assert_eq!(descending, names);
            assert_eq!(sorted(View::of("?sort=size"), names), names);
        };
        check(&[b"file1", b"file2", b"file10", b"file010", b"file20.txt"]);
        check(&[b"v1.9.3", b"v1.10.0", b"v1.10.0-rc2", b"v1.10.0-rc10"]);
        check(&[b"9", b"99999999999999999998", b"99999999999999999999"]);
        // Names that are no UTF-8 have an order too, and the same one each time.
        check(&[b"a\xfe", b"a\xff"]);
    }

    #[test]
    fn pages_cover_all_entries_once() {
        let page = |page, entries| {
            View {
                page,
                ..View::default()
            }
            .range(entries)
        };
        assert_eq!(page(0, 0), 0..0);
        assert_eq!(page(0, 1_000), 0..1_000);
        assert_eq!((page(0, 1_001), page(1, 1_001)), (0..1_000, 1_000..1_001));
        assert_eq!(page(usize::MAX, 1_001), 1_000..1_001);
    }
}
