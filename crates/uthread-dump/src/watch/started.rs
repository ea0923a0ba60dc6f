//! The started fibers of a worker, read while it runs them.

use uthread::root::Layout;

use super::ATTEMPTS;
use crate::controls::{Controls, references, run_alone, suspended};
use crate::memory::{read_one, word};
use crate::model::State;
use crate::process::Running;
use crate::roots;

/// The highest reason and token that a control block can have.
const REASON_MAX: u8 = 4;
const TOKEN_MAX: u8 = 2;

/// The fields of a control block.
pub(super) struct Fiber {
    /// The address of the control block.
    pub(super) address: u64,
    pub(super) id: u64,
    pub(super) spawn_site: u64,
    record: u64,
    pub(super) last_switch: u32,
    /// What it does if it is on no thread.
    pub(super) state: State,
    /// It keeps a thread, from which its worker was taken.
    pub(super) keeps_thread: bool,
}

impl Fiber {
    /// Reads those at these addresses, as far as they are fibers of the worker with this index that
    /// have started and not ended.
    pub(super) fn read(
        memory: Running,
        layout: Layout,
        worker: u64,
        addresses: &[u64],
    ) -> Vec<Fiber> {
        let controls = Controls::copy(&memory, layout, addresses, Controls::default());
        let parse = |address: &u64| Fiber::parse(*address, controls.get(*address)?, layout, worker);
        let mut fibers: Vec<_> = addresses.iter().filter_map(parse).collect();
        let record = |fiber: &Fiber| match fiber.state {
            // Such a fiber runs nowhere.
            State::Parked | State::Alone => (0, layout),
            _ => (fiber.record, layout),
        };
        let alone = run_alone(&memory, fibers.iter().map(record));
        for (fiber, is_alone) in fibers.iter_mut().zip(alone) {
            fiber.keeps_thread = is_alone == Some(true);
        }
        fibers
    }

    /// Returns `None` if it is none of this worker that has started and not ended.
    fn parse(address: u64, control: &[u8], layout: Layout, worker: u64) -> Option<Fiber> {
        let field = |offset: u32| word(control, offset as usize);
        let byte = |offset: u32| control.get(offset as usize).copied();
        let half = |offset: u32| {
            let bytes = control.get(offset as usize..)?.first_chunk()?;
            Some(u32::from_ne_bytes(*bytes))
        };
        let (reason, token) = (byte(layout.reason)?, byte(layout.token)?);
        let is_fiber = field(layout.id)? != 0
            && field(layout.top)? != 0
            && u64::from(half(layout.home)?) == worker
            && reason <= REASON_MAX
            && token <= TOKEN_MAX;
        is_fiber.then_some(Fiber {
            address,
            id: field(layout.id)?,
            spawn_site: field(layout.spawn_site)?,
            record: field(layout.record)?,
            last_switch: half(layout.last_switch)?,
            state: suspended(Some(reason), Some(token), field(layout.left_off)? & !7),
            keeps_thread: false,
        })
    }
}

/// Returns the addresses of the started fibers of a worker. `None` if its list moves each time.
pub(super) fn addresses(memory: Running, worker: roots::Worker) -> Option<Vec<u64>> {
    for _ in 0..ATTEMPTS {
        let read = || references(&read_one(&memory, worker.fibers, 24)?);
        let Some((address, count)) = read() else {
            continue;
        };
        if count == 0 {
            return Some(Vec::new());
        }
        let copy = read_one(&memory, address, count * 8);
        let has_moved = read().is_none_or(|(again, _)| again != address);
        if let Some(copy) = copy.filter(|_| !has_moved) {
            let words = copy.bytes.chunks_exact(8);
            let mut addresses: Vec<_> = words.filter_map(|bytes| word(bytes, 0)).collect();
            // The last one may have just taken the place of another.
            addresses.sort_unstable();
            addresses.dedup();
            return Some(addresses);
        }
    }
    None
}
