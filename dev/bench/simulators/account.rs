//! What the service keeps, in each of the tests.

use std::collections::HashMap;

#[derive(Default)]
pub struct Account {
    balance: u64,
    /// The balances after payments, by the numbers of these; `None` if it forgets them.
    paid: Option<HashMap<u64, u64>>,
}

impl Account {
    /// Counts a payment once.
    pub fn numbered() -> Account {
        Account {
            paid: Some(HashMap::new()),
            ..Account::default()
        }
    }

    pub(crate) fn pay(&mut self, number: u64, amount: u64) -> u64 {
        if let Some(balance) = self.paid.as_ref().and_then(|paid| paid.get(&number)) {
            return *balance;
        }
        self.balance += amount;
        if let Some(paid) = &mut self.paid {
            paid.insert(number, self.balance);
        }
        self.balance
    }
}
