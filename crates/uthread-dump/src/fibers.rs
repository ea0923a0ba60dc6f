//! Reads the fibers of a process.

use std::array;
use std::collections::HashMap;

use anyhow::{Context as _, Result, bail};
use uthread::root::{self, Layout, Root};

use crate::interrupted::interrupted;
use crate::memory::{Memory, PAGE, Piece, Registers, read_one, word};
use crate::model::{Site, State};
use crate::modules::Modules;

/// How far below the mark of a suspended fiber the switch saves registers at most.
const SAVED_BELOW_MAX: u64 = 1024;

/// What the switch continues with: `push rbp; mov [rsi - 16], rsp; lea rsp, [rdx + 8]; pop rbx; pop
/// rbp`. The word above the saved registers points to it.
const RESUMED_CODE: [u8; 11] = [
    0x55, 0x48, 0x89, 0x66, 0xf0, 0x48, 0x8d, 0x62, 0x08, 0x5b, 0x5d,
];

/// Number of bytes that the switch saves: the address of the code above, `rbx` and `rbp`.
const SAVED_BYTES: u64 = 24;

/// Maximum number of bytes of a stack that are read.
const STACK_BYTES_MAX: u64 = 256 * 1024;

/// The distance up to which the fields of two fibers are copied together.
const NEAR_BYTES: u64 = 4096;

/// Maximum length of a name or a path. Longer ones are no such thing.
const TEXT_BYTES_MAX: u64 = 4096;

/// Maximum number of workers of a process. More are no list of workers.
const WORKERS_MAX: u64 = 1 << 16;

/// Maximum number of live fibers of a worker. More are no list of fibers.
const FIBERS_MAX: u64 = 1 << 28;

/// The fibers of a process, copied.
#[derive(Default)]
pub(crate) struct Copied {
    pub(crate) fibers: Vec<Snapshot>,
    /// Number of workers by runtime.
    pub(crate) workers: Vec<(u64, usize)>,
    /// Why some fibers are missing or incomplete.
    pub(crate) problems: Vec<String>,
}

/// The memory of a fiber, copied.
pub(crate) struct Snapshot {
    layout: Layout,
    runtime: usize,
    control: Piece,
    name: Option<String>,
    /// Its thread, if it runs.
    running: Option<(i32, Registers)>,
    /// The part of its stack that it uses, up to the top.
    stack: Piece,
}

/// A fiber.
pub(crate) struct Fiber {
    pub(crate) id: u64,
    pub(crate) name: Option<String>,
    pub(crate) spawn_site: Option<Site>,
    /// The index of its runtime.
    pub(crate) runtime: usize,
    pub(crate) worker: u32,
    pub(crate) state: State,
    /// Where it left off. `None` if it has not begun, or if that cannot be found.
    pub(crate) registers: Option<Registers>,
    pub(crate) stack: Piece,
    /// Number of bytes of its stack in use.
    pub(crate) stack_bytes: u64,
}

/// Copies the fibers of all versions of the library in a process, which does not run meanwhile.
///
/// # Errors
///
/// There is none, or it is of a version that is not known, or its list changes right now.
pub(crate) fn copy(memory: &dyn Memory, modules: &Modules) -> Result<Copied> {
    let mut copied = Copied::default();
    if modules.roots.is_empty() {
        bail!(
            "the process does not use uthread, or a version without the section `{}`",
            root::SECTION
        );
    }
    let mut threads = memory.registers();
    for index in 0..threads.len() {
        let (id, registers) = threads[index];
        let before = interrupted(memory, registers.stack);
        threads.extend(before.map(|registers| (id, registers)));
    }
    for range in &modules.roots {
        let mut at = range.start;
        while at < range.end {
            let bytes = (range.end - at) as usize;
            let section =
                read_one(memory, at, bytes).context("the section of the root is not in memory")?;
            if !section.bytes.starts_with(&root::MAGIC) {
                bail!(
                    "the section `{}` has no root: is the file that of the process?",
                    root::SECTION
                );
            }
            at += u64::from(section.half(Root::BYTES_AT as u32).unwrap_or(0).max(8));
            copy_root(memory, &threads, &section, &mut copied)?;
        }
    }
    Ok(copied)
}

/// Copies what one root leads to.
fn copy_root(
    memory: &dyn Memory,
    threads: &[(i32, Registers)],
    section: &Piece,
    copied: &mut Copied,
) -> Result<()> {
    let version = section.half(Root::VERSION_AT as u32);
    if version != Some(root::VERSION) {
        bail!(
            "the program's uthread has layout {}, and this tool knows layout {}: use the tool of the program's version",
            version.unwrap_or(0),
            root::VERSION,
        );
    }
    if section.bytes.len() < size_of::<Root>() {
        bail!("the section `{}` is cut off", root::SECTION);
    }
    let layout_word = |index| section.half((Root::LAYOUT_AT + 4 * index) as u32);
    let layout = Layout::from_words(array::from_fn(|index| layout_word(index).unwrap_or(0)));
    let changes = section.word(Root::CHANGES_AT as u32).unwrap_or(1);
    if !changes.is_multiple_of(2) {
        bail!("a worker starts or ends right now: try again");
    }
    let entries = section.word(Root::ENTRIES_AT as u32).unwrap_or(0);
    let count = section.word(Root::ENTRIES_AT as u32 + 8).unwrap_or(0);
    let entry_bytes = size_of::<root::Entry>();
    if count > WORKERS_MAX {
        bail!("the list of workers makes no sense: is the file that of the process?");
    }
    if count == 0 {
        return Ok(());
    }
    let table = read_one(memory, entries, count as usize * entry_bytes)
        .context("the list of workers cannot be read")?;
    for entry in table.bytes.chunks_exact(entry_bytes) {
        let word = |index: usize| word(entry, 8 * index).unwrap_or(0);
        let (fibers, runtime) = (word(0), word(1));
        let runtime = match copied.workers.iter().position(|known| known.0 == runtime) {
            Some(index) => index,
            None => {
                copied.workers.push((runtime, 0));
                copied.workers.len() - 1
            }
        };
        copied.workers[runtime].1 += 1;
        let list = List {
            memory,
            threads,
            layout,
            runtime,
        };
        if list.copy(fibers, copied).is_none() {
            let problem = format!(
                "the fibers of worker {} cannot be read: its list is being changed",
                word(2)
            );
            copied.problems.push(problem);
        }
    }
    Ok(())
}

/// The fibers that a worker has started.
struct List<'a> {
    memory: &'a dyn Memory,
    /// The threads, and again those that a signal has interrupted.
    threads: &'a [(i32, Registers)],
    layout: Layout,
    runtime: usize,
}

impl List<'_> {
    /// Copies the fibers of a `Vec` of references at this address. Returns `None` if it is none.
    fn copy(&self, vector: u64, copied: &mut Copied) -> Option<()> {
        let vector = read_one(self.memory, vector, 24)?;
        let words = [0, 8, 16].map(|offset| vector.word(offset).unwrap_or(0));
        let (references, count) = (words.into_iter().max()?, words.into_iter().min()?);
        if count == 0 {
            return Some(());
        }
        if count > FIBERS_MAX {
            return None;
        }
        let references = read_one(self.memory, references, count as usize * 8)?;
        let words = references.bytes.chunks_exact(8);
        let addresses: Vec<_> = words.filter_map(|bytes| word(bytes, 0)).collect();
        let controls = self.controls(&addresses);
        let names = self.names(&controls);
        let stacks = self.stacks(&controls);
        let mut lost = 0;
        for ((control, name), stack) in controls.into_iter().zip(names).zip(stacks) {
            let top = control.word(self.layout.top).unwrap_or(0);
            let at_top = |offset: u32| stack.word_at(top.wrapping_add(offset.into()));
            let limits = (at_top(self.layout.limits), at_top(self.layout.limits + 8));
            let (Some(limit), Some(end)) = limits else {
                lost += 1;
                continue;
            };
            if at_top(self.layout.fiber) != Some(control.address) {
                lost += 1;
                continue;
            }
            let is_on = |at: &&(i32, Registers)| (limit..end).contains(&at.1.stack);
            let running = self.threads.iter().find(is_on).copied();
            let deeper = running.and_then(|(_, at)| self.running_stack(at.stack, top));
            copied.fibers.push(Snapshot {
                layout: self.layout,
                runtime: self.runtime,
                control,
                name,
                running,
                stack: deeper.unwrap_or(stack),
            });
        }
        if lost > 0 {
            let problem = format!("{lost} fibers start or end right now, and are missing");
            copied.problems.push(problem);
        }
        Some(())
    }

    /// Copies the fields of fibers, which usually lie side by side.
    fn controls(&self, addresses: &[u64]) -> Vec<Piece> {
        let size = self.layout.fiber_bytes as usize;
        let mut sorted = addresses.to_vec();
        sorted.sort_unstable();
        let near = |one: &u64, next: &u64| next - one <= NEAR_BYTES;
        let runs = sorted.chunk_by(near).map(|run| {
            let bytes = run[run.len() - 1] - run[0];
            Piece::new(run[0], bytes as usize + size)
        });
        let mut runs: Vec<_> = runs.collect();
        self.memory.read(&mut runs);
        let copy = |address: &u64| {
            let after = runs.partition_point(|run| run.address <= *address);
            let run = &runs[after - 1];
            let start = (address - run.address) as usize;
            let bytes = run.bytes.get(start..start + size);
            Piece {
                address: *address,
                bytes: bytes.unwrap_or_default().to_vec(),
            }
        };
        addresses.iter().map(copy).collect()
    }

    /// Copies the names of fibers, of which few have one.
    fn names(&self, controls: &[Piece]) -> Vec<Option<String>> {
        let name_of = |control: &Piece| match control.word(self.layout.cold) {
            None | Some(0) => Piece::new(0, 0),
            Some(cold) => Piece::new(cold + u64::from(self.layout.name), 16),
        };
        let mut names: Vec<_> = controls.iter().map(name_of).collect();
        self.memory.read(&mut names);
        let text_of = |name: &Piece| match (name.word(0), name.word(8)) {
            (Some(address @ 1..), Some(length @ ..=TEXT_BYTES_MAX)) => {
                Piece::new(address, length as usize)
            }
            _ => Piece::new(0, 0),
        };
        let mut texts: Vec<_> = names.iter().map(text_of).collect();
        self.memory.read(&mut texts);
        let texts = texts.into_iter().map(|text| {
            let is_text = text.address != 0;
            is_text
                .then(|| String::from_utf8(text.bytes).ok())
                .flatten()
        });
        texts.collect()
    }

    /// Copies the used parts of the stacks of suspended fibers, and the tops.
    fn stacks(&self, controls: &[Piece]) -> Vec<Piece> {
        let stack_of = |control: &Piece| {
            let top = control.word(self.layout.top).unwrap_or(0);
            let end = top.wrapping_add(self.top_bytes());
            let left_off = left_off(control, self.layout);
            let lowest = left_off.saturating_sub(SAVED_BELOW_MAX);
            let is_used =
                left_off != 0 && lowest < top && end.wrapping_sub(lowest) <= STACK_BYTES_MAX;
            let start = if is_used { lowest } else { top };
            Piece::new(start, end.wrapping_sub(start) as usize)
        };
        let mut stacks: Vec<_> = controls.iter().map(stack_of).collect();
        self.memory.read(&mut stacks);
        for (stack, control) in stacks.iter_mut().zip(controls) {
            if stack.bytes.is_empty() {
                self.copy_near_guard(stack, control);
            }
        }
        stacks
    }

    /// Copies the stack of a fiber that has left off close to the guard, which cannot be read.
    fn copy_near_guard(&self, stack: &mut Piece, control: &Piece) {
        let top = control.word(self.layout.top).unwrap_or(0);
        let left_off = left_off(control, self.layout);
        let page = left_off - left_off % PAGE;
        if (stack.address..top).contains(&page)
            && let bytes = top + self.top_bytes() - page
            && let Some(above) = read_one(self.memory, page, bytes as usize)
        {
            *stack = above;
        }
    }

    /// Copies the stack of a fiber that runs. An overflow ends in the guard, which cannot be read.
    fn running_stack(&self, lowest: u64, top: u64) -> Option<Piece> {
        let copy = |lowest: u64| {
            let bytes = (top + self.top_bytes()).checked_sub(lowest)?;
            read_one(self.memory, lowest, bytes.min(STACK_BYTES_MAX) as usize)
        };
        copy(lowest).or_else(|| copy(lowest.next_multiple_of(PAGE)))
    }

    fn top_bytes(&self) -> u64 {
        u64::from(self.layout.limits.max(self.layout.fiber)) + 16
    }
}

/// Returns the mark of a suspended fiber.
fn left_off(control: &Piece, layout: Layout) -> u64 {
    control.word(layout.left_off).unwrap_or(0) & !7
}

/// Copies a text, if it is one.
fn text(memory: &dyn Memory, address: u64, length: u64) -> Option<String> {
    if address == 0 || length > TEXT_BYTES_MAX {
        return None;
    }
    String::from_utf8(read_one(memory, address, length as usize)?.bytes).ok()
}

/// Finds out what the copies say. Reads nothing but constants and code, so that the process may run
/// meanwhile.
pub(crate) struct Reader<'a> {
    memory: &'a dyn Memory,
    modules: &'a Modules,
    sites: HashMap<u64, Option<Site>>,
    /// Whether the switch continues at an address.
    resumed: HashMap<u64, bool>,
}

impl Reader<'_> {
    pub(crate) fn new<'a>(memory: &'a dyn Memory, modules: &'a Modules) -> Reader<'a> {
        Reader {
            memory,
            modules,
            sites: HashMap::new(),
            resumed: HashMap::new(),
        }
    }

    pub(crate) fn read(&mut self, copy: Snapshot) -> Fiber {
        let layout = copy.layout;
        let byte = |offset: u32| copy.control.bytes.get(offset as usize).copied();
        let left_off = left_off(&copy.control, layout);
        let state = match (byte(layout.reason), byte(layout.token)) {
            _ if let Some((thread, _)) = copy.running => State::Running { thread },
            _ if left_off == 0 => State::New,
            (Some(1), Some(1)) => State::Parked,
            (Some(0 | 1), _) => State::Ready,
            (Some(2), _) => State::Operation,
            (Some(3), _) => State::Alone,
            (Some(4), _) => State::Abandoned,
            _ => State::Unknown,
        };
        let registers = match copy.running {
            Some((_, registers)) => Some(registers),
            None if state == State::New => None,
            None => self.saved(&copy.stack, left_off),
        };
        let top = copy.control.word(layout.top).unwrap_or(0);
        let stack_bytes = registers.map_or(0, |at| top.saturating_sub(at.stack));
        let site = copy.control.word(layout.spawn_site).unwrap_or(0);
        Fiber {
            id: copy.control.word(layout.id).unwrap_or(0),
            name: copy.name,
            spawn_site: self.site(site),
            runtime: copy.runtime,
            worker: copy.control.half(layout.home).unwrap_or(0),
            state,
            registers,
            stack: copy.stack,
            stack_bytes,
        }
    }

    /// Reads a `Location`: the pointer and the length of a path, line and column.
    fn site(&mut self, address: u64) -> Option<Site> {
        let memory = self.memory;
        let read = || {
            let location = read_one(memory, address, 24)?;
            Some(Site {
                file: text(memory, location.word(0)?, location.word(8)?)?,
                line: location.half(16)?,
                column: location.half(20)?,
            })
        };
        self.sites.entry(address).or_insert_with(read).clone()
    }

    /// Finds the registers that the switch has saved below the mark of a suspended fiber.
    fn saved(&mut self, stack: &Piece, left_off: u64) -> Option<Registers> {
        let mut at = left_off;
        while at >= stack.address {
            let code = stack.word_at(at)?;
            if self.is_resumed_at(code) {
                return Some(Registers {
                    instruction: code,
                    stack: at + SAVED_BYTES,
                    base: stack.word_at(at + 16)?,
                });
            }
            at -= 8;
        }
        None
    }

    fn is_resumed_at(&mut self, address: u64) -> bool {
        if !self.modules.has_code(address) {
            return false;
        }
        let read = || read_one(self.memory, address, RESUMED_CODE.len());
        let is_it = || read().is_some_and(|code| code.bytes == RESUMED_CODE);
        *self.resumed.entry(address).or_insert_with(is_it)
    }
}
