//! Judges a target by the results, point by point.
//!
//! Doubt counts against us: if ours failed, the target is missed; if a peer that it names was not measured, or the rounds are too
//! few to tell, it is not met. A peer that was tried and failed is no obstacle.

use super::{Beside, Goal, Judged, OURS, Outcome, Target, Verdict};
use crate::measure::stats::{self, Ratio, Verdict as Sureness};
use crate::results::{Better, Panel, Results, Study};

/// A metric at a point of a panel.
#[derive(Clone, Copy)]
struct Site<'a> {
    study: &'a Study,
    panel: &'a Panel,
    point: usize,
    metric: usize,
}

/// Returns the subject with the best median.
pub(crate) fn best(
    panel: &Panel,
    point: usize,
    metric: usize,
    among: impl IntoIterator<Item = usize>,
) -> Option<usize> {
    let figures = among.into_iter().filter_map(|subject| {
        let summary = panel.summary(point, subject, metric)?;
        Some((subject, summary.median))
    });
    let order = |a: &(usize, f64), b: &(usize, f64)| match panel.metrics[metric].better {
        Better::More => b.1.total_cmp(&a.1),
        Better::Less | Better::Neither => a.1.total_cmp(&b.1),
    };
    figures.min_by(order).map(|(subject, _)| subject)
}

impl Target {
    pub(super) fn judge(&'static self, results: &Results) -> Verdict {
        let study = results.study(&self.study);
        let points = study.map_or_else(Vec::new, |study| self.points_of(study));
        let worst = points.iter().map(|judged| judged.outcome).max();
        Verdict {
            target: self,
            outcome: worst.unwrap_or(Outcome::NotMeasured),
            points,
        }
    }

    fn points_of(&self, study: &Study) -> Vec<Judged> {
        let panels = study.panels.iter();
        let panels = panels.filter(|panel| panel.title.starts_with(&self.panel));
        let panels = panels.filter_map(|panel| Some((panel, panel.metric(&self.metric)?)));
        let panels: Vec<(&Panel, usize)> = panels.collect();
        let mut judged = Vec::new();
        for &(panel, metric) in &panels {
            for (point, at) in panel.points.iter().enumerate() {
                let site = Site {
                    study,
                    panel,
                    point,
                    metric,
                };
                let is_meant = self.points.is_empty() || self.points.contains(&at.label);
                if !is_meant || site.is_inapplicable() {
                    continue;
                }
                judged.push(Judged {
                    point: site.name(panels.len() > 1),
                    ..self.judge_site(site)
                });
            }
        }
        judged
    }

    /// Judges one point, without naming it.
    fn judge_site(&self, site: Site<'_>) -> Judged {
        let Some(ours) = site.study.subject(OURS) else {
            return Judged::without_ratio(Outcome::NotMeasured, format!("{OURS} was not measured"));
        };
        let failures = site.panel.failures(site.point, ours);
        if !site.has_figure(ours) {
            return match failures.keys().next() {
                Some(reason) => {
                    Judged::without_ratio(Outcome::Missed, format!("{OURS} cannot: {reason}"))
                }
                None => {
                    Judged::without_ratio(Outcome::NotMeasured, format!("{OURS} has no figure"))
                }
            };
        }
        let unit = &site.panel.metrics[site.metric].unit;
        if let Beside::Nobody(wanted) = &self.beside
            && unit != wanted
        {
            let note = format!("the figure is in {unit}, the target in {wanted}");
            return Judged::without_ratio(Outcome::NotMeasured, note);
        }
        let absent = self.absent(site);
        let ratios = self
            .ratios(site, ours)
            .into_iter()
            .map(|(between, ratio)| Judged {
                outcome: self.outcome(ratio),
                between,
                ratio: Some(ratio),
                ..Judged::without_ratio(Outcome::NotMeasured, String::new())
            });
        let worst = ratios.max_by(|a, b| a.order(b, self.goal));
        let mut judged =
            worst.unwrap_or_else(|| Judged::without_ratio(Outcome::NotMeasured, String::new()));
        if !absent.is_empty() {
            judged.outcome = judged.outcome.max(Outcome::NotMeasured);
        }
        let mut notes = absent;
        match failures.values().sum::<usize>() {
            0 => {}
            failed => notes.push(format!(
                "{OURS} failed in {failed} of {} rounds",
                site.panel.rounds(site.point, ours).len()
            )),
        }
        if judged
            .ratio
            .is_some_and(|ratio| ratio.verdict == Sureness::TooFewRounds)
        {
            notes.push(Sureness::TooFewRounds.name().to_owned());
        }
        notes.extend(self.limit(site));
        judged.note = notes.join("; ");
        judged
    }

    fn peers(&self) -> &[String] {
        match &self.beside {
            Beside::Below(name) | Beside::Above(name) => std::slice::from_ref(name),
            Beside::Each(names) | Beside::Best(names) => names,
            Beside::Nobody(_) => &[],
        }
    }

    /// Returns a note for each peer that has neither a figure nor a reason.
    fn absent(&self, site: Site<'_>) -> Vec<String> {
        let is_absent = |name: &&String| {
            let peer = site.study.subject(name);
            peer.is_none_or(|peer| {
                !site.has_figure(peer) && site.panel.failures(site.point, peer).is_empty()
            })
        };
        let absent = self.peers().iter().filter(is_absent);
        absent
            .map(|name| format!("{name} was not measured"))
            .collect()
    }

    /// Returns the ratios, and what each compares.
    fn ratios(&self, site: Site<'_>, ours: usize) -> Vec<(String, Ratio)> {
        let Site {
            study,
            panel,
            point,
            metric,
        } = site;
        if let Beside::Nobody(_) = self.beside {
            let figures = panel
                .rounds(point, ours)
                .iter()
                .filter_map(|round| round.figure(metric));
            let pairs: Vec<(f64, f64)> = figures.map(|figure| (figure, 1.0)).collect();
            return stats::paired_ratio(&pairs)
                .map(|ratio| (OURS.to_owned(), ratio))
                .into_iter()
                .collect();
        }
        let peers = self.peers().iter().filter_map(|name| study.subject(name));
        let peers: Vec<usize> = match self.beside {
            Beside::Best(_) => best(panel, point, metric, peers).into_iter().collect(),
            _ => peers.collect(),
        };
        let pair = |peer: usize| {
            let (above, below) = match self.beside {
                Beside::Above(_) => (peer, ours),
                _ => (ours, peer),
            };
            let ratio = panel.ratio(point, metric, (above, below))?;
            let name = |subject: usize| &study.subjects[subject].name;
            Some((format!("{} / {}", name(above), name(below)), ratio))
        };
        peers.into_iter().filter_map(pair).collect()
    }

    /// Returns a note if a limit of the panel makes the target impossible.
    fn limit(&self, site: Site<'_>) -> Option<String> {
        let Site {
            study,
            panel,
            point,
            metric,
        } = site;
        let Goal::AtLeast(bound) = self.goal else {
            return None;
        };
        let limit = panel.limits.iter().find(|limit| limit.metric == metric)?;
        let peers = self.peers().iter().filter_map(|name| study.subject(name));
        let peer = best(panel, point, metric, peers)?;
        let most = limit.figures.get(point)? / panel.summary(point, peer, metric)?.median;
        let is_reachable = most >= bound || matches!(self.beside, Beside::Above(_));
        (!is_reachable).then(|| {
            format!(
                "{} is {most:.2} times {}",
                limit.name, study.subjects[peer].name
            )
        })
    }

    fn outcome(&self, ratio: Ratio) -> Outcome {
        match ratio.verdict {
            Sureness::TooFewRounds => Outcome::NotMeasured,
            _ if self.goal.is_met_by(ratio) => Outcome::Met,
            _ => Outcome::Missed,
        }
    }
}

impl Site<'_> {
    fn name(self, with_panel: bool) -> String {
        let place = self.panel.place(self.point);
        match with_panel {
            true => format!("{}: {place}", self.panel.title),
            false => place,
        }
    }

    fn has_figure(self, subject: usize) -> bool {
        self.panel
            .summary(self.point, subject, self.metric)
            .is_some()
    }

    /// Returns whether the metric does not apply here: all were measured and nobody has a figure. A single connection has no fairness.
    fn is_inapplicable(self) -> bool {
        let all = || 0..self.study.subjects.len();
        let rounds = |subject| self.panel.rounds(self.point, subject);
        let taken = all().flat_map(rounds).count();
        let failed = all().any(|subject| !self.panel.failures(self.point, subject).is_empty());
        taken > 0 && !failed && !all().any(|subject| self.has_figure(subject))
    }
}

impl Judged {
    fn without_ratio(outcome: Outcome, note: String) -> Judged {
        Judged {
            point: String::new(),
            outcome,
            between: String::new(),
            ratio: None,
            note,
        }
    }
}
