//! Memory of tasks. Another process reads it at each stage.

use std::hint::black_box;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::gate::Gate;
use super::stack::{descend, stage};

/// Runs tasks that call functions that use `kib` KiB of the worker's stack, and wait after these
/// have returned.
pub(crate) fn returned(count: usize, kib: usize) {
    peak(count, |runtime, gate| {
        runtime.spawn(async move {
            descend(kib, &mut || ());
            gate.pass(count).await;
        })
    });
}

/// Runs tasks that keep `kib` KiB while they wait, and so in their futures.
pub(crate) fn held(count: usize, kib: usize) {
    peak(count, |runtime, gate| match kib {
        1 => runtime.spawn(hold::<1024>(gate, count)),
        8 => runtime.spawn(hold::<8192>(gate, count)),
        64 => runtime.spawn(hold::<65536>(gate, count)),
        _ => panic!("no future of {kib} KiB"),
    });
}

async fn hold<const BYTES: usize>(gate: Arc<Gate>, count: usize) {
    let mut block = [1_u8; BYTES];
    black_box(&mut block);
    gate.pass(count).await;
    black_box(&block);
}

fn peak(count: usize, spawn: impl Fn(&Runtime, Arc<Gate>) -> JoinHandle<()>) {
    let runtime = Builder::new_multi_thread().worker_threads(1).build();
    let runtime = runtime.expect("a runtime");
    stage("before");
    let gate = Gate::new();
    let tasks: Vec<_> = (0..count)
        .map(|_| spawn(&runtime, Arc::clone(&gate)))
        .collect();
    runtime.block_on(gate.all_begun.notified());
    stage("peak");
    gate.open.close();
    for task in tasks {
        runtime.block_on(task).expect("the task does not panic");
    }
    stage("ended");
}
