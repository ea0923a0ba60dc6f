//! Static probes (USDT) at the events of a timeline, for bpftrace, perf and gdb.
//!
//! A probe is a `nop` with a note in the program that names it and says where its arguments are, as
//! [SystemTap] defines. The workers come by only while a tool wants them to record events. The
//! probes have one semaphore, which the kernel raises while a tool is attached to any of them; the
//! monitor looks at it.
//!
//! On other architectures than x86-64 there are none.
//!
//! [SystemTap]: https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation
#![allow(unsafe_code, reason = "assembly that puts notes into the program")]

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::root::EventKind;

#[used]
// SAFETY: the section consists of such counts.
#[unsafe(link_section = ".probes")]
static SEMAPHORE: AtomicU16 = AtomicU16::new(0);

/// Returns `true` if a tool is attached to a probe.
pub(super) fn are_attached() -> bool {
    SEMAPHORE.load(Ordering::Relaxed) != 0
}

/// Places the probe of this name, with five numbers as arguments.
#[cfg(target_arch = "x86_64")]
macro_rules! probe {
    ($name:literal, $fields:expr, $detail:expr) => {{
        let [begin_ns, end_ns, fiber, other]: [u64; 4] = $fields;
        // SAFETY: the code does nothing, and the data is in sections of its own.
        unsafe {
            asm!(
                "990: nop",
                ".pushsection .note.stapsdt, \"?\", \"note\"",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b, _.stapsdt.base, {semaphore}",
                ".asciz \"uthread\"",
                concat!(".asciz \"", $name, "\""),
                ".asciz \"8@{fiber} 8@{other} 8@{begin_ns} 8@{end_ns} 8@{detail}\"",
                "994: .balign 4",
                ".popsection",
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base, \"aGR\", \"progbits\", .stapsdt.base, comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                semaphore = sym SEMAPHORE,
                fiber = in(reg) fiber,
                other = in(reg) other,
                begin_ns = in(reg) begin_ns,
                end_ns = in(reg) end_ns,
                detail = in(reg) u64::from($detail),
                options(att_syntax, readonly, nostack, preserves_flags),
            );
        }
    }};
}

#[cfg(not(target_arch = "x86_64"))]
macro_rules! probe {
    ($name:literal, $fields:expr, $detail:expr) => {{
        let _ = ($fields, $detail);
    }};
}

/// Passes the probe of an event, whose record has these fields. Never inlined, so that there is one
/// of each.
#[inline(never)]
pub(super) fn pass(kind: EventKind, detail: u8, fields: [u64; 4]) {
    match kind {
        EventKind::Run => probe!("run", fields, detail),
        EventKind::Ready => probe!("ready", fields, detail),
        EventKind::Wake => probe!("wake", fields, detail),
        EventKind::Spawn => probe!("spawn", fields, detail),
        EventKind::Sleep => probe!("sleep", fields, detail),
        EventKind::Submit => probe!("submit", fields, detail),
        EventKind::Steal => probe!("steal", fields, detail),
        EventKind::Move => probe!("move", fields, detail),
        EventKind::Detach => probe!("detach", fields, detail),
        EventKind::Return => probe!("return", fields, detail),
    }
}
