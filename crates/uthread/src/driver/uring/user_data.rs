//! Encoding of the `user_data` of submission entries, which is returned with each completion.
//!
//! ```text
//!   bits   63  62  61  32..61  16..32  0..16
//!           0   c   .. the token of an operation ..
//!           1   c   0  .. operation ..  entry     an entry of a raw operation
//!           1   1   1  .. ones ..                 a wake-up
//!           1   1   1  .. ones ..              0  a test of the flag of urgent entries
//! ```
//!
//! The bit `c` marks a request to cancel the entry that the other bits identify.

use crate::driver::Token;

const OWN: u64 = 1 << 63;
const CANCEL: u64 = 1 << 62;
const WAKE: u64 = u64::MAX;
#[cfg(uthread_urgent)]
const URGENT_TEST: u64 = WAKE - 1;
const RAW_OPERATION_SHIFT: u32 = 16;

/// An entry that a completion or a request to cancel refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::driver) enum Target {
    /// The only entry of an operation.
    Operation(Token),
    /// An entry of a raw operation, identified by the driver's number of the operation.
    Raw { operation: u32, entry: u16 },
}

/// The meaning of a completion's `user_data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UserData {
    /// A completion of this entry.
    Entry(Target),
    /// The completion of a request to cancel this entry.
    Cancel(Target),
    /// A wake-up from another thread.
    Wake,
    /// The completion of a request that tests the flag of urgent entries.
    #[cfg(uthread_urgent)]
    UrgentTest,
}

impl UserData {
    pub(super) fn encode(self) -> u64 {
        match self {
            UserData::Entry(target) => target.encode(),
            UserData::Cancel(target) => CANCEL | target.encode(),
            UserData::Wake => WAKE,
            #[cfg(uthread_urgent)]
            UserData::UrgentTest => URGENT_TEST,
        }
    }

    #[inline]
    pub(super) fn decode(bits: u64) -> UserData {
        if bits == WAKE {
            return UserData::Wake;
        }
        #[cfg(uthread_urgent)]
        if bits == URGENT_TEST {
            return UserData::UrgentTest;
        }
        let target = Target::decode(bits & !CANCEL);
        match bits & CANCEL {
            0 => UserData::Entry(target),
            _ => UserData::Cancel(target),
        }
    }
}

impl Target {
    fn encode(self) -> u64 {
        match self {
            Target::Operation(token) => {
                debug_assert!(token.0 < Token::RESERVED, "the upper bits are the driver's");
                token.0
            }
            Target::Raw { operation, entry } => {
                OWN | u64::from(operation) << RAW_OPERATION_SHIFT | u64::from(entry)
            }
        }
    }

    #[inline]
    fn decode(bits: u64) -> Target {
        match bits {
            bits if bits & OWN == 0 => Target::Operation(Token(bits)),
            bits => Target::Raw {
                operation: (bits >> RAW_OPERATION_SHIFT) as u32,
                entry: bits as u16,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest and the largest of each kind.
    const TARGETS: [Target; 6] = [
        Target::Operation(Token(0)),
        Target::Operation(Token(Token::RESERVED - 1)),
        Target::Raw {
            operation: 0,
            entry: 0,
        },
        Target::Raw {
            operation: u32::MAX,
            entry: 0,
        },
        Target::Raw {
            operation: 0,
            entry: u16::MAX,
        },
        Target::Raw {
            operation: u32::MAX,
            entry: u16::MAX,
        },
    ];

    fn all() -> Vec<UserData> {
        let entries = TARGETS.map(UserData::Entry);
        let cancels = TARGETS.map(UserData::Cancel);
        let all = entries.into_iter().chain(cancels);
        #[cfg(uthread_urgent)]
        let all = all.chain([UserData::UrgentTest]);
        all.chain([UserData::Wake]).collect()
    }

    #[test]
    fn decoding_restores_what_was_encoded() {
        for data in all() {
            assert_eq!(UserData::decode(data.encode()), data);
        }
    }

    #[test]
    fn no_two_values_share_their_bits() {
        let mut bits: Vec<_> = all().into_iter().map(UserData::encode).collect();
        let count = bits.len();
        bits.sort_unstable();
        bits.dedup();
        assert_eq!(bits.len(), count);
    }
}
