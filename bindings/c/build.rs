//! Gives the shared library its soname, which changes with what programs that are linked with it can
//! see.

fn main() {
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libuthread_ring.so.{major}");
    println!("cargo::rerun-if-changed=build.rs");
}
