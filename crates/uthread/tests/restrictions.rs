//! Restrictions of io_uring as a whole or in part: another mechanism is used, and reported.

mod restrict;
#[path = "restrict/small_program.rs"]
mod small_program;

use std::process::Command;
use std::time::Duration;
use std::{env, io};

use restrict::{ENTER, REGISTER, SETUP, become_user, has_ring, refuse, refuse_where, restricted};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use small_program::works;
use uthread::fs::File;
use uthread::ring::{RegisteredBuffer, RegisteredFile};
use uthread::runtime::{Driver, Feature, Runtime};

/// Set for the processes that this test starts.
const CHILD: &str = "UTHREAD_TEST_CHILD";

/// Runs the test of this name in a process of its own.
fn alone(test: &str, body: fn()) {
    if env::var_os(CHILD).is_some() {
        return body();
    }
    let output = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, test)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success() && said.contains("1 passed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(passed, "{}\n{said}{errors}", output.status);
    eprint!("{errors}");
}

/// Returns the restrictions that make a ring impossible: a container's profile, an old kernel or a
/// profile that hides the call, and one that permits only the setup.
fn refusals() -> Vec<(i64, Errno)> {
    let mut calls = vec![SETUP];
    if has_ring("a ring of which only the beginning is permitted") {
        calls.push(ENTER);
    }
    let each = |call| [(call, Errno::PERM), (call, Errno::NOSYS)];
    calls.into_iter().flat_map(each).collect()
}

#[test]
fn epoll_replaces_the_ring_and_the_reason_is_reported() {
    alone("epoll_replaces_the_ring_and_the_reason_is_reported", || {
        for (call, errno) in refusals() {
            restricted(
                || refuse(&[call], errno),
                || {
                    let runtime = Runtime::builder().workers(2).build().unwrap();
                    assert_eq!(runtime.driver().driver(), Driver::Epoll);
                    let refusal = runtime.driver().refusal().unwrap().to_string();
                    assert!(
                        refusal.contains(&io::Error::from(errno).to_string()),
                        "{refusal}"
                    );
                    assert!(runtime.driver().to_string().contains(&refusal));
                    works(&runtime);
                },
            );
        }
    });
}

#[test]
fn asking_for_a_ring_by_name_reports_the_remedy() {
    alone("asking_for_a_ring_by_name_reports_the_remedy", || {
        for (call, errno) in refusals() {
            restricted(
                || refuse(&[call], errno),
                || {
                    let error = Runtime::builder()
                        .driver(Driver::Uring)
                        .build()
                        .unwrap_err();
                    assert_eq!(error.kind(), io::Error::from(errno).kind());
                    let remedy = match errno {
                        Errno::PERM => "sysctl kernel.io_uring_disabled=0",
                        _ => "Linux 5.11 or newer",
                    };
                    assert!(error.to_string().contains(remedy), "{error}");
                },
            );
        }
    });
}

#[test]
fn the_other_drivers_do_not_mind() {
    alone("the_other_drivers_do_not_mind", || {
        restricted(
            || refuse(&[SETUP, ENTER, REGISTER], Errno::PERM),
            || {
                for driver in [Driver::Epoll, Driver::Threads] {
                    works(&Runtime::builder().driver(driver).build().unwrap());
                }
            },
        );
    });
}

/// Expects wake-ups through an eventfd, and a diagnosis that cannot ask for the operations.
#[test]
fn a_ring_that_takes_no_registration_works() {
    alone("a_ring_that_takes_no_registration_works", || {
        if !has_ring("all of it") {
            return;
        }
        restricted(
            || refuse(&[REGISTER], Errno::PERM),
            || {
                let runtime = Runtime::builder().driver(Driver::Uring).build().unwrap();
                let details = runtime.driver().details();
                assert!(details.contains("eventfd"), "{details}");
                works(&runtime);
                let registered = runtime.run(|| {
                    let file = File::open("Cargo.toml").unwrap();
                    let buffer = RegisteredBuffer::new(1).unwrap();
                    (
                        RegisteredFile::new(file).is_registered(),
                        buffer.is_registered(),
                    )
                });
                assert_eq!(registered, (false, false));
                let diagnosis = uthread::runtime::diagnose();
                let has = |name| find(&diagnosis.ring_features, name);
                assert_eq!(has("message without a ring"), Some(false));
                assert_eq!(has("provided-buffer rings"), Some(false));
                assert_eq!(has("registered buffers"), Some(false));
                assert_eq!(has("fixed files"), Some(false));
                assert_eq!(find(&diagnosis.ring_operations, "accept"), None);
            },
        );
    });
}

/// Runs as a user who may have no more threads: the kernel's thread that polls counts as one.
#[test]
fn where_the_kernel_does_not_poll_workers_enter_it() {
    alone("where_the_kernel_does_not_poll_workers_enter_it", || {
        if !has_ring("a ring for which the kernel does not poll") {
            return;
        }
        if !geteuid().is_root() {
            return eprintln!("left out: a user of whom nobody else is takes root");
        }
        let nobody_else = 1_000_000 + std::process::id();
        restricted(
            || become_user(nobody_else),
            || {
                let before = getrlimit(Resource::Nproc);
                let this_thread_and_the_worker = Rlimit {
                    current: Some(2),
                    ..before
                };
                setrlimit(Resource::Nproc, this_thread_and_the_worker).unwrap();
                let builder = Runtime::builder().driver(Driver::Uring).workers(1);
                let builder = builder.kernel_polling(Duration::from_millis(1)).lean();
                let runtime = builder.stall_threshold(None).build().unwrap();
                setrlimit(Resource::Nproc, before).unwrap();
                let details = runtime.driver().details();
                let refused = format!(
                    ", kernel polling refused: {}",
                    io::Error::from(Errno::AGAIN)
                );
                assert!(details.contains(&refused), "{details}");
                works(&runtime);
            },
        );
    });
}

/// Simulates older kernels, which lack the calls, and report another errno than filters.
#[test]
fn older_ways_stand_in_for_newer_calls() {
    alone("older_ways_stand_in_for_newer_calls", || {
        const MADV_GUARD_INSTALL: u64 = 102;
        const SYS_CACHESTAT: i64 = 451;
        restricted(
            || {
                refuse_where(libc::SYS_madvise, 2, MADV_GUARD_INSTALL, Errno::INVAL);
                let newer = [
                    libc::SYS_process_madvise,
                    libc::SYS_epoll_pwait2,
                    libc::SYS_openat2,
                    SYS_CACHESTAT,
                ];
                refuse(&newer, Errno::NOSYS);
            },
            || {
                let diagnosis = uthread::runtime::diagnose();
                for name in [
                    "guard regions",
                    "cachestat",
                    "epoll waits of less than 1 ms",
                    "epoll opens if cached",
                ] {
                    assert_eq!(
                        find(&diagnosis.system_features, name),
                        Some(false),
                        "{name}"
                    );
                }
                works(&Runtime::builder().driver(Driver::Epoll).build().unwrap());
                works(&Runtime::new().unwrap());
            },
        );
    });
}

/// Simulates a kernel between the one that introduced guard regions and the one that gives advice
/// for many ranges: each region takes a call.
#[test]
fn guards_are_regions_also_where_each_takes_a_call() {
    alone("guards_are_regions_also_where_each_takes_a_call", || {
        let guard_regions = || {
            find(
                &uthread::runtime::diagnose().system_features,
                "guard regions",
            )
        };
        let unrestricted = guard_regions();
        for errno in [Errno::PERM, Errno::NOSYS, Errno::BADF] {
            restricted(
                || refuse(&[libc::SYS_process_madvise], errno),
                || {
                    assert_eq!(guard_regions(), unrestricted);
                    works(&Runtime::new().unwrap());
                },
            );
        }
    });
}

fn find(features: &[Feature], name: &str) -> Option<bool> {
    let feature = features.iter().find(|feature| feature.name == name);
    feature.unwrap().available
}
