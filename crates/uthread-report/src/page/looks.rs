//! The look of each subject, the same on the whole page, and its class, by which the reader hides
//! it.

use std::collections::BTreeMap;
use std::fmt::Write;

use plotters::prelude::*;

use crate::results::{Results, Study};

/// Colours of the light theme with those of the dark one. The SVG has the light ones, and the style
/// sheet replaces them.
static COLOURS: [(RGBColor, &str); SUBJECTS + HUES] = [
    (RGBColor(0x1b, 0x1d, 0x20), "#e6e4de"),
    (RGBColor(0x66, 0x6b, 0x73), "#9aa0a8"),
    (RGBColor(0xec, 0xea, 0xe4), "#24272d"),
    (RGBColor(0x0b, 0x57, 0xd0), "#7cb2ff"),
    (RGBColor(0xc2, 0x57, 0x0c), "#f0883e"),
    (RGBColor(0x00, 0x87, 0x5f), "#3fc99a"),
    (RGBColor(0xa8, 0x32, 0x79), "#ea86c0"),
    (RGBColor(0x8a, 0x6d, 0x00), "#d9b326"),
    (RGBColor(0x5b, 0x4a, 0x9c), "#b3a3f0"),
    (RGBColor(0xb3, 0x26, 0x1e), "#ff9086"),
    (RGBColor(0x00, 0x7a, 0x87), "#4fc3d0"),
    (RGBColor(0x7a, 0x52, 0x30), "#c79a6f"),
    (RGBColor(0x51, 0x56, 0x5e), "#a9afb8"),
];
pub(super) const INK: &RGBColor = &COLOURS[0].0;
pub(super) const DIM: &RGBColor = &COLOURS[1].0;
pub(super) const GRID: &RGBColor = &COLOURS[2].0;
/// Index of the first colour of a subject.
const SUBJECTS: usize = 3;
const HUES: usize = 10;
/// Lengths of dashes and gaps, for the subjects beyond the first of each hue.
const DASHES: [(u32, u32); 3] = [(6, 3), (2, 3), (9, 4)];

/// The look of a subject: a hue of its own, and dashes once the hues are used up. Lines of ours are
/// thick.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) is_ours: bool,
    index: usize,
}

impl Look {
    pub(super) fn colour(self) -> &'static RGBColor {
        &COLOURS[SUBJECTS + self.index % HUES].0
    }

    pub(super) fn line(self) -> ShapeStyle {
        self.colour().stroke_width(if self.is_ours { 3 } else { 1 })
    }

    /// Returns the lengths of dashes and gaps.
    pub(super) fn dashes(self) -> Option<(u32, u32)> {
        let round = self.index / HUES;
        (round > 0).then(|| DASHES[(round - 1) % DASHES.len()])
    }

    /// Returns the class of what is drawn for the subject.
    pub(super) fn class(self) -> String {
        format!("k{}", self.index)
    }

    /// Returns the class of the switch that hides it.
    pub(super) fn switch(self) -> String {
        format!("s{}", self.index)
    }
}

/// The looks of all subjects, by name.
pub(super) struct Looks(BTreeMap<String, Look>);

impl Looks {
    pub(super) fn of(results: &Results) -> Looks {
        let mut looks = BTreeMap::new();
        for subject in results.studies.iter().flat_map(|study| &study.subjects) {
            let index = looks.len();
            let is_ours = subject.is_ours;
            let look = Look { is_ours, index };
            looks.entry(subject.name.clone()).or_insert(look);
        }
        Looks(looks)
    }

    pub(super) fn of_subject(&self, name: &str) -> Look {
        self.0[name]
    }

    /// Returns the look of a curve: that of the subject of this name, which a last word such as
    /// "p99" may follow, or else of the subject with this index.
    pub(super) fn of_curve(&self, name: &str, index: usize) -> Look {
        let subject = name.rsplit_once(' ').map_or(name, |(subject, _)| subject);
        let other = Look {
            is_ours: false,
            index,
        };
        let found = self.0.get(name).or_else(|| self.0.get(subject));
        found.copied().unwrap_or(other)
    }

    /// Returns the style sheet's part for the colours of the dark theme, and for the switches.
    pub(super) fn style(&self) -> String {
        let mut style = String::from("@media (prefers-color-scheme:dark){@media screen{");
        for (light, dark) in &COLOURS {
            let light = hex(light);
            let _ = write!(
                style,
                "figure [stroke=\"{light}\"]{{stroke:{dark}}}figure [fill=\"{light}\"],figure i[data-fill=\"{light}\"],\
                 .switches i[data-fill=\"{light}\"]{{fill:{dark};background:{dark}!important}}"
            );
        }
        style.push_str("}}");
        for look in self.0.values() {
            let (switch, class) = (look.switch(), look.class());
            let _ = write!(
                style,
                ".study:has(.{switch}:not(:checked)) .{class}{{display:none}}"
            );
        }
        style
    }

    /// Returns the subjects of a study that have figures, with their looks.
    pub(super) fn of_study<'a>(&self, study: &'a Study) -> Vec<(&'a str, Look)> {
        let takes_part = |index| study.panels.iter().any(|panel| panel.takes_part(index));
        let subjects = study.subjects.iter().enumerate();
        subjects
            .filter(|(index, _)| takes_part(*index))
            .map(|(_, subject)| (&*subject.name, self.of_subject(&subject.name)))
            .collect()
    }
}

/// Returns a colour as the attributes of the SVG have it.
pub(super) fn hex(RGBColor(r, g, b): &RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Subject;

    #[test]
    fn a_subject_looks_the_same_in_all_studies_and_like_no_other() {
        let study = |subjects| Study::new(["", "", ""], vec![], subjects, vec![]);
        let [a, b] = ["a", "b"].map(|name| Subject::peer(name, None, None));
        let [one, two] = ["one", "two"].map(Subject::ours);
        let many = (0..20).map(|index| Subject::peer(&format!("peer {index}"), None, None));
        let results = Results {
            studies: vec![
                study(vec![one.clone(), a.clone()]),
                study(vec![b, a, two, one]),
                study(many.collect()),
            ],
        };
        let looks = Looks::of(&results);
        let drawn = |name: &str| {
            let look = looks.of_subject(name);
            (hex(look.colour()), look.dashes())
        };
        assert_eq!(drawn("one"), (hex(&COLOURS[SUBJECTS].0), None));
        assert_eq!(drawn("a"), (hex(&COLOURS[SUBJECTS + 1].0), None));
        let all: std::collections::BTreeSet<_> = looks.0.keys().map(|name| drawn(name)).collect();
        assert_eq!(all.len(), 24);
    }
}
