//! The class and the place of an entry, in the result with which it completes.
//!
//! The runtime uses `user_data` itself. So each entry reads as many bytes of `/dev/zero` as stand
//! for its class and place: the kernel records `user_data` where it takes an entry, and with the
//! result where it completes one.

use uthread::priority::Priority;

/// The class of an entry, from the most urgent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Urgent,
    Normal,
    Background,
}

/// A bit that is set in every length, and not in the results of the few other requests of an idle
/// worker.
const MARK: u32 = 1 << 11;
const CLASS_SHIFT: u32 = 8;
const SEQUENCE_MASK: u32 = (1 << CLASS_SHIFT) - 1;

/// The content of a length. From the highest bits: the mark, the class, and the place in the
/// program's order (8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) class: Class,
    pub(super) sequence: u8,
}

impl Class {
    pub(super) const ALL: [Class; 3] = [Class::Urgent, Class::Normal, Class::Background];

    pub(super) fn name(self) -> &'static str {
        match self {
            Class::Urgent => "urgent",
            Class::Normal => "normal",
            Class::Background => "background",
        }
    }

    pub(super) fn priority(self) -> Priority {
        match self {
            Class::Urgent => Priority::Urgent,
            Class::Normal => Priority::Normal,
            Class::Background => Priority::Background,
        }
    }
}

impl Tag {
    /// Bound that no length reaches: the smallest page, as on a busy machine the kernel may end a
    /// read of `/dev/zero` after any page.
    pub(super) const LENGTH_MAX: usize = 4096;

    /// Returns the number of bytes to read.
    pub(super) fn length(self) -> u32 {
        MARK | (self.class as u32) << CLASS_SHIFT | u32::from(self.sequence)
    }

    /// Returns `None` for the result of another request.
    pub(super) fn of(result: i64) -> Option<Tag> {
        let length = u32::try_from(result).ok()?;
        let class = length.checked_sub(MARK)? >> CLASS_SHIFT;
        Some(Tag {
            class: *Class::ALL.get(class as usize)?,
            sequence: (length & SEQUENCE_MASK) as u8,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_as_it_was_written() {
        for class in Class::ALL {
            for sequence in [0, 7, u8::MAX] {
                let tag = Tag { class, sequence };
                assert_eq!(Tag::of(i64::from(tag.length())), Some(tag));
                assert!((tag.length() as usize) < Tag::LENGTH_MAX);
            }
        }
        for other in [-125, 0, 8, 2047, 2048 | 3 << 8, 4096, i64::MAX] {
            assert_eq!(Tag::of(other), None, "{other}");
        }
    }
}
