//! `uthread audit`: which dependencies of a program keep a worker from its other fibers, and where.
//!
//! | module | contents |
//! | --- | --- |
//! | [`sources`] | the files of one that a program contains |
//! | [`packages`] | the dependencies, by `cargo metadata` |
//! | [`trials`] | crates that were tried |
//!
//! [`uthread_port::scan`] finds the places.

mod sources;

mod packages;
mod trials;

use std::io::{self, Write};
use std::path::Path;

use uthread_port::{Effect, Finding};

use self::packages::Dependency;
use self::trials::Trial;
use crate::args::AuditArgs;
use crate::exit::Exit;
use crate::output::{print, tell};

pub(crate) fn run(args: &AuditArgs) -> Exit {
    match audit(&args.path) {
        Ok(audited) => print(|out| write_report(out, &audited)),
        Err(error) => {
            tell(format_args!("{error:#}"));
            Exit::CouldNotStart
        }
    }
}

/// Prints the dependencies of a ported program that can block its workers. Says why if they cannot
/// be read.
pub(crate) fn warn(folder: &Path, out: &mut impl Write) -> io::Result<()> {
    let audited = match audit(folder) {
        Ok(audited) => audited,
        Err(error) => return writeln!(out, "dependencies are not checked: {error:#}"),
    };
    let blocking = audited
        .iter()
        .filter(|audited| audited.verdict() == Verdict::Blocks);
    let names: Vec<_> = blocking
        .map(|audited| audited.dependency.name.as_str())
        .collect();
    match names[..] {
        [] => writeln!(
            out,
            "dependencies that can block the worker of lean fibers: none of {}",
            audited.len()
        ),
        _ => writeln!(
            out,
            "dependencies that can block the worker of lean fibers: {} (`uthread audit` shows where; other fibers may block)",
            names.join(", ")
        ),
    }
}

/// A dependency, and what was found in it.
struct Audited {
    dependency: Dependency,
    trial: Option<Trial>,
    /// The first finding of each effect, with its file.
    found: Vec<(String, Finding)>,
    /// The crate that declares the functions of C which it calls.
    declarations: Option<String>,
}

/// Classes of dependencies, by what a program has to do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Blocks,
    Mixes,
    CallsC,
    Locks,
    Files,
    Works,
}

/// The verdicts in the order of the report, with a title and a remedy.
const VERDICTS: [(Verdict, &str, &str); 5] = [
    (
        Verdict::Blocks,
        "can block the worker",
        "call it in uthread::blocking, or do without lean fibers (Builder::lean)",
    ),
    (
        Verdict::Mixes,
        "keeps context in thread-locals, which the fibers of a worker share",
        "leave its guards and scopes before a call that waits, save the context by Builder::context, or do without lean fibers",
    ),
    (
        Verdict::CallsC,
        "calls functions of C",
        "if they wait: as for one that can block",
    ),
    (
        Verdict::Locks,
        "takes locks",
        "nothing, unless it calls your code, which waits, while it holds one",
    ),
    (
        Verdict::Files,
        "reads or writes files",
        "uthread::blocking for large ones",
    ),
];

fn audit(folder: &Path) -> anyhow::Result<Vec<Audited>> {
    let dependencies = packages::of(folder)?.into_iter();
    let mut audited = dependencies
        .map(Audited::new)
        .collect::<anyhow::Result<Vec<_>>>()?;
    let declaring = audited.iter().filter(|audited| audited.declares_c());
    let declaring: Vec<_> = declaring
        .map(|audited| audited.dependency.name.clone())
        .collect();
    for audited in &mut audited {
        let is_called = |name: &&String| audited.dependency.is_caller_of(name);
        audited.declarations = declaring.iter().find(is_called).cloned();
    }
    Ok(audited)
}

impl Audited {
    fn new(dependency: Dependency) -> anyhow::Result<Audited> {
        let mut found: Vec<(String, Finding)> = Vec::new();
        // The calls of what libc declares are found in its callers.
        let files = match &*dependency.name {
            "libc" => Vec::new(),
            _ => sources::scan(&dependency)?,
        };
        for (file, findings) in files {
            for finding in findings {
                if found
                    .iter()
                    .all(|(_, before)| before.effect != finding.effect)
                {
                    found.push((file.display().to_string(), finding));
                }
            }
        }
        let trial = trials::of(&dependency.name);
        Ok(Audited {
            dependency,
            trial,
            found,
            declarations: None,
        })
    }

    fn place(&self, effect: Effect) -> Option<&(String, Finding)> {
        self.found
            .iter()
            .find(|(_, finding)| finding.effect == effect)
    }

    fn verdict(&self) -> Verdict {
        let has = |effect| self.place(effect).is_some();
        match self.trial {
            Some(Trial::Works) => Verdict::Works,
            Some(Trial::Blocks) => Verdict::Blocks,
            Some(Trial::Mixes) => Verdict::Mixes,
            None if has(Effect::Blocks) => Verdict::Blocks,
            None if has(Effect::Guards) => Verdict::Mixes,
            None if self.calls_c() => Verdict::CallsC,
            None if has(Effect::Locks) => Verdict::Locks,
            None if has(Effect::Files) => Verdict::Files,
            None => Verdict::Works,
        }
    }

    /// Returns `true` for a crate that calls functions of C, or lets its callers do so.
    fn calls_c(&self) -> bool {
        let has_found = self.place(Effect::CallsC).is_some();
        has_found || self.declarations.is_some() || self.dependency.links.is_some()
    }

    /// Returns `true` for a crate whose callers call functions of C.
    fn declares_c(&self) -> bool {
        let is_of_declarations = self.dependency.name.ends_with("-sys");
        is_of_declarations && self.calls_c()
    }

    /// Returns why it has its verdict, and what else keeps context.
    fn reason(&self) -> String {
        let effects: &[Effect] = match self.verdict() {
            Verdict::Blocks => &[Effect::Blocks, Effect::Guards],
            Verdict::Mixes if self.place(Effect::Guards).is_none() => &[Effect::Context],
            Verdict::Mixes => &[Effect::Guards],
            Verdict::CallsC => &[Effect::CallsC],
            Verdict::Locks => &[Effect::Locks],
            Verdict::Files | Verdict::Works => &[Effect::Files],
        };
        let places = effects.iter().filter_map(|effect| self.place(*effect));
        let places = places.map(|(file, finding)| {
            let Finding { what, line, .. } = finding;
            format!("{what} at {file}:{line}")
        });
        let declarations = self.declarations.iter().map(|name| format!("calls {name}"));
        let library = self.dependency.links.iter();
        let library = library.map(|links| format!("links {links}"));
        let trial = self.trial.iter().map(|_| "tried".to_owned());
        let reasons = places.chain(declarations).chain(library).chain(trial);
        reasons.collect::<Vec<_>>().join("; ")
    }
}

fn write_report(out: &mut Vec<u8>, audited: &[Audited]) -> io::Result<()> {
    for (verdict, title, remedy) in VERDICTS {
        let of_verdict: Vec<_> = audited
            .iter()
            .filter(|audited| audited.verdict() == verdict)
            .collect();
        if of_verdict.is_empty() {
            continue;
        }
        writeln!(out, "{title}: {}\n  remedy: {remedy}", of_verdict.len())?;
        for audited in of_verdict {
            let Dependency { name, version, .. } = &audited.dependency;
            let name = format!("{name} {version}");
            writeln!(out, "  {name:28} {}", audited.reason())?;
        }
        writeln!(out)?;
    }
    let count =
        |counts: fn(&Audited) -> bool| audited.iter().filter(|audited| counts(audited)).count();
    writeln!(
        out,
        "works as it is: {} of {}; starts threads, whose calls are no fibers': {}",
        count(|audited| audited.verdict() == Verdict::Works),
        audited.len(),
        count(|audited| audited.place(Effect::Threads).is_some())
    )
}
