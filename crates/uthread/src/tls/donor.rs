//! A thread control block that the C library has made itself: a *donor* thread is created on the stack of a fiber, and leaves its
//! block behind.
//!
//! ```text
//!   create   pthread_create(3) on the stack; the new thread saves its registers, and its kernel task exits by itself.
//!            To the C library the thread lives on: its block, at the high end of the stack, is complete
//!   use      a fiber runs below the saved registers, with the thread pointer of the block
//!   end      clone(2) continues the saved registers with this block: the C library ends the thread as any other, and
//!            pthread_join(3) releases what it has allocated
//! ```
//!
//! So the format of the block does not matter here, but for one field: the thread's id, by which locks know their owners. The
//! kernel may give the id of the task that has exited to another one, so the block gets an id that no task can have. The field is
//! found by its value. At the end of a thread, the kernel clears a word for the C library, and wakes those who wait for that: glibc's
//! is the thread's id, musl's is the lock of its list of threads. The kernel tells its address.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::keys::{self, Keys};
use super::symbol::symbol;
use super::{modules, thread_pointer};

/// Number of bytes between a fiber's frames and the saved registers.
const ALIGNMENT: usize = 64;

/// Ids from here on are those of no task: `PID_MAX_LIMIT` of the kernel. Locks have room for 30 bits.
const FIRST_ID: u32 = 1 << 22;

/// A block that was left behind.
#[derive(Debug)]
pub(crate) struct Donor {
    thread: libc::pthread_t,
    pointer: usize,
    /// The address of the saved registers: the stack below it is free.
    frame: usize,
    /// The address of the thread's id.
    id: usize,
    /// The address of the word that the kernel clears at the end of the thread.
    cleared: usize,
}

static LEAVE: OnceLock<fn()> = OnceLock::new();

/// Sets what each thread calls at its end, so that destructors find an ordinary thread, and not the fiber that has used its block.
/// Later calls do nothing.
pub(crate) fn install(leave: fn()) {
    LEAVE.get_or_init(|| leave);
}

/// The data that the creator and the donor share.
#[repr(C)]
struct Donation {
    /// The stack pointer below the saved registers. The first field, as the donor writes it in assembler.
    frame: usize,
    pointer: usize,
    task: u32,
    /// The address of the word that the kernel would have cleared at the end of the thread; 0 if the kernel does not tell.
    cleared: usize,
    /// 1 until the kernel task has left the stack.
    runs: AtomicU32,
}

impl Donor {
    /// Creates a block at the high end of this memory, which a stack needs to be: writable, and large enough for the C library
    /// (`PTHREAD_STACK_MIN`).
    ///
    /// # Errors
    ///
    /// The errors of `pthread_create(3)`.
    ///
    /// # Safety
    ///
    /// Nothing else uses the memory until the donor has ended.
    #[allow(unsafe_code, reason = "a thread on memory of the caller's")]
    pub(crate) unsafe fn create(stack: Range<usize>) -> io::Result<Donor> {
        let layout = layout()?;
        // SAFETY: by the caller's contract.
        let (thread, donation) = unsafe { donate(stack) }?;
        let id = thread as usize + layout.id;
        let donor = Donor {
            thread,
            pointer: donation.pointer,
            frame: donation.frame,
            id,
            cleared: match layout.cleared {
                Cleared::Id => id,
                Cleared::Lock(address) => address,
            },
        };
        donor.set_id(next_id());
        mark_unregistered(donation.pointer);
        Ok(donor)
    }

    /// Returns the thread pointer of the block.
    pub(crate) fn pointer(&self) -> usize {
        self.pointer
    }

    /// Returns the end of the part of the stack that is free.
    pub(crate) fn free_end(&self) -> usize {
        self.frame - self.frame % ALIGNMENT
    }

    /// Ends the thread as the C library does: destructors of thread-local values run now, on a thread of their own.
    ///
    /// # Safety
    ///
    /// No fiber uses the block any more.
    #[allow(unsafe_code, reason = "continuing a thread")]
    pub(crate) unsafe fn end(self) {
        let blocked = BlockedSignals::enter();
        // SAFETY: the registers were saved, and are restored once; the block is used by nobody else.
        let cloned = unsafe { continue_thread(self.frame, self.pointer, self.id, self.cleared) };
        drop(blocked);
        if cloned < 0 {
            // There is no task for it. Its memory must not be used again, so nothing is released.
            return;
        }
        // SAFETY: the thread was not joined before, and nobody else does.
        unsafe { libc::pthread_join(self.thread, ptr::null_mut()) };
    }

    #[allow(unsafe_code, reason = "a field of the C library's")]
    fn set_id(&self, id: u32) {
        // SAFETY: the address is that of the thread's id, which lives as long as the block.
        unsafe { ptr::with_exposed_provenance_mut::<u32>(self.id).write(id) };
    }
}

/// Returns an id that no task and no other donor has, until 2^30 donors were created.
fn next_id() -> u32 {
    const ID_MAX: u32 = (1 << 30) - 1;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: it only has to be unique.
    FIRST_ID + NEXT.fetch_add(1, Ordering::Relaxed) % (ID_MAX - FIRST_ID)
}

/// Creates a thread and waits until its kernel task has left the stack.
#[allow(unsafe_code, reason = "a thread on memory of the caller's")]
unsafe fn donate(stack: Range<usize>) -> io::Result<(libc::pthread_t, Donation)> {
    let mut donation = Donation {
        frame: 0,
        pointer: 0,
        task: 0,
        cleared: 0,
        runs: AtomicU32::new(1),
    };
    let shared: *mut Donation = &raw mut donation;
    // Signals are for threads that have a task.
    let blocked = BlockedSignals::enter();
    let mut attributes = MaybeUninit::uninit();
    let mut thread = MaybeUninit::uninit();
    let low = ptr::with_exposed_provenance_mut::<c_void>(stack.start);
    // SAFETY: the attributes are initialized first, and the stack is the caller's to lend.
    unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) };
    // SAFETY: as above.
    let set = unsafe { libc::pthread_attr_setstack(attributes.as_mut_ptr(), low, stack.len()) };
    let (made, attributes_set) = (thread.as_mut_ptr(), attributes.as_ptr());
    let error = match set {
        // SAFETY: the routine gets what it expects, which lives until the kernel task has exited.
        0 => unsafe { libc::pthread_create(made, attributes_set, run_donor, shared.cast()) },
        error => error,
    };
    // SAFETY: they were initialized.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    drop(blocked);
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    // SAFETY: the field is shared by atomic accesses only.
    let runs = unsafe { &(*shared).runs };
    while runs.load(Ordering::Acquire) != 0 {
        // Not private: the kernel wakes the waiters of an exit by the address in shared form.
        // SAFETY: it waits for a change of a word that lives.
        unsafe {
            let timeout = ptr::null::<libc::timespec>();
            libc::syscall(libc::SYS_futex, runs.as_ptr(), libc::FUTEX_WAIT, 1, timeout);
        }
    }
    // SAFETY: the thread was created.
    Ok((unsafe { thread.assume_init() }, donation))
}

/// The start routine of a donor. Returns when the thread ends.
#[allow(unsafe_code, reason = "leaving a thread")]
extern "C" fn run_donor(donation: *mut c_void) -> *mut c_void {
    let shared = donation.cast::<Donation>();
    // No reference to the whole: the creator reads `runs` meanwhile.
    // SAFETY: the creator keeps it until the kernel task has exited, and reads the field afterwards.
    unsafe { (*shared).pointer = thread_pointer::get() };
    // SAFETY: it has no arguments.
    let task = unsafe { libc::syscall(libc::SYS_gettid) };
    // SAFETY: as above.
    unsafe { (*shared).task = u32::try_from(task).expect("an id is positive") };
    // SAFETY: as above.
    let cleared = unsafe { &raw mut (*shared).cleared };
    // A kernel without `CONFIG_CHECKPOINT_RESTORE` refuses, and the field stays 0.
    // SAFETY: it writes an address to the field.
    unsafe { libc::prctl(libc::PR_GET_TID_ADDRESS, cleared) };
    // SAFETY: the field is shared by atomic accesses only.
    let runs = unsafe { &(*shared).runs };
    // At its exit, the kernel clears this word instead of the thread's id, and wakes the creator.
    // SAFETY: the word outlives the task.
    unsafe { libc::syscall(libc::SYS_set_tid_address, runs.as_ptr()) };
    // SAFETY: the field is written before the task exits, and not by others.
    let frame = unsafe { &raw mut (*shared).frame };
    // SAFETY: as above.
    unsafe { leave_task(frame) };
    if let Some(leave) = LEAVE.get() {
        leave();
    }
    ptr::null_mut()
}

/// Saves the registers, stores the stack pointer at `frame`, and exits the kernel task. Returns when the thread is continued.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[allow(unsafe_code, reason = "saving and restoring registers")]
unsafe extern "C" fn leave_task(frame: *mut usize) {
    std::arch::naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov eax, {exit}",
        "xor edi, edi",
        "syscall",
        "ud2",
        exit = const libc::SYS_exit,
    )
}

/// Continues the thread whose registers are saved at `frame`, with the thread pointer `pointer`. The kernel stores the thread's id at
/// the address `id`, and clears the word at `cleared` at its end. Returns a negative errno if there is no task for it.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[allow(unsafe_code, reason = "saving and restoring registers")]
unsafe extern "C" fn continue_thread(
    frame: usize,
    pointer: usize,
    id: usize,
    cleared: usize,
) -> isize {
    std::arch::naked_asm!(
        // clone(flags, stack, parent_tid, child_tid, tls)
        "mov r8, rsi",
        "mov rsi, rdi",
        "mov r10, rcx",
        "mov edi, {flags}",
        "mov eax, {clone}",
        "syscall",
        "test rax, rax",
        "jz 2f",
        "ret",
        "2:",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        flags = const CLONE_FLAGS,
        clone = const libc::SYS_clone,
    )
}

/// Saves the registers, stores the stack pointer at `frame`, and exits the kernel task. Returns when the thread is continued.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[allow(unsafe_code, reason = "saving and restoring registers")]
unsafe extern "C" fn leave_task(frame: *mut usize) {
    std::arch::naked_asm!(
        "sub sp, sp, #160",
        "stp x19, x20, [sp]",
        "stp x21, x22, [sp, #16]",
        "stp x23, x24, [sp, #32]",
        "stp x25, x26, [sp, #48]",
        "stp x27, x28, [sp, #64]",
        "stp x29, x30, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "mov x9, sp",
        "str x9, [x0]",
        "mov x0, #0",
        "mov x8, #{exit}",
        "svc #0",
        "brk #1",
        exit = const libc::SYS_exit,
    )
}

/// Continues the thread whose registers are saved at `frame`, with the thread pointer `pointer`. The kernel stores the thread's id at
/// the address `id`, and clears the word at `cleared` at its end. Returns a negative errno if there is no task for it.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[allow(unsafe_code, reason = "saving and restoring registers")]
unsafe extern "C" fn continue_thread(
    frame: usize,
    pointer: usize,
    id: usize,
    cleared: usize,
) -> isize {
    std::arch::naked_asm!(
        // clone(flags, stack, parent_tid, tls, child_tid)
        "mov x4, x3",
        "mov x3, x1",
        "mov x1, x0",
        "ldr w0, ={flags}",
        "mov x8, #{clone}",
        "svc #0",
        "cbz x0, 2f",
        "ret",
        "2:",
        "ldp x19, x20, [sp]",
        "ldp x21, x22, [sp, #16]",
        "ldp x23, x24, [sp, #32]",
        "ldp x25, x26, [sp, #48]",
        "ldp x27, x28, [sp, #64]",
        "ldp x29, x30, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "add sp, sp, #160",
        "ret",
        flags = const CLONE_FLAGS,
        clone = const libc::SYS_clone,
    )
}

/// Never called, as the CPU is not [known](thread_pointer::IS_KNOWN).
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[allow(unsafe_code, reason = "the signature of the others")]
unsafe extern "C" fn leave_task(_: *mut usize) {}

/// Never called, as the CPU is not [known](thread_pointer::IS_KNOWN).
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[allow(unsafe_code, reason = "the signature of the others")]
unsafe extern "C" fn continue_thread(_: usize, _: usize, _: usize, _: usize) -> isize {
    -1
}

/// The flags of the C library, so that the block gets the id of the task, and the end of the task is noticed.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const CLONE_FLAGS: libc::c_int = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID;

/// Blocks all signals of the calling thread until it is dropped.
struct BlockedSignals(libc::sigset_t);

#[allow(unsafe_code, reason = "the mask of the calling thread")]
impl BlockedSignals {
    fn enter() -> BlockedSignals {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: it writes the set.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: the first set was written, and it writes the second.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
        // SAFETY: it was written.
        BlockedSignals(unsafe { before.assume_init() })
    }
}

impl Drop for BlockedSignals {
    #[allow(unsafe_code, reason = "the mask of the calling thread")]
    fn drop(&mut self) {
        // SAFETY: the set was written.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, ptr::null_mut()) };
    }
}

/// The format of the blocks of this process, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// The offset of a thread's id from the address that is its `pthread_t`.
    id: usize,
    cleared: Cleared,
    /// Number of bytes at the high end of a stack that a block takes, saved registers included.
    pub(super) size: usize,
    /// Where values for keys are, if that is known.
    pub(super) keys: Option<Keys>,
}

/// The word that the kernel clears at the end of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cleared {
    /// The thread's id, as in glibc.
    Id,
    /// A lock of all threads at this address, as in musl: a thread holds it at its end.
    Lock(usize),
}

/// Why fibers cannot have blocks.
const UNKNOWN_CPU: &str = "no implementation for this CPU";
const UNKNOWN_ID: &str = "unknown C library: the id of a thread is not found";
const UNKNOWN_END: &str = "unknown C library or kernel: the word that is cleared at the end of a thread is not found (prctl with \
                           PR_GET_TID_ADDRESS needs CONFIG_CHECKPOINT_RESTORE)";

static LAYOUT: OnceLock<Result<Layout, &str>> = OnceLock::new();

/// Returns where values for keys are, if that is known. There is a block.
#[inline]
pub(super) fn keys() -> Option<Keys> {
    LAYOUT.get()?.as_ref().ok()?.keys
}

/// Returns what is known about blocks.
///
/// # Errors
///
/// `Unsupported`, with the reason; the errors of `pthread_create(3)`.
pub(super) fn layout() -> io::Result<&'static Layout> {
    let found = match LAYOUT.get() {
        Some(found) => found,
        None if !thread_pointer::IS_KNOWN => &Err(UNKNOWN_CPU),
        None => {
            modules::find();
            let found = find_layout()?;
            LAYOUT.get_or_init(|| found)
        }
    };
    found
        .as_ref()
        .map_err(|why| io::Error::new(io::ErrorKind::Unsupported, *why))
}

/// Creates threads, and looks for the one offset at which all have their ids.
#[allow(unsafe_code, reason = "memory of the C library's")]
fn find_layout() -> io::Result<Result<Layout, &'static str>> {
    const STACK_BYTES: usize = 256 << 10;
    const DONORS: usize = 3;
    let mut size = 0;
    let (mut threads, mut donations) = (Vec::new(), Vec::new());
    for _ in 0..DONORS {
        let memory = vec![0_u8; STACK_BYTES].leak();
        let low = memory
            .as_mut_ptr()
            .expose_provenance()
            .next_multiple_of(ALIGNMENT);
        let end = low + STACK_BYTES - ALIGNMENT;
        // SAFETY: the memory is leaked, so that nothing else uses it.
        let (thread, donation) = unsafe { donate(low..end) }?;
        size = size.max(end - donation.frame).next_multiple_of(ALIGNMENT);
        threads.push(thread);
        donations.push(donation);
    }
    let donors: Vec<_> = threads.iter().copied().zip(&donations).collect();
    let with_id = |id| {
        let words =
            (donors.iter()).map(|(thread, donation)| (*thread as usize + id, donation.cleared));
        Ok(Layout {
            id,
            cleared: find_cleared(words).ok_or(UNKNOWN_END)?,
            size,
            keys: keys::find(&threads),
        })
    };
    Ok(find_id(&donors).ok_or(UNKNOWN_ID).and_then(with_id))
}

/// Returns the offset of a thread's id from its `pthread_t`, if there is one.
#[allow(unsafe_code, reason = "memory of the C library's")]
fn find_id(donors: &[(libc::pthread_t, &Donation)]) -> Option<usize> {
    /// Number of bytes among which the id is searched: glibc has it at 720, musl at 48.
    const SEARCHED_BYTES: usize = 1024;
    let mut offsets = (0..SEARCHED_BYTES).step_by(size_of::<u32>());
    let is_id = |offset: &usize| {
        donors.iter().all(|(thread, donation)| {
            let address = ptr::with_exposed_provenance::<u32>(*thread as usize + offset);
            // SAFETY: a `pthread_t` is the address of a block with more bytes, and no task uses this one. In musl the values for
            // keys are behind its fields, or values of thread-local variables.
            unsafe { address.read() == donation.task }
        })
    };
    let id = offsets.find(is_id)?;
    offsets.find(is_id).is_none().then_some(id)
}

/// Returns what the kernel clears at the end of a thread, from the addresses of the ids of some threads and those of their words.
fn find_cleared(words: impl Iterator<Item = (usize, usize)>) -> Option<Cleared> {
    let mut found = words.map(|(id, word)| match word {
        0 => cfg!(target_env = "gnu").then_some(Cleared::Id),
        word if word == id => Some(Cleared::Id),
        word => Some(Cleared::Lock(word)),
    });
    let first = found.next()??;
    found.all(|other| other == Some(first)).then_some(first)
}

/// Tells the C library that the kernel does not maintain the restartable sequences of this block (rseq(2)), so that it does not
/// read the number of a CPU there.
#[allow(unsafe_code, reason = "symbols and memory of the C library's")]
fn mark_unregistered(pointer: usize) {
    /// `RSEQ_CPU_ID_REGISTRATION_FAILED`.
    const FAILED: i32 = -2;
    const CPU_ID: usize = size_of::<u32>();
    let offset = symbol::<isize>(c"__rseq_offset");
    let size = symbol::<u32>(c"__rseq_size");
    let Some((offset, size)) = offset.zip(size) else {
        return;
    };
    // SAFETY: it is a variable of the C library, which never changes.
    let (offset, size) = (unsafe { offset.read() }, unsafe { size.read() });
    if size > 0 {
        let area = pointer.wrapping_add_signed(offset);
        // SAFETY: the area is in the block.
        unsafe { ptr::with_exposed_provenance_mut::<i32>(area + CPU_ID).write(FAILED) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::super::thread_pointer::Way;
    use super::*;
    use crate::tls::Tls;
    use crate::tls::images::{self, Values};

    /// Creates a donor on memory that is leaked.
    fn donor() -> Donor {
        const BYTES: usize = 256 << 10;
        let memory = vec![0_u8; BYTES].leak();
        let low = memory.as_mut_ptr().expose_provenance();
        let low = low.next_multiple_of(ALIGNMENT);
        // SAFETY: nothing else uses the memory.
        #[allow(unsafe_code, reason = "the contract's")]
        unsafe { Donor::create(low..low + BYTES - ALIGNMENT) }.unwrap()
    }

    fn end(donor: Donor) {
        // SAFETY: nobody uses it any more.
        #[allow(unsafe_code, reason = "the contract's")]
        unsafe {
            donor.end();
        }
    }

    /// Calls `action`, which does not unwind, with the block of a donor.
    #[allow(unsafe_code, reason = "the contract's")]
    fn with<R>(donor: &Donor, action: impl FnOnce() -> R) -> R {
        // SAFETY: no other thread uses the block, and the tests access thread-locals in functions that are not inlined.
        unsafe { Tls::of_worker().with(donor.pointer(), action) }
    }

    thread_local! {
        static VALUE: AtomicUsize = const { AtomicUsize::new(7) };
        static DROPPED: Dropped = const { Dropped };
    }

    static DROPS: AtomicUsize = AtomicUsize::new(0);

    struct Dropped;

    impl Drop for Dropped {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline(never)]
    fn swap(value: usize) -> usize {
        VALUE.with(|own| own.swap(value, Ordering::Relaxed))
    }

    #[test]
    fn each_block_has_values_of_its_own_which_are_dropped_and_reset() {
        let (first, second) = (donor(), donor());
        assert_eq!(swap(1), 7);
        assert_eq!(with(&first, || swap(2)), 7);
        assert_eq!(with(&second, || swap(3)), 7);
        assert_eq!((with(&first, || swap(4)), swap(1)), (2, 1));
        with(&first, || DROPPED.with(|_| ()));
        assert_eq!(DROPS.load(Ordering::Relaxed), 0);
        let first = match with(&first, images::drop_values) {
            Values::Dropped => first,
            // The C library alone has the destructors.
            Values::Left => {
                end(first);
                donor()
            }
        };
        assert_eq!(DROPS.load(Ordering::Relaxed), 1);
        with(&first, images::reset);
        assert_eq!(
            (with(&first, || swap(5)), with(&second, || swap(6))),
            (7, 3)
        );
        end(first);
        end(second);
    }

    #[test]
    fn the_thread_pointer_is_written_in_both_ways() {
        let donor = donor();
        for way in [Way::Instruction, Way::SystemCall] {
            if way != Way::best() && way == Way::Instruction {
                continue;
            }
            let own = thread_pointer::get();
            // SAFETY: as in `with`.
            #[allow(unsafe_code, reason = "the contract's")]
            unsafe {
                thread_pointer::set(way, donor.pointer());
            }
            let set = thread_pointer::get();
            // SAFETY: it was that of this thread.
            #[allow(unsafe_code, reason = "the contract's")]
            unsafe {
                thread_pointer::set(way, own);
            }
            assert_eq!((set, thread_pointer::get()), (donor.pointer(), own));
        }
    }

    #[test]
    fn ids_are_those_of_no_task_and_differ() {
        let ids = [donor(), donor()].map(|donor| {
            // SAFETY: the id is in the block.
            #[allow(unsafe_code, reason = "a field of the C library's")]
            unsafe {
                ptr::with_exposed_provenance::<u32>(donor.id).read()
            }
        });
        assert!(ids.iter().all(|id| *id >= FIRST_ID && *id < 1 << 30) && ids[0] != ids[1]);
    }

    #[test]
    fn a_new_block_has_no_values_to_drop() {
        let donor = donor();
        for _ in 0..2 {
            assert_eq!(with(&donor, images::drop_values), Values::Dropped);
        }
        end(donor);
    }

    #[test]
    fn the_word_that_the_kernel_clears_is_the_id_or_the_same_for_all() {
        let check = |words: &[(usize, usize)], expected| {
            assert_eq!(find_cleared(words.iter().copied()), expected, "{words:?}");
        };
        check(&[(8, 8), (16, 16)], Some(Cleared::Id));
        check(&[(8, 32), (16, 32)], Some(Cleared::Lock(32)));
        check(&[(8, 32), (16, 40)], None);
        check(&[(8, 8), (16, 8)], None);
        let untold = cfg!(target_env = "gnu").then_some(Cleared::Id);
        check(&[(8, 0), (16, 0)], untold);
        let own = layout().unwrap().cleared;
        assert_eq!(own == Cleared::Id, cfg!(target_env = "gnu"), "{own:?}");
    }
}
