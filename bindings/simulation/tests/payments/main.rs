//! The programs of the chapter `first_test`: one that pays twice, and one that does not.

#[allow(unreachable_pub, reason = "a library in the chapter")]
mod numbered;
#[allow(unreachable_pub, reason = "a library in the chapter")]
mod service;

use std::io;
use std::time::Duration;

use uthread::Runtime;
use uthread_simulation::World;

/// Runs a server, and a client whose answers are lost for a while. Returns what the client finds.
fn with_a_cut_link(
    server: fn() -> io::Result<()>,
    client: fn() -> io::Result<()>,
) -> io::Result<()> {
    let world = World::new()?;
    let latency = Duration::from_millis(1)..Duration::from_millis(100);
    world.links().set_latency(latency);
    world.host("server", server);
    let client = world.host("client", client);
    uthread::sleep(Duration::from_secs(1));
    world.link("server", "client").cut();
    uthread::sleep(Duration::from_secs(3));
    world.links().heal();
    client.wait()
}

fn check(balance: u64) -> io::Result<()> {
    if balance == 10 {
        return Ok(());
    }
    Err(io::Error::other(format!("the balance is {balance}")))
}

#[test]
fn some_seed_finds_a_payment_that_counts_twice() {
    let client = || {
        for _ in 0..10 {
            service::pay("server:7000", 1)?;
        }
        check(service::pay("server:7000", 0)?)
    };
    let found = (0..10).find_map(|seed| {
        let builder = uthread_simulation::seeded(Runtime::builder(), seed);
        let run = || with_a_cut_link(service::server, client);
        builder.build().unwrap().run(run).err()
    });
    assert_eq!(found.unwrap().to_string(), "the balance is 11");
}

#[uthread::test(virtual_time, seeds = 100)]
fn each_numbered_payment_counts_once() {
    let client = || {
        for number in 0..10 {
            numbered::pay("server:7000", number, 1)?;
        }
        check(numbered::pay("server:7000", 10, 0)?)
    };
    with_a_cut_link(numbered::server, client).unwrap();
}
