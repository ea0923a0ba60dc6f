//! Judges a target by the results, point by point.
//!
//! Doubt counts against us: if ours failed, the target is missed; if a peer that it names was not
//! measured, or the rounds are too few to tell, it is not met. A peer that was tried and failed is
//! no obstacle.

use uthread_report::measure::stats::{self, Ratio, Verdict as Sureness};
use uthread_report::results::{Better, Panel, Results, Study};

use super::{Beside, Goal, Judged, Outcome, Target, Verdict};

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
    let median = |subject| Some((subject, panel.summary(point, subject, metric)?.median));
    let figures = among.into_iter().filter_map(median);
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
        let is_meant = |panel: &&Panel| panel.title.starts_with(&self.panel);
        let panels = study.panels.iter().filter(is_meant);
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
                if is_meant && !site.is_inapplicable() {
                    let place = panel.place(point);
                    let point = match panels.len() {
                        1 => place,
                        _ => format!("{}: {place}", panel.title),
                    };
                    judged.push(Judged {
                        point,
                        ..self.judge_site(site)
                    });
                }
            }
        }
        judged
    }

    /// Judges one point, without naming it.
    fn judge_site(&self, site: Site<'_>) -> Judged {
        let without_ratio = |outcome, note: String| Judged {
            point: String::new(),
            outcome,
            between: String::new(),
            ratio: None,
            note,
        };
        let name = &self.subject;
        let Some(ours) = site.study.subject(name) else {
            return without_ratio(Outcome::NotMeasured, format!("{name} was not measured"));
        };
        let failures = site.panel.failures(site.point, ours);
        if !site.has_figure(ours) {
            return match failures.keys().next() {
                Some(reason) => without_ratio(Outcome::Missed, format!("{name} cannot: {reason}")),
                None => without_ratio(Outcome::NotMeasured, format!("{name} has no figure")),
            };
        }
        let unit = &site.panel.metrics[site.metric].unit;
        if let Beside::Nobody(wanted) = &self.beside
            && unit != wanted
        {
            let note = format!("the figure is in {unit}, the target in {wanted}");
            return without_ratio(Outcome::NotMeasured, note);
        }
        let ratios = self.ratios(site, ours).into_iter();
        let ratios = ratios.map(|(between, ratio)| Judged {
            outcome: self.outcome(ratio),
            between,
            ratio: Some(ratio),
            ..without_ratio(Outcome::NotMeasured, String::new())
        });
        let worst = ratios.max_by(|a, b| a.order(b, self.goal));
        let unknown = || without_ratio(Outcome::NotMeasured, String::new());
        let mut judged = worst.unwrap_or_else(unknown);
        let mut notes = self.absent(site);
        if !notes.is_empty() {
            judged.outcome = judged.outcome.max(Outcome::NotMeasured);
        }
        let failed: usize = failures.values().sum();
        if failed > 0 {
            let rounds = site.panel.rounds(site.point, ours).len();
            notes.push(format!("{name} failed in {failed} of {rounds} rounds"));
        }
        let verdict = judged.ratio.map(|ratio| ratio.verdict);
        if verdict == Some(Sureness::TooFewRounds) {
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
        let has_neither =
            |peer| !site.has_figure(peer) && site.panel.failures(site.point, peer).is_empty();
        let peers = self.peers().iter();
        let absent = peers.filter(|name| site.study.subject(name).is_none_or(has_neither));
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
            let figures = panel.rounds(point, ours).iter();
            let pairs = figures.filter_map(|round| Some((round.figure(metric)?, 1.0)));
            let ratio = stats::paired_ratio(&pairs.collect::<Vec<_>>());
            return ratio
                .map(|ratio| (self.subject.clone(), ratio))
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
            let [above, below] = [above, below].map(|subject| &study.subjects[subject].name);
            Some((format!("{above} / {below}"), ratio))
        };
        peers.into_iter().filter_map(pair).collect()
    }

    /// Returns a note if a limit of the panel makes the target impossible.
    fn limit(&self, site: Site<'_>) -> Option<String> {
        let (Goal::AtLeast(bound), Beside::Best(_)) = (self.goal, &self.beside) else {
            return None;
        };
        let mut limits = site.panel.limits.iter();
        let limit = limits.find(|limit| limit.metric == site.metric)?;
        let peers = self
            .peers()
            .iter()
            .filter_map(|name| site.study.subject(name));
        let peer = best(site.panel, site.point, site.metric, peers)?;
        let median = site.panel.summary(site.point, peer, site.metric)?.median;
        let most = limit.figures.get(site.point)? / median;
        let (limit, peer) = (&limit.name, &site.study.subjects[peer].name);
        (most < bound).then(|| format!("{limit} is {most:.2} times {peer}"))
    }

    fn outcome(&self, ratio: Ratio) -> Outcome {
        match ratio.verdict {
            Sureness::TooFewRounds => Outcome::NotMeasured,
            Sureness::Difference | Sureness::NoDifference => self.goal.outcome(ratio),
        }
    }
}

impl Site<'_> {
    fn has_figure(self, subject: usize) -> bool {
        self.panel
            .summary(self.point, subject, self.metric)
            .is_some()
    }

    /// Returns whether the metric does not apply here: all were measured and nobody has a figure. A
    /// single connection has no fairness.
    fn is_inapplicable(self) -> bool {
        let all = || 0..self.study.subjects.len();
        let taken = all()
            .flat_map(|subject| self.panel.rounds(self.point, subject))
            .count();
        let failed = |subject| !self.panel.failures(self.point, subject).is_empty();
        taken > 0 && !all().any(failed) && !all().any(|subject| self.has_figure(subject))
    }
}
