//! The thread-local variables of the program and of its libraries: where they are in a block, and
//! their initial values.
//!
//! Where the linker puts the variables of a module at the same distance from the thread pointer in
//! each block, as it does for all that it loads before `main`, they are looked up once. glibc tells
//! by its list of modules (`_r_debug` of `link.h`) that another one was loaded: from then on, the
//! linker is asked each time.
//!
//! The linker describes only variables that it knows the thread to have. It does not for those of
//! the model *initial-exec* in a module that was loaded after the block was made: they are at a
//! distance that is the same for all threads, and are accessed without the linker. A thread that
//! starts afterwards knows that distance, so one is started for each change of the list.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock};
use std::{ptr, thread};

use super::symbol::symbol;
use super::thread_pointer;
use crate::atomic::lock;
use crate::forked::PerProcess;

/// The variables of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Image {
    /// The offset of the calling thread's variables from its thread pointer.
    pub(super) offset: isize,
    /// The address of their initial values, and the number of these bytes. The others are zero at
    /// first.
    initial: usize,
    filled: usize,
    pub(super) size: usize,
}

impl Image {
    /// Returns the variables of a module of the linker's list that has some: `None` if the linker
    /// does not know the calling thread to have any.
    fn of(info: &libc::dl_phdr_info, segment: &libc::Elf64_Phdr) -> Option<Image> {
        let data = NonNull::new(info.dlpi_tls_data)?;
        let offset = data.addr().get().wrapping_sub(thread_pointer::get());
        Some(Image {
            offset: offset.cast_signed(),
            initial: (info.dlpi_addr + segment.p_vaddr) as usize,
            filled: segment.p_filesz as usize,
            size: segment.p_memsz as usize,
        })
    }

    #[allow(unsafe_code, reason = "the variables of a thread that has ended")]
    fn reset(self, pointer: usize) {
        let initial = ptr::with_exposed_provenance::<u8>(self.initial);
        let data = ptr::with_exposed_provenance_mut::<u8>(pointer.wrapping_add_signed(self.offset));
        // SAFETY: the linker describes the variables of the thread with this pointer, and their
        // initial values.
        unsafe { ptr::copy_nonoverlapping(initial, data, self.filled) };
        // SAFETY: as above.
        let rest = unsafe { data.add(self.filled) };
        // SAFETY: as above.
        unsafe { ptr::write_bytes(rest, 0, self.size - self.filled) };
    }
}

/// The modules that were loaded before the first block.
struct Known {
    images: Vec<Image>,
    last: &'static Module,
}

static KNOWN: OnceLock<Option<Known>> = OnceLock::new();

/// Looks the modules up. Called once, before there is a block.
pub(super) fn find() {
    KNOWN.get_or_init(|| {
        let last = last_module()?;
        let here = images()?;
        let elsewhere = thread::Builder::new().spawn(images).ok()?.join().ok()??;
        (here == elsewhere).then_some(Known { images: here, last })
    });
}

/// Returns the variables of the calling thread, if it has those of all modules.
fn images() -> Option<Vec<Image>> {
    let mut images = Some(Vec::new());
    for_each_image(|described| match (&mut images, described.image) {
        (Some(images), Some(image)) => images.push(image),
        _ => images = None,
    });
    images
}

/// Returns `true` if no module was loaded after the first block was made.
pub(super) fn knows_all() -> bool {
    matches!(KNOWN.get(), Some(Some(known)) if known.last.next().is_null())
}

/// The variables at the same distance from the thread pointer in each thread, as of a state of the
/// linker's list.
struct Placed {
    changes: Changes,
    images: Vec<Image>,
}

/// How often the linker's list has been changed: by how many modules loaded, and unloaded.
type Changes = (u64, u64);

static PLACED: PerProcess<Mutex<Option<Placed>>> =
    PerProcess::new(Mutex::new(None), || Mutex::new(None));

/// Finds the places of variables again if modules have been loaded or unloaded. Returns `false` if
/// the thread for that cannot start. Called by a fiber before the destructors of its variables, as
/// it uses `std`.
#[must_use = "variables may be left when this fails"]
pub(super) fn update() -> bool {
    if knows_all() {
        return true;
    }
    let changes = changes();
    let placed = lock(PLACED.get()).as_ref().map(|placed| placed.changes);
    if placed == Some(changes) {
        return true;
    }
    // Without the lock: the start of a thread may run code of the program.
    let started = thread::Builder::new().spawn(placed_images);
    match started.map(thread::JoinHandle::join) {
        Ok(Ok(images)) => {
            // With the changes from before: later ones are noticed at the next update.
            *lock(PLACED.get()) = Some(Placed { changes, images });
            true
        }
        _ => false,
    }
}

/// Returns the variables of the calling thread that are on its stack, where the C library puts all
/// that have a place in each thread.
fn placed_images() -> Vec<Image> {
    let mut images = Vec::new();
    let Some(stack) = own_stack() else {
        return images;
    };
    let pointer = thread_pointer::get();
    for_each_image(|described| {
        let is_placed = |image: &Image| {
            let start = pointer.wrapping_add_signed(image.offset);
            stack.contains(&start) && start + image.size <= stack.end
        };
        images.extend(described.image.filter(is_placed));
    });
    images
}

/// Returns the stack of the calling thread, which is not the first one, with its block.
#[allow(unsafe_code, reason = "the attributes of a thread")]
fn own_stack() -> Option<Range<usize>> {
    let mut attributes = MaybeUninit::uninit();
    let (mut low, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: the function has no arguments.
    let own = unsafe { libc::pthread_self() };
    // SAFETY: the call initializes the attributes of the calling thread.
    if unsafe { libc::pthread_getattr_np(own, attributes.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the attributes were initialized.
    let error =
        unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut bytes) };
    // SAFETY: as above.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    let low = low.expose_provenance();
    (error == 0).then_some(low..low + bytes)
}

/// Gives all thread-local variables of the caller but the C library's their initial values. Returns
/// `false` if some may not have them, because a module was loaded since the last [`update`].
#[must_use = "no other fiber may use the variables"]
pub(super) fn reset() -> bool {
    let pointer = thread_pointer::get();
    if let Some(Some(known)) = KNOWN.get()
        && known.last.next().is_null()
    {
        known.images.iter().for_each(|image| image.reset(pointer));
        return true;
    }
    let placed = lock(PLACED.get());
    let mut is_complete = true;
    for_each_image(|described| match (described.image, &*placed) {
        (Some(image), _) => image.reset(pointer),
        (None, Some(placed)) if placed.changes == described.changes => {
            // The thread has never used variables that have no place.
            let mut images = placed.images.iter();
            if let Some(image) = images.find(|image| image.initial == described.initial) {
                image.reset(pointer);
            }
        }
        (None, _) => is_complete = false,
    });
    is_complete
}

/// Returns the number of changes of the linker's list.
fn changes() -> Changes {
    let mut changes = Changes::default();
    visit(|info| {
        changes = (info.dlpi_adds, info.dlpi_subs);
        true
    });
    changes
}

/// An entry of the linker's list of modules, `struct link_map` of `link.h`.
#[repr(C)]
struct Module {
    address: usize,
    name: *const c_char,
    dynamic: *const c_void,
    next: AtomicPtr<Module>,
    previous: *const Module,
}

#[allow(unsafe_code, reason = "the list is never changed but by the linker")]
// SAFETY: the other fields of an entry that stays are constant.
unsafe impl Sync for Module {}

impl Module {
    fn next(&self) -> *const Module {
        // Acquire: a user of a module has seen the end of dlopen(3) anyway.
        self.next.load(Ordering::Acquire)
    }
}

/// Returns the last module of the list, which stays loaded from now on.
#[allow(unsafe_code, reason = "the linker's list of modules")]
fn last_module() -> Option<&'static Module> {
    #[repr(C)]
    struct Debug {
        version: c_int,
        first: *const Module,
    }
    let debug = symbol::<Debug>(c"_r_debug")?;
    // SAFETY: the structure lives as long as the process.
    let first = unsafe { (*debug).first };
    // SAFETY: the first module is the program.
    let mut last = unsafe { first.as_ref() }?;
    // SAFETY: no entry is removed unless another thread unloads a library meanwhile.
    while let Some(next) = unsafe { last.next().as_ref() } {
        last = next;
    }
    // SAFETY: the name of an entry is a string.
    let pinned = unsafe { libc::dlopen(last.name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    // The handle is never closed, so the entry stays.
    (!pinned.is_null()).then_some(last)
}

/// The variables of a module, as the linker describes them.
struct Described {
    changes: Changes,
    /// The address of their initial values.
    initial: usize,
    /// `None` if the linker does not know the calling thread to have any.
    image: Option<Image>,
}

/// Calls `action` for the variables of each module but the C library. The linker keeps its list
/// locked meanwhile.
fn for_each_image(mut action: impl FnMut(Described)) {
    visit(|info| {
        if let Some(segment) = variables(info)
            && !is_of_c_library(info)
        {
            action(Described {
                changes: (info.dlpi_adds, info.dlpi_subs),
                initial: (info.dlpi_addr + segment.p_vaddr) as usize,
                image: Image::of(info, segment),
            });
        }
        false
    });
}

/// Returns the variables of the C library, if it is an object of its own and has some.
pub(super) fn c_library_image() -> Option<Image> {
    let mut image = None;
    visit(|info| {
        let is_found = is_of_c_library(info);
        if is_found {
            image = variables(info).and_then(|segment| Image::of(info, segment));
        }
        is_found
    });
    image
}

/// Returns the segment with the initial values of a module's variables.
fn variables(info: &libc::dl_phdr_info) -> Option<&libc::Elf64_Phdr> {
    let mut segments = segments(info).iter();
    segments.find(|segment| segment.p_type == libc::PT_TLS)
}

/// Calls `action` for each module, up to the first for which it returns `true`. The linker keeps
/// its list locked meanwhile.
#[allow(unsafe_code, reason = "the linker's list of modules")]
pub(crate) fn visit(mut action: impl FnMut(&libc::dl_phdr_info) -> bool) {
    let mut action: &mut dyn FnMut(&libc::dl_phdr_info) -> bool = &mut action;
    // SAFETY: the function accepts this data.
    unsafe { libc::dl_iterate_phdr(Some(call), (&raw mut action).cast()) };
}

#[allow(unsafe_code, reason = "the linker's list of modules")]
unsafe extern "C" fn call(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    action: *mut c_void,
) -> c_int {
    // SAFETY: the linker passes a valid description.
    let info = unsafe { &*info };
    // SAFETY: `visit` passes this reference.
    let action = unsafe { &mut *action.cast::<&mut dyn FnMut(&libc::dl_phdr_info) -> bool>() };
    c_int::from(action(info))
}

/// Returns the segments of a module that the linker describes.
#[allow(unsafe_code, reason = "the linker's list of modules")]
pub(crate) fn segments(info: &libc::dl_phdr_info) -> &[libc::Elf64_Phdr] {
    let (first, count) = (info.dlpi_phdr, usize::from(info.dlpi_phnum));
    // SAFETY: the linker passes a valid description.
    unsafe { std::slice::from_raw_parts(first, count) }
}

/// Returns the addresses of the C library, if it is an object of its own.
pub(crate) fn c_library() -> &'static Range<usize> {
    static ADDRESSES: OnceLock<Range<usize>> = OnceLock::new();
    ADDRESSES.get_or_init(|| {
        let own = (c_library as *const ()).addr();
        // A function that no library takes the place of, as those do that run programs on fibers or
        // look for races; of the object which has the threads, in glibc up to 2.33 one of its own.
        let address = (libc::pthread_attr_setstack as *const ()).addr();
        let mut found = 0..0;
        visit(|info| {
            let extent = extent(info);
            // In a program that is linked statically, it is a part of the program.
            let is_c_library = extent.contains(&address) && !extent.contains(&own);
            if is_c_library {
                found = extent;
            }
            is_c_library
        });
        found
    })
}

/// Returns `true` if the variables of the C library can be distinguished from others, so that a
/// block serves more than one fiber.
pub(super) fn are_reusable() -> bool {
    !c_library().is_empty() || cfg!(target_env = "musl")
}

fn is_of_c_library(info: &libc::dl_phdr_info) -> bool {
    c_library().contains(&extent(info).start)
}

fn extent(info: &libc::dl_phdr_info) -> Range<usize> {
    let loaded = || {
        let segments = segments(info).iter();
        segments.filter(|segment| segment.p_type == libc::PT_LOAD)
    };
    let starts = loaded().map(|segment| (info.dlpi_addr + segment.p_vaddr) as usize);
    let ends =
        loaded().map(|segment| (info.dlpi_addr + segment.p_vaddr + segment.p_memsz) as usize);
    starts.min().unwrap_or(0)..ends.max().unwrap_or(0)
}
