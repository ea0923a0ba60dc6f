//! One metric of a panel as a drawing: as lines over the points where these have places on the axis, else as bars.
//!
//! A figure that was not taken leaves a gap.

use super::html::escape;
use super::look::{Look, Looks};
use super::{bars, lines};
use crate::measure::stats::Summary;
use crate::results::{Better, Limit, Metric, Panel, Subject, significant};

/// Of all drawings, in units that are pixels on a phone.
pub(super) const WIDTH: f64 = 370.0;
/// Of the wide letters of a font of 10.5 units, so that no text is longer than the room that was kept for it.
pub(super) const LETTER_WIDTH: f64 = 5.8;
pub(super) struct Chart<'a> {
    pub(super) panel: &'a Panel,
    pub(super) metric: usize,
    pub(super) series: Vec<Series<'a>>,
}

pub(super) struct Series<'a> {
    pub(super) subject: &'a Subject,
    /// Its place in the study.
    pub(super) index: usize,
    pub(super) look: &'a Look,
    /// One for each point.
    pub(super) figures: Vec<Option<Summary>>,
}

impl<'a> Chart<'a> {
    pub(super) fn new(
        panel: &'a Panel,
        metric: usize,
        subjects: &'a [Subject],
        looks: &'a Looks,
    ) -> Chart<'a> {
        let points = 0..panel.points.len();
        let series = subjects.iter().enumerate().map(|(index, subject)| Series {
            subject,
            index,
            look: looks.look(&subject.name),
            figures: points
                .clone()
                .map(|point| panel.summary(point, index, metric))
                .collect(),
        });
        // Who is missing is said above the panels, who has no part in this one below it.
        let series = series.filter(|series| panel.takes_part(series.index));
        Chart {
            panel,
            metric,
            series: series.collect(),
        }
    }

    /// Nothing where there is no figure at all.
    pub(super) fn draw(&self) -> Option<String> {
        let mut figures = self.series.iter().flat_map(|series| &series.figures);
        figures.any(Option::is_some).then(|| match self.values() {
            Some(values) => lines::draw(self, &values),
            None => bars::draw(self),
        })
    }

    pub(super) fn metric(&self) -> &'a Metric {
        &self.panel.metrics[self.metric]
    }

    /// Those of this metric.
    pub(super) fn limits(&self) -> impl Iterator<Item = &'a Limit> {
        let limits = self.panel.limits.iter();
        limits.filter(|limit| limit.metric == self.metric)
    }

    pub(super) fn medians(&self) -> Vec<f64> {
        let figures = self
            .series
            .iter()
            .flat_map(|series| series.figures.iter().flatten());
        figures.map(|summary| summary.median).collect()
    }

    /// Medians aside, what the axis has to reach: the ends of the whiskers, and the limits.
    pub(super) fn extremes(&self) -> Vec<f64> {
        let figures = self
            .series
            .iter()
            .flat_map(|series| series.figures.iter().flatten());
        let ends = figures.flat_map(|summary| [summary.min, summary.max]);
        ends.chain(
            self.limits()
                .flat_map(|limit| limit.figures.iter().copied()),
        )
        .collect()
    }

    /// The opening of the drawing with its title.
    pub(super) fn open(&self, height: f64) -> String {
        let metric = self.metric();
        let mark = match metric.better {
            Better::Less => "less is better",
            Better::More => "more is better",
            Better::Neither => "",
        };
        let name = escape(&named_unit(metric));
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}: {name} by {}\">\
             <text class=\"t\" x=\"0\" y=\"11\">{name}<tspan class=\"d\" dx=\"8\">{mark}</tspan></text>",
            escape(&self.panel.title),
            escape(&self.panel.axis),
        )
    }

    /// What is shown over a figure.
    pub(super) fn hint(&self, series: &Series<'_>, point: usize, summary: Summary) -> String {
        let Summary { median, min, max } = summary;
        let figures = format!(
            "{} ({}..{})",
            significant(median),
            significant(min),
            significant(max)
        );
        let text = format!(
            "{}, {}: {figures} {}",
            series.subject.name,
            self.panel.place(point),
            self.metric().unit
        );
        format!("<title>{}</title>", escape(&text))
    }

    /// The places of the points on the axis, if each has one and there is more than one.
    fn values(&self) -> Option<Vec<f64>> {
        let values: Option<Vec<f64>> = self.panel.points.iter().map(|point| point.value).collect();
        values.filter(|values| values.len() > 1)
    }
}

/// "CPU, us per operation".
pub(super) fn named_unit(metric: &Metric) -> String {
    match metric.unit.as_str() {
        "" => metric.name.clone(),
        unit => format!("{}, {unit}", metric.name),
    }
}

/// In at most so many letters.
pub(super) fn limit_name(limit: &Limit, letters_max: usize) -> String {
    if limit.name.chars().count() <= letters_max {
        return limit.name.clone();
    }
    let start: String = limit.name.chars().take(letters_max - 1).collect();
    format!("{}\u{2026}", start.trim_end())
}

pub(super) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER_WIDTH
}
