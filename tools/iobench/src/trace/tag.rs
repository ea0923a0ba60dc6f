//! The class and the place of an entry, in its `user_data`.

/// The urgency of an entry, from the most urgent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Urgent,
    Normal,
    Background,
}

/// A mark by which entries of other rings are told apart.
const MARK: u64 = 0xa5;

/// The content of `user_data`. From the highest bits: the mark (8), the class (8), the place in the program's order (16), the
/// batch (32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) batch: u32,
    pub(super) class: Class,
    pub(super) sequence: u16,
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
}

impl Tag {
    pub(super) fn encode(self) -> u64 {
        let (class, sequence) = (self.class as u64, u64::from(self.sequence));
        MARK << 56 | class << 48 | sequence << 32 | u64::from(self.batch)
    }

    /// Returns `None` for an entry of another ring.
    pub(super) fn decode(user_data: u64) -> Option<Tag> {
        let class = Class::ALL.get((user_data >> 48 & 0xff) as usize);
        let class = class.filter(|_| user_data >> 56 == MARK)?;
        Some(Tag {
            batch: user_data as u32,
            class: *class,
            sequence: (user_data >> 32) as u16,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_as_it_was_written() {
        for class in Class::ALL {
            for (batch, sequence) in [(0, 0), (u32::MAX, 7), (3, u16::MAX)] {
                let tag = Tag {
                    batch,
                    class,
                    sequence,
                };
                assert_eq!(Tag::decode(tag.encode()), Some(tag));
            }
        }
        for other in [0, u64::MAX, MARK << 56 | 3 << 48] {
            assert_eq!(Tag::decode(other), None, "{other:x}");
        }
    }
}
