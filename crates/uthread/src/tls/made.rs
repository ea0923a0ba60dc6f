//! A thread control block that no thread has made. A [donor](super::donor) takes the start and the
//! end of a thread, for which its worker waits. Here the dynamic linker of glibc places the
//! variables (`_dl_allocate_tls`), and the words that `pthread_create(3)` and a new thread write
//! are learned from the blocks of some donors:
//!
//! | a word that is, in each of them | is here |
//! | --- | --- |
//! | the same | the same |
//! | an address at the same distance from the block | the one at this distance |
//! | the low end of the stack, or its size | that of this stack |
//! | the argument of the thread | zero |
//! | one of the two before the thread's id, by which the C library lists its threads | the address of the first: a list of this one alone |
//!
//! If another word differs, or one donor is not as the others let expect, donors make all blocks.
//!
//! The C library does not know that there is a thread. So a library that is loaded later, with
//! thread-local variables of the model *initial-exec*, finds zeros instead of their initial values
//! in the blocks of fibers that have started before.

use std::ffi::{c_char, c_void};
use std::ops::Range;
use std::{mem, ptr};

use super::symbol::symbol;
use super::thread_pointer::{self, Way};
use super::{locale, modules};

const WORD: usize = size_of::<usize>();

/// The alignment of a block, unless a module asks for more.
const ALIGNMENT: usize = 64;

/// The distance of the pointer to the tables of the linker, which that writes: the second word of a
/// block, by the ABI of x86-64.
const TABLES: isize = WORD as isize;

type Allocate = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Deallocate = unsafe extern "C" fn(*mut c_void, bool);
type StaticInfo = unsafe extern "C" fn(*mut usize, *mut usize);

/// The functions of the dynamic linker that make a block and release what belongs to it.
#[derive(Debug, Clone, Copy)]
struct Linker {
    allocate: Allocate,
    deallocate: Deallocate,
}

/// The block of a donor, from which words are learned.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) pointer: usize,
    pub(super) stack: Range<usize>,
    /// The argument of the thread.
    pub(super) argument: usize,
}

/// What a word becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Value(usize),
    /// The address at this distance from the block.
    Near(isize),
    StackLow,
    StackSize,
}

impl Word {
    fn on(self, pointer: usize, stack: &Range<usize>) -> usize {
        match self {
            Word::Value(value) => value,
            Word::Near(distance) => pointer.wrapping_add_signed(distance),
            Word::StackLow => stack.start,
            Word::StackSize => stack.len(),
        }
    }
}

/// How blocks are made.
#[derive(Debug)]
pub(super) struct Template {
    linker: Linker,
    /// Number of bytes of a block below and above its address.
    below: usize,
    above: usize,
    /// The words that the linker does not write, by their distance from the block.
    words: Vec<(isize, Word)>,
}

impl Template {
    /// Learns from the blocks of donors, the last of which only has to agree. The thread's id is at
    /// the distance `id`; words at the distances `unused` may be anything.
    pub(super) fn learn(samples: &[Sample], id: isize, unused: &Range<isize>) -> Option<Template> {
        let (linker, size) = linker()?;
        let (trial, samples) = samples.split_last()?;
        let above = trial.above();
        let below = size.checked_sub(above)? / WORD * WORD;
        if samples.iter().any(|sample| sample.above() != above) {
            return None;
        }
        let blank = linker.blank(below, above)?;
        let mut words = Vec::new();
        let list = id - 2 * TABLES..id;
        for (index, of_linker) in blank.into_iter().enumerate() {
            let distance = (index * WORD).cast_signed() - below.cast_signed();
            if distance == TABLES || unused.contains(&distance) {
                continue;
            }
            let values = samples.iter().map(|sample| sample.word(distance, id));
            let word = match explain(samples, values) {
                Some(word) => word,
                None if list.contains(&distance) => Word::Near(list.start),
                None => return None,
            };
            let expected = word.on(trial.pointer, &trial.stack);
            if trial.word(distance, id) != expected && !list.contains(&distance) {
                return None;
            }
            if word != Word::Value(of_linker) {
                words.push((distance, word));
            }
        }
        Some(Template {
            linker,
            below,
            above,
            words,
        })
    }

    /// Makes a block at the high end of a stack, and returns its address; or `None` if there is no
    /// memory for the tables of the linker, or if the stack ends at an odd address.
    ///
    /// # Safety
    ///
    /// Nothing else uses the stack until the block was [released](Template::release).
    #[allow(unsafe_code, reason = "a block on memory of the caller's")]
    pub(super) unsafe fn make(&self, stack: &Range<usize>) -> Option<usize> {
        let pointer = stack.end - self.above;
        if !pointer.is_multiple_of(ALIGNMENT) {
            return None;
        }
        let start = ptr::with_exposed_provenance_mut::<u8>(pointer - self.below);
        // SAFETY: a stack has room for a block.
        unsafe { start.write_bytes(0, self.below + self.above) };
        let block = ptr::with_exposed_provenance_mut::<c_void>(pointer);
        // SAFETY: the block has the room that the linker asks for.
        if unsafe { (self.linker.allocate)(block) }.is_null() {
            return None;
        }
        for (distance, word) in &self.words {
            let word = word.on(pointer, stack);
            let place = block.wrapping_byte_offset(*distance).cast::<usize>();
            // SAFETY: the word is in the block.
            unsafe { place.write(word) };
        }
        let (way, own) = (Way::best(), thread_pointer::get());
        // The tables of the locale may be others than at the time of the donors.
        // SAFETY: the block is complete.
        unsafe { thread_pointer::set(way, pointer) };
        locale::reset();
        // SAFETY: the pointer is that of this thread.
        unsafe { thread_pointer::set(way, own) };
        Some(pointer)
    }

    /// Releases what the linker has allocated for a block.
    ///
    /// # Safety
    ///
    /// The block was made here, and is not used any more.
    #[allow(unsafe_code, reason = "a function of the dynamic linker")]
    pub(super) unsafe fn release(&self, pointer: usize) {
        let block = ptr::with_exposed_provenance_mut::<c_void>(pointer);
        // SAFETY: by the caller's contract; the memory of the block itself is the caller's.
        unsafe { (self.linker.deallocate)(block, false) };
    }
}

impl Sample {
    fn above(&self) -> usize {
        self.stack.end - self.pointer
    }

    /// Returns a word of the block, with 0 for the thread's id and for its argument.
    #[allow(unsafe_code, reason = "memory of the C library's")]
    fn word(&self, distance: isize, id: isize) -> usize {
        let address = self.pointer.wrapping_add_signed(distance);
        // SAFETY: the word is in the block, which no thread uses.
        let word = unsafe { ptr::with_exposed_provenance::<usize>(address).read() };
        match word {
            _ if distance == id => word & !(u32::MAX as usize),
            word if word == self.argument => 0,
            word => word,
        }
    }
}

/// Returns what the word of these samples is that has these values, if all are alike.
fn explain(samples: &[Sample], values: impl Iterator<Item = usize> + Clone) -> Option<Word> {
    let first = samples.first()?;
    let value = values.clone().next()?;
    let candidates = [
        Word::Value(value),
        Word::Near(value.wrapping_sub(first.pointer).cast_signed()),
        Word::StackLow,
        Word::StackSize,
    ];
    candidates.into_iter().find(|word| {
        let mut pairs = samples.iter().zip(values.clone());
        pairs.all(|(sample, value)| word.on(sample.pointer, &sample.stack) == value)
    })
}

/// Returns the functions of the dynamic linker, and the size of a block with all variables that
/// have a place in it; if there are these functions, and no other library is in their way.
#[allow(unsafe_code, reason = "functions of the dynamic linker")]
fn linker() -> Option<(Linker, usize)> {
    let of_c_library = symbol::<c_char>(c"gnu_get_libc_version")?.addr();
    let may_be_known = cfg!(target_arch = "x86_64") && !cfg!(feature = "sanitizer");
    if !may_be_known || !modules::c_library().contains(&of_c_library) {
        return None;
    }
    let allocate = symbol::<c_void>(c"_dl_allocate_tls")?;
    let deallocate = symbol::<c_void>(c"_dl_deallocate_tls")?;
    let static_info = symbol::<c_void>(c"_dl_get_tls_static_info")?;
    // SAFETY: the symbol is the function of glibc's linker of this name, which has this type.
    let allocate = unsafe { mem::transmute::<*const c_void, Allocate>(allocate) };
    // SAFETY: as above.
    let deallocate = unsafe { mem::transmute::<*const c_void, Deallocate>(deallocate) };
    // SAFETY: as above.
    let static_info = unsafe { mem::transmute::<*const c_void, StaticInfo>(static_info) };
    let (mut size, mut alignment) = (0, 0);
    // SAFETY: the function writes two numbers.
    unsafe { static_info(&raw mut size, &raw mut alignment) };
    let linker = Linker {
        allocate,
        deallocate,
    };
    (alignment <= ALIGNMENT).then_some((linker, size))
}

impl Linker {
    /// Returns the words of a block as the linker makes it.
    #[allow(unsafe_code, reason = "a block that is not used")]
    fn blank(self, below: usize, above: usize) -> Option<Vec<usize>> {
        let size = below + above;
        let mut memory = vec![0_usize; (size + ALIGNMENT) / WORD];
        let start = memory.as_mut_ptr().expose_provenance();
        let pointer = (start + below).next_multiple_of(ALIGNMENT);
        let block = ptr::with_exposed_provenance_mut::<c_void>(pointer);
        // SAFETY: the memory is as large as a block, and zero.
        if unsafe { (self.allocate)(block) }.is_null() {
            return None;
        }
        // SAFETY: the block was made above.
        unsafe { (self.deallocate)(block, false) };
        let first = (pointer - below - start) / WORD;
        Some(memory[first..first + size / WORD].to_vec())
    }
}
