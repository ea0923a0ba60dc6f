//! Restrictions of a thread and of everything it starts: limits that containers and hosts impose,
//! by the kernel's own mechanisms.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::panic;
use std::thread;

use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use uthread::{Driver, Runtime};

/// The calls of io_uring, by their numbers, which all architectures share.
pub(crate) const SETUP: i64 = 425;
pub(crate) const ENTER: i64 = 426;
pub(crate) const REGISTER: i64 = 427;

/// The user `nobody` of most systems, who owns nothing.
const NOBODY: u32 = 65534;

/// Returns `true` if there is a ring to be restricted. Otherwise prints what is skipped.
pub(crate) fn has_ring(otherwise: &str) -> bool {
    match Runtime::builder().driver(Driver::Uring).build() {
        Ok(_) => true,
        Err(error) => {
            eprintln!("left out: {otherwise}: {error}");
            false
        }
    }
}

/// Runs `then` on a thread of its own that was restricted first.
pub(crate) fn restricted<T: Send>(
    restrict: impl FnOnce() + Send,
    then: impl FnOnce() -> T + Send,
) -> T {
    let thread = move || {
        restrict();
        then()
    };
    match thread::scope(|scope| scope.spawn(thread).join()) {
        Ok(result) => result,
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Makes these system calls fail from now on, as under a container's seccomp profile.
pub(crate) fn refuse(calls: &[i64], errno: Errno) {
    apply(
        calls.iter().map(|call| (*call, Vec::new())).collect(),
        errno,
    );
}

/// Makes this system call fail from now on where its argument of that index, counted from zero, is
/// `value`.
pub(crate) fn refuse_where(call: i64, index: u8, value: u64, errno: Errno) {
    let condition =
        SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value).unwrap();
    let rule = SeccompRule::new(vec![condition]).unwrap();
    apply(BTreeMap::from([(call, vec![rule])]), errno);
}

fn apply(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: Errno) {
    let refusal = SeccompAction::Errno(errno.raw_os_error().cast_unsigned());
    let architecture = ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, architecture).unwrap();
    let program = BpfProgram::try_from(filter).unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

/// Becomes a user without privileges from now on, unless it is one already.
pub(crate) fn become_nobody() {
    become_user(NOBODY);
}

/// Changes to the user with this number.
pub(crate) fn become_user(number: u32) {
    if rustix::process::geteuid().is_root() {
        let (user, group) = (Uid::from_raw(number), Gid::from_raw(number));
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_res_gid(group, group, group).unwrap();
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
    }
}
