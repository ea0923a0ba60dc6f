//! The model: the order in which a batch is submitted, written from the description of the flag and
//! not from the patch.

use std::collections::VecDeque;

/// Flags of an entry that decide the order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) urgent: bool,
    pub(crate) link: Link,
    pub(crate) drain: bool,
}

/// How an entry is linked to the next one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Link {
    #[default]
    None,
    Soft,
    Hard,
}

/// How many urgent entries overtake a normal one, unless the administrator decides otherwise.
pub(crate) const BURST_DEFAULT: usize = 64;

/// Batches, their bursts, and their orders: written by hand, for the model and for the kernel.
///
/// `n` is a normal entry, `u` an urgent one, and `d` a normal one with a drain. `-` links it to the
/// next one, and `=` links it hard.
pub(crate) const CASES: [(&str, usize, &[usize]); 22] = [
    ("n n n", 64, &[0, 1, 2]),
    ("u u u", 64, &[0, 1, 2]),
    ("n u", 64, &[1, 0]),
    ("u n", 64, &[0, 1]),
    ("n u n u", 64, &[1, 3, 0, 2]),
    (
        "n n n u n n n u n n u",
        64,
        &[3, 7, 10, 0, 1, 2, 4, 5, 6, 8, 9],
    ),
    // A chain stays together, and one urgent entry is enough.
    ("n n-u n", 64, &[1, 2, 0, 3]),
    ("n u-n n", 64, &[1, 2, 0, 3]),
    ("n n=n=u n u", 64, &[1, 2, 3, 5, 0, 4]),
    ("n-n u n-n", 64, &[2, 0, 1, 3, 4]),
    // The end of the batch cuts the last chain.
    ("n u n-u-", 64, &[1, 0, 2, 3]),
    ("n u-u-", 64, &[0, 1, 2]),
    ("n-u u u=", 64, &[0, 1, 2, 3]),
    // A drain keeps everything in its place.
    ("n d u", 64, &[0, 1, 2]),
    ("n u d", 64, &[0, 1, 2]),
    ("n n-d-n u", 64, &[0, 1, 2, 3, 4]),
    // A normal entry has its turn after each burst.
    ("n n u u u u u", 2, &[2, 3, 0, 4, 5, 1, 6]),
    ("n n n u u", 1, &[3, 0, 4, 1, 2]),
    ("n n u-n-n u", 1, &[2, 3, 4, 0, 5, 1]),
    ("n-n n u u u", 2, &[3, 4, 0, 1, 5, 2]),
    // An entry that overtakes nothing does not count.
    ("u u u n u n u", 1, &[0, 1, 2, 4, 3, 6, 5]),
    ("n u u", 1, &[1, 0, 2]),
];

/// Parses a batch of [`CASES`].
pub(crate) fn parse(batch: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for letter in batch.chars() {
        let last = items.last_mut();
        match (letter, last) {
            ('-', Some(last)) => last.link = Link::Soft,
            ('=', Some(last)) => last.link = Link::Hard,
            (' ', _) => {}
            (letter, _) => items.push(Item {
                urgent: letter == 'u',
                drain: letter == 'd',
                link: Link::None,
            }),
        }
    }
    items
}

/// Returns the notation of a batch that [`parse`] reads. Urgent entries with a drain are not in it.
pub(crate) fn show(items: &[Item]) -> String {
    let mut text = String::new();
    for item in items {
        text.push(match item {
            Item { drain: true, .. } => 'd',
            Item { urgent: true, .. } => 'u',
            _ => 'n',
        });
        text.push(match item.link {
            Link::None => ' ',
            Link::Soft => '-',
            Link::Hard => '=',
        });
    }
    text.trim_end().to_owned()
}

/// Returns the indices of the entries in the order of their submission.
pub(crate) fn order(items: &[Item], burst: usize) -> Vec<usize> {
    if items.iter().any(|item| item.drain) {
        return (0..items.len()).collect();
    }
    let (mut urgent, mut normal, mut chain) = (VecDeque::new(), VecDeque::new(), Vec::new());
    for (index, item) in items.iter().enumerate() {
        chain.push(index);
        if item.link == Link::None {
            let chain = std::mem::take(&mut chain);
            if chain.iter().any(|&index| items[index].urgent) {
                urgent.push_back(chain);
            } else {
                normal.push_back(chain);
            }
        }
    }
    let cut = chain;

    let (mut order, mut overtaking) = (Vec::new(), 0);
    loop {
        let overtakes = match (urgent.front(), normal.front()) {
            (Some(urgent), Some(normal)) => urgent[0] > normal[0],
            (None, None) => break,
            _ => false,
        };
        let next = if overtakes && overtaking >= burst {
            None
        } else {
            urgent.pop_front()
        };
        match next {
            Some(chain) => {
                overtaking += if overtakes { chain.len() } else { 0 };
                order.extend(chain);
            }
            None => {
                overtaking = 0;
                order.extend(normal.pop_front().into_iter().flatten());
            }
        }
    }
    order.extend(cut);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_knows_the_cases() {
        for (batch, burst, expected) in CASES {
            assert_eq!(order(&parse(batch), burst), expected, "{batch}");
        }
    }

    #[test]
    fn a_batch_is_shown_as_it_is_written() {
        for (batch, _, _) in CASES {
            assert_eq!(show(&parse(batch)), batch);
        }
    }

    /// Counts the urgent entries that a normal chain lets overtake, up to the one that exceeds the
    /// burst.
    #[test]
    fn no_normal_chain_waits_for_more_than_its_share() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..1000 {
            let items = crate::batch::random(&mut random);
            let burst = random.usize(1..8);
            let order = order(&items, burst);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..items.len()), "{}", show(&items));
            let longest = crate::batch::longest_chain(&items);
            let mut overtaking = 0;
            for (place, &index) in order.iter().enumerate() {
                let overtakes = order[place..].iter().any(|&later| later < index);
                overtaking = if overtakes { overtaking + 1 } else { 0 };
                assert!(overtaking < burst + longest, "{}", show(&items));
            }
        }
    }
}
