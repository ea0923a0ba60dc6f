//! A payment that counts twice, found by shuttle: the service of `bindings/simulation/src/first_test.rs`, with channels
//! in the place of connections. There is no time: an answer that is lost takes its channel with it, and a client whose
//! answer does not come pays again.

use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::sync::mpsc::{Receiver, RecvError, Sender, channel};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

#[path = "../../account.rs"]
mod account;

pub use account::Account;

pub struct Payment {
    number: u64,
    amount: u64,
    answer: Sender<u64>,
}

/// Takes payments, each in a thread of its own, and answers with the balance while the link is not cut.
pub fn server(payments: &Receiver<Payment>, account: Account, is_cut: &Arc<AtomicBool>) {
    let account = Arc::new(Mutex::new(account));
    for payment in payments {
        let (account, is_cut) = (Arc::clone(&account), Arc::clone(is_cut));
        thread::spawn(move || {
            let balance = account.lock().unwrap().pay(payment.number, payment.amount);
            if !is_cut.load(Ordering::SeqCst) {
                payment.answer.send(balance).unwrap();
            }
        });
    }
}

/// Pays ten times. Returns the balance.
pub fn client(server: &Sender<Payment>) -> u64 {
    for number in 0..10 {
        pay(server, number, 1);
    }
    pay(server, 10, 0)
}

/// Pays, again if there is no answer. Returns the balance.
fn pay(server: &Sender<Payment>, number: u64, amount: u64) -> u64 {
    loop {
        if let Ok(balance) = try_to_pay(server, number, amount) {
            return balance;
        }
        thread::yield_now();
    }
}

fn try_to_pay(server: &Sender<Payment>, number: u64, amount: u64) -> Result<u64, RecvError> {
    let (answer, balance) = channel();
    let payment = Payment {
        number,
        amount,
        answer,
    };
    server.send(payment).unwrap();
    balance.recv()
}
