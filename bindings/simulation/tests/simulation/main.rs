//! Tests in virtual time.
//!
//! | module | contents |
//! | --- | --- |
//! | [`drivers`] | running a test with each driver |
//! | [`clocks`] | hosts whose clocks drift |
//! | [`contents`] | changes of files that are no writes |
//! | [`counter`] | the time-stamp counter |
//! | [`crates`] | crates that know nothing of virtual time |
//! | [`database`] | a client of a database, in a world |
//! | [`entries`] | directories of a disk |
//! | [`escapes`] | what leaves a world |
//! | [`full`] | connections of a world that hold what was sent |
//! | [`link`] | links with faults |
//! | [`pause`] | hosts that are paused |
//! | [`seeds`] | what a seed decides |
//! | [`servers`] | the programs of hosts to which others connect |
//! | [`timeline`] | pictures of runs |
//! | [`times`] | how exactly something takes a time |
//! | [`virtual_time`] | what takes virtual time, deadlocks and limits |
//! | [`websocket`] | clients and a server of WebSockets, in a world |
//! | [`world`] | hosts, their network and their disks |

mod clocks;
mod contents;
mod counter;
mod crates;
mod database;
mod drivers;
mod entries;
mod escapes;
mod full;
mod link;
mod pause;
mod seeds;
mod servers;
mod timeline;
mod times;
mod virtual_time;
mod websocket;
mod world;
