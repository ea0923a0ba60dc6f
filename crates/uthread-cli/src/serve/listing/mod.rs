//! The pages that list a directory.

mod view;

use std::ffi::CStr;
use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};
use uthread::fs::File;

use rustix::fs::{AtFlags, Dir, FileType, Stat, statat};

use super::page;
use super::root::{Opened, Root};
use super::target;

pub(crate) use view::View;

/// Maximum number of entries that are read and sorted: some 10 MB for each request, of which the
/// pool performs few at a time.
const ENTRIES_MAX: usize = 100_000;

#[derive(Debug)]
struct Entry {
    directory: bool,
    name: Vec<u8>,
    bytes: u64,
    modified_s: i64,
}

#[derive(Debug)]
struct Entries {
    list: Vec<Entry>,
    /// True if the directory has more entries than are listed.
    cut: bool,
}

/// Returns a page of the directory at `path`, which `dir` has open.
pub(crate) fn page(root: &Root, dir: &File, path: &[u8], view: View) -> rustix::io::Result<String> {
    let mut entries = read_entries(root, dir, path)?;
    view.sort(&mut entries.list);
    Ok(render(path, &entries, view))
}

/// Reads the directory with plain system calls, which the kernel answers from its caches.
fn read_entries(root: &Root, dir: &File, path: &[u8]) -> rustix::io::Result<Entries> {
    let mut list = Vec::new();
    for item in Dir::read_from(dir)? {
        let item = item?;
        // Hidden names are not served, so they are not listed.
        if item.file_name().to_bytes().starts_with(b".") {
            continue;
        }
        if list.len() == ENTRIES_MAX {
            return Ok(Entries { list, cut: true });
        }
        list.extend(entry(root, dir, path, item.file_name()));
    }
    Ok(Entries { list, cut: false })
}

/// Returns the entry of a name; `None` if it would not be served, or no longer exists.
fn entry(root: &Root, dir: &File, path: &[u8], name: &CStr) -> Option<Entry> {
    let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Some(Entry {
            directory: false,
            name: name.to_bytes().to_vec(),
            bytes: stat.st_size.unsigned_abs(),
            modified_s: modified_s(&stat),
        }),
        FileType::Directory => Some(Entry {
            directory: true,
            name: name.to_bytes().to_vec(),
            bytes: 0,
            modified_s: modified_s(&stat),
        }),
        FileType::Symlink => linked_entry(root, dir, path, name),
        _ => None,
    }
}

/// Returns the entry of a symbolic link: its target, if a request for it would succeed.
fn linked_entry(root: &Root, dir: &File, path: &[u8], name: &CStr) -> Option<Entry> {
    let full_path = match path {
        b"" => name.to_bytes().to_vec(),
        _ => [path, b"/", name.to_bytes()].concat(),
    };
    let opened = root.open(&full_path).ok()?;
    let stat = statat(dir, name, AtFlags::empty()).ok()?;
    Some(Entry {
        directory: matches!(opened, Opened::Directory(_)),
        name: name.to_bytes().to_vec(),
        bytes: match opened {
            Opened::File(regular) => regular.bytes(),
            Opened::Directory(_) => 0,
        },
        modified_s: modified_s(&stat),
    })
}

/// Returns the time of the last modification. The type of the field differs between architectures.
#[allow(
    clippy::useless_conversion,
    reason = "st_mtime is no i64 on 32-bit platforms"
)]
fn modified_s(stat: &Stat) -> i64 {
    i64::from(stat.st_mtime)
}

fn render(path: &[u8], entries: &Entries, view: View) -> String {
    let count = entries.list.len();
    let shown = &entries.list[view.range(count)];
    let mut body = String::with_capacity(shown.len() * 200 + 1024);
    push_breadcrumbs(path, &mut body);
    if entries.cut {
        writeln!(
            body,
            "<p>The directory has more than {ENTRIES_MAX} entries; these are from the first that it names.</p>"
        )
        .expect("a string takes every write");
    }
    view.push_pages(count, &mut body);
    body.push_str("<table>\n");
    view.push_head(&mut body);
    body.push_str("<tbody>\n");
    if !path.is_empty() {
        body.push_str(
            "<tr class=\"dir\"><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n",
        );
    }
    for entry in shown {
        push_row(entry, &mut body);
    }
    body.push_str("</tbody>\n</table>\n");
    if entries.list.is_empty() {
        body.push_str("<p>This directory is empty.</p>\n");
    }
    view.push_pages(count, &mut body);
    page::document(&format!("/{}", String::from_utf8_lossy(path)), &body)
}

/// Appends the path; every part but the last links to its directory.
fn push_breadcrumbs(path: &[u8], body: &mut String) {
    body.push_str("<h1>");
    let mut parts = path
        .split(|&byte| byte == b'/')
        .filter(|part| !part.is_empty())
        .peekable();
    body.push_str(if parts.peek().is_some() {
        "<a href=\"/\">home</a>"
    } else {
        "home"
    });
    let mut url = String::new();
    while let Some(part) = parts.next() {
        target::encode(part, &mut url);
        body.push_str("<span>/</span>");
        if parts.peek().is_some() {
            write!(body, "<a href=\"{url}/\">").expect("a string takes every write");
            page::escape(&String::from_utf8_lossy(part), body);
            body.push_str("</a>");
        } else {
            page::escape(&String::from_utf8_lossy(part), body);
        }
    }
    body.push_str("</h1>\n");
}

fn push_row(entry: &Entry, body: &mut String) {
    let (row, slash) = if entry.directory {
        ("<tr class=\"dir\">", "/")
    } else {
        ("<tr>", "")
    };
    body.push_str(row);
    body.push_str("<td><a href=\"");
    target::encode_name(&entry.name, body);
    body.push_str(slash);
    body.push_str("\">");
    page::escape(&String::from_utf8_lossy(&entry.name), body);
    body.push_str(slash);
    body.push_str("</a></td><td class=\"n\">");
    if !entry.directory {
        push_size(entry.bytes, body);
    }
    body.push_str("</td><td class=\"n date\">");
    push_date(entry.modified_s, body);
    body.push_str("</td></tr>\n");
}

/// Appends a size for people: at most three digits, in binary units.
fn push_size(bytes: u64, out: &mut String) {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        write!(out, "{bytes} B").expect("a string takes every write");
        return;
    }
    // In tenths of a unit, rounded down: 1023 KiB never shows as 1024.
    let mut tenths = u128::from(bytes) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10_240 {
        tenths /= 1024;
        unit += 1;
    }
    let (whole, tenth) = (tenths / 10, tenths % 10);
    let unit = UNITS[unit];
    if whole < 10 {
        write!(out, "{whole}.{tenth} {unit}")
    } else {
        write!(out, "{whole} {unit}")
    }
    .expect("a string takes every write");
}

fn push_date(unix_s: i64, out: &mut String) {
    // Last second of the year 9999, the last that the format can represent.
    let clamped_s = unix_s.clamp(0, 253_402_300_799).unsigned_abs();
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(clamped_s));
    let text = time.to_string();
    write!(
        out,
        "<time datetime=\"{text}\">{}<span> {}</span></time>",
        &text[..10],
        &text[11..16]
    )
    .expect("a string takes every write");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (10 * 1024, "10 KiB"),
            (1024 * 1024 - 1, "1023 KiB"),
            (1024 * 1024, "1.0 MiB"),
            (u64::MAX, "15 EiB"),
        ] {
            let mut out = String::new();
            push_size(bytes, &mut out);
            assert_eq!(out, expected, "{bytes}");
        }
    }

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let entry = Entry {
            directory: false,
            name: b"\"><script>&\xff".to_vec(),
            bytes: 1,
            modified_s: 0,
        };
        let mut body = String::new();
        push_row(&entry, &mut body);
        assert!(body.contains("href=\"%22%3E%3Cscript%3E%26%FF\""), "{body}");
        assert!(
            body.contains(">&quot;&gt;&lt;script&gt;&amp;\u{fffd}</a>"),
            "{body}"
        );
        assert!(body.contains(
            "<time datetime=\"1970-01-01T00:00:00Z\">1970-01-01<span> 00:00</span></time>"
        ));
    }

    #[test]
    fn a_cut_list_has_a_note() {
        let entries = Entries {
            list: Vec::new(),
            cut: true,
        };
        let html = render(b"a", &entries, View::default());
        assert!(html.contains("more than 100000 entries"), "{html}");
    }

    #[test]
    fn breadcrumbs() {
        let mut body = String::new();
        push_breadcrumbs(b"a b/<c>", &mut body);
        assert_eq!(
            body,
            "<h1><a href=\"/\">home</a><span>/</span><a href=\"/a%20b/\">a b</a>\
             <span>/</span>&lt;c&gt;</h1>\n"
        );
    }
}
