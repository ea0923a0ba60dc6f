//! Traces whose JSON is checked value by value.

use std::collections::HashMap;

use serde_json::{Value, json};
use uthread::root::{EventKind, Leave};

use super::{Event, Trace, TracedWorker};

const BEGIN_NS: u64 = 5_000_000;
const PID: i32 = 4711;

/// Returns an event at microseconds since the begin of the trace.
fn event(kind: EventKind, begin: i64, end: i64) -> Event {
    let at = |microseconds: i64| BEGIN_NS.strict_add_signed(microseconds * 1000);
    let is_run = matches!(kind, EventKind::Run | EventKind::Detach);
    let has_fiber = is_run || kind == EventKind::Ready;
    Event {
        kind,
        leave: (kind == EventKind::Run).then_some(Leave::Park),
        begin_ns: at(begin),
        end_ns: at(end),
        fiber: if has_fiber { 129 } else { 0 },
        other: if is_run { 0 } else { 3 },
        place: u64::from(is_run),
    }
}

/// Returns what the trace of a worker writes, of 1000 microseconds.
fn written(events: Vec<Event>, gaps: Vec<(usize, u64)>) -> Vec<Value> {
    let trace = Trace {
        pid: PID,
        begin_ns: BEGIN_NS,
        end_ns: BEGIN_NS + 1_000_000,
        workers: vec![TracedWorker {
            runtime: 1,
            index: 0,
            events,
            gaps,
        }],
        places: HashMap::from([(1, "src/main.rs:3:5".to_owned())]),
        names: HashMap::new(),
    };
    let mut text = Vec::new();
    trace.write_json(&mut text, true).unwrap();
    let mut json: Value = serde_json::from_slice(&text).unwrap();
    let Value::Array(events) = json["traceEvents"].take() else {
        panic!("{json}");
    };
    events
}

/// Returns the one event that has this value.
#[track_caller]
fn one<'a>(events: &'a [Value], key: &str, value: &Value) -> &'a Value {
    let found: Vec<_> = events.iter().filter(|event| event[key] == *value).collect();
    assert_eq!(found.len(), 1, "{key} {value}: {events:#?}");
    found[0]
}

#[test]
fn what_began_before_the_trace_has_only_the_time_since_then() {
    let events = vec![
        event(EventKind::Sleep, -900, 100),
        event(EventKind::Run, -500, -400),
        event(EventKind::Detach, 200, 500),
    ];
    let written = written(events, Vec::new());
    let sleep = one(&written, "name", &"sleep".into());
    assert_eq!((&sleep["ts"], &sleep["dur"]), (&0.0.into(), &100.0.into()));
    let end = |slice: &Value| slice["ts"].as_f64().unwrap() + slice["dur"].as_f64().unwrap();
    let slices = written.iter().filter(|event| event["ph"] == "X");
    for slice in slices.clone() {
        assert!(end(slice) <= 500.0, "{slice}");
    }
    // Two runs on the tracks of the worker and the fiber, the wait between them, and the sleep.
    assert_eq!(slices.count(), 6, "{written:#?}");
}

#[test]
fn a_slice_names_its_fiber() {
    let events = vec![
        event(EventKind::Ready, 0, 0),
        event(EventKind::Detach, 0, 20),
    ];
    let written = written(events, Vec::new());
    let kept = one(&written, "cat", &"run".into());
    assert_eq!(kept["name"], "src/main.rs:3:5 #129");
    let args = json!({
        "detail": "fiber 129, keeps the thread", "fiber": 129, "then": "keeps the thread",
        "spawned at": "src/main.rs:3:5",
    });
    assert_eq!(kept["args"], args);
    let ready = one(&written, "ph", &"i".into());
    assert_eq!(ready["args"]["detail"], "fiber 129, woken by 3");
    assert_eq!(ready["cname"], "thread_state_runnable");
    let pids = written.iter().map(|event| event["pid"].as_i64().unwrap());
    let mut pids: Vec<_> = pids.collect();
    pids.dedup();
    // Viewers keep 32 bits.
    assert_eq!(pids, [PID.into(), i64::from(PID) + (1 << 30)]);
}

#[test]
fn a_gap_is_marked_where_it_is() {
    let events = vec![
        event(EventKind::Sleep, 0, 100),
        event(EventKind::Sleep, 700, 800),
    ];
    let written = written(events, vec![(1, 12), (2, 34)]);
    let first = one(&written, "name", &"12 events are lost".into());
    assert_eq!(first["ts"], 700.0);
    let last = one(&written, "name", &"34 events are lost".into());
    assert_eq!(last["ts"], 1000.0);
}
