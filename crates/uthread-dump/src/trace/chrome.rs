//! A trace as JSON in Chrome's Trace Event Format, which Perfetto and the Firefox profiler open: a
//! track for each worker, with a slice for each time that a fiber runs, and arrows from a fiber to
//! those that it wakes or spawns.

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use uthread::root::{EventKind, Leave};

use super::{Event, Trace, TracedWorker};

/// What is added to the id of the process for the tracks of fibers. No process of Linux has an id
/// of more than 22 bits, and viewers keep 32.
const FIBERS: i32 = 1 << 30;

/// An arrow between two fibers.
struct Arrow {
    name: &'static str,
    at_ns: u64,
    /// The index of the worker on which it begins.
    worker: usize,
    to: u64,
}

/// When fibers run, by id: the begin and the index of the worker, in the order of the begins.
type Runs = HashMap<u64, Vec<(u64, usize)>>;

impl Trace {
    /// Writes the trace as JSON in Chrome's Trace Event Format, with a track for each worker, and
    /// one for each fiber if `has_fibers`.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_json(&self, out: &mut dyn Write, has_fibers: bool) -> io::Result<()> {
        let mut json = Json { out, count: 0 };
        json.begin()?;
        self.write_titles(&mut json)?;
        let mut runs = Runs::new();
        let mut arrows = Vec::new();
        for (index, worker) in self.workers.iter().enumerate() {
            for event in &worker.events {
                json.add(&self.slice(index, event))?;
                arrows.extend(arrow(index, event));
                if is_run(event.kind) {
                    let runs = runs.entry(event.fiber).or_default();
                    runs.push((event.begin_ns, index));
                }
            }
        }
        runs.values_mut().for_each(|runs| runs.sort_unstable());
        for (number, arrow) in arrows.iter().enumerate() {
            if let Some(to) = first_run(&runs, arrow.to, arrow.at_ns) {
                self.write_arrow(&mut json, number, arrow, to)?;
            }
        }
        if has_fibers {
            self.write_fibers(&mut json)?;
        }
        json.end()
    }

    fn write_titles(&self, json: &mut Json<'_>) -> io::Result<()> {
        let name = format!("workers of process {}", self.pid);
        json.add(
            &json!({"name": "process_name", "ph": "M", "pid": self.pid, "args": {"name": name}}),
        )?;
        let runtimes: Vec<_> = self.workers.iter().map(|worker| worker.runtime).collect();
        for (index, worker) in self.workers.iter().enumerate() {
            let first = runtimes
                .iter()
                .position(|runtime| *runtime == worker.runtime);
            let earlier = &runtimes[..first.unwrap_or(0)];
            let number = earlier.chunk_by(|one, next| one == next).count();
            let is_only = runtimes.iter().all(|runtime| *runtime == runtimes[0]);
            let name = if is_only {
                format!("worker {}", worker.index)
            } else {
                format!("runtime {number} worker {}", worker.index)
            };
            let name = json!({"name": "thread_name", "ph": "M", "pid": self.pid, "tid": index, "args": {"name": name}});
            json.add(&name)?;
            self.write_gaps(json, index, worker)?;
        }
        Ok(())
    }

    /// Writes a mark where events are lost.
    fn write_gaps(
        &self,
        json: &mut Json<'_>,
        index: usize,
        worker: &TracedWorker,
    ) -> io::Result<()> {
        for (next, lost) in &worker.gaps {
            let next = worker.events.get(*next);
            let end_ns = next.map_or(self.end_ns, |event| event.begin_ns);
            json.add(&json!({
                "name": format!("{lost} events are lost"), "ph": "i", "s": "t",
                "ts": self.microseconds(end_ns), "pid": self.pid, "tid": index,
            }))?;
        }
        Ok(())
    }

    /// Returns an event of the track of a worker.
    fn slice(&self, worker: usize, event: &Event) -> Value {
        let label = self.label(event);
        let (name, category) = match event.kind {
            EventKind::Run | EventKind::Detach => (&*label, "run"),
            EventKind::Ready => ("ready", "ready"),
            EventKind::Wake => ("wake", "ready"),
            EventKind::Spawn => ("spawn", "spawn"),
            EventKind::Sleep => ("sleep", "idle"),
            EventKind::Submit => ("submit", "driver"),
            EventKind::Steal => ("steal", "worker"),
            EventKind::Move => ("comes from another worker", "worker"),
            EventKind::Return => ("returns from its thread", "worker"),
            _ => ("?", "worker"),
        };
        let mut slice = json!({
            "name": name, "cat": category, "pid": self.pid, "tid": worker,
            "ts": self.microseconds(event.begin_ns), "args": self.arguments(event),
        });
        if event.kind == EventKind::Sleep || event.kind == EventKind::Submit || is_run(event.kind) {
            slice["ph"] = "X".into();
            slice["dur"] = self.duration(event.begin_ns, event.end_ns).into();
        } else {
            slice["ph"] = "i".into();
            slice["s"] = "t".into();
        }
        set_colour(&mut slice);
        slice
    }

    /// Returns what is known of an event, once more in `detail`: the Firefox profiler shows nothing
    /// else.
    fn arguments(&self, event: &Event) -> Value {
        let mut args = json!({});
        let mut detail = Vec::new();
        if event.fiber != 0 {
            args["fiber"] = event.fiber.into();
            detail.push(format!("fiber {}", event.fiber));
        }
        if is_run(event.kind) {
            let then = leave(event);
            args["then"] = then.into();
            detail.push(then.to_owned());
        }
        let other = match event.kind {
            EventKind::Ready => "woken by",
            EventKind::Wake => "woken",
            EventKind::Spawn => "by",
            EventKind::Sleep | EventKind::Submit => "submitted",
            _ => "",
        };
        if !other.is_empty() && event.other != 0 {
            args[other] = event.other.into();
            detail.push(format!("{other} {}", event.other));
        }
        if let Some(place) = self.places.get(&event.place) {
            args["spawned at"] = place.as_str().into();
        }
        args["detail"] = detail.join(", ").into();
        args
    }

    fn write_arrow(
        &self,
        json: &mut Json<'_>,
        number: usize,
        arrow: &Arrow,
        (begin_ns, worker): (u64, usize),
    ) -> io::Result<()> {
        let end = |phase: &str, worker: usize, at_ns: u64| {
            json!({
                "name": arrow.name, "cat": arrow.name, "ph": phase, "id": number,
                "pid": self.pid, "tid": worker, "ts": self.microseconds(at_ns), "bp": "e",
            })
        };
        json.add(&end("s", arrow.worker, arrow.at_ns))?;
        json.add(&end("f", worker, begin_ns))
    }

    /// Writes a track for each fiber: when it runs, and what it waits for in between.
    fn write_fibers(&self, json: &mut Json<'_>) -> io::Result<()> {
        let pid = self.pid | FIBERS;
        let name = format!("fibers of process {}", self.pid);
        json.add(&json!({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}))?;
        let mut fibers: HashMap<u64, Vec<&Event>> = HashMap::new();
        for event in self.workers.iter().flat_map(|worker| &worker.events) {
            if is_run(event.kind) || event.kind == EventKind::Ready {
                fibers.entry(event.fiber).or_default().push(event);
            }
        }
        let mut fibers: Vec<_> = fibers.into_iter().collect();
        fibers.sort_unstable_by_key(|(id, _)| *id);
        for (id, mut events) in fibers {
            events.sort_unstable_by_key(|event| (event.begin_ns, is_run(event.kind)));
            let run = events.iter().find(|event| is_run(event.kind));
            let args = json!({"name": self.label(run.unwrap_or(&events[0]))});
            json.add(
                &json!({"name": "thread_name", "ph": "M", "pid": pid, "tid": id, "args": args}),
            )?;
            let mut state = "ready";
            let mut since = None;
            for event in events {
                let mut add = |name: &str, begin: u64, end: u64| {
                    let mut slice = json!({
                        "name": name, "cat": "fiber", "ph": "X", "pid": pid, "tid": id,
                        "ts": self.microseconds(begin), "dur": self.duration(begin, end),
                    });
                    set_colour(&mut slice);
                    json.add(&slice)
                };
                if let Some(since) = since {
                    add(state, since, event.begin_ns)?;
                }
                if is_run(event.kind) {
                    add("run", event.begin_ns, event.end_ns)?;
                }
                since = (event.leave != Some(Leave::End)).then_some(event.end_ns);
                state = match event.kind {
                    EventKind::Ready => "ready",
                    EventKind::Detach => "run on its own thread",
                    _ => waiting(event.leave),
                };
            }
        }
        Ok(())
    }

    /// Returns the name of a fiber, or where it was spawned, with its id.
    fn label(&self, event: &Event) -> String {
        let name = self.names.get(&event.fiber);
        let label = name.or_else(|| self.places.get(&event.place));
        format!("{} #{}", label.map_or("fiber", String::as_str), event.fiber)
    }

    /// Returns a time since the begin of the trace.
    fn microseconds(&self, time_ns: u64) -> f64 {
        time_ns.saturating_sub(self.begin_ns) as f64 / 1e3
    }

    /// Returns the part of a duration that is since the begin of the trace.
    fn duration(&self, begin_ns: u64, end_ns: u64) -> f64 {
        end_ns.saturating_sub(begin_ns.max(self.begin_ns)) as f64 / 1e3
    }
}

/// Gives what does not run another colour than a fiber that runs.
fn set_colour(slice: &mut Value) {
    // Names of the palette of Catapult.
    let colour = match slice["name"].as_str() {
        Some("sleep" | "parked" | "operation") => "grey",
        Some("ready") => "thread_state_runnable",
        _ => return,
    };
    slice["cname"] = colour.into();
}

fn is_run(kind: EventKind) -> bool {
    matches!(kind, EventKind::Run | EventKind::Detach)
}

/// Returns the arrow that an event begins.
fn arrow(worker: usize, event: &Event) -> Option<Arrow> {
    let (name, to) = match event.kind {
        EventKind::Ready if event.other != 0 => ("wake", event.fiber),
        EventKind::Wake => ("wake", event.other),
        EventKind::Spawn if event.other != 0 => ("spawn", event.fiber),
        _ => return None,
    };
    Some(Arrow {
        name,
        at_ns: event.begin_ns,
        worker,
        to,
    })
}

/// Returns the first run of a fiber from this time on.
fn first_run(runs: &Runs, fiber: u64, from_ns: u64) -> Option<(u64, usize)> {
    let runs = runs.get(&fiber)?;
    let index = runs.partition_point(|run| run.0 < from_ns);
    runs.get(index).copied()
}

/// Describes why a fiber has stopped to run.
fn leave(event: &Event) -> &'static str {
    match event.leave {
        _ if event.kind == EventKind::Detach => "keeps the thread",
        Some(Leave::Yield) => "yields",
        Some(Leave::Spent) => "has used up its turn",
        Some(Leave::Park) => "parks",
        Some(Leave::Operation) => "waits for an operation",
        Some(Leave::End) => "ends",
        Some(Leave::Abandon) => "is abandoned",
        _ => "?",
    }
}

/// Returns the state of a fiber after it has run.
fn waiting(leave: Option<Leave>) -> &'static str {
    match leave {
        Some(Leave::Park) => "parked",
        Some(Leave::Operation) => "operation",
        _ => "ready",
    }
}

/// Writes events one by one.
struct Json<'a> {
    out: &'a mut dyn Write,
    count: u64,
}

impl Json<'_> {
    fn begin(&mut self) -> io::Result<()> {
        write!(
            self.out,
            "{{\"displayTimeUnit\": \"ns\", \"traceEvents\": ["
        )
    }

    fn add(&mut self, event: &Value) -> io::Result<()> {
        let comma = if self.count > 0 { "," } else { "" };
        self.count += 1;
        write!(self.out, "{comma}\n{event}")
    }

    fn end(&mut self) -> io::Result<()> {
        writeln!(self.out, "\n]}}")?;
        self.out.flush()
    }
}
