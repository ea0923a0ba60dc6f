//! The entry points, which have the names of the functions that are replaced.
//!
//! An entry point looks where its caller is. The library itself calls the C library, as what a fiber
//! waits for is done by threads of the system; all others get what takes its place:
//!
//! ```text
//!   the caller is in the code of this library   -> the function of the C library
//!   otherwise                                   -> what takes its place
//! ```

use std::arch::naked_asm;

use crate::functions::{Function, functions};
use crate::real::{CODE, REAL};
use crate::{calls, cancel, futex, objects, signals, threads};

/// Defines the entry points.
macro_rules! entries {
    ($($name:ident $replacement:path;)*) => {
        $(
            #[allow(unsafe_code, reason = "a function of the C library")]
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name() {
                naked_asm!(
                    "mov r11, qword ptr [rsp]",
                    "sub r11, qword ptr [rip + {code}]",
                    "cmp r11, qword ptr [rip + {code} + 8]",
                    "jae 2f",
                    "jmp qword ptr [rip + {real} + 8 * {number}]",
                    "2: jmp {replacement}",
                    code = sym CODE,
                    real = sym REAL,
                    number = const Function::$name as usize,
                    replacement = sym $replacement,
                );
            }
        )*
    };
}

functions!(entries);
