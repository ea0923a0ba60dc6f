//! How a subject is drawn: ours in one hue, told apart by their dashes; peers in colours of their own, told apart by
//! their marks as well, for those who do not see the colours.
//!
//! A subject looks the same in all charts of a page. The colours are in `style.css`, once for each theme.

use std::collections::HashMap;

use crate::results::Results;

/// The classes `p0`, `p1` .. of `style.css`. No study has more peers; the next would begin anew, with other marks.
const PEER_COLOURS: usize = 8;

const OUR_DASHES: [&str; 5] = ["", "6 3", "1.5 2.5", "9 3 2 3", "3 2"];

const MARKS: [Mark; 4] = [Mark::Square, Mark::Triangle, Mark::Diamond, Mark::Cross];

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Look {
    /// Names the colour.
    pub(super) class: String,
    pub(super) dash: &'static str,
    mark: Mark,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mark {
    Circle,
    Dot,
    Square,
    Triangle,
    Diamond,
    Cross,
}

pub(super) struct Looks(HashMap<String, Look>);

impl Looks {
    pub(super) fn of(results: &Results) -> Looks {
        let mut looks = HashMap::new();
        let (mut ours, mut peers) = (0, 0);
        for subject in results.studies.iter().flat_map(|study| &study.subjects) {
            if looks.contains_key(&subject.name) {
                continue;
            }
            let (look, count) = match subject.is_ours {
                true => (Look::of_ours(ours), &mut ours),
                false => (Look::of_peer(peers), &mut peers),
            };
            *count += 1;
            looks.insert(subject.name.clone(), look);
        }
        Looks(looks)
    }

    pub(super) fn look(&self, subject: &str) -> &Look {
        &self.0[subject]
    }
}

impl Look {
    fn of_ours(index: usize) -> Look {
        let (class, mark) = match index {
            0 => ("ours first", Mark::Circle),
            // Small, so that the dashes are seen.
            _ => ("ours", Mark::Dot),
        };
        Look {
            class: class.to_owned(),
            dash: OUR_DASHES[index % OUR_DASHES.len()],
            mark,
        }
    }

    fn of_peer(index: usize) -> Look {
        // One further each time that the colours begin anew.
        let mark = index + index / PEER_COLOURS;
        Look {
            class: format!("p{}", index % PEER_COLOURS),
            dash: "",
            mark: MARKS[mark % MARKS.len()],
        }
    }

    /// The attribute that a line of this look has.
    pub(super) fn dash_attribute(&self) -> String {
        match self.dash {
            "" => String::new(),
            dash => format!(" stroke-dasharray=\"{dash}\""),
        }
    }

    /// The data of a path.
    pub(super) fn mark_at(&self, x: f64, y: f64) -> String {
        match self.mark {
            Mark::Dot => format!(
                "M{:.1} {y:.1}a1.6 1.6 0 1 0 3.2 0a1.6 1.6 0 1 0 -3.2 0",
                x - 1.6
            ),
            Mark::Circle => format!(
                "M{:.1} {y:.1}a2.4 2.4 0 1 0 4.8 0a2.4 2.4 0 1 0 -4.8 0",
                x - 2.4
            ),
            Mark::Square => format!("M{:.1} {:.1}h4v4h-4z", x - 2.0, y - 2.0),
            Mark::Triangle => format!("M{x:.1} {:.1}l2.5 4.3h-5z", y - 2.7),
            Mark::Diamond => format!("M{x:.1} {:.1}l2.7 2.7l-2.7 2.7l-2.7 -2.7z", y - 2.7),
            Mark::Cross => format!(
                "M{:.1} {:.1}h1.4v-2h1.6v2h2v1.6h-2v2h-1.6v-2h-2v-1.6z",
                x - 2.2,
                y - 0.8
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Study, Subject};

    fn study(subjects: Vec<Subject>) -> Study {
        Study {
            name: String::new(),
            title: String::new(),
            question: String::new(),
            facts: Vec::new(),
            notes: Vec::new(),
            subjects,
            panels: Vec::new(),
        }
    }

    #[test]
    fn a_subject_looks_the_same_in_all_studies_and_like_no_other() {
        let peer = |name: &str| Subject::peer(name, None, None);
        let names: Vec<String> = (0..20).map(|index| format!("peer {index}")).collect();
        let mut all: Vec<Subject> = names.iter().map(|name| peer(name)).collect();
        all.extend((0..5).map(|index| Subject::ours(&format!("ours {index}"))));
        let results = Results {
            studies: vec![
                study(vec![Subject::ours("ours 0"), peer("peer 0")]),
                study(all),
            ],
            ..Results::default()
        };
        let looks = Looks::of(&results);
        assert_eq!(looks.0.len(), 25);
        for (name, look) in &looks.0 {
            let twins = looks.0.iter().filter(|(_, other)| *other == look);
            assert_eq!(twins.count(), 1, "{name}");
        }
        assert_eq!(looks.look("ours 0").class, "ours first");
        assert_eq!(looks.look("peer 9").class, "p1");
    }
}
