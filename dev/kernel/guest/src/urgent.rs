//! Tests of the order, and of who may change it.

use std::io;

use rustix::io::Errno;

use crate::batch::{self, ITEMS_MAX, URGENT};
use crate::context::{BURST, Context, PERMISSION, without_capability};
use crate::order::{self, BURST_DEFAULT, CASES};
use crate::outcome::Outcome;
use crate::ring::{KINDS, Kind, Ring};

type Test = fn(&mut Context) -> Outcome;

pub(crate) const TESTS: [(&str, Test); 9] = [
    ("eleven_entries", eleven_entries),
    ("written_orders", written_orders),
    ("random_batches", random_batches),
    (
        "a_refused_entry_does_not_end_the_batch",
        a_refused_entry_does_not_end_the_batch,
    ),
    ("a_part_of_the_queue", a_part_of_the_queue),
    ("full_rings", full_rings),
    ("permission", permission),
    ("permission_while_in_use", permission_while_in_use),
    ("restricted_rings", restricted_rings),
];

/// Number of random batches.
const BATCHES: usize = 1000;

/// Settings of the burst that the random batches run with.
const BURSTS: [usize; 4] = [BURST_DEFAULT, 1, 2, 5];

/// Repeats the random batches.
const SEED: u64 = 19;

/// Submits entries 1 to 11, of which 4, 8 and 11 are urgent.
fn eleven_entries(context: &mut Context) -> Outcome {
    let items = order::parse("n n n u n n n u n n u");
    let expected = [3, 7, 10, 0, 1, 2, 4, 5, 6, 8, 9];
    for kind in KINDS {
        let mut ring = context.ring(kind)?;
        let (submitted, completed) = context.run(&mut ring, &items)?;
        let shown = one_based(&submitted);
        if submitted != expected {
            return Err(format!("{kind:?}: submitted in the order {shown}").into());
        }
        if completed != expected {
            let completed = one_based(&completed);
            return Err(
                format!("{kind:?}: submitted in the order {shown}, completed {completed}").into(),
            );
        }
    }
    let shown = one_based(&expected);
    Ok(format!("submitted and completed in the order {shown}"))
}

fn one_based(order: &[usize]) -> String {
    let numbers: Vec<_> = order.iter().map(|index| (index + 1).to_string()).collect();
    numbers.join(" ")
}

/// Compares with orders that were written by hand.
fn written_orders(context: &mut Context) -> Outcome {
    for kind in KINDS {
        let mut ring = context.ring(kind)?;
        for (batch, burst, expected) in CASES {
            context.set(BURST, burst)?;
            let (submitted, _) = context.run(&mut ring, &order::parse(batch))?;
            if submitted != expected {
                return Err(format!(
                    "{kind:?}: {batch} in the order {submitted:?} with a burst of {burst}"
                )
                .into());
            }
        }
    }
    context.set(BURST, BURST_DEFAULT)?;
    let (batches, kinds) = (CASES.len(), KINDS.len());
    Ok(format!("{batches} batches on {kinds} kinds of rings"))
}

/// Compares with the model.
fn random_batches(context: &mut Context) -> Outcome {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut rings = Vec::new();
    for kind in KINDS {
        rings.push((kind, context.ring(kind)?));
    }
    let (mut entries, mut moved, mut wrong, mut first) = (0, 0, 0, None);
    for number in 0..BATCHES {
        let burst = BURSTS[number * BURSTS.len() / BATCHES];
        context.set(BURST, burst)?;
        let items = batch::random(&mut random);
        let index = random.usize(..rings.len());
        let (kind, ring) = &mut rings[index];
        let (submitted, _) = context.run(ring, &items)?;
        let expected = order::order(&items, burst);
        entries += items.len();
        moved += usize::from(!expected.is_sorted());
        if submitted != expected {
            wrong += 1;
            let batch = order::show(&items);
            first.get_or_insert_with(|| format!("{batch} on a {kind:?} ring: {submitted:?}"));
        }
    }
    context.set(BURST, BURST_DEFAULT)?;
    if let Some(first) = first {
        return Err(
            format!("{wrong} of {BATCHES} not in the model's order, such as {first}").into(),
        );
    }
    Ok(format!(
        "{BATCHES} batches with {entries} entries in the model's order, which is not the ring's for {moved} of them"
    ))
}

fn a_refused_entry_does_not_end_the_batch(context: &mut Context) -> Outcome {
    let mut ring = context.ring(Kind::Plain)?;
    let mut entries = [
        batch::nop(0),
        batch::refused(1),
        batch::nop(2),
        batch::nop(3),
    ];
    if context.has_flag {
        entries[2] = entries[2].clone().flags(URGENT);
    }
    let completions = ring.run(&entries)?;
    let refused = -Errno::INVAL.raw_os_error();
    if completions == [(2, 0), (0, 0), (1, refused), (3, 0)] {
        Ok("all four entries completed, one with EINVAL".to_owned())
    } else {
        Err(format!("completed {completions:?}").into())
    }
}

/// Submits eight entries in two calls, and expects each half in an order of its own.
fn a_part_of_the_queue(context: &mut Context) -> Outcome {
    let items = order::parse("n n u n n n n u");
    let mut ring = context.ring(Kind::Plain)?;
    let first = context.next_batch();
    ring.push(&batch::entries(&items, first, context.has_flag))?;
    for expected in [[2, 0, 1, 3], [7, 4, 5, 6]] {
        let count = ring.submit_part(expected.len())?;
        let submitted = context.submitted(first)?;
        if count != expected.len() || submitted != expected {
            return Err(format!("{count} submitted, in the order {submitted:?}").into());
        }
    }
    Ok("two halves, each in an order of its own".to_owned())
}

/// Fills many rings with one batch each, the last entry of which is urgent.
fn full_rings(context: &mut Context) -> Outcome {
    const RINGS: usize = 100;
    let mut items = order::parse(&"n ".repeat(crate::ring::ENTRIES - 1));
    items.extend(order::parse("u"));
    let expected = order::order(&items, BURST_DEFAULT);
    for _ in 0..RINGS {
        let mut ring = context.ring(Kind::Plain)?;
        let (submitted, _) = context.run(&mut ring, &items)?;
        if submitted != expected {
            return Err(format!("the order {submitted:?}").into());
        }
    }
    Ok(format!(
        "{RINGS} rings, each filled with one batch of {} entries; others had at most {ITEMS_MAX}",
        items.len()
    ))
}

/// Settings of who may use the flag, with and without the capability, and whether the process may.
const PERMITTED: [(usize, bool, bool); 6] = [
    (0, false, false),
    (0, true, false),
    (1, false, false),
    (1, true, true),
    (2, false, true),
    (2, true, true),
];

fn permission(context: &mut Context) -> Outcome {
    require_flag(context)?;
    for (setting, has_capability, may) in PERMITTED {
        context.set(PERMISSION, setting)?;
        for kind in [Kind::Plain, Kind::Polled] {
            let probe = || Ring::with_flag(kind).map(drop);
            let result = if has_capability {
                probe()
            } else {
                without_capability(probe)?
            };
            let is_expected = match &result {
                Ok(()) => may,
                Err(error) => !may && is(error, Errno::PERM),
            };
            if !is_expected {
                return Err(format!(
                    "{setting}, capability {has_capability}, {kind:?}: {result:?}"
                )
                .into());
            }
        }
    }
    context.set(PERMISSION, 1)?;
    Ok("each setting, with and without CAP_SYS_NICE; EPERM otherwise".to_owned())
}

/// Takes the permission away from a ring that has used the flag, and gives it back.
fn permission_while_in_use(context: &mut Context) -> Outcome {
    require_flag(context)?;
    let items = order::parse("n u n");
    let mut ring = context.ring(Kind::SubmitAll)?;
    context.set(PERMISSION, 0)?;
    let first = context.next_batch();
    let refused = ring.run(&batch::entries(&items, first, true))?;
    let submitted = context.submitted(first)?;
    context.set(PERMISSION, 1)?;
    let expected = [
        (first, 0),
        (first + 1, -Errno::PERM.raw_os_error()),
        (first + 2, 0),
    ];
    if refused != expected || submitted != [0, 2] {
        return Err(format!("completed {refused:?}, submitted {submitted:?}").into());
    }
    let (submitted, _) = context.run(&mut ring, &items)?;
    if submitted != [1, 0, 2] {
        return Err(format!("permitted again, but submitted {submitted:?}").into());
    }
    // A kernel thread has the credentials of the ring's creator.
    let mut polled = context.ring(Kind::Polled)?;
    without_capability(|| polled.probe())??;
    Ok("EPERM while forbidden, in the ring's order; a polled ring keeps its creator's".to_owned())
}

fn restricted_rings(context: &mut Context) -> Outcome {
    require_flag(context)?;
    let mut without = Ring::restricted(io_uring::squeue::Flags::IO_LINK)?;
    for _ in 0..2 {
        match without.probe() {
            Err(error) if is(&error, Errno::ACCESS) => {}
            other => return Err(format!("without permission: {other:?}").into()),
        }
    }
    let mut with = Ring::restricted(URGENT)?;
    with.probe()?;
    let (submitted, _) = context.run(&mut with, &order::parse("n n u"))?;
    if submitted != [2, 0, 1] {
        return Err(format!("with permission: {submitted:?}").into());
    }
    Ok("EACCES unless the ring allows the flag".to_owned())
}

fn require_flag(context: &Context) -> io::Result<()> {
    if context.has_flag {
        Ok(())
    } else {
        Err(io::Error::other("the kernel does not know the flag"))
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}
