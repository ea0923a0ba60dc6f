//! Programs that use uthread themselves.

use std::fs::File;

use object::{Object as _, ReadCache};

/// The section in which a debugger finds the workers of such a program: `uthread::root::SECTION`.
const SECTION: &str = "uthread_root";

/// Returns `true` if the program of this process uses uthread itself: its workers are threads, and
/// its fibers need no others.
pub(crate) fn program_uses_uthread() -> bool {
    let Ok(file) = File::open("/proc/self/exe") else {
        return false;
    };
    let contents = ReadCache::new(file);
    let program = object::File::parse(&contents);
    program.is_ok_and(|program| program.section_by_name(SECTION).is_some())
}
