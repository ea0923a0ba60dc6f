//! The service of `payments.rs` in the network of madsim. Some of a hundred seeds find the payment that counts twice.

#![cfg(madsim)]

use std::time::Duration;

use madsim::net::NetSim;
use madsim::runtime::Handle;
use simulator_madsim::account::Account;
use simulator_madsim::payments;
use tokio::time::sleep;

/// Runs a server, and a client whose answers are held back for a while. Returns what the client finds.
async fn with_a_cut_link(account: fn() -> Account) -> u64 {
    let (handle, net) = (Handle::current(), NetSim::current());
    net.update_config(|config| {
        config.send_latency = Duration::from_millis(1)..Duration::from_millis(100)
    });
    net.add_dns_record("server", [10, 0, 0, 1].into());
    let server = handle.create_node().name("server").ip([10, 0, 0, 1].into());
    let server = server
        .init(move || async move { payments::server(account()).await.unwrap() })
        .build();
    let client = handle
        .create_node()
        .name("client")
        .ip([10, 0, 0, 2].into())
        .build();
    let balance = client.spawn(payments::client());
    sleep(Duration::from_secs(1)).await;
    net.clog_link(server.id(), client.id());
    sleep(Duration::from_secs(3)).await;
    net.unclog_link(server.id(), client.id());
    balance.await.unwrap().unwrap()
}

#[madsim::test]
#[should_panic(expected = "the balance is wrong")]
async fn a_payment_counts_twice() {
    assert_eq!(
        with_a_cut_link(Account::default).await,
        10,
        "the balance is wrong"
    );
}

#[madsim::test]
async fn each_numbered_payment_counts_once() {
    assert_eq!(with_a_cut_link(Account::numbered).await, 10);
}
