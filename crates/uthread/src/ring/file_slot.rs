//! Places for files that raw requests open or accept.

use crate::resource::registration::Registration;
use crate::sched::features::ring;

/// A slot in the file table of a worker's ring, for raw requests: one request opens or accepts into
/// it, others use the file in it, and another one closes it. Such a file has no descriptor.
///
/// Only requests on the worker that has reserved the slot can use it. Dropping it, on any thread,
/// closes the file that is in it, before Linux 6.4 up to a second later.
///
/// ```
/// use uthread::ring::{self, FileSlot, io_uring::{opcode, types}};
///
/// uthread::run(|| {
///     let Some(slot) = FileSlot::reserve() else { return };
///     let index = slot.index();
///     let path = c"Cargo.toml";
///     let target = types::DestinationSlot::try_from_slot_target(index).unwrap();
///     let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr())
///         .file_index(Some(target));
///     let mut text = [0; 9];
///     let read = opcode::Read::new(types::Fixed(index), text.as_mut_ptr(), 9);
///     // SAFETY: the path, the array and the slot live until the calls have returned.
///     let read = unsafe { [ring::submit(open.build()), ring::submit(read.build())] };
///     assert!(read.iter().all(Result::is_ok));
///     assert_eq!(&text, b"[package]");
/// });
/// ```
#[derive(Debug)]
pub struct FileSlot(Registration);

impl FileSlot {
    /// Reserves an empty slot. Returns `None` if the caller has no ring, if all 1024 slots of the
    /// ring are in use, or if the kernel is older than 5.19. See the example of [`FileSlot`].
    #[must_use]
    pub fn reserve() -> Option<FileSlot> {
        let mut registration = ring::reserve_file()?;
        // Requests fill it unseen.
        registration.set_file();
        Some(FileSlot(registration))
    }

    /// Returns the index of the slot, for [`Fixed`](io_uring::types::Fixed) and
    /// [`DestinationSlot`](io_uring::types::DestinationSlot). See the example of [`FileSlot`].
    #[must_use]
    pub fn index(&self) -> u32 {
        self.0.slot().into()
    }
}
