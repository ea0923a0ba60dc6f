//! The time-stamp counter.

use std::arch::asm;
use std::time::{Duration, Instant};

use crate::drivers::on_each_driver;

const HOUR: Duration = Duration::from_secs(3600);

#[allow(unsafe_code, reason = "an instruction")]
fn rdtsc() -> u64 {
    // SAFETY: each CPU of this kind has it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Returns the counter, and the number of the CPU.
#[allow(unsafe_code, reason = "an instruction")]
fn rdtscp() -> (u64, u32) {
    let (low, high, cpu): (u32, u32, u32);
    // SAFETY: as above.
    unsafe { asm!("rdtscp", out("eax") low, out("edx") high, out("ecx") cpu) };
    (u64::from(high) << 32 | u64::from(low), cpu)
}

/// Returns by how many ticks the counter moves in a second.
fn rate() -> f64 {
    let (start, before) = (Instant::now(), rdtsc());
    std::thread::sleep(Duration::from_millis(20));
    (rdtsc() - before) as f64 / start.elapsed().as_secs_f64()
}

#[test]
fn the_counter_is_virtual() {
    let rate = rate();
    on_each_driver(move || {
        let before = rdtsc();
        assert!((before + 1..before + 1000).contains(&rdtsc()));
        let (later, cpu) = rdtscp();
        assert!((before + 1..before + 1000).contains(&later));
        assert_eq!(cpu, 0);
        uthread::sleep(HOUR);
        let hours = (rdtsc() - before) as f64 / rate / HOUR.as_secs_f64();
        assert!((0.98..1.02).contains(&hours), "{hours}");
        let between = uthread::spawn(rdtsc).join().unwrap();
        assert!((between + 1..between + 1000).contains(&rdtsc()));
    });
}

#[test]
fn loops_that_read_the_counter_end() {
    let second = rate() as u64;
    on_each_driver(move || {
        let (start, before) = (Instant::now(), rdtsc());
        while rdtsc() - before < second / 10 {}
        assert!((90..110).contains(&start.elapsed().as_millis()));
    });
}

#[test]
fn threads_outside_have_the_real_counter() {
    let second = rate() as u64;
    on_each_driver(move || {
        let runtime = uthread::Runtime::new().unwrap();
        let before = rdtsc();
        uthread::sleep(HOUR);
        assert!(runtime.run(rdtsc) < before + second);
    });
}

#[test]
fn processes_have_the_real_counter() {
    /// By the vDSO.
    const DATE: &str = "date > /dev/null";
    on_each_driver(|| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", DATE]);
        assert!(command.status().unwrap().success());
        // SAFETY: nothing is done before the program begins.
        #[allow(unsafe_code, reason = "lets `std` fork")]
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(&mut command, || Ok(()));
        }
        assert!(command.status().unwrap().success());
        let mut command = uthread::process::Command::new("sh");
        command.args(["-c", DATE]);
        assert!(command.status().unwrap().success());
        let date = std::ffi::CString::new(DATE).unwrap();
        // SAFETY: it is a string of C.
        #[allow(unsafe_code, reason = "a function of the C library")]
        let status = unsafe { libc::system(date.as_ptr()) };
        assert_eq!(status, 0);
        // SAFETY: as above.
        #[allow(unsafe_code, reason = "a function of the C library")]
        let pipe = unsafe { libc::popen(date.as_ptr(), c"r".as_ptr()) };
        // SAFETY: it was opened above.
        #[allow(unsafe_code, reason = "a function of the C library")]
        let status = unsafe { libc::pclose(pipe) };
        assert_eq!(status, 0);
        let before = rdtsc();
        uthread::sleep(HOUR);
        assert!(rdtsc() - before > 1_000_000_000_000, "virtual as before");
    });
}

#[test]
fn the_vdso_has_the_real_counter() {
    fn now() -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        time.try_into().unwrap()
    }
    let before = now();
    on_each_driver(move || {
        uthread::sleep(HOUR);
        let elapsed = now() - before;
        assert!(elapsed < Duration::from_secs(300), "{elapsed:?}");
    });
}
