//! Reads the fibers of a process.

use std::cell::RefCell;
use std::collections::HashMap;

use anyhow::{Context as _, Result, bail};
use uthread::root::{self, Layout, Root};

use crate::memory::{Memory, Piece, Registers, read_one};
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

/// Maximum length of a name or a path. Longer ones are no such thing.
const TEXT_BYTES_MAX: u64 = 4096;

/// Maximum number of live fibers of a worker. More are no list of fibers.
const FIBERS_MAX: u64 = 1 << 28;

/// The fibers of a process, copied.
pub(crate) struct Copied {
    pub(crate) fibers: Vec<Fiber>,
    /// Number of workers by runtime.
    pub(crate) workers: Vec<(u64, usize)>,
    /// Why some fibers are missing or incomplete.
    pub(crate) problems: Vec<String>,
}

/// A fiber, copied.
pub(crate) struct Fiber {
    pub(crate) id: u64,
    pub(crate) name: Option<String>,
    pub(crate) spawn_site: Option<Site>,
    /// The index of its runtime.
    pub(crate) runtime: usize,
    pub(crate) worker: u32,
    pub(crate) state: State,
    pub(crate) stack: Stack,
}

/// Where a fiber left off, and the part of the stack that it uses.
#[derive(Default)]
pub(crate) struct Stack {
    /// `None` if it has not begun, or cannot be read.
    pub(crate) registers: Option<Registers>,
    pub(crate) copy: Option<Piece>,
    pub(crate) used: u64,
}

/// Reads the fibers of all versions of the library in a process.
///
/// # Errors
///
/// There is none, or it is of a version that is not known, or its list changes right now.
pub(crate) fn read(memory: &dyn Memory, modules: &Modules) -> Result<Copied> {
    let mut copied = Copied {
        fibers: Vec::new(),
        workers: Vec::new(),
        problems: Vec::new(),
    };
    if modules.roots.is_empty() {
        bail!(
            "the process does not use uthread, or a version without the section `{}`",
            root::SECTION
        );
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
            read_root(memory, modules, &section, &mut copied)?;
        }
    }
    Ok(copied)
}

/// Reads what one root leads to.
fn read_root(
    memory: &dyn Memory,
    modules: &Modules,
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
    let words = section.bytes[Root::LAYOUT_AT..][..Layout::BYTES].chunks_exact(4);
    let words: Vec<_> = words
        .map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes")))
        .collect();
    let layout = Layout::from_words(words.try_into().expect("as many words"));
    let changes = section.word(Root::CHANGES_AT as u32).unwrap_or(1);
    if !changes.is_multiple_of(2) {
        bail!("a worker starts or ends right now: try again");
    }
    let entries = section.word(Root::ENTRIES_AT as u32).unwrap_or(0);
    let count = section.word(Root::ENTRIES_AT as u32 + 8).unwrap_or(0);
    let entry_bytes = size_of::<root::Entry>();
    if count == 0 {
        return Ok(());
    }
    let table = read_one(memory, entries, count as usize * entry_bytes)
        .context("the list of workers cannot be read")?;
    for entry in table.bytes.chunks_exact(entry_bytes) {
        let word = |index: usize| {
            u64::from_ne_bytes(entry[8 * index..][..8].try_into().expect("eight bytes"))
        };
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
            modules,
            layout,
            runtime,
            resumed: RefCell::default(),
        };
        if list.read(fibers, copied).is_none() {
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
    modules: &'a Modules,
    layout: Layout,
    runtime: usize,
    /// Whether the switch continues at an address.
    resumed: RefCell<HashMap<u64, bool>>,
}

impl List<'_> {
    /// Reads the fibers of a `Vec` of references at this address. Returns `None` if it is none.
    fn read(&self, vector: u64, copied: &mut Copied) -> Option<()> {
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
        let addresses = references.bytes.chunks_exact(8);
        let addresses =
            addresses.map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
        let size = self.layout.fiber_bytes as usize;
        let mut controls: Vec<_> = addresses.map(|address| Piece::new(address, size)).collect();
        self.memory.read(&mut controls);
        let tops = controls.iter().map(|control| {
            let address = control.word(self.layout.top).unwrap_or(0);
            Piece::new(
                address,
                self.layout.limits.max(self.layout.fiber) as usize + 16,
            )
        });
        let mut tops: Vec<_> = tops.collect();
        self.memory.read(&mut tops);
        let before = controls.len();
        let pairs = controls.into_iter().zip(tops);
        let consistent: Vec<_> = pairs
            .filter(|(control, top)| top.word(self.layout.fiber) == Some(control.address))
            .collect();
        if consistent.len() < before {
            let lost = before - consistent.len();
            copied.problems.push(format!(
                "{lost} fibers start or end right now, and are missing"
            ));
        }
        let first = copied.fibers.len();
        let fibers = consistent.iter().map(|(control, _)| self.fiber(control));
        copied.fibers.extend(fibers);
        self.read_names(&consistent, &mut copied.fibers[first..]);
        self.read_stacks(&consistent, &mut copied.fibers[first..]);
        Some(())
    }

    fn fiber(&self, control: &Piece) -> Fiber {
        let byte = |offset: u32| control.bytes.get(offset as usize).copied();
        let left_off = control.word(self.layout.left_off).unwrap_or(0);
        let state = match (byte(self.layout.reason), byte(self.layout.token)) {
            _ if left_off == 0 => State::New,
            (Some(1), Some(1)) => State::Parked,
            (Some(0 | 1), _) => State::Ready,
            (Some(2), _) => State::Operation,
            (Some(3), _) => State::Alone,
            (Some(4), _) => State::Abandoned,
            _ => State::Unknown,
        };
        Fiber {
            id: control.word(self.layout.id).unwrap_or(0),
            name: None,
            spawn_site: None,
            runtime: self.runtime,
            worker: control.half(self.layout.home).unwrap_or(0),
            state,
            stack: Stack::default(),
        }
    }

    /// Reads names and places of spawns.
    fn read_names(&self, read: &[(Piece, Piece)], fibers: &mut [Fiber]) {
        let mut sites: HashMap<u64, Option<Site>> = HashMap::new();
        for ((control, _), fiber) in read.iter().zip(fibers) {
            let site = control.word(self.layout.spawn_site).unwrap_or(0);
            let site = sites.entry(site).or_insert_with(|| self.site(site));
            fiber.spawn_site.clone_from(site);
            if let Some(cold @ 1..) = control.word(self.layout.cold) {
                fiber.name = self.name(cold);
            }
        }
    }

    /// Reads a `Location`: the pointer and the length of a path, line and column.
    fn site(&self, address: u64) -> Option<Site> {
        let location = read_one(self.memory, address, 24)?;
        let file = self.text(location.word(0)?, location.word(8)?)?;
        Some(Site {
            file,
            line: location.half(16)?,
            column: location.half(20)?,
        })
    }

    fn name(&self, cold: u64) -> Option<String> {
        let name = read_one(self.memory, cold + u64::from(self.layout.name), 16)?;
        self.text(name.word(0)?, name.word(8)?)
    }

    fn text(&self, address: u64, length: u64) -> Option<String> {
        if address == 0 || length > TEXT_BYTES_MAX {
            return None;
        }
        String::from_utf8(read_one(self.memory, address, length as usize)?.bytes).ok()
    }

    /// Reads the stacks, and finds which fibers run.
    fn read_stacks(&self, read: &[(Piece, Piece)], fibers: &mut [Fiber]) {
        let threads = self.memory.registers();
        let mut stacks = Vec::with_capacity(fibers.len());
        for ((control, top), fiber) in read.iter().zip(&mut *fibers) {
            let limit = top.word(self.layout.limits).unwrap_or(0);
            let end = top.word(self.layout.limits + 8).unwrap_or(0);
            let running = threads
                .iter()
                .find(|(_, at)| (limit..end).contains(&at.stack));
            let left_off = control.word(self.layout.left_off).unwrap_or(0) & !7;
            let lowest = match running {
                Some((thread, registers)) => {
                    fiber.state = State::Running { thread: *thread };
                    fiber.stack.registers = Some(*registers);
                    registers.stack
                }
                None => left_off.saturating_sub(SAVED_BELOW_MAX).max(limit),
            };
            fiber.stack.used = top.address.saturating_sub(lowest);
            let is_read = (limit..top.address).contains(&lowest) && fiber.state != State::New;
            let length = if is_read {
                fiber.stack.used.min(STACK_BYTES_MAX)
            } else {
                0
            };
            stacks.push(Piece::new(lowest, length as usize));
        }
        self.memory.read(&mut stacks);
        for ((control, _), (fiber, copy)) in read.iter().zip(fibers.iter_mut().zip(stacks)) {
            if fiber.stack.registers.is_none() {
                let left_off = control.word(self.layout.left_off).unwrap_or(0) & !7;
                fiber.stack.registers = self.saved(&copy, left_off);
                if let Some(registers) = fiber.stack.registers {
                    let top = copy.address + fiber.stack.used;
                    fiber.stack.used = top.saturating_sub(registers.stack);
                }
            }
            fiber.stack.copy = Some(copy);
        }
    }

    /// Finds the registers that the switch has saved below the mark of a suspended fiber.
    fn saved(&self, stack: &Piece, left_off: u64) -> Option<Registers> {
        let mut at = left_off;
        while at >= stack.address {
            let code = stack.word_at(at)?;
            if self.modules.has_code(code) && self.is_resumed_at(code) {
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

    fn is_resumed_at(&self, address: u64) -> bool {
        let read = || read_one(self.memory, address, RESUMED_CODE.len());
        let is_it = || read().is_some_and(|code| code.bytes == RESUMED_CODE);
        *self
            .resumed
            .borrow_mut()
            .entry(address)
            .or_insert_with(is_it)
    }
}
