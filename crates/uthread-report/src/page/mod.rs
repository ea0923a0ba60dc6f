//! The page of a report: one HTML file with nothing loaded from elsewhere and no script.
//!
//! It is a pure function of the results and the words around them. The README beside this file
//! describes the layout.

mod axis;
mod chart;
mod looks;
mod percentiles;
mod picture;
mod plot;
mod table;

#[cfg(test)]
mod tests;

use maud::{Markup, PreEscaped, html};

use crate::facts::COMMAND;
use crate::plot::Plot;
use crate::results::{Facts, Metric, Panel, Results, Round, Study, grouped};
use chart::Charts;
use looks::{Looks, hex};

pub use table::ratio_text;

const STYLE: &str = include_str!("style.css");
const ALL_FIGURES: &str = "Medians of the rounds with the least and the most; \u{d7}: the ratio to the first subject in the same rounds, \
                           with its 95 % interval, grey where it shows no difference.";
/// Elements without an end tag, closed as XML wants it.
const HEAD: &str = "<meta charset=\"utf-8\"/>\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
    <meta name=\"color-scheme\" content=\"light dark\"/>\
    <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>";

/// The words of a page around the results.
pub struct Page<'a> {
    /// The heading.
    pub title: &'a str,
    /// A paragraph below the heading.
    pub lead: &'a str,
    /// The command that runs a study alone, before the study's name.
    pub command: &'a str,
    /// Sections before the studies.
    pub sections: Vec<Section<'a>>,
}

/// A section before the studies.
pub struct Section<'a> {
    /// The target of links to it.
    pub id: &'a str,
    /// The heading.
    pub title: &'a str,
    /// The content, which is also XML.
    pub body: Markup,
}

/// Draws a whole document, which is XML too.
#[must_use]
pub fn draw(page: &Page<'_>, results: &Results) -> String {
    let looks = Looks::of(results);
    let common = results.common_facts();
    let is_measured = results.studies.iter().any(|study| !study.facts.is_empty());
    let text = html! {
        (PreEscaped("<!doctype html>\n"))
        html lang="en" {
            head {
                (PreEscaped(HEAD))
                title { (page.title) }
                style { (PreEscaped(STYLE)) (PreEscaped(looks.style())) }
            }
            body {
                main {
                    header {
                        h1 { (page.title) }
                        p .lead { (page.lead) }
                        @match common {
                            Some(common) => (facts("facts", common)),
                            None if is_measured => p .d {
                                "The studies are of several days, builds or machines: each has its own facts."
                            },
                            None => "",
                        }
                    }
                    @for section in &page.sections {
                        section #(section.id) { h2 { (section.title) } (section.body) }
                    }
                    @if results.studies.len() > 1 { (contents(results)) }
                    @for study in &results.studies {
                        // The facts of the page have the command of a single study.
                        @let command = (results.studies.len() > 1).then_some(page.command);
                        (draw_study(command, study, common.is_none(), &looks))
                    }
                }
            }
        }
    };
    text.into_string() + "\n"
}

/// Counts the measurements, the disturbed and the failed ones, in a paragraph.
#[must_use]
pub fn counts(results: &Results) -> Markup {
    let panels = results.studies.iter().flat_map(|study| &study.panels);
    let rounds = panels.flat_map(|panel| panel.rounds.iter().flatten().flatten());
    let rounds: Vec<&Round> = rounds.collect();
    let count = |is_one: fn(&Round) -> bool| {
        grouped(rounds.iter().filter(|round| is_one(round)).count() as f64)
    };
    let failed = |round: &Round| matches!(round, Round::Cannot(_));
    html! {
        p {
            @if rounds.is_empty() {
                "Nothing has been measured."
            } @else {
                (count(|_| true)) " measurements; " (count(Round::is_disturbed))
                " were disturbed by other processes, " (count(failed)) " failed."
            }
        }
    }
}

fn facts(class: &str, facts: &Facts) -> Markup {
    html! {
        @if !facts.is_empty() {
            dl class=(class) {
                @for (name, value) in facts {
                    @if name == COMMAND {
                        div .wide { dt { (name) } " " dd { code { (value) } } }
                    } @else {
                        div { dt { (name) } " " dd { (value) } }
                    }
                }
            }
        }
    }
}

fn contents(results: &Results) -> Markup {
    html! {
        nav #contents {
            h2 { "Studies" }
            ul {
                @for study in &results.studies {
                    li {
                        a href=(format!("#{}", anchor(study, None))) { (study.title) }
                        ul {
                            @for (index, panel) in study.panels.iter().enumerate() {
                                li { a href=(format!("#{}", anchor(study, Some(index)))) { (panel.title) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the id of a study or of one of its panels: small letters, digits and hyphens.
fn anchor(study: &Study, panel: Option<usize>) -> String {
    let letter = |letter: char| match letter.to_ascii_lowercase() {
        plain @ ('a'..='z' | '0'..='9') => plain,
        _ => '-',
    };
    let name: String = study.name.chars().map(letter).collect();
    let panel = panel.map_or(String::new(), |index| format!("-{}", index + 1));
    format!("study-{name}{panel}")
}

fn draw_study(command: Option<&str>, study: &Study, has_own_facts: bool, looks: &Looks) -> Markup {
    let versions = study.subjects.iter().filter_map(|subject| {
        let version = subject.version.as_ref()?;
        Some(format!("{} {version}", subject.name))
    });
    let versions: Vec<String> = versions.collect();
    let missing = study
        .subjects
        .iter()
        .filter_map(|subject| Some((&subject.name, subject.missing.as_ref()?)));
    let missing: Vec<_> = missing.collect();
    html! {
        section .study #(anchor(study, None)) {
            h2 { (study.title) }
            @if has_own_facts { (facts("facts own", &study.facts)) }
            p .question { (prose(&study.question)) }
            @for note in &study.notes { p { (prose(note)) } }
            @if let Some(command) = command { p .d { "Alone: " code { (command) " " (study.name) } } }
            @if !versions.is_empty() { p .d { "Versions: " (versions.join(", ")) "." } }
            @if !missing.is_empty() {
                ul .missing {
                    @for (name, reason) in missing { li { b { (name) } " is missing: " (prose(reason)) } }
                }
            }
            (switches(study, looks))
            @for (index, panel) in study.panels.iter().enumerate() {
                (draw_panel(study, index, panel, looks))
            }
            @if !study.plots.is_empty() {
                div .charts { @for plot in &study.plots { (draw_plot(plot, looks)) } }
            }
        }
    }
}

fn draw_panel(study: &Study, index: usize, panel: &Panel, looks: &Looks) -> Markup {
    let absent = study
        .subjects
        .iter()
        .enumerate()
        .filter(|(index, subject)| {
            // Missing programs are listed above the panels.
            subject.missing.is_none() && !panel.takes_part(*index)
        });
    let absent: Vec<&str> = absent.map(|(_, subject)| subject.name.as_str()).collect();
    html! {
        section .panel #(anchor(study, Some(index))) {
            h3 { (panel.title) }
            @for metric in (0..panel.metrics.len()).filter(|&metric| panel.metrics[metric].is_drawn) {
                @if let Some(charts) = chart::draw(panel, metric, &study.subjects, looks) {
                    (draw_charts(study, &panel.metrics[metric], charts))
                }
            }
            (draw_percentiles(study, panel, looks))
            details {
                summary { "All figures" }
                p .d { (ALL_FIGURES) }
                (table::draw(panel, &study.subjects))
            }
            @if !absent.is_empty() { p .d { "Not measured here: " (absent.join(", ")) "." } }
        }
    }
}

/// Lays out the percentiles of each point that has enough of them.
fn draw_percentiles(study: &Study, panel: &Panel, looks: &Looks) -> Markup {
    let points = 0..panel.points.len();
    let of_points = points.filter_map(|point| percentiles::of_point(panel, point));
    let of_points: Vec<Panel> = of_points.collect();
    html! {
        @if !of_points.is_empty() {
            details {
                summary { "Response times by percentile" }
                div .charts {
                    @for panel in &of_points {
                        figure .percentiles {
                            figcaption { (panel.title) (table::metric_head(&panel.metrics[0])) }
                            (chart::draw_percentiles(panel, &study.subjects, looks).unwrap_or_default())
                        }
                    }
                }
            }
        }
    }
}

/// Lays out the drawings of a metric: figures and ratios side by side, and the small ones below.
fn draw_charts(study: &Study, metric: &Metric, charts: Charts) -> Markup {
    let first = &study.subjects[0].name;
    html! {
        div .charts {
            figure {
                figcaption { (table::metric_head(metric)) }
                (charts.figures)
            }
            @if let Some(ratios) = charts.ratios {
                figure .ratios {
                    figcaption { (metric.name) " " span .d { "in multiples of " (first) ", with the 95 % interval" } }
                    (ratios)
                }
            }
        }
        @if !charts.each.is_empty() {
            details .each {
                summary { (metric.name) ": each beside " (first) }
                figure .each { (small(charts.each)) }
            }
        }
    }
}

/// Renders a switch for each subject, which the style sheet obeys: it hides the lines and bars of
/// the subject.
fn switches(study: &Study, looks: &Looks) -> Markup {
    let subjects = looks.of_study(study);
    html! {
        @if subjects.len() > 2 {
            div .switches {
                @for (name, look) in subjects {
                    @let colour = hex(look.colour());
                    label .ours[look.is_ours] {
                        (PreEscaped(format!("<input type=\"checkbox\" class=\"{}\" checked=\"checked\"/>", look.switch())))
                        i data-fill=(colour) style=(format!("background:{colour}")) {}
                        (name)
                    }
                }
            }
        }
    }
}

fn draw_plot(plot: &Plot, looks: &Looks) -> Markup {
    html! {
        @if let Some(plots) = plot::draw(plot, looks) {
            figure {
                figcaption { (plot.title) " " span .d { (plot::words(&plot.y)) } }
                (plots.all)
                @if !plots.each.is_empty() { (small(plots.each)) }
            }
        }
    }
}

fn small(drawings: Vec<(String, Markup)>) -> Markup {
    html! {
        div .small {
            @for (name, drawing) in drawings {
                div { div .name { (name) } (drawing) }
            }
        }
    }
}

/// Marks the parts of a sentence between backticks as code.
fn prose(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 0 { (part) } @else { code { (part) } }
        }
    }
}
