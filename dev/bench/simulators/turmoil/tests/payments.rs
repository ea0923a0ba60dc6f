//! The service of `payments.rs` in the network of turmoil.

use std::time::Duration;

use simulator_turmoil::account::Account;
use simulator_turmoil::payments;
use tokio::time::sleep;
use turmoil::Builder;

/// Runs a server, and a client whose answers are lost for a while. Returns what the client finds.
fn with_a_cut_link(seed: u64, account: fn() -> Account) -> turmoil::Result {
    let mut sim = Builder::new()
        .rng_seed(seed)
        .enable_random_order()
        .simulation_duration(Duration::from_secs(60))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(100))
        .build();
    sim.host("server", move || async move {
        Ok(payments::server(account()).await?)
    });
    sim.client("client", async {
        match payments::client().await? {
            10 => Ok(()),
            balance => Err(format!("the balance is {balance}").into()),
        }
    });
    sim.client("operator", async {
        // Most latencies are short: their distribution is exponential.
        sleep(Duration::from_millis(500)).await;
        turmoil::partition_oneway("server", "client");
        sleep(Duration::from_secs(3)).await;
        turmoil::repair_oneway("server", "client");
        Ok(())
    });
    sim.run()
}

#[test]
fn some_seed_finds_a_payment_that_counts_twice() {
    let found = (0..10).find_map(|seed| with_a_cut_link(seed, Account::default).err());
    assert!(found.unwrap().to_string().starts_with("the balance is"));
}

#[test]
fn each_numbered_payment_counts_once() {
    for seed in 0..100 {
        with_a_cut_link(seed, Account::numbered)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
