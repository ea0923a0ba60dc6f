//! Finds out what copies of fibers say.

use std::collections::HashMap;
use std::time::Duration;

use uthread::root::{Awaited, WaitsFor};

use crate::awaited::Referred;
use crate::controls::suspended;
use crate::memory::{Memory, Piece, Registers, read_one};
use crate::model::{Site, State};
use crate::modules::Modules;
use crate::sites;
use crate::snapshot::{Identity, Snapshot, left_off};

/// What the switch continues with: `push rbp; mov [rsi - 16], rsp; lea rsp, [rdx + 8]; pop rbx; pop
/// rbp`. The word above the saved registers points to it.
const RESUMED_CODE: [u8; 11] = [
    0x55, 0x48, 0x89, 0x66, 0xf0, 0x48, 0x8d, 0x62, 0x08, 0x5b, 0x5d,
];

/// Number of bytes that the switch saves: the address of the code above, `rbx` and `rbp`.
const SAVED_BYTES: u64 = 24;

/// A fiber.
pub(crate) struct Fiber {
    pub(crate) address: u64,
    pub(crate) id: u64,
    pub(crate) identity: Identity,
    pub(crate) spawn_site: Option<Site>,
    /// The index of its runtime.
    pub(crate) runtime: usize,
    pub(crate) worker: u32,
    pub(crate) state: State,
    /// The number of the descriptor whose operation it waits for, if it has one.
    pub(crate) descriptor: Option<i32>,
    /// What it waits for, if that is known, with the value that this refers to.
    pub(crate) awaited: Option<(Awaited, u32)>,
    /// Where it left off. `None` if it has not begun, or if that cannot be found.
    pub(crate) registers: Option<Registers>,
    pub(crate) stack: Piece,
    /// Number of bytes of its stack in use.
    pub(crate) stack_bytes: u64,
    /// The least time since it ran last, if that is known.
    pub(crate) suspended_for: Option<Duration>,
}

impl Fiber {
    /// Puts the thread of a dedicated fiber in place of the fiber that waits for that, and returns
    /// its id.
    pub(crate) fn become_dedicated(&mut self, referred: &mut Referred) -> Option<i32> {
        let Some((Awaited::Thread(_), id)) = self.awaited else {
            return None;
        };
        let id = id.cast_signed();
        let (registers, stack) = referred.take_thread(id)?;
        (self.state, self.suspended_for) = (State::Dedicated, None);
        (self.registers, self.stack) = (Some(registers), stack);
        Some(id)
    }

    /// Returns the fiber that it waits for. `by_bits` has the ids of all by bits of their addresses.
    pub(crate) fn waits_for(&self, by_bits: &HashMap<u32, u64>) -> Option<WaitsFor> {
        match self.awaited? {
            (Awaited::Lock(_), state) => {
                let holder = by_bits.get(&Awaited::holder_bits(state)?)?;
                Some(WaitsFor::Lock(*holder))
            }
            (Awaited::End(id), _) => Some(WaitsFor::End(id)),
            _ => None,
        }
    }
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

    /// `is_running` if the process has not been stopped.
    pub(crate) fn read(&mut self, copy: Snapshot, is_running: bool) -> Fiber {
        let layout = copy.layout;
        let byte = |offset: u32| copy.control.bytes.get(offset as usize).copied();
        let left_off = left_off(&copy.control.bytes, layout);
        let state = match copy.running {
            Some((thread, _)) => State::Running { thread },
            None if is_running && !copy.is_still => State::Moving,
            None => suspended(byte(layout.reason), byte(layout.token), left_off),
        };
        let registers = match copy.running {
            Some((_, registers)) => Some(registers),
            None if matches!(state, State::New | State::Moving) => None,
            None => self.saved(&copy.stack, left_off),
        };
        let awaited = copy.awaited.filter(|_| state == State::Parked);
        let descriptor = match state {
            State::Operation => copy.control.half(layout.descriptor),
            _ => None,
        };
        let top = copy.control.word(layout.top).unwrap_or(0);
        let stack_bytes = registers.map_or(0, |at| top.saturating_sub(at.stack));
        let site = copy.control.word(layout.spawn_site).unwrap_or(0);
        Fiber {
            address: copy.control.address,
            id: copy.control.word(layout.id).unwrap_or(0),
            identity: copy.identity,
            spawn_site: self.site(site),
            runtime: copy.runtime,
            worker: copy.control.half(layout.home).unwrap_or(0),
            state,
            descriptor: descriptor.and_then(|number| number.try_into().ok()),
            awaited: awaited.map(|awaited| (awaited, copy.value.unwrap_or(0))),
            registers,
            stack: copy.stack,
            stack_bytes,
            suspended_for: copy
                .suspended_for
                .filter(|time| state != State::New && !time.is_zero()),
        }
    }

    fn site(&mut self, address: u64) -> Option<Site> {
        let read = || sites::read(self.memory, address);
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
