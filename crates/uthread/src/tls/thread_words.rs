//! The words of a block that belong to the thread which runs, and not to its fiber: with them, the
//! allocator of the C library finds its cache. They follow the thread from block to block, so that
//! there is a cache for each thread, and not one for each fiber.
//!
//! ```text
//!   block of the thread -> block of a fiber -> .. another fiber -> block of the thread
//!            the words are copied wherever the thread pointer changes    [`ThreadWords::carry`]
//! ```
//!
//! *Claim:* no two threads use the same words. *Proof:* a thread uses those of the block to which
//! its thread pointer refers. They came from the block to which it referred before, and so in the
//! end from its own. Those that are left behind are copies, which nobody uses: the next thread that
//! refers to that block brings its own. This includes a thread from which its worker was taken: its
//! pointer stays, and from there goes back to its own block, while the worker's new thread begins
//! with that thread's own.
//!
//! A thread of the C library's that continues on a block, to end it, starts without:
//! [`clear`](ThreadWords::clear).
//!
//! glibc has two such words, `tcache` and `thread_arena`, which no header declares. They are found by
//! their value, as those which change when a new thread allocates for the first time.

use std::ffi::c_void;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use super::modules::{self, Image};
use super::thread_pointer::{self, Way};

/// Number of bytes that are allocated for the search: few, so that glibc keeps them apart from others
/// even where its caches are turned off.
const BYTES: usize = 100;

/// Maximum number of allocations until one gets what was released before. glibc may first use up some
/// pieces that are a little larger, and keeps 7 of each size.
const TRIES_MAX: usize = 64;

/// Maximum number of words of the C library's variables: glibc 2.36 has 18.
const SEARCHED_WORDS: usize = 64;

/// Words at these offsets from the thread pointer, if any were found.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ThreadWords(Option<[Word; 2]>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Word {
    offset: isize,
    /// The value in a new block.
    initial: usize,
}

#[allow(unsafe_code, reason = "variables of the C library")]
impl Word {
    fn address(self, pointer: usize) -> *mut usize {
        ptr::with_exposed_provenance_mut(pointer.wrapping_add_signed(self.offset))
    }

    /// # Safety
    ///
    /// Both pointers are those of blocks, which no other thread uses.
    #[inline]
    unsafe fn carry(self, from: usize, to: usize) {
        // SAFETY: by the caller's contract, the word is in the block.
        let value = unsafe { self.address(from).read_volatile() };
        // SAFETY: as above.
        unsafe { self.address(to).write_volatile(value) };
    }
}

static FOUND: OnceLock<ThreadWords> = OnceLock::new();

#[allow(unsafe_code, reason = "variables of the C library")]
impl ThreadWords {
    /// Returns the words of this process. There are none before there is a block.
    pub(super) fn get() -> ThreadWords {
        FOUND.get().copied().unwrap_or_default()
    }

    pub(super) fn is_any(self) -> bool {
        self.0.is_some()
    }

    /// Copies the words of the calling thread from one block to another.
    ///
    /// # Safety
    ///
    /// Both pointers are those of complete blocks, which no other thread uses.
    #[inline]
    pub(super) unsafe fn carry(self, from: usize, to: usize) {
        if let Some([first, second]) = self.0 {
            // SAFETY: by the caller's contract.
            unsafe { first.carry(from, to) };
            // SAFETY: as above.
            unsafe { second.carry(from, to) };
        }
    }

    /// Gives the words the values that they have in a new block.
    ///
    /// # Safety
    ///
    /// The pointer is that of a complete block, which nobody uses.
    pub(super) unsafe fn clear(self, pointer: usize) {
        for word in self.0.into_iter().flatten() {
            // SAFETY: by the caller's contract, the word is in the block.
            unsafe { word.address(pointer).write_volatile(word.initial) };
        }
    }
}

/// Looks for the words. Called once, before there is a block in use; `unused` is the thread pointer
/// of a block on which nothing has run.
pub(super) fn find(unused: usize) {
    FOUND.get_or_init(|| {
        let mut search = Search {
            unused,
            found: None,
        };
        run_on_new_thread(&mut search);
        ThreadWords(search.found)
    });
}

/// Returns `true` if the C library's allocator keeps a cache for each block, as the words were not
/// found.
pub(super) fn is_cache_in_block() -> bool {
    let allocator = (libc::malloc as *const ()).addr();
    // Otherwise the program has another one.
    let is_c_librarys = modules::c_library().contains(&allocator);
    is_c_librarys && cfg!(target_env = "gnu") && !ThreadWords::get().is_any()
}

struct Search {
    unused: usize,
    found: Option<[Word; 2]>,
}

/// Calls [`search`] on a thread that has not allocated, as one of `std` has.
#[allow(unsafe_code, reason = "a thread of the C library")]
fn run_on_new_thread(search: &mut Search) {
    extern "C" fn run(data: *mut c_void) -> *mut c_void {
        // SAFETY: the creator passes the search, and does not use it until this thread has ended.
        let search = unsafe { &mut *data.cast::<Search>() };
        search.found = search_words(search.unused);
        ptr::null_mut()
    }
    let mut thread = MaybeUninit::uninit();
    let data = ptr::from_mut(search).cast();
    // SAFETY: the routine gets what it expects, which lives until the thread has ended.
    let error = unsafe { libc::pthread_create(thread.as_mut_ptr(), ptr::null(), run, data) };
    if error == 0 {
        // SAFETY: the thread was created.
        let thread = unsafe { thread.assume_init() };
        // SAFETY: it is joined once.
        unsafe { libc::pthread_join(thread, ptr::null_mut()) };
    }
}

/// Returns the words that change when the calling thread allocates for the first time, if another
/// block with these words has the same cache.
fn search_words(unused: usize) -> Option<[Word; 2]> {
    let image = modules::c_library_image()?;
    let own = thread_pointer::get();
    let before = Values::read(image, own)?;
    let address = allocate(BYTES);
    let words = before.changed(&Values::read(image, own)?)?;
    let found = ThreadWords(Some(words));
    (address == allocate_on(unused, found)).then_some(words)
}

/// Allocates and releases memory until the allocator gives what was released before, and returns the
/// address. Never inlined, as the caller changes the thread pointer.
#[inline(never)]
#[allow(unsafe_code, reason = "functions of the C library")]
pub(super) fn allocate(bytes: usize) -> usize {
    // SAFETY: the function has no requirements.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the address is that of a number.
    let number = unsafe { errno.read() };
    let (mut last, mut address) = (0, 1);
    let mut tries = 0..TRIES_MAX;
    while last != address && tries.next().is_some() {
        last = address;
        let memory = allocate_and_keep(bytes);
        // SAFETY: the memory was allocated, unless there is none.
        unsafe { libc::free(memory) };
        address = memory.addr();
    }
    // SAFETY: as for the read.
    unsafe { errno.write(number) };
    address
}

#[allow(unsafe_code, reason = "a function of the C library")]
pub(super) fn allocate_and_keep(bytes: usize) -> *mut c_void {
    // SAFETY: the function has no requirements. The compiler must not find that nothing uses the
    // memory.
    black_box(unsafe { libc::malloc(bytes) })
}

/// Allocates with the words of the calling thread, but on an unused block.
#[allow(unsafe_code, reason = "an unused block")]
fn allocate_on(unused: usize, words: ThreadWords) -> usize {
    let (way, own) = (Way::best(), thread_pointer::get());
    // SAFETY: nobody else uses the block.
    unsafe { words.carry(own, unused) };
    // SAFETY: as above. The function is not inlined.
    unsafe { thread_pointer::set(way, unused) };
    let address = allocate(BYTES);
    // SAFETY: the block is that of the calling thread.
    unsafe { thread_pointer::set(way, own) };
    // SAFETY: as above.
    unsafe { words.carry(unused, own) };
    // SAFETY: the calling thread does not use the block any more.
    unsafe { words.clear(unused) };
    address
}

/// The values of the variables of the C library in a block.
struct Values {
    /// The offset of the first word.
    start: isize,
    words: [usize; SEARCHED_WORDS],
}

impl Values {
    /// Reads those of the calling thread, which has this thread pointer. Returns `None` if there
    /// are too many, or they are no words.
    #[allow(unsafe_code, reason = "variables of the C library")]
    fn read(image: Image, pointer: usize) -> Option<Values> {
        let mut values = Values {
            start: image.offset,
            words: [0; SEARCHED_WORDS],
        };
        if !image
            .offset
            .cast_unsigned()
            .is_multiple_of(align_of::<usize>())
        {
            return None;
        }
        let words = values.words.get_mut(..image.size / size_of::<usize>())?;
        for (index, value) in words.iter_mut().enumerate() {
            let address = pointer.wrapping_add_signed(image.offset) + index * size_of::<usize>();
            let address = ptr::with_exposed_provenance::<usize>(address);
            // SAFETY: the linker describes the variables of the thread with this pointer.
            *value = unsafe { address.read_volatile() };
        }
        Some(values)
    }

    /// Returns the two words, or the same one twice, that have changed.
    fn changed(&self, after: &Values) -> Option<[Word; 2]> {
        let pairs = self.words.iter().zip(&after.words).enumerate();
        let mut changed =
            pairs
                .filter(|(_, (before, after))| before != after)
                .map(|(index, (before, _))| Word {
                    offset: self.start + (index * size_of::<usize>()).cast_signed(),
                    initial: *before,
                });
        let first = changed.next()?;
        let second = changed.next().unwrap_or(first);
        changed.next().is_none().then_some([first, second])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_or_two_words_change() {
        let start = -64;
        let before = Values {
            start,
            words: [7; SEARCHED_WORDS],
        };
        let offsets = |indices: &[usize]| {
            let mut after = before.words;
            indices.iter().for_each(|index| after[*index] = 8);
            let words = before.changed(&Values {
                start,
                words: after,
            });
            words.map(|words| words.map(|word| (word.offset, word.initial)))
        };
        assert_eq!(offsets(&[]), None);
        assert_eq!(offsets(&[1]), Some([(-56, 7); 2]));
        assert_eq!(offsets(&[1, 7]), Some([(-56, 7), (-8, 7)]));
        assert_eq!(offsets(&[1, 2, 7]), None);
    }
}
