//! The report: one HTML file out of what was measured, with nothing loaded from elsewhere and no script.
//!
//! A pure function of the results. See the README beside this file for what is drawn how.

mod html;

mod scale;

mod labels;

mod look;

mod chart;

mod lines;

mod bars;

mod table;

mod ratios;

mod board;

mod method;

mod command;

#[cfg(test)]
mod sample;

#[cfg(test)]
mod tests;

pub(crate) use command::{Args, run, write, write_whole};

use crate::results::{Facts, Panel, Results, Study, Subject};
use crate::targets::Verdict;
use chart::Chart;
use html::{anchor, escape, prose};
use look::Looks;

const STYLE: &str = include_str!("style.css");
const TITLE: &str = "Where uthread stands";
const LEAD: &str = "User-level threads for Rust beside other runtimes, servers and the bare kernel: the same work, on one machine, in \
                    rounds taken in turn. What could not be measured is named, not guessed.";

/// A whole document, which is XML too.
pub(crate) fn draw(results: &Results, verdicts: &[Verdict]) -> String {
    let looks = Looks::of(results);
    let common = results.common_facts();
    let study = |study: &Study| {
        let own = common.map_or_else(|| facts("facts own", &study.facts), |_| String::new());
        draw_study(study, &own, &looks)
    };
    let studies: String = results.studies.iter().map(study).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <title>{TITLE}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <header><h1>{TITLE}</h1>\n<p class=\"lead\">{LEAD}</p>\n{}</header>\n\
         <section id=\"targets\"><h2>Targets</h2>\n{}</section>\n\
         <section id=\"method\"><h2>Method</h2>\n{}</section>\n{}{studies}</main>\n</body>\n</html>\n",
        common.map_or_else(|| without_common(results), |common| facts("facts", common)),
        board::draw(verdicts),
        method::draw(results),
        contents(results)
    )
}

fn facts(class: &str, facts: &Facts) -> String {
    let fact = |(name, value): &(String, String)| {
        format!(
            "<div><dt>{}</dt> <dd>{}</dd></div>",
            escape(name),
            escape(value)
        )
    };
    match facts.is_empty() {
        true => String::new(),
        false => format!(
            "<dl class=\"{class}\">{}</dl>",
            facts.iter().map(fact).collect::<String>()
        ),
    }
}

/// What stands where the facts would, were they the same for all.
fn without_common(results: &Results) -> String {
    match results.studies.iter().all(|study| study.facts.is_empty()) {
        true => String::new(),
        false => "<p class=\"d\">The studies are of several days, builds or machines: each says of which.</p>\n".to_owned(),
    }
}

fn contents(results: &Results) -> String {
    let panel = |study: &Study, (index, panel): (usize, &Panel)| {
        format!(
            "<li><a href=\"#{}\">{}</a></li>",
            panel_anchor(study, index),
            escape(&panel.title)
        )
    };
    let study = |study: &Study| {
        let panels = study
            .panels
            .iter()
            .enumerate()
            .map(|entry| panel(study, entry));
        format!(
            "<li><a href=\"#{}\">{}</a><ul>{}</ul></li>",
            study_anchor(study),
            escape(&study.title),
            panels.collect::<String>()
        )
    };
    let studies: String = results.studies.iter().map(study).collect();
    format!("<nav id=\"contents\"><h2>Studies</h2><ul>{studies}</ul></nav>\n")
}

fn study_anchor(study: &Study) -> String {
    format!("study-{}", anchor(&study.name))
}

fn panel_anchor(study: &Study, panel: usize) -> String {
    format!("{}-{}", study_anchor(study), panel + 1)
}

/// With the facts that are its own.
fn draw_study(study: &Study, own: &str, looks: &Looks) -> String {
    let notes = study
        .notes
        .iter()
        .map(|note| format!("<p>{}</p>", prose(note)));
    let panels = study.panels.iter().enumerate();
    let panels = panels.map(|(index, panel)| draw_panel(study, index, panel, looks));
    format!(
        "<section class=\"study\" id=\"{}\"><h2>{}</h2>\n{own}<p class=\"question\">{}</p>\n{}\
         <p class=\"d\">Alone: <code>uthread-bench {}</code></p>{}{}</section>\n",
        study_anchor(study),
        escape(&study.title),
        prose(&study.question),
        notes.collect::<String>(),
        escape(&study.name),
        missing(&study.subjects),
        panels.collect::<String>()
    )
}

/// Who was to be measured and was not, and who was in which version.
fn missing(subjects: &[Subject]) -> String {
    let absent = subjects.iter().filter_map(|subject| {
        let reason = subject.missing.as_ref()?;
        Some(format!(
            "<li><b>{}</b> is missing: {}</li>",
            escape(&subject.name),
            prose(reason)
        ))
    });
    let absent: String = absent.collect();
    let versions = subjects.iter().filter_map(|subject| {
        let version = subject.version.as_ref()?;
        Some(format!("{} {}", escape(&subject.name), escape(version)))
    });
    let versions: Vec<String> = versions.collect();
    let mut html = String::new();
    if !versions.is_empty() {
        html.push_str(&format!(
            "<p class=\"d\">Versions: {}.</p>",
            versions.join(", ")
        ));
    }
    if !absent.is_empty() {
        html.push_str(&format!("<ul class=\"missing\">{absent}</ul>"));
    }
    html
}

fn draw_panel(study: &Study, index: usize, panel: &Panel, looks: &Looks) -> String {
    let drawn = panel
        .metrics
        .iter()
        .enumerate()
        .filter(|(_, metric)| metric.is_drawn);
    let figure = |(metric, _)| {
        let svg = Chart::new(panel, metric, &study.subjects, looks).draw()?;
        let ratios = ratios::draw(panel, metric, &study.subjects);
        Some(format!("<figure>{svg}{ratios}</figure>\n"))
    };
    let charts: String = drawn.filter_map(figure).collect();
    let first = study
        .subjects
        .first()
        .map_or("", |subject| subject.name.as_str());
    format!(
        "<section class=\"panel\" id=\"{}\"><h3>{}</h3>\n<div class=\"charts\">{charts}</div>\n\
         <details><summary>All figures</summary>\n<p class=\"d\">Medians of the rounds with the least and the most; \
         \u{00d7}: the ratio to {} in the same rounds, with its 95 % interval, grey where it shows no difference.</p>\n{}</details>{}</section>\n",
        panel_anchor(study, index),
        escape(&panel.title),
        escape(first),
        table::draw(panel, &study.subjects),
        unasked(study, panel)
    )
}

/// Who has no part in this panel, but in others.
fn unasked(study: &Study, panel: &Panel) -> String {
    let subjects = study.subjects.iter().enumerate();
    let unasked =
        subjects.filter(|(index, subject)| subject.missing.is_none() && !panel.takes_part(*index));
    let names: Vec<String> = unasked.map(|(_, subject)| escape(&subject.name)).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(
            "<p class=\"d\">Not measured here: {}.</p>",
            names.join(", ")
        ),
    }
}
