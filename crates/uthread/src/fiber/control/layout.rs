//! Where a debugger finds what it shows of a fiber.

use std::mem::offset_of;

use super::{ColdState, Control};
use crate::fiber::children::PARENT_ID_AT;
use crate::fiber::{SCOPE_AT, runner};
use crate::root::Layout;
use crate::tls::record::CLAIM_AT;

pub(crate) const LAYOUT: Layout = Layout {
    id: offset_of!(Control, id) as u32,
    spawn_site: offset_of!(Control, spawn_site) as u32,
    token: offset_of!(Control, token) as u32,
    reason: offset_of!(Control, reason) as u32,
    top: offset_of!(Control, switch.runner) as u32,
    left_off: offset_of!(Control, switch.left_off) as u32,
    cold: offset_of!(Control, cold) as u32,
    home: offset_of!(Control, home) as u32,
    name: offset_of!(ColdState, name) as u32,
    limits: runner::EXTENT_AT as u32,
    fiber: runner::FIBER_AT as u32,
    awaited: runner::AWAITED_AT as u32,
    last_switch: offset_of!(Control, last_switch) as u32,
    // The scope follows.
    fiber_bytes: (SCOPE_AT + size_of::<usize>()) as u32,
    record: offset_of!(Control, switch.record) as u32,
    claim: CLAIM_AT as u32,
    descriptor: offset_of!(Control, operation_result) as u32,
    scope: SCOPE_AT as u32,
    scope_parent: PARENT_ID_AT as u32,
};
