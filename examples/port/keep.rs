//! `keep` on fibers: the program of the folder `std`, which the build script ports.

include!(concat!(env!("OUT_DIR"), "/keep/main.rs"));
