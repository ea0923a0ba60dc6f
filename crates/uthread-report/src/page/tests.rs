//! The page as a whole: read again by a strict parser.

use roxmltree::{Document, Node};

use super::*;
use crate::plot::{Curve, Plot, Scale};
use crate::results::tests::{committed, taken};
use crate::results::{Better, Limit, Metric, Point, Subject};

/// Draws and parses the page, and passes the document to `ask`.
fn check(results: &Results, ask: impl FnOnce(&Document<'_>)) {
    let method = Section {
        id: "method",
        title: "Method",
        body: counts(results),
    };
    let words = Page {
        title: "A title",
        lead: "A lead.",
        command: "uthread-bench",
        sections: vec![method],
    };
    let page = draw(&words, results);
    let body = page
        .strip_prefix("<!doctype html>\n")
        .expect("a document type");
    let document = Document::parse(body).unwrap_or_else(|error| panic!("{error}\n{body}"));
    ask(&document);
}

fn elements<'a>(document: &'a Document<'a>, name: &str) -> Vec<Node<'a, 'a>> {
    let nodes = document.descendants();
    nodes
        .filter(|node| node.tag_name().name() == name)
        .collect()
}

fn text(node: Node<'_, '_>) -> String {
    node.descendants()
        .filter_map(|node| node.text().filter(|_| node.is_text()))
        .collect()
}

/// Returns the committed report with so many rounds: ratios take time.
fn report(rounds: usize) -> Results {
    let mut results = committed();
    let panels = results
        .studies
        .iter_mut()
        .flat_map(|study| &mut study.panels);
    let cells = panels.flat_map(|panel| panel.rounds.iter_mut().flatten());
    cells.for_each(|cell| cell.truncate(rounds));
    results
}

#[test]
fn the_committed_report_is_drawn() {
    let results = report(1);
    let panels = || results.studies.iter().flat_map(|study| &study.panels);
    let has_figure = |panel: &Panel, metric: usize| {
        let mut rounds = panel.rounds.iter().flatten().flatten();
        panel.metrics[metric].is_drawn && rounds.any(|round| round.figure(metric).is_some())
    };
    let drawn = |panel: &Panel| {
        (0..panel.metrics.len())
            .filter(|&metric| has_figure(panel, metric))
            .count()
    };
    check(&results, |document| {
        let figures = elements(document, "figure");
        let absolute = figures
            .iter()
            .filter(|figure| figure.attribute("class").is_none());
        assert_eq!(absolute.count(), panels().map(drawn).sum::<usize>());
        let of_class = |class| {
            figures
                .iter()
                .filter(move |figure| figure.attribute("class") == Some(class))
        };
        assert!(of_class("ratios").count() > 20 && of_class("each").count() > 10);
        assert!(of_class("percentiles").count() > 20);
        let has_drawing = |figure: &Node<'_, '_>| {
            let mut names = figure.children().map(|child| child.tag_name().name());
            names.any(|name| name == "svg" || name == "div")
        };
        assert!(figures.iter().all(has_drawing));
        assert_eq!(elements(document, "thead").len(), panels().count());
        let whole = text(document.root());
        assert!(
            results
                .studies
                .iter()
                .all(|study| whole.contains(&study.title))
        );
        check_links(document);
        check_places(document);
    });
    assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
}

/// Checks that every link has a target, and that nothing is loaded.
fn check_links(document: &Document<'_>) {
    let nodes = document.descendants();
    let ids: Vec<&str> = nodes.filter_map(|node| node.attribute("id")).collect();
    for link in elements(document, "a") {
        let target = link.attribute("href").unwrap().strip_prefix('#').unwrap();
        assert_eq!(
            ids.iter().filter(|id| **id == target).count(),
            1,
            "{target}"
        );
    }
    for name in ["script", "link", "img", "iframe", "object", "image", "use"] {
        assert_eq!(elements(document, name).len(), 0, "{name}");
    }
    let mut attributes = document.descendants().flat_map(|node| node.attributes());
    let loads =
        attributes.any(|attribute| attribute.name() == "src" || attribute.value().contains("url("));
    assert!(!loads);
}

/// Checks that everything that is drawn is within its drawing.
fn check_places(document: &Document<'_>) {
    for svg in elements(document, "svg") {
        let size = |name| svg.attribute(name).unwrap().parse::<f64>().unwrap();
        let (width, height) = (size("width"), size("height"));
        for node in svg
            .descendants()
            .filter(|node| node.tag_name().name() == "text")
        {
            let place = |name| node.attribute(name).unwrap().parse::<f64>().unwrap();
            let words = text(node);
            let long = words.trim().chars().count() as f64 * 6.0;
            let (start, end) = match node.attribute("text-anchor") {
                Some("middle") => (place("x") - long / 2.0, place("x") + long / 2.0),
                Some("end") => (place("x") - long, place("x")),
                _ => (place("x"), place("x") + long),
            };
            // A chart has 388 of the 420 pixels of a phone.
            let font = node.attribute("font-size").unwrap().parse::<f64>().unwrap();
            assert!(
                font * (388.0 / width).min(1.0) >= 11.0,
                "{words:?} is too small"
            );
            // An axis may have a label at its very end.
            assert!(
                start >= -6.0 && end <= width + 6.0,
                "{words:?} {start}..{end}"
            );
            assert!((0.0..=height).contains(&place("y")), "{words:?}");
        }
    }
}

/// Returns results of one metric, `None` for a failed round; the first subject is ours.
fn results(values: &[Option<f64>], medians: &[&[Option<f64>]]) -> Results {
    let point = |value: &Option<f64>| value.map_or_else(|| Point::name("name"), Point::number);
    let points = values.iter().map(point).collect();
    let metrics = vec![Metric::new("CPU", "us", Better::Less).drawn()];
    let mut panel = Panel::new("a panel", "connections", points, metrics);
    let round = |figure: Option<f64>| match figure {
        Some(figure) => taken(&[figure]),
        None => Round::Cannot("too few threads".to_owned()),
    };
    let cells = |point: usize| {
        medians
            .iter()
            .map(|subject| vec![round(subject[point])])
            .collect()
    };
    panel.rounds = (0..values.len()).map(cells).collect();
    let subject = |index| match index {
        0 => Subject::ours("uthread"),
        _ => Subject::peer(&format!("peer {index}"), Some("1.2.3".to_owned()), None),
    };
    let subjects = (0..medians.len()).map(subject).collect();
    let words = ["s", "a title", "a question?"];
    Results {
        studies: vec![Study::new(
            words,
            vec!["a note".to_owned()],
            subjects,
            vec![panel],
        )],
    }
}

#[test]
fn a_missing_figure_is_a_gap_and_never_a_zero() {
    let numbers = [Some(1.0), Some(10.0), Some(100.0)];
    let medians: [&[_]; 2] = [&[Some(5.0), None, Some(6.0)], &[Some(5.0), Some(6.0), None]];
    check(&results(&numbers, &medians), |document| {
        // A circle for each figure, and one for the ratio at the only point that has both.
        assert_eq!(elements(document, "circle").len(), 5);
        // A line only between neighbours: that of the peer.
        let lines = elements(document, "polyline").into_iter().filter(|line| {
            let group = line.parent().and_then(|group| group.attribute("class"));
            let points = line.attribute("points").unwrap().split_whitespace().count();
            line.attribute("opacity") == Some("1") && points > 1 && group == Some("line k1")
        });
        assert_eq!(lines.count(), 1);
        let names: Vec<String> = elements(document, "text").into_iter().map(text).collect();
        assert!(names.iter().any(|name| name.trim() == "uthread"));
        assert!(names.iter().any(|name| name.trim() == "peer 1 \u{2020}"));
    });
    check(&results(&[None; 3], &medians), |document| {
        let texts: Vec<String> = elements(document, "span").into_iter().map(text).collect();
        let count = |word: &str| texts.iter().filter(|text| text.trim() == word).count();
        assert_eq!(
            (count("5.00"), count("6.00"), count("no figure")),
            (2, 2, 2)
        );
    });
    let nothing: [&[_]; 1] = [&[None, None]];
    check(&results(&[Some(1.0), Some(2.0)], &nothing), |document| {
        assert_eq!(elements(document, "figure").len(), 0);
        assert_eq!(
            text(document.root())
                .matches("1 \u{d7} too few threads")
                .count(),
            2
        );
    });
    // Each subject of three has a switch, which hides its lines.
    let three: [&[_]; 3] = [&[Some(5.0), Some(6.0)]; 3];
    check(&results(&[Some(1.0), Some(2.0)], &three), |document| {
        let switches = elements(document, "input").into_iter();
        let switches: Vec<_> = switches.map(|switch| switch.attribute("class")).collect();
        assert_eq!(switches, [Some("s0"), Some("s1"), Some("s2")]);
        let style = text(elements(document, "style")[0]);
        let drawn = |class: &str| {
            let groups = elements(document, "g").into_iter();
            groups
                .filter(|group| group.attribute("class") == Some(class))
                .count()
        };
        for index in 0..3 {
            assert!(style.contains(&format!(
                ".study:has(.s{index}:not(:checked)) .k{index}{{display:none}}"
            )));
            let expected = if index == 0 { 1 } else { 2 };
            assert_eq!(drawn(&format!("line k{index}")), expected, "{index}");
        }
        let titles: Vec<String> = elements(document, "title").into_iter().map(text).collect();
        assert!(
            titles
                .iter()
                .any(|title| title == "peer 2\n1 connection: 5.00\n2 connections: 6.00"),
            "{titles:?}"
        );
    });
    check(&Results::default(), |document| {
        assert!(text(document.root()).contains("Nothing has been measured."));
    });
}

#[test]
fn long_names_stand_below_their_lines() {
    let check_height = |name: &str, expected: f64| {
        let mut results = results(&[Some(1.0), Some(2.0)], &[&[Some(5.0); 2], &[Some(6.0); 2]]);
        results.studies[0].subjects[1].name = name.to_owned();
        check(&results, |document| {
            check_places(document);
            let heights = elements(document, "svg").into_iter();
            let heights = heights.map(|svg| svg.attribute("height").unwrap().parse::<f64>());
            let most = heights.flatten().fold(0.0, f64::max);
            assert_eq!(most, expected, "{name}");
        });
    };
    check_height("peer", 260.0);
    check_height("a technique with priorities", 260.0 + 2.0 * 17.0);
}

#[test]
fn absent_subjects_are_named() {
    let medians: [&[_]; 3] = [&[Some(5.0)], &[Some(6.0)], &[None]];
    let mut results = results(&[None], &medians);
    let study = &mut results.studies[0];
    study.panels[0].rounds[0][1].clear();
    study.panels[0].rounds[0][2].clear();
    study.subjects[2].missing = Some("run `apt-get install it`".to_owned());
    check(&results, |document| {
        let whole = text(document.root());
        assert!(whole.contains("Not measured here: peer 1."), "{whole}");
        assert!(
            whole.contains("peer 2 is missing: run apt-get install it"),
            "{whole}"
        );
        assert!(
            elements(document, "code")
                .into_iter()
                .any(|code| text(code) == "apt-get install it")
        );
    });
}

#[test]
fn facts_stand_once_if_all_studies_share_them() {
    let mut results = results(&[None], &[&[Some(5.0)]]);
    let facts = |day: &str| vec![("date".to_owned(), day.to_owned())];
    results.studies[0].facts = facts("2026-11-22");
    check(&results, |document| {
        let whole = text(document.root());
        let needless = ["Studies", "Alone"].map(|words| whole.contains(words));
        assert_eq!(needless, [false; 2], "words for several studies");
    });
    results.studies.push(results.studies[0].clone());
    results.studies[1].name = "t".to_owned();
    let lists = |document: &Document<'_>| {
        elements(document, "dl")
            .into_iter()
            .map(text)
            .collect::<Vec<_>>()
    };
    check(&results, |document| {
        assert_eq!(lists(document), ["date 2026-11-22"])
    });
    results.studies[1].facts = facts("2026-11-23");
    check(&results, |document| {
        assert_eq!(lists(document), ["date 2026-11-22", "date 2026-11-23"])
    });
}

fn scale(name: &str) -> Scale {
    Scale {
        name: name.to_owned(),
        is_log: false,
    }
}

#[test]
fn a_plot_has_its_points() {
    let mut results = results(&[None], &[&[Some(5.0)]]);
    let curve = |name: &str, count: u32| Curve {
        name: name.to_owned(),
        points: (1..=count).map(|at| (f64::from(at), 7.0)).collect(),
    };
    let plot = |is_scatter, curves| Plot {
        title: "an order".to_owned(),
        x: scale("first"),
        y: scale("second"),
        is_scatter,
        curves,
    };
    results.studies[0].plots = vec![
        plot(true, vec![curve("a", 3), curve("b", 2)]),
        plot(false, vec![curve("uthread", 4)]),
        plot(true, vec![curve("nothing", 0)]),
    ];
    check(&results, |document| {
        // Each of the two sets is also drawn by itself.
        assert_eq!(elements(document, "circle").len(), 2 * 5);
        // A bar, and the plots with points.
        assert_eq!(elements(document, "figure").len(), 3);
        assert_eq!(text(document.root()).matches("an order").count(), 2);
        check_places(document);
    });
}

#[test]
fn a_line_has_the_look_of_its_subject_and_leaves_gaps() {
    let mut results = results(&[None], &[&[Some(5.0)]]);
    let gap = f64::NAN;
    let heights = [7.0, 8.0, gap, 7.0, gap, 7.0, 8.0, 7.0];
    results.studies[0].plots = vec![Plot {
        title: "over time".to_owned(),
        x: scale("seconds"),
        y: scale("seconds"),
        is_scatter: false,
        curves: vec![Curve {
            name: "uthread p99".to_owned(),
            points: (1..).map(f64::from).zip(heights).collect(),
        }],
    }];
    check(&results, |document| {
        let groups = elements(document, "g").into_iter();
        let mut lines = groups.filter(|group| group.attribute("class") == Some("line k0"));
        let drawn = |name: &str| {
            let mut nodes = lines.clone();
            let group = nodes.next().expect("a line of the subject");
            let nodes = group.descendants();
            nodes.filter(|node| node.has_tag_name(name)).count()
        };
        assert_eq!((drawn("polyline"), drawn("circle")), (2, 1));
        assert!(lines.next().is_some() && lines.next().is_none());
        check_places(document);
    });
}

#[test]
fn no_text_of_the_results_is_markup() {
    let planted = "<i x=\"1\">&amp;</i>'";
    let mut results = results(
        &[Some(1.0), Some(2.0)],
        &[&[Some(5.0), Some(6.0)], &[Some(6.0), None]],
    );
    let study = &mut results.studies[0];
    let panel = &mut study.panels[0];
    panel.limits.push(Limit {
        name: "a limit".to_owned(),
        metric: 0,
        figures: vec![1.0; 2],
    });
    let (limit, metric) = (&mut panel.limits[0].name, &mut panel.metrics[0].name);
    let texts = [
        &mut study.title,
        &mut study.notes[0],
        &mut study.subjects[1].name,
        &mut panel.axis,
        limit,
        metric,
    ];
    texts.into_iter().for_each(|text| text.push_str(planted));
    check(&results, |document| {
        assert_eq!(elements(document, "i").len(), 0);
        let whole = text(document.root());
        for kind in [
            "a title",
            "a note",
            "peer 1",
            "connections",
            "CPU",
            "a limit",
        ] {
            assert!(whole.contains(&format!("{kind}{planted}")), "{kind}");
        }
    });
}
