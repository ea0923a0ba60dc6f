//! The screen of `uthread top`, and its keys. It has no colours: bold and reversed text only repeat
//! what capitals and marks tell.

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use uthread_dump::{Report, Sample};

use super::columns::{self, Order};

const KEYS: &str = "q quit  arrows select  s sort  space freeze  enter dump  ? help";
const KEYS_OF_TEXT: &str = "q back  arrows, page up, page down scroll";

/// Number of lines that are neither a worker nor a place: two of the summary, two titles, two blank
/// ones, and the keys.
const OTHER_LINES: usize = 7;

/// Marks the selected place, and the others.
const SELECTED: &str = "> ";
const OTHER: &str = "  ";

const HELP: &str = "\
Workers
  busy       share of time that fibers run, including fibers that block the worker
  idle       share of time asleep
  switch/s   switches to a fiber
  steals/s   new fibers taken from other workers
  enters/s   system calls of the driver
  in flight  its fibers that wait for an operation of the kernel
  ready      its fibers that wait for their turn
  missing    fibers that started or ended while they were read

Places where fibers were spawned
  run, ready, parked, in flight   fibers, by what they do
  busy       number of those that run, with or without a worker, in percent
  waits      the least time for which the one that waits for longest is suspended

Keys
  q, Ctrl-C  quit               s      sort by the next column, in capitals
  arrows     select a place     space  freeze the screen, and continue
  Enter      stop the process for a moment, and show the calls of the fibers that were
             spawned at the selected place, as `uthread dump` does";

/// What is to be done after a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Quit,
    /// Dump the fibers that were spawned at this place.
    Dump(String),
}

#[derive(Debug, Default)]
pub(super) struct Screen {
    sample: Option<Sample>,
    order: Order,
    /// The index of the selected place.
    selected: usize,
    /// Number of places above those that are shown.
    above: usize,
    is_frozen: bool,
    /// A text in place of the tables.
    text: Option<Text>,
}

#[derive(Debug)]
struct Text {
    lines: Vec<String>,
    /// Number of rows above those that are shown.
    above: usize,
    /// Number of rows of a page, as drawn last.
    page: usize,
    is_help: bool,
}

impl Text {
    fn of(text: &str) -> Text {
        Text {
            lines: text.lines().map(str::to_owned).collect(),
            above: 0,
            page: 1,
            is_help: false,
        }
    }
}

impl Screen {
    /// Takes a sample, unless the screen is frozen. Returns `true` if it did.
    pub(super) fn update(&mut self, sample: Sample) -> bool {
        if self.is_frozen {
            return false;
        }
        let selected = self.selected_place();
        self.sample = Some(sample);
        self.sort(selected);
        true
    }

    /// Shows the fibers of the selected place, or why they cannot be read.
    pub(super) fn show_dump(&mut self, report: anyhow::Result<Report>) {
        let text = match report {
            Ok(report) => report.to_string(),
            Err(error) => format!("{error:#}"),
        };
        self.text = Some(Text::of(&text));
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Wish> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Some(Wish::Quit);
        }
        if let Some(text) = &mut self.text {
            match key.code {
                KeyCode::Up => text.above = text.above.saturating_sub(1),
                KeyCode::Down => text.above += 1,
                KeyCode::PageUp => text.above = text.above.saturating_sub(text.page),
                KeyCode::PageDown | KeyCode::Char(' ') => text.above += text.page,
                KeyCode::Char('q') | KeyCode::Esc | KeyCode::Enter => self.text = None,
                KeyCode::Char('?' | 'h') if text.is_help => self.text = None,
                _ => {}
            }
            return None;
        }
        match key.code {
            KeyCode::Char('q') => return Some(Wish::Quit),
            KeyCode::Char('s') => {
                let selected = self.selected_place();
                self.order = self.order.next();
                self.sort(selected);
            }
            KeyCode::Char(' ') => self.is_frozen = !self.is_frozen,
            KeyCode::Char('?' | 'h') => {
                self.text = Some(Text {
                    is_help: true,
                    ..Text::of(HELP)
                });
            }
            KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down => self.selected += 1,
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = usize::MAX,
            KeyCode::Enter => return self.selected_place().map(Wish::Dump),
            _ => {}
        }
        self.selected = self.selected.min(self.places().saturating_sub(1));
        None
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let lines = match &mut self.text {
            Some(text) => text.rows(width, height.saturating_sub(1)),
            None => self.tables(width, height),
        };
        frame.render_widget(Paragraph::new(lines), area);
        if let Some(last) = area.height.checked_sub(1) {
            let keys = self.keys(width);
            let bottom = Rect::new(area.x, area.y + last, area.width, 1);
            frame.render_widget(Paragraph::new(Line::styled(keys, bold())), bottom);
        }
    }

    fn keys(&self, width: usize) -> String {
        match self.text {
            Some(_) => KEYS_OF_TEXT.to_owned(),
            None if self.is_frozen => {
                let rest = width.saturating_sub(KEYS.len());
                format!("{KEYS}{:>rest$}", "FROZEN")
            }
            None => KEYS.to_owned(),
        }
    }

    fn tables(&mut self, width: usize, height: usize) -> Vec<Line<'static>> {
        let Some(sample) = &self.sample else {
            return vec![Line::raw("reading ..")];
        };
        let [first, second] = columns::summary(sample);
        let mut lines = vec![Line::styled(first, bold()), Line::raw(second)];
        let problem = sample.problems.first();
        lines.push(Line::raw(problem.cloned().unwrap_or_default()));

        let rows = height.saturating_sub(OTHER_LINES);
        let mut workers = columns::workers(sample, width);
        let shown = workers.len().min((rows / 2).max(1));
        if shown < workers.len() {
            let hidden = workers.len() - shown + 1;
            workers.truncate(shown - 1);
            workers.push(format!("{OTHER}{hidden} more workers"));
        }
        lines.push(Line::styled(columns::workers_title(width), bold()));
        lines.extend(workers.into_iter().map(Line::raw));

        lines.push(Line::raw(""));
        let title = columns::sites_title(self.order);
        lines.push(Line::styled(format!("{OTHER}{title}"), bold()));
        let rows = rows.saturating_sub(shown);
        let last = self.selected.saturating_add(1).saturating_sub(rows);
        self.above = self.above.clamp(last, self.selected.max(last));
        let width = width.saturating_sub(SELECTED.len());
        let sites = columns::sites(&sample.sites, width).into_iter().enumerate();
        let shown = sites.skip(self.above).take(rows);
        lines.extend(shown.map(|(index, site)| {
            if index == self.selected {
                Line::styled(format!("{SELECTED}{site}"), Modifier::REVERSED)
            } else {
                Line::raw(format!("{OTHER}{site}"))
            }
        }));
        lines
    }

    fn places(&self) -> usize {
        self.sample.as_ref().map_or(0, |sample| sample.sites.len())
    }

    fn selected_place(&self) -> Option<String> {
        let site = self.sample.as_ref()?.sites.get(self.selected)?;
        Some(site.spawned_at.clone())
    }

    /// Sorts the places, and selects this one again, unless the first one was selected: that stays
    /// the first.
    fn sort(&mut self, selected: Option<String>) {
        let Some(sample) = &mut self.sample else {
            return;
        };
        self.order.sort(&mut sample.sites);
        let is_selected = |place: &str| Some(place) == selected.as_deref();
        let found = sample
            .sites
            .iter()
            .position(|site| is_selected(&site.spawned_at));
        let again = found.filter(|_| self.selected > 0);
        let last = sample.sites.len().saturating_sub(1);
        self.selected = again.unwrap_or(self.selected).min(last);
    }
}

impl Text {
    /// Returns the rows that are shown, and ends the scrolling at the last one.
    fn rows(&mut self, width: usize, height: usize) -> Vec<Line<'static>> {
        let rows: Vec<_> = self
            .lines
            .iter()
            .flat_map(|line| wrap(line, width))
            .collect();
        self.page = height.max(1);
        self.above = self.above.min(rows.len().saturating_sub(height));
        let shown = rows.into_iter().skip(self.above).take(height);
        shown.map(Line::raw).collect()
    }
}

/// Cuts a line into rows.
fn wrap(line: &str, width: usize) -> Vec<String> {
    let characters: Vec<_> = line.chars().collect();
    let rows = characters.chunks(width.max(1)).map(String::from_iter);
    if characters.is_empty() {
        return vec![String::new()];
    }
    rows.collect()
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}
