//! The service with channels, in many orders of its threads.

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::sync::mpsc::channel;
use shuttle::thread;
use simulator_shuttle::{Account, client, server};

/// Runs a server, and a client whose answers are lost for a while. Returns what the client finds.
fn with_a_cut_link(account: fn() -> Account) -> u64 {
    let is_cut = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = channel();
    let link = Arc::clone(&is_cut);
    thread::spawn(move || server(&receiver, account(), &link));
    let client = thread::spawn(move || client(&sender));
    is_cut.store(true, Ordering::SeqCst);
    is_cut.store(false, Ordering::SeqCst);
    client.join().unwrap()
}

#[test]
#[should_panic(expected = "the balance is wrong")]
fn some_order_finds_a_payment_that_counts_twice() {
    let test = || {
        assert_eq!(
            with_a_cut_link(Account::default),
            10,
            "the balance is wrong"
        )
    };
    // One order of a hundred has a payment at the one moment when the link is cut.
    shuttle::check_random(test, 10_000);
}

#[test]
fn each_numbered_payment_counts_once() {
    shuttle::check_random(|| assert_eq!(with_a_cut_link(Account::numbered), 10), 100);
}
