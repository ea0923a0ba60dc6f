//! Ends of fibers and processes, signals and cancellation as arms of a selection, and joins with a
//! timeout.

use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{getpid, kill_process};
use uthread::process::Command;
use uthread::signal::{Signal, Signals};
use uthread::sync::{mpsc, oneshot, select};
use uthread::thread::Cancelled;
use uthread::{JoinHandle, scope, shield, sleep, spawn, timeout};

use crate::harness::child::run_alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, behaviours};
use crate::support::{Flag, HANG, HOUR, SHORT};

behaviours![
    (
        EVERYWHERE,
        [
            the_end_of_a_fiber_is_selected,
            a_handle_is_unchanged_if_another_arm_is_selected,
            one_of_many_fibers_that_end_is_selected,
            the_end_of_a_scoped_fiber_is_selected,
            a_join_ends_in_time_or_returns_the_handle,
            the_end_of_a_process_is_selected,
            a_signal_is_selected,
        ]
    ),
    (
        IN_FIBERS,
        [
            a_cancellation_is_selected,
            a_deadline_is_selected_as_a_cancellation,
            a_selection_is_not_cancelled_in_a_shield,
            a_join_with_a_timeout_ends_early_in_a_cancelled_fiber,
        ]
    ),
];

fn the_end_of_a_fiber_is_selected(place: Place) {
    place.run(|| {
        for pause in [Duration::ZERO, SHORT] {
            let mut fiber = spawn(move || {
                sleep(pause);
                7
            });
            select! {
                ended(&mut fiber) => assert_eq!(fiber.join().unwrap(), 7),
                after(HANG) => panic!("the fiber does not end"),
            }
            let mut panicking = spawn(|| std::panic::resume_unwind(Box::new("a bug")));
            select! { ended(&mut panicking) => {} };
            let result: thread::Result<()> = panicking.join();
            assert_eq!(result.unwrap_err().downcast_ref(), Some(&"a bug"));
        }
    });
}

fn a_handle_is_unchanged_if_another_arm_is_selected(place: Place) {
    place.run(|| {
        let (end, ending) = mpsc::channel();
        let mut fiber = spawn(move || ending.recv().unwrap());
        for _ in 0..3 {
            select! {
                ended(&mut fiber) => panic!("the fiber ended while it was waiting"),
                after(SHORT) => {}
            }
            select! {
                ended(&mut fiber) => panic!("the fiber ended while it was waiting"),
                default => {}
            }
        }
        end.send(7).unwrap();
        assert_eq!(fiber.join().unwrap(), 7);
    });
}

fn one_of_many_fibers_that_end_is_selected(place: Place) {
    place.run(|| {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..10).map(|_| oneshot::channel()).unzip();
        let start = |receiver: oneshot::Receiver<usize>| spawn(move || receiver.recv().unwrap());
        let mut fibers: Vec<JoinHandle<usize>> = receivers.into_iter().map(start).collect();
        for (number, sender) in senders.into_iter().enumerate().rev() {
            sender.send(number).unwrap();
            let mut arms: Vec<_> = fibers.iter_mut().map(select::ended).collect();
            let mut selected: Vec<_> = arms
                .iter_mut()
                .map(|arm| arm as &mut dyn select::Select)
                .collect();
            let ended = select::select(&mut selected);
            assert_eq!(ended, number);
            assert_eq!(fibers.remove(ended).join().unwrap(), number);
        }
    });
}

fn the_end_of_a_scoped_fiber_is_selected(place: Place) {
    place.run(|| {
        let local = String::from("borrowed");
        scope(|scope| {
            let mut fiber = scope.spawn(|| local.len());
            select! { ended(&mut fiber) => assert_eq!(fiber.join().unwrap(), local.len()) };
            let waiting = scope.spawn(|| sleep(HOUR));
            let waiting = waiting.join_timeout(SHORT).unwrap_err();
            waiting.cancel();
            assert!(waiting.join_timeout(HANG).unwrap().is_err());
        });
    });
}

fn a_join_ends_in_time_or_returns_the_handle(place: Place) {
    place.run(|| {
        let (end, ending) = mpsc::channel();
        let mut fiber = spawn(move || ending.recv().unwrap());
        for timeout in [Duration::ZERO, SHORT] {
            let start = Instant::now();
            fiber = fiber.join_timeout(timeout).unwrap_err();
            assert!(start.elapsed() >= timeout);
        }
        end.send(7).unwrap();
        assert_eq!(fiber.join_timeout(HANG).unwrap().unwrap(), 7);
    });
}

fn the_end_of_a_process_is_selected(place: Place) {
    place.run(|| {
        let mut sleeping = Command::new("sleep").arg("3600").spawn().unwrap();
        select! {
            exited(&sleeping) => panic!("the process ended while it was sleeping"),
            after(SHORT) => {}
        }
        sleeping.kill().unwrap();
        // The second time, the process has been waited for.
        for _ in 0..2 {
            select! {
                exited(&sleeping) -> exited => exited.unwrap(),
                after(HANG) => panic!("the process was killed, but has not exited"),
            }
            assert!(!sleeping.wait().unwrap().success());
        }
    });
}

fn a_signal_is_selected(place: Place) {
    run_alone(place, || {
        let mut signals = Signals::new([Signal::USR1, Signal::USR2]).unwrap();
        let (sender, mut receiver) = mpsc::channel();
        for signal in [Signal::USR1, Signal::USR2] {
            select! {
                recv(&mut signals) => panic!("a signal was received, but none was sent"),
                after(SHORT) => {}
            }
            let signals = &mut signals;
            let select = move || {
                let received = select! {
                    recv(&receiver) => panic!("nothing was sent"),
                    recv(signals) -> received => received,
                };
                (received, receiver)
            };
            let send = || {
                let signal = rustix::process::Signal::from_named_raw(signal.as_raw());
                kill_process(getpid(), signal.unwrap()).unwrap();
            };
            let received;
            (received, receiver) = place.meanwhile(select, send);
            assert_eq!(received.unwrap(), signal);
        }
        sender.send(()).unwrap();
        select! { recv(&receiver) -> received => assert_eq!(received, Ok(())) };
    });
}

fn a_cancellation_is_selected(place: Place) {
    place.run(|| {
        let (begun, begin) = mpsc::channel();
        let (_sender, receiver) = mpsc::channel::<()>();
        let fiber = spawn(move || {
            begun.send(()).unwrap();
            select! {
                recv(&receiver) => panic!("nothing was sent"),
                cancelled() => {}
            }
            // Calls that wait are still refused.
            uthread::fs::metadata(".").unwrap_err().raw_os_error()
        });
        begin.recv().unwrap();
        fiber.cancel();
        assert_eq!(fiber.join().unwrap(), Some(Errno::CANCELED.raw_os_error()));
    });
}

fn a_deadline_is_selected_as_a_cancellation(place: Place) {
    place.run(|| {
        let (_sender, receiver) = mpsc::channel::<()>();
        let start = Instant::now();
        let selected = timeout(SHORT, || {
            select! {
                recv(&receiver) => false,
                cancelled() => true,
            }
        });
        assert_eq!(selected, Ok(true));
        assert!(start.elapsed() >= SHORT);
    });
}

fn a_selection_is_not_cancelled_in_a_shield(place: Place) {
    place.run(|| {
        let (begun, begin) = mpsc::channel();
        let (sender, receiver) = mpsc::channel();
        let (is_cancelled, selects) = (Flag::default(), Flag::default());
        let fiber = spawn({
            let (is_cancelled, selects) = (is_cancelled.clone(), selects.clone());
            move || {
                begun.send(()).unwrap();
                shield(|| is_cancelled.wait());
                shield(|| {
                    selects.raise();
                    select! {
                        recv(&receiver) -> number => number.unwrap(),
                        cancelled() => 0,
                    }
                })
            }
        });
        begin.recv().unwrap();
        fiber.cancel();
        is_cancelled.raise();
        selects.wait();
        sender.send(7).unwrap();
        assert_eq!(fiber.join().unwrap(), 7);
    });
}

fn a_join_with_a_timeout_ends_early_in_a_cancelled_fiber(place: Place) {
    place.run(|| {
        let (begun, begin) = mpsc::channel();
        let fiber = spawn(move || {
            let sleeping = spawn(|| sleep(HOUR));
            begun.send(()).unwrap();
            let sleeping = sleeping.join_timeout(HOUR).unwrap_err();
            sleeping.cancel();
            shield(|| sleeping.join().unwrap_err().is::<Cancelled>())
        });
        begin.recv().unwrap();
        fiber.cancel();
        assert!(fiber.join().unwrap());
    });
}
