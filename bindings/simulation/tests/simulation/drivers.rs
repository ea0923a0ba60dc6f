//! Running a test with each driver.

use uthread::{Driver, Runtime};

/// Runs `body` in virtual time, with each driver.
pub(crate) fn on_each_driver(body: impl FnOnce() + Send + Copy + 'static) {
    for driver in [Driver::Uring, Driver::Epoll] {
        let builder = uthread_simulation::virtual_time(Runtime::builder().driver(driver));
        match builder.build() {
            Ok(runtime) => runtime.run(body),
            Err(error) => assert!(driver == Driver::Uring, "{error}"), // A container may refuse it.
        }
    }
}
