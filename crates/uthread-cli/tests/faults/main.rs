//! `uthread serve` and `uthread tunnel` in a simulated network with faults, under seeds: see
//! [`uthread_simulation::World`].

#![cfg(all(target_env = "gnu", target_arch = "x86_64"))]

mod client;
mod harness;

mod serve;
mod tunnel;
