//! The behaviours of the library on every driver: one body per behaviour, run in every place in
//! which it can hold.
//!
//! `cargo test -p uthread --test behaviours -- FILTER` runs those whose `module::behaviour [place]`
//! contains the filter.

mod fixtures;
mod harness;
mod support;

mod backtraces;
mod dedicated;
mod fibers;
mod identity;
mod join;
mod join_set;
mod locals;
mod locals_end;
mod mirror;
mod no_memory;
mod panic_messages;
mod panics;
mod thread_builder;
mod thread_ends;

mod abandoned;
mod block_on;
mod broadcast;
mod channels;
mod channels_runtime;
mod mpmc;
mod oneshot;
mod promise;
mod select;
mod select_ends;
mod select_ready;
mod select_runtime;
mod watch;

mod condvars_barriers_semaphores;
mod futexes;
mod locks;
mod locks_as_std;
mod locks_cancelled;
mod onces;
mod polling_calls;
mod polling_loops;

mod closed_elsewhere;
mod inherited;
mod net;
mod net_addresses;
mod net_empty_buffers;
mod net_faults;
mod net_lasting;
mod net_options;
mod net_timeouts;
mod net_urgent;
mod send_file;
mod serve;
mod splice;
mod udp;
mod udp_options;
mod unix;
mod unix_datagrams;
mod unix_fds;

mod directories;
mod file_limits;
mod file_opening;
mod file_positions;
mod files;
mod files_beyond_std;
mod files_vectored;
mod locked_files;
mod names_of_files;
mod pipe_ends;
mod pipes;

mod standard_input;
mod standard_output;

mod forks;
mod process_faults;
mod processes;
mod signal_stacks;
mod signals;

mod conversions;
mod durations;
mod errors_as_std;

mod multishot;
mod multishot_receives;
mod raw_chains;
mod raw_requests;
mod read_file;
mod registered_buffers;
mod registered_files;
mod registered_files_end;

mod blocking_threads;
mod cancel;
mod deadlines;
mod dedicated_ends;
mod descriptors_as_std;
mod diagnosis;
mod idle;
mod process_exit;
mod runtime_ends;
mod shield;
mod shutdown;
mod starved_pool;
mod try_scope;
mod unwinding;

mod active_workers;
mod allocations;
mod context;
mod foreign_blocking;
mod larger_stacks;
mod migration;
mod overflow;
mod own_tls;
mod own_tls_faults;
mod shared_fibers;
mod shared_stacks;
mod stack_trimming;
mod started_requests;
mod stealing;
mod stuck_workers;
mod taken_workers;
mod timers;

// Last, beside each other: what takes turns or time is disturbed by what needs many threads.
mod fairness;
mod listed_fibers;
mod metrics;
mod metrics_queues;
mod priorities;
mod stall_backtraces;
mod stalls;

use std::process::ExitCode;

macro_rules! modules {
    ($($module:ident),* $(,)?) => {
        [$((stringify!($module), $module::BEHAVIOURS)),*]
    };
}

/// All modules, in the order in which they run.
const MODULES: &[harness::Module] = &modules![
    thread_builder,
    dedicated,
    fibers,
    join,
    join_set,
    locals,
    locals_end,
    mirror,
    identity,
    no_memory,
    panics,
    backtraces,
    thread_ends,
    channels,
    channels_runtime,
    abandoned,
    block_on,
    broadcast,
    mpmc,
    oneshot,
    promise,
    select,
    select_ends,
    select_ready,
    select_runtime,
    watch,
    locks,
    locks_as_std,
    locks_cancelled,
    condvars_barriers_semaphores,
    futexes,
    onces,
    polling_calls,
    polling_loops,
    net,
    net_addresses,
    net_empty_buffers,
    closed_elsewhere,
    inherited,
    net_faults,
    net_lasting,
    net_options,
    net_timeouts,
    net_urgent,
    udp,
    udp_options,
    unix,
    unix_datagrams,
    unix_fds,
    send_file,
    serve,
    splice,
    directories,
    file_limits,
    files,
    files_beyond_std,
    files_vectored,
    locked_files,
    names_of_files,
    file_opening,
    pipe_ends,
    pipes,
    file_positions,
    standard_input,
    standard_output,
    process_faults,
    forks,
    processes,
    signal_stacks,
    signals,
    conversions,
    durations,
    errors_as_std,
    multishot,
    multishot_receives,
    registered_buffers,
    registered_files,
    registered_files_end,
    raw_requests,
    raw_chains,
    read_file,
    cancel,
    deadlines,
    descriptors_as_std,
    dedicated_ends,
    runtime_ends,
    process_exit,
    diagnosis,
    idle,
    shield,
    try_scope,
    shutdown,
    blocking_threads,
    starved_pool,
    unwinding,
    migration,
    overflow,
    foreign_blocking,
    taken_workers,
    active_workers,
    allocations,
    context,
    larger_stacks,
    own_tls,
    own_tls_faults,
    shared_fibers,
    shared_stacks,
    stealing,
    stuck_workers,
    timers,
    stack_trimming,
    started_requests,
    fairness,
    priorities,
    listed_fibers,
    metrics,
    metrics_queues,
    stalls,
    stall_backtraces,
    panic_messages,
];

fn main() -> ExitCode {
    harness::run(MODULES)
}
