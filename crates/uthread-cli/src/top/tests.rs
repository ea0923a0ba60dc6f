//! The screen at two sizes, its keys, and the same sample as text.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use uthread_dump::{Activity, Counts, Sample, Site, States, Worker};

use super::page;
use super::screen::{Screen, Wish};

fn worker(index: u64, busy: f64, spawned_at: Option<&str>) -> Worker {
    Worker {
        runtime: 0,
        index,
        activity: match spawned_at {
            Some(_) => Activity::Running,
            None => Activity::Asleep,
        },
        running: spawned_at.map(|_| 128),
        spawned_at: spawned_at.map(str::to_owned),
        busy,
        idle: 1.0 - busy,
        fibers: States {
            operation: 200,
            ready: 3,
            ..States::default()
        },
        total: Counts::default(),
        per_second: Counts {
            switches: 1_234_567.0,
            steals: 12.4,
            enters: 0.5,
            ..Counts::default()
        },
    }
}

fn site(spawned_at: &str, parked: usize, busy: f64) -> Site {
    Site {
        spawned_at: spawned_at.to_owned(),
        busy,
        fibers: States {
            parked,
            ..States::default()
        },
        longest_wait: (parked > 0).then_some(Duration::from_millis(1234)),
    }
}

/// Returns a sample of this number of workers, and of twelve places beside two.
fn sample(workers: u64) -> Sample {
    let long = "/home/me/.cargo/registry/src/index/server-1.2.3/src/accept.rs:100:17";
    let mut sites = vec![site("src/main.rs:13:1", 1, 0.0), site(long, 1000, 0.875)];
    sites.extend((0..12).map(|line| site(&format!("src/other.rs:{line}:9"), 0, 0.0)));
    Sample {
        pid: 4711,
        seconds: 1.0,
        cpus: 0.9,
        looks: 250,
        workers: (0..workers)
            .map(|index| worker(index, 0.875, (index == 0).then_some(long)))
            .collect(),
        fibers: States {
            parked: 1001,
            operation: 400,
            ready: 6,
            ..States::default()
        },
        sites,
        dropped: 2,
        problems: Vec::new(),
    }
}

/// Returns the rows of a screen.
fn draw(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content.chunks(width.into());
    let text = |row: &[ratatui::buffer::Cell]| {
        let text: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.trim_end().to_owned()
    };
    rows.map(text).collect()
}

fn press(screen: &mut Screen, code: KeyCode) -> Option<Wish> {
    screen.press(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn a_screen_of_80_columns_has_all_numbers() {
    let mut screen = Screen::default();
    assert_eq!(draw(&mut screen, 80, 24)[0], "reading ..");
    assert!(screen.update(sample(2)));
    let rows = draw(&mut screen, 80, 24);
    let expected = [
        "process 4711: 1407 fibers on 2 workers, 0.90 CPUs",
        "0 running, 6 ready, 1001 parked, 400 in flight, 0 new; 2 missing",
        "",
        "worker state   busy idle switch/s steals/s enters/s in flight  ready  fibers",
        "   all          88%  12%    2469k       25        1       400      6    1407",
        "     0 running  88%  12%    1235k       12      0.5       200      3     203",
        "     1 asleep   88%  12%    1235k       12      0.5       200      3     203",
        "",
        "   FIBERS   run  ready parked in flight  busy  waits  spawned at",
        ">    1000     0      0   1000         0   88%   1.2s  ..2.3/src/accept.rs:100:17",
        "        1     0      0      1         0    0%   1.2s  src/main.rs:13:1",
        "        0     0      0      0         0    0%         src/other.rs:0:9",
    ];
    for (row, expected) in rows.iter().zip(expected) {
        assert_eq!(row, expected);
    }
    assert_eq!(
        rows[23],
        "q quit  arrows select  s sort  space freeze  enter dump  ? help"
    );
    assert!(rows.iter().all(|row| row.chars().count() <= 80));
}

#[test]
fn a_wide_screen_has_whole_places() {
    let mut screen = Screen::default();
    screen.update(sample(2));
    let rows = draw(&mut screen, 120, 40);
    assert!(rows[3].ends_with("fibers  runs a fiber of"), "{}", rows[3]);
    assert!(
        rows[5].ends_with("   203  ../index/server-1.2.3/src/accept.rs:100:17"),
        "{}",
        rows[5]
    );
    let place = "/.cargo/registry/src/index/server-1.2.3/src/accept.rs:100:17";
    assert!(rows[9].ends_with(place), "{}", rows[9]);
    assert_eq!(rows[9].chars().count(), 120);
    assert!(rows[22].ends_with("src/other.rs:9:9"), "{}", rows[22]);
}

#[test]
fn many_workers_leave_room_for_places() {
    let mut screen = Screen::default();
    screen.update(sample(100));
    let rows = draw(&mut screen, 80, 24);
    assert!(rows[4].starts_with("   all"), "{}", rows[4]);
    assert!(rows[10].starts_with("     5"), "{}", rows[10]);
    assert_eq!(rows[11], "  94 more workers");
    assert!(rows[13].contains("FIBERS"), "{}", rows[13]);
    assert!(rows[14].starts_with("> "), "{}", rows[14]);
}

#[test]
fn tiny_screens_are_no_failure() {
    for (width, height) in [(1, 1), (10, 3), (79, 7), (80, 8)] {
        let mut screen = Screen::default();
        screen.update(sample(3));
        draw(&mut screen, width, height);
        press(&mut screen, KeyCode::Char('?'));
        draw(&mut screen, width, height);
    }
}

#[test]
fn the_selected_place_is_kept_in_sight() {
    let mut screen = Screen::default();
    screen.update(sample(2));
    press(&mut screen, KeyCode::Down);
    press(&mut screen, KeyCode::Char('s'));
    let rows = draw(&mut screen, 80, 24);
    assert!(rows[8].contains("fibers   RUN  ready"), "{}", rows[8]);
    let selected = |rows: &[String]| rows.iter().find(|row| row.starts_with("> ")).cloned();
    assert!(selected(&rows).unwrap().ends_with("src/main.rs:13:1"));
    let wish = press(&mut screen, KeyCode::Enter);
    assert_eq!(wish, Some(Wish::Dump("src/main.rs:13:1".to_owned())));
    press(&mut screen, KeyCode::End);
    let rows = draw(&mut screen, 80, 16);
    assert!(selected(&rows).unwrap().ends_with("src/other.rs:9:9"));
    press(&mut screen, KeyCode::Home);
    let rows = draw(&mut screen, 80, 16);
    assert!(selected(&rows).unwrap().contains("src/accept.rs"));
}

#[test]
fn a_frozen_screen_stays() {
    let mut screen = Screen::default();
    screen.update(sample(2));
    press(&mut screen, KeyCode::Char(' '));
    assert!(!screen.update(sample(1)));
    let rows = draw(&mut screen, 80, 24);
    assert!(rows[0].contains("on 2 workers"), "{}", rows[0]);
    assert!(
        rows[23].ends_with("? help           FROZEN"),
        "{}",
        rows[23]
    );
    press(&mut screen, KeyCode::Char(' '));
    assert!(screen.update(sample(1)));
    let rows = draw(&mut screen, 80, 24);
    assert!(rows[0].contains("on 1 worker,"), "{}", rows[0]);
    assert!(rows[4].starts_with("     0 running"), "{}", rows[4]);
}

#[test]
fn a_text_is_scrolled_and_closed() {
    let mut screen = Screen::default();
    screen.update(sample(2));
    let long = "frame ".repeat(20);
    let error = anyhow::anyhow!("first\n{long}\nlast");
    screen.show_dump(Err(error));
    let rows = draw(&mut screen, 80, 4);
    assert_eq!(rows[0], "first");
    assert!(rows[3].starts_with("q back"), "{}", rows[3]);
    press(&mut screen, KeyCode::PageDown);
    let rows = draw(&mut screen, 80, 4);
    assert_eq!(rows[2], "last");
    assert_eq!(press(&mut screen, KeyCode::Char('q')), None);
    assert!(draw(&mut screen, 80, 24)[0].starts_with("process 4711"));
    assert_eq!(press(&mut screen, KeyCode::Char('q')), Some(Wish::Quit));
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(screen.press(interrupt), Some(Wish::Quit));
}

#[test]
fn the_help_fits_80_columns() {
    let mut screen = Screen::default();
    press(&mut screen, KeyCode::Char('?'));
    let rows = draw(&mut screen, 80, 24);
    assert_eq!(rows[0], "Workers");
    assert!(rows.iter().any(|row| row.contains("s      sort by")));
}

#[test]
fn the_key_of_the_help_closes_it_and_no_dump() {
    let mut screen = Screen::default();
    screen.update(sample(2));
    for key in ['?', 'h'] {
        press(&mut screen, KeyCode::Char(key));
        assert_eq!(draw(&mut screen, 80, 24)[0], "Workers");
        press(&mut screen, KeyCode::Char(key));
        assert!(draw(&mut screen, 80, 24)[0].starts_with("process 4711"));
    }
    screen.show_dump(Err(anyhow::anyhow!("first")));
    press(&mut screen, KeyCode::Char('?'));
    assert_eq!(draw(&mut screen, 80, 24)[0], "first");
}

#[test]
fn the_text_has_every_worker_and_whole_places() {
    let mut out = Vec::new();
    page::write(&mut out, &sample(100)).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().count(), 2 + 1 + 1 + 101 + 1 + 1 + 14);
    let place = "  /home/me/.cargo/registry/src/index/server-1.2.3/src/accept.rs:100:17";
    let ends = |line: &&str| line.ends_with(place);
    assert_eq!(text.lines().filter(ends).count(), 2, "{text}");
    assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
}
