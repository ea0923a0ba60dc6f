//! The page of a directory.

use std::fs;

use crate::harness::Program;

#[test]
fn directories_first_and_everything_escaped() {
    let files = [
        ("b.txt", "0123456789"),
        ("a<b>&\"'.txt", ""),
        ("z/x", ""),
        (".hidden", ""),
        ("100%.txt", ""),
    ];
    let program = Program::serve(&files, &[]);
    let response = program.get("/");
    let html = response.text();
    assert_eq!(
        response.field("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = response.field("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let at = |text: &str| {
        html.find(text)
            .unwrap_or_else(|| panic!("no {text} in {html}"))
    };
    assert!(at("<a href=\"z/\">z/</a>") < at("<a href=\"100%25.txt\">100%.txt</a>"));
    assert!(
        at("<a href=\"a%3Cb%3E%26%22%27.txt\">a&lt;b&gt;&amp;&quot;&#39;.txt</a>") < at("b.txt")
    );
    at("10 B");
    assert!(!html.contains("hidden") && !html.contains("<b>") && !html.contains("../"));
    assert!(!html.contains("http"), "an external resource");
}

#[test]
fn every_link_leads_to_its_file() {
    let names = ["a b", "%41", "q?x", "h#x", "\u{e9}", "c:d", "a'b\"c"];
    let program = Program::serve(&[], &[]);
    fs::create_dir(program.dir().join("s p")).unwrap();
    for name in names {
        fs::write(program.dir().join("s p").join(name), name).unwrap();
    }
    let listing = program.get("/s%20p/");
    let links: Vec<&str> = listing
        .text()
        .split("<td><a href=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|link| *link != "../")
        .collect();
    assert_eq!(links.len(), names.len());
    for link in links {
        let response = program.get(&format!("/s%20p/{link}"));
        assert!(names.contains(&response.text()), "{link}");
    }
}

#[test]
fn breadcrumbs_lead_up() {
    let program = Program::serve(&[("a/b/c/x", "")], &[]);
    let listing = program.get("/a/b/c/");
    for link in [
        "<a href=\"/\">home</a>",
        "<a href=\"/a/\">a</a>",
        "<a href=\"/a/b/\">b</a>",
        "../",
    ] {
        assert!(listing.text().contains(link), "{link}");
    }
}

#[test]
fn folders_are_marked_and_numbers_are_in_their_order() {
    let names_by_row = |html: &str| {
        let rows = html.split("<tr").skip(2);
        let name = |row: &str| {
            row.split("<a href=\"")
                .nth(1)?
                .split('"')
                .next()
                .map(str::to_owned)
        };
        Vec::from_iter(rows.filter_map(|row| Some((row.starts_with(" class=\"dir\""), name(row)?))))
    };
    let files = [
        ("file10", ""),
        ("file2", ""),
        ("part10/x", ""),
        ("part9/x", ""),
    ];
    let program = Program::serve(&files, &[]);
    let expected = [
        (true, "part9/"),
        (true, "part10/"),
        (false, "file2"),
        (false, "file10"),
    ];
    let expected = expected.map(|(is_folder, name)| (is_folder, name.to_owned()));
    assert_eq!(names_by_row(program.get("/").text()), expected);
}

#[test]
fn no_listing_when_it_is_turned_off() {
    let program = Program::serve(&[("a", ""), ("sub/index.html", "index")], &["--no-listing"]);
    assert_eq!(program.get("/").status, 403);
    assert_eq!(program.get("/sub/").text(), "index");
}

/// Returns the names in the table of a listing.
fn names(html: &str) -> Vec<&str> {
    let rows = html.split("<td><a href=\"").skip(1);
    rows.map(|row| row.split('"').next().unwrap()).collect()
}

#[test]
fn every_entry_of_a_huge_directory_is_on_one_page() {
    let program = Program::serve(&[], &[]);
    for number in 0..2_500 {
        fs::File::create(program.dir().join(format!("{number:04}"))).unwrap();
    }
    let mut url = "/".to_owned();
    let mut found = Vec::new();
    for _ in 0..3 {
        let listing = program.get(&url);
        let html = listing.text();
        found.extend(names(html).into_iter().map(str::to_owned));
        let next = html.split("\">next</a>").next().unwrap();
        url = format!(
            "/{}",
            next.rsplit("href=\"").next().unwrap().replace("&amp;", "&")
        );
    }
    let expected: Vec<String> = (0..2_500).map(|number| format!("{number:04}")).collect();
    assert_eq!(found, expected);
    let last = program.get("/?page=3");
    assert!(last.text().contains("2001 to 2500 of 2500") && !last.text().contains(">next<"));
}

#[test]
fn a_click_on_a_column_sorts_by_it() {
    let files = [("a", "123"), ("b", "1"), ("c", "12345"), ("z/x", "")];
    let program = Program::serve(&files, &[]);
    let sorted = |query: &str, expected: &[&str]| {
        let listing = program.get(query);
        assert_eq!(names(listing.text()), expected, "{query}");
    };
    sorted("/", &["z/", "a", "b", "c"]);
    sorted("/?sort=name&order=desc", &["z/", "c", "b", "a"]);
    sorted("/?sort=size&order=desc", &["z/", "c", "a", "b"]);
    sorted("/?sort=size&order=asc", &["z/", "b", "a", "c"]);
    let html = program.get("/");
    assert!(
        html.text()
            .contains("<a href=\"?sort=size&amp;order=desc\">Size</a>")
    );
    assert!(
        html.text()
            .contains("<a href=\"?sort=name&amp;order=desc\">Name</a>")
    );
}
