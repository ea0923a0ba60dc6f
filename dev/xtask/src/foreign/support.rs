//! Replacements for the helpers that `std`'s tests expect.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use rand::SeedableRng;

/// Items that test files import from the tested module.
pub mod common {
    pub use std::io::prelude::*;
    pub use std::sync::Arc;
    pub use std::time::{Duration, Instant};
}

pub struct TempDir(PathBuf);

impl TempDir {
    pub fn join(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn tmpdir() -> TempDir {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("std-{}-{number}", std::process::id());
    let path = env::temp_dir().join(name);
    fs::create_dir(&path).unwrap();
    TempDir(path)
}

pub fn test_rng() -> rand_xorshift::XorShiftRng {
    SeedableRng::seed_from_u64(7)
}

/// Tests run in separate processes, so each needs its own ports.
fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = (std::process::id() % 1_000) as u16 * 20;
    10_000 + own + NEXT.fetch_add(1, Ordering::Relaxed)
}

pub fn next_test_ip4() -> SocketAddr {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port()).into()
}

pub fn next_test_ip6() -> SocketAddr {
    SocketAddrV6::new(Ipv6Addr::LOCALHOST, port(), 0, 0).into()
}

pub fn sa4(address: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddrV4::new(address, port).into()
}

pub fn sa6(address: Ipv6Addr, port: u16) -> SocketAddr {
    SocketAddrV6::new(address, port, 0, 0).into()
}

pub fn tsa<A: ToSocketAddrs>(addresses: A) -> Result<Vec<SocketAddr>, String> {
    let found = addresses.to_socket_addrs();
    found.map(Iterator::collect).map_err(|error| error.to_string())
}
