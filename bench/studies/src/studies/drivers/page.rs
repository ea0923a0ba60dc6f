//! The study as a page of Markdown, its tables padded so that they can be read as they are.

use std::fmt::Display;

use uthread::Driver;

use super::Args;
use super::row::{BUSY, CPU_US, KERNEL_BYTES, P50_US, P99_US, RATE, RSS_BYTES, Row};
use super::subject::Subject;
use crate::load::WARM_UP_SECONDS;
use crate::measure::stats::{Ratio, Summary, Verdict};
use crate::place::Place;

const HEADINGS: [&str; 11] = [
    "connections",
    "driver",
    "answers/s",
    "ratio",
    "server CPU, us",
    "ratio",
    "CPUs busy",
    "p50, us",
    "p99, us",
    "RSS, B",
    "kernel, B",
];
/// Of the documents beside which the page will stand.
const LINE_WIDTH: usize = 120;
/// What two rounds agree in, at best.
const DIGITS: usize = 3;

type Cells = [String; HEADINGS.len()];

pub(super) fn show(args: &Args, place: &Place, rows: &[Row]) -> String {
    let mut page = format!(
        "# The drivers in figures\n\n{}\n\n`{}`\n",
        wrap(&about(args, place)),
        command(args)
    );
    for &program in &args.programs {
        let of_program = rows.iter().filter(|row| row.subject.program == program);
        let of_program: Vec<&Row> = of_program.collect();
        page += &format!("\n## `uthread {program}`\n\n");
        page += &table(&of_program, args.drivers.len());
        let notes = notes(&of_program);
        if !notes.is_empty() {
            page += &format!("\n{}\n", notes.join("\n"));
        }
    }
    page
}

/// Where the figures were taken, and what the columns mean.
fn about(args: &Args, place: &Place) -> String {
    let machine = place.to_json(args.workers);
    let text = |name: &str| machine[name].as_str().unwrap_or("unknown").to_owned();
    format!(
        "{}, Linux {}, loopback; the server on CPUs {}, {} workers, its load on {}. Medians of {} interleaved rounds of {} s \
         with their range; ratios to the first driver are of pairs within a round, with their 95 % interval: `~` where \
         that shows no difference, `?` where the rounds are too few to tell. All connections are open, and were answered \
         once, before {} s of warm-up. Memory is what the server (RSS) and the kernel for it (stacks, page tables, slab) \
         have grown by for each connection, read while all are idle after the load; the sockets of both ends are in it.",
        text("cpu_model"),
        text("kernel"),
        list(&place.server_cpus),
        args.workers,
        list(&place.load_cpus),
        args.rounds.rounds,
        args.seconds,
        WARM_UP_SECONDS,
    )
}

/// What takes these figures again.
fn command(args: &Args) -> String {
    format!(
        "target/release/uthread-bench drivers --rounds {} --seconds {} --workers {} --programs {} --drivers {} \
         --connections {}",
        args.rounds.rounds,
        args.seconds,
        args.workers,
        list(&args.programs),
        list(&args.drivers),
        list(&args.connections)
    )
}

fn list(items: &[impl Display]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(",")
}

fn table(rows: &[&Row], drivers: usize) -> String {
    let mut lines: Vec<Cells> = vec![HEADINGS.map(str::to_owned)];
    for group in rows.chunks(drivers) {
        let first = group[0];
        lines.extend(group.iter().map(|row| cells(row, first)));
    }
    let width = |column: usize| {
        let widths = lines.iter().map(|cells| cells[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    let show = |cells: &Cells| {
        let padded = cells.iter().zip(&widths);
        let padded: Vec<String> = padded
            .map(|(cell, &width)| format!("{cell:<width$}"))
            .collect();
        format!("| {} |\n", padded.join(" | "))
    };
    let rule = HEADINGS.map(|_| "---".to_owned());
    let (heading, body) = lines.split_at(1);
    heading
        .iter()
        .chain([&rule])
        .chain(body)
        .map(show)
        .collect()
}

fn cells(row: &Row, first: &Row) -> Cells {
    let summary = |metric| row.summary(metric).map_or(String::new(), show_summary);
    let median = |metric| {
        let summary = row.summary(metric);
        summary.map_or(String::new(), |summary| significant(summary.median))
    };
    let ratio = |metric| match row.subject.driver == first.subject.driver {
        true => String::new(),
        false => row.ratio(metric, first).map_or(String::new(), show_ratio),
    };
    let rate = match row.summary(RATE) {
        Some(rate) => show_summary(rate),
        None => "cannot".to_owned(),
    };
    [
        grouped(&row.subject.connections.to_string()),
        row.subject.driver.to_string(),
        rate,
        ratio(RATE),
        summary(CPU_US),
        ratio(CPU_US),
        median(BUSY),
        summary(P50_US),
        summary(P99_US),
        summary(RSS_BYTES),
        summary(KERNEL_BYTES),
    ]
}

/// How the drivers were set up, what they could not do, and where the figures are to be doubted.
fn notes(rows: &[&Row]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for details in rows.iter().filter_map(|row| row.driver.as_deref()) {
        let note = format!("- {details}");
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let mut failures: Vec<(Driver, &str, Vec<String>)> = Vec::new();
    let mut disturbed = Vec::new();
    for row in rows {
        let Subject {
            driver,
            connections,
            ..
        } = row.subject;
        let connections = grouped(&connections.to_string());
        for (reason, count) in row.failures() {
            let place = format!("{connections} ({})", rounds(count));
            match failures
                .iter_mut()
                .find(|failure| (failure.0, failure.1) == (driver, reason))
            {
                Some(failure) => failure.2.push(place),
                None => failures.push((driver, reason, vec![place])),
            }
        }
        match row.disturbed() {
            0 => {}
            count => disturbed.push(format!("{driver} at {connections} ({})", rounds(count))),
        }
    }
    for (driver, reason, places) in failures {
        let places = places.join(", ");
        notes.push(format!("- {driver} cannot at {places}: {reason}"));
    }
    if !disturbed.is_empty() {
        let disturbed = disturbed.join(", ");
        notes.push(format!("- disturbed by other processes: {disturbed}"));
    }
    notes
}

fn rounds(count: usize) -> String {
    format!("{count} round{}", if count == 1 { "" } else { "s" })
}

fn show_summary(summary: Summary) -> String {
    let Summary { median, min, max } = summary;
    let [median, min, max] = [median, min, max].map(significant);
    format!("{median} ({min}..{max})")
}

fn show_ratio(ratio: Ratio) -> String {
    let mark = match ratio.verdict {
        Verdict::Difference => "",
        Verdict::NoDifference => " ~",
        Verdict::TooFewRounds => " ?",
    };
    let [median, low, high] = [ratio.median, ratio.low, ratio.high].map(significant);
    format!("{median} [{low}..{high}]{mark}")
}

fn wrap(text: &str) -> String {
    let mut wrapped = String::new();
    let mut line_bytes = 0;
    for word in text.split(' ') {
        if line_bytes > 0 && line_bytes + 1 + word.len() > LINE_WIDTH {
            wrapped.push('\n');
            line_bytes = 0;
        } else if line_bytes > 0 {
            wrapped.push(' ');
            line_bytes += 1;
        }
        wrapped.push_str(word);
        line_bytes += word.len();
    }
    wrapped
}

/// Its first three digits: 197,000; 5.08; 0.0123.
pub(super) fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let above = value.abs().log10().floor() as i32 + 1 - DIGITS as i32;
    let unit = 10_f64.powi(above);
    let rounded = (value / unit).round() * unit;
    grouped(&format!(
        "{rounded:.*}",
        above.min(0).unsigned_abs() as usize
    ))
}

/// With a comma before each three digits of the whole part.
fn grouped(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let digits = whole.trim_start_matches('-').len();
    let mut text = String::new();
    for (index, digit) in whole.chars().enumerate() {
        let left = whole.len() - index;
        if left % 3 == 0 && left < digits {
            text.push(',');
        }
        text.push(digit);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::drivers::row::tests::row;

    #[test]
    fn numbers_have_three_digits_and_commas() {
        let check =
            |value: f64, expected: &str| assert_eq!(significant(value), expected, "{value}");
        check(197_123.4, "197,000");
        check(1_234_567.0, "1,230,000");
        check(999.6, "1,000");
        check(100.0, "100");
        check(28.46, "28.5");
        check(5.0, "5.00");
        check(0.012_34, "0.0123");
        check(0.0, "0");
        check(-1234.0, "-1,230");
        check(-123.4, "-123");
        assert_eq!(grouped("12345"), "12,345");
        assert_eq!(grouped("1"), "1");
    }

    #[test]
    fn text_is_wrapped_between_words() {
        let long = "x".repeat(LINE_WIDTH - 3);
        assert_eq!(wrap(&format!("{long} ab c")), format!("{long} ab\nc"));
        assert_eq!(wrap(&format!("{long} abc d")), format!("{long}\nabc d"));
    }

    #[test]
    fn a_table_sets_each_driver_beside_the_first() {
        let rows = [
            row(Driver::Uring, &[Some(10.0); 6]),
            row(Driver::Epoll, &[Some(5.0); 6]),
            row(Driver::Threads, &[None; 6]),
        ];
        let text = table(&rows.iter().collect::<Vec<_>>(), 3);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        assert!(lines.iter().all(|line| line.len() == lines[0].len()));
        let check = |line: &str, parts: &[&str]| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            assert_eq!(cells[1..5], *parts, "{line}");
        };
        check(lines[2], &["1,000", "uring", "10.0 (10.0..10.0)", ""]);
        check(
            lines[3],
            &[
                "1,000",
                "epoll",
                "5.00 (5.00..5.00)",
                "0.500 [0.500..0.500]",
            ],
        );
        check(lines[4], &["1,000", "threads", "cannot", ""]);
    }

    #[test]
    fn what_went_wrong_stands_under_the_table_once() {
        let mut rows = [
            row(Driver::Threads, &[None, Some(1.0)]),
            row(Driver::Threads, &[None, None]),
        ];
        rows[1].subject.connections = 10;
        rows.iter_mut()
            .for_each(|row| row.driver = Some("threads (details)".to_owned()));
        let expected = [
            "- threads (details)",
            "- threads cannot at 1,000 (1 round), 10 (2 rounds): no threads",
        ];
        assert_eq!(notes(&rows.iter().collect::<Vec<_>>()), expected);
    }
}
