//! A thread control block that the C library has made itself: a *donor* thread is created on the
//! stack of a fiber, and leaves its block behind.
//!
//! ```text
//!   create   pthread_create(3) on the stack; the new thread saves its registers, and its kernel task exits by itself.
//!            To the C library the thread lives on: its block, at the high end of the stack, is complete
//!   use      a fiber runs below the saved registers, with the thread pointer of the block
//!   end      clone(2) continues the saved registers with this block: the C library ends the thread as any other, and
//!            pthread_join(3) releases what it has allocated
//! ```
//!
//! So the format of the block does not matter here, but for one field: the thread's id, by which
//! locks know their owners. The kernel may give the id of the task that has exited to another one,
//! so the [block](super::block) gets an id that no task can have. The field is found by its value.
//! At the end of a thread, the kernel clears a word for the C library, and wakes those who wait for
//! that. The kernel tells its address:
//!
//! | C library | the word that is cleared |
//! | --- | --- |
//! | glibc, up to 2.41 | the thread's id |
//! | glibc 2.43 | the state of the thread, a field of its own |
//! | musl | the lock of the list of threads |

use std::ffi::{CStr, c_char, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::keys::{self, Keys};
use super::made::{Sample, Template};
use super::symbol::symbol;
use super::task::{continue_thread, leave_task};
use super::thread_words::{self, ThreadWords};
use super::{credentials, modules, rseq, thread_pointer};

/// Number of bytes between a fiber's frames and the saved registers.
const ALIGNMENT: usize = 64;

/// Ids from here on are those of no task: `PID_MAX_LIMIT` of the kernel. Locks have room for 30
/// bits.
pub(super) const FIRST_ID: u32 = 1 << 22;

/// A block that was left behind.
#[derive(Debug)]
pub(super) struct Donor {
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

/// Sets what each thread calls at its end, so that destructors find an ordinary thread, and not the
/// fiber that has used its block. Later calls do nothing.
pub(crate) fn install(leave: fn()) {
    LEAVE.get_or_init(|| leave);
}

/// The data that the creator and the donor share.
#[repr(C)]
struct Donation {
    /// The stack pointer below the saved registers. The first field, as the donor writes it in
    /// assembler.
    frame: usize,
    pointer: usize,
    task: u32,
    /// Where it was while the donor ran: its argument.
    address: usize,
    /// The address of the word that the kernel would have cleared at the end of the thread; 0 if
    /// the kernel does not tell.
    cleared: usize,
    /// 1 until the kernel task has left the stack.
    runs: AtomicU32,
}

impl Donor {
    /// Creates a thread at the high end of this memory, like [`Block::create`](super::block::Block).
    ///
    /// # Errors
    ///
    /// The errors of `pthread_create(3)`.
    ///
    /// # Safety
    ///
    /// Nothing else uses the memory until the donor has ended.
    #[allow(unsafe_code, reason = "a thread on memory of the caller's")]
    pub(super) unsafe fn create(stack: Range<usize>) -> io::Result<Donor> {
        let layout = layout()?;
        // SAFETY: by the caller's contract.
        let (thread, donation) = unsafe { donate(stack) }?;
        let id = thread as usize + layout.id;
        Ok(Donor {
            thread,
            pointer: donation.pointer,
            frame: donation.frame,
            id,
            cleared: match layout.cleared {
                Cleared::InBlock(offset) => thread as usize + offset,
                Cleared::Lock(address) => address,
            },
        })
    }

    pub(super) fn pointer(&self) -> usize {
        self.pointer
    }

    /// Returns the address of the thread's id.
    pub(super) fn id(&self) -> usize {
        self.id
    }

    pub(super) fn free_end(&self) -> usize {
        self.frame - self.frame % ALIGNMENT
    }

    /// Ends the thread as the C library does: destructors of thread-local values run now, on a
    /// thread of their own. Returns `false` if the kernel refuses that thread: the C library still
    /// lists this one then, so its stack stays as it is until the process ends.
    ///
    /// # Safety
    ///
    /// No fiber uses the block any more.
    #[must_use = "the stack of a thread that has not ended must not be used again"]
    #[allow(unsafe_code, reason = "continuing a thread")]
    pub(super) unsafe fn end(self) -> bool {
        // SAFETY: by the caller's contract.
        unsafe { ThreadWords::get().clear(self.pointer) };
        let blocked = BlockedSignals::enter();
        // SAFETY: the registers were saved, and are restored once; the block is used by nobody
        // else.
        let cloned = unsafe { continue_thread(self.frame, self.pointer, self.id, self.cleared) };
        drop(blocked);
        if cloned < 0 {
            return false;
        }
        // SAFETY: the thread was not joined before, and nobody else does.
        unsafe { libc::pthread_join(self.thread, ptr::null_mut()) };
        true
    }
}

/// Creates a thread and waits until its kernel task has left the stack.
#[allow(unsafe_code, reason = "a thread on memory of the caller's")]
unsafe fn donate(stack: Range<usize>) -> io::Result<(libc::pthread_t, Donation)> {
    let mut donation = Donation {
        frame: 0,
        pointer: 0,
        task: 0,
        address: 0,
        cleared: 0,
        runs: AtomicU32::new(1),
    };
    let shared: *mut Donation = &raw mut donation;
    // SAFETY: the donor does not run yet.
    unsafe { (*shared).address = shared.addr() };
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
    // SAFETY: the attributes were initialized.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    drop(blocked);
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    // SAFETY: the field is shared by atomic accesses only.
    let runs = unsafe { &(*shared).runs };
    while runs.load(Ordering::Acquire) != 0 {
        // Not private: the kernel wakes the waiters of an exit by the address in shared form.
        // SAFETY: the call waits for a change of a word that lives.
        unsafe {
            let timeout = ptr::null::<libc::timespec>();
            libc::syscall(libc::SYS_futex, runs.as_ptr(), libc::FUTEX_WAIT, 1, timeout);
        }
    }
    // SAFETY: the thread was created.
    Ok((unsafe { thread.assume_init() }, donation))
}

/// Runs a donor, as the start routine of its thread. Returns when the thread ends.
#[allow(unsafe_code, reason = "leaving a thread")]
extern "C" fn run_donor(donation: *mut c_void) -> *mut c_void {
    let shared = donation.cast::<Donation>();
    // No reference to the whole: the creator reads `runs` meanwhile. SAFETY: the creator keeps it
    // until the kernel task has exited, and reads the field afterwards.
    unsafe { (*shared).pointer = thread_pointer::get() };
    // SAFETY: `gettid(2)` has no arguments.
    let task = unsafe { libc::syscall(libc::SYS_gettid) };
    // SAFETY: as for the field `pointer`.
    unsafe { (*shared).task = u32::try_from(task).expect("an id is positive") };
    // SAFETY: as for the field `pointer`.
    let cleared = unsafe { &raw mut (*shared).cleared };
    // A kernel without `CONFIG_CHECKPOINT_RESTORE` refuses, and the field stays 0.
    // SAFETY: the call writes an address to the field.
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

/// Blocks all signals of the calling thread until it is dropped.
struct BlockedSignals(libc::sigset_t);

#[allow(unsafe_code, reason = "the mask of the calling thread")]
impl BlockedSignals {
    fn enter() -> BlockedSignals {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: the call writes the set.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: the first set was written, and the call writes the second.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
        // SAFETY: the call above has written the set.
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

/// Gives a block an id that no task and no other block has, until 2^30 blocks were created: that of
/// a task that has exited may be given to another one.
#[allow(unsafe_code, reason = "a field of the C library's")]
pub(super) fn set_id(address: usize) {
    const ID_MAX: u32 = (1 << 30) - 1;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: it only has to be unique.
    let id = FIRST_ID + NEXT.fetch_add(1, Ordering::Relaxed) % (ID_MAX - FIRST_ID);
    // SAFETY: the address is that of the thread's id, which lives as long as the block.
    unsafe { ptr::with_exposed_provenance_mut::<u32>(address).write(id) };
}

/// The format of the blocks of this process, as far as it is known.
#[derive(Debug)]
pub(super) struct Layout {
    /// The offset of a thread's id from the address that is its `pthread_t`.
    pub(super) id: usize,
    cleared: Cleared,
    /// Number of bytes at the high end of a stack that a block takes, saved registers included.
    pub(super) size: usize,
    /// Where values for keys are, if that is known.
    pub(super) keys: Option<Keys>,
    /// How blocks are made without donors, if that is known.
    pub(super) template: Option<Template>,
}

/// The word that the kernel clears at the end of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cleared {
    /// A field of the thread's block at this offset from its `pthread_t`, as in glibc.
    InBlock(usize),
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

/// Returns how blocks are made without donors, if that is known.
pub(super) fn template() -> Option<&'static Template> {
    LAYOUT.get()?.as_ref().ok()?.template.as_ref()
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
    let (mut threads, mut donations, mut stacks) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=DONORS {
        // Of different sizes, by which the one of a stack is found.
        let bytes = number * STACK_BYTES;
        let memory = vec![0_u8; bytes].leak();
        let low = memory
            .as_mut_ptr()
            .expose_provenance()
            .next_multiple_of(ALIGNMENT);
        let stack = low..low + bytes - ALIGNMENT;
        // SAFETY: the memory is leaked, so that nothing else uses it.
        let (thread, donation) = unsafe { donate(stack.clone()) }?;
        size = size
            .max(stack.end - donation.frame)
            .next_multiple_of(ALIGNMENT);
        threads.push(thread);
        donations.push(donation);
        stacks.push(stack);
    }
    thread_words::find(donations[0].pointer);
    credentials::install();
    let donors: Vec<_> = threads.iter().copied().zip(&donations).collect();
    let with_id = |id| {
        let words = donors.iter();
        let words = words.map(|(thread, donation)| (*thread as usize, donation.cleared));
        let samples = donations
            .iter()
            .zip(&stacks)
            .map(|(donation, stack)| Sample {
                pointer: donation.pointer,
                stack: stack.clone(),
                argument: donation.address,
            });
        let samples: Vec<_> = samples.collect();
        let keys = keys::find(&threads);
        let unused = rseq::area();
        // The C library is not there to end a thread that it does not know, and release its cache.
        let has_cache = thread_words::is_cache_in_block();
        let template = (keys.is_some() && modules::are_reusable() && !has_cache)
            .then(|| Template::learn(&samples, id as isize, &unused))
            .flatten();
        // The C library lists them until the process ends, and signals the tasks with these ids.
        for thread in &threads {
            set_id(*thread as usize + id);
        }
        Ok(Layout {
            id,
            cleared: find_cleared(words, untold(id)).ok_or(UNKNOWN_END)?,
            size,
            keys,
            template,
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
            // SAFETY: a `pthread_t` is the address of a block with more bytes, and no task uses
            // this one. In musl the values for keys are after its fields, or values of
            // thread-local variables.
            unsafe { address.read() == donation.task }
        })
    };
    let id = offsets.find(is_id)?;
    offsets.find(is_id).is_none().then_some(id)
}

/// Returns what the kernel clears at the end of a thread, from the `pthread_t` of some threads and
/// the addresses of their words. If the kernel tells none, it is `untold`.
fn find_cleared(
    words: impl Iterator<Item = (usize, usize)> + Clone,
    untold: Option<Cleared>,
) -> Option<Cleared> {
    let (thread, word) = words.clone().next()?;
    let all_match = |is_alike: &dyn Fn(usize, usize) -> bool| {
        (words.clone()).all(|(thread, word)| is_alike(thread, word))
    };
    if all_match(&|_, word| word == 0) {
        return untold;
    }
    let offset = word.wrapping_sub(thread);
    if all_match(&|thread, word| word.wrapping_sub(thread) == offset) {
        return Some(Cleared::InBlock(offset));
    }
    all_match(&|_, other| other == word).then_some(Cleared::Lock(word))
}

/// Returns what this C library lets the kernel clear, if that is known: the id, whose offset is
/// `id`.
fn untold(id: usize) -> Option<Cleared> {
    type Version = unsafe extern "C" fn() -> *const c_char;
    let version = symbol::<c_void>(c"gnu_get_libc_version")?;
    // SAFETY: the symbol is the C library's function of this name, which has this type.
    #[allow(unsafe_code, reason = "a function of the C library")]
    let version = unsafe { std::mem::transmute::<*const c_void, Version>(version) };
    // SAFETY: the function of the C library takes no arguments.
    #[allow(unsafe_code, reason = "a function of the C library")]
    let version = unsafe { version() };
    // SAFETY: the function returns a string, which lives as long as the process.
    #[allow(unsafe_code, reason = "a string of the C library")]
    let version = unsafe { CStr::from_ptr(version) };
    clears_id(version.to_str().ok()?).then_some(Cleared::InBlock(id))
}

/// Returns `true` if glibc of this version is known to let the kernel clear the id of a thread.
fn clears_id(version: &str) -> bool {
    /// The newest release for which this was tried.
    const LAST: (u32, u32) = (2, 41);
    let mut numbers = version.split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) <= LAST,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::super::thread_pointer::Way;
    use super::super::thread_words::{allocate, allocate_and_keep};
    use super::*;
    use crate::tls::ThreadPointer;
    use crate::tls::images::{self, Values};

    /// Creates a donor on memory that is leaked.
    fn donor() -> Donor {
        const BYTES: usize = 256 << 10;
        let memory = vec![0_u8; BYTES].leak();
        let low = memory.as_mut_ptr().expose_provenance();
        let low = low.next_multiple_of(ALIGNMENT);
        // SAFETY: nothing else uses the memory.
        #[allow(unsafe_code, reason = "memory that the tests leak")]
        unsafe { Donor::create(low..low + BYTES - ALIGNMENT) }.unwrap()
    }

    fn end(donor: Donor) {
        // SAFETY: nobody uses it any more.
        #[allow(unsafe_code, reason = "a donor that no test uses any more")]
        let ended = unsafe { donor.end() };
        assert!(ended);
    }

    /// Calls `action`, which does not unwind, with the block of a donor.
    #[allow(unsafe_code, reason = "the thread pointer of the tests")]
    fn with<R>(donor: &Donor, action: impl FnOnce() -> R) -> R {
        let own = ThreadPointer::of_thread();
        // SAFETY: no other thread uses the block, and the tests access thread-locals in functions
        // that are not inlined.
        unsafe { own.load(donor.pointer()) };
        let result = action();
        own.restore();
        result
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
        assert!(with(&first, images::reset));
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
            #[allow(unsafe_code, reason = "the thread pointer of the tests")]
            unsafe {
                thread_pointer::set(way, donor.pointer());
            }
            let set = thread_pointer::get();
            // SAFETY: the pointer was that of this thread.
            #[allow(unsafe_code, reason = "the thread pointer of the tests")]
            unsafe {
                thread_pointer::set(way, own);
            }
            assert_eq!((set, thread_pointer::get()), (donor.pointer(), own));
        }
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
    fn the_word_that_the_kernel_clears_is_a_field_or_the_same_for_all() {
        let untold = Some(Cleared::InBlock(720));
        let check = |words: &[(usize, usize)], expected| {
            let found = find_cleared(words.iter().copied(), untold);
            assert_eq!(found, expected, "{words:?}");
        };
        check(&[(8, 8), (16, 16)], Some(Cleared::InBlock(0)));
        check(&[(8, 32), (16, 40)], Some(Cleared::InBlock(24)));
        check(&[(8, 32), (16, 32)], Some(Cleared::Lock(32)));
        check(&[(8, 32), (16, 48)], None);
        check(&[(8, 0), (16, 0)], untold);
        check(&[(8, 0), (16, 16)], None);
        check(&[], None);
        let own = layout().unwrap().cleared;
        let is_in_block = matches!(own, Cleared::InBlock(_));
        assert_eq!(is_in_block, cfg!(target_env = "gnu"), "{own:?}");
    }

    #[test]
    fn old_releases_of_glibc_clear_the_id() {
        for (version, expected) in [
            ("2.31", true),
            ("2.41", true),
            ("2.42", false),
            ("2.43.9000", false),
            ("3.0", false),
            ("two", false),
        ] {
            assert_eq!(clears_id(version), expected, "{version}");
        }
        let own = layout().unwrap();
        // Where the kernel tells, it confirms what is known without it.
        if let Some(untold) = untold(own.id) {
            assert_eq!(own.cleared, untold);
        }
    }

    /// A size that nothing else in a test allocates.
    const UNUSUAL_BYTES: usize = 1000;

    /// Runs on a block, as a worker does.
    #[allow(unsafe_code, reason = "a block of a donor")]
    fn allocate_with(pointer: &ThreadPointer, block: usize) -> usize {
        // SAFETY: no other thread uses the block, and `allocate` is not inlined.
        unsafe { pointer.load(block) };
        allocate(UNUSUAL_BYTES)
    }

    #[test]
    #[cfg_attr(
        any(not(target_env = "gnu"), target_feature = "crt-static"),
        ignore = "musl has no caches; in a program that is linked statically, nothing is searched"
    )]
    fn a_thread_has_the_same_cache_on_all_blocks() {
        let (first, second) = (donor(), donor());
        let pointer = ThreadPointer::of_thread();
        assert!(pointer.words.is_any());
        let here = allocate(UNUSUAL_BYTES);
        let blocks = [first.pointer(), second.pointer(), pointer.own()];
        let addresses = blocks.map(|block| allocate_with(&pointer, block));
        assert_eq!(addresses, [here; 3]);

        // Without the words, a block has a cache of its own.
        let words = ThreadWords::default();
        let without = ThreadPointer { words, ..pointer };
        let third = donor();
        let other = allocate_with(&without, third.pointer());
        without.restore();
        assert_ne!(other, here);
        assert_eq!(allocate(UNUSUAL_BYTES), here);
        [first, second, third].into_iter().for_each(end);
    }

    #[test]
    #[cfg_attr(
        any(not(target_env = "gnu"), target_feature = "crt-static"),
        ignore = "as above"
    )]
    fn the_end_of_a_block_leaves_the_cache_to_the_thread() {
        let pointer = ThreadPointer::of_thread();
        let donor = donor();
        let here = allocate(UNUSUAL_BYTES);
        allocate_with(&pointer, donor.pointer());
        pointer.restore();
        end(donor);
        let hold = || {
            let memory = [(); 64].map(|()| allocate_and_keep(UNUSUAL_BYTES));
            memory.map(|memory| memory.addr())
        };
        let elsewhere = thread::spawn(hold).join().unwrap();
        let overlaps = |other: &usize| other.abs_diff(here) < UNUSUAL_BYTES;
        assert!(!elsewhere.iter().any(overlaps));
        assert_eq!(allocate(UNUSUAL_BYTES), here);
    }
}
