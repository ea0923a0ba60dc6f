//! Tests in virtual time.
//!
//! | module | contents |
//! | --- | --- |
//! | [`drivers`] | running a test with each driver |
//! | [`crates`] | crates that know nothing of virtual time |
//! | [`link`] | links with faults |
//! | [`seeds`] | what a seed decides |
//! | [`virtual_time`] | what takes virtual time, deadlocks and limits |
//! | [`world`] | hosts, their network and their disks |

mod crates;
mod drivers;
mod link;
mod seeds;
mod virtual_time;
mod world;
