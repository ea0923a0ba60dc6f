//! Which driver runs a program, and how to get io_uring in a container.
//!
//! A *driver* carries the operations of fibers to the kernel. All fibers of a runtime use the same driver:
//!
//! | [`Driver`](crate::Driver) | mechanism | when |
//! | --- | --- | --- |
//! | [`Uring`](crate::Driver::Uring) | one io_uring instance per worker; a batch of operations takes one system call | the default where the kernel allows it: Linux 5.11 or newer, best from 6.13 on |
//! | [`Epoll`](crate::Driver::Epoll) | one epoll instance per worker and non-blocking system calls; files go to a pool of threads unless they are in the page cache | the default where io_uring is forbidden or missing |
//! | [`Threads`](crate::Driver::Threads) | one OS thread per fiber and blocking system calls | on request: to debug, and to compare |
//!
//! A program behaves the same on each. With `Threads`, fibers run in parallel and thread-locals belong to the fiber.
//!
//! # Choose a driver
//!
//! By default the runtime tries io_uring when it starts, and falls back to epoll if the kernel refuses. The environment variable
//! `UTHREAD_DRIVER` overrides the default, and [`Builder::driver`](crate::Builder::driver) overrides both. An explicit choice never
//! falls back: [`Builder::build`](crate::Builder::build) returns an error instead.
//!
//! ```sh
//! UTHREAD_DRIVER=epoll ./my-server
//! ```
//!
//! ```
//! use uthread::{Driver, Runtime};
//!
//! let runtime = Runtime::builder().driver(Driver::Epoll).build()?;
//! assert_eq!(runtime.driver().driver(), Driver::Epoll);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! [`Runtime::driver`](crate::Runtime::driver) reports the driver that was chosen and why. Log it when a server starts:
//!
//! ```
//! let runtime = uthread::Runtime::new()?;
//! eprintln!("driver: {}", runtime.driver());
//! if let Some(error) = runtime.driver().refusal() {
//!     eprintln!("no io_uring: {error}");
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Containers
//!
//! Three settings can forbid io_uring:
//!
//! | what forbids it | the kernel's error | how to allow it |
//! | --- | --- | --- |
//! | the seccomp profile: the defaults of Docker, containerd and Podman forbid io_uring | `EPERM`, or `ENOSYS` | add `io_uring_setup`, `io_uring_enter` and `io_uring_register` to a copy of the profile, and pass it with `--security-opt seccomp=FILE` |
//! | the sysctl `kernel.io_uring_disabled`: 1 restricts io_uring to one group and to administrators, 2 disables it | `EPERM` | on the host: `sysctl -w kernel.io_uring_disabled=0` |
//! | a security module, such as SELinux or AppArmor | `EACCES` or `EPERM` | the kernel log names the rule |
//!
//! Two limits can be too low for it:
//!
//! - Locked memory (`ulimit -l`): rings count against it, except on Linux 5.12 to 6.13, and so does registered memory. Where it is too
//!   low for a ring of full size, the runtime takes a smaller one.
//! - Open files (`ulimit -n`): each worker needs a few descriptors.
//!
//! Without io_uring a program runs on epoll, with all features but these: [`ring::submit`](crate::ring::submit) returns
//! [`Unsupported`](std::io::ErrorKind::Unsupported), and registered memory and files are used like ordinary ones.
//! The file `docs/results/drivers.md` of the repository compares their speed and memory.
//!
//! # `uthread doctor`
//!
//! `uthread doctor` tries every feature on the machine at hand. It prints the driver and the reason for it, the features of the
//! kernel with the replacement for each missing one, the limits and what they allow, a self-test of each driver, and the commands that
//! help. Run it in the container that the server runs in. `--json` prints the same for machines.
//!
//! [`diagnose`](crate::diagnose) returns the same findings to a program:
//!
//! ```
//! for feature in uthread::diagnose().ring_features {
//!     if feature.available == Some(false) {
//!         println!("{} is missing; instead: {}", feature.name, feature.instead);
//!     }
//! }
//! ```
//!
//! # Debug with threads
//!
//! With `UTHREAD_DRIVER=threads` debuggers, profilers and sanitizers see ordinary threads. A program that hangs on workers but not on
//! threads blocks a worker: see [`blocking`](super::blocking).
//!
//! ---
//!
//! [Previous: channels](super::channels) | [Contents](super) | [Next: from threads](super::from_threads)
