//! Fibers that wait forever, or run without end, until their runtime is dropped.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use uthread::net::TcpListener;
use uthread::thread::park;
use uthread::{JoinHandle, blocking, scope, sleep, yield_now};

use super::streams::connection;
use crate::messages::Ledger;
use crate::random::{Choices as _, Random};
use crate::stage::{Stage, broken, join, join_all, spawn};

const LONG: Duration = Duration::from_secs(3600);

type Endless = fn(&Arc<Stage>, Random) -> io::Result<()>;

const ENDLESS: &[(&str, Endless)] = &[
    ("an endless sleep", |_, _| {
        sleep(LONG);
        Ok(())
    }),
    ("an endless park", |_, _| {
        loop {
            park();
        }
    }),
    ("endless yields", |_, mut random| {
        loop {
            yield_now();
            if random.percent(10) {
                sleep(random.pause(1000));
            }
        }
    }),
    ("an endless read", |_, mut random| {
        let (mut client, _server) = connection(&mut random)?;
        client.set_read_timeout(random.percent(50).then_some(LONG))?;
        client.read(&mut [0; 100]).map(drop)
    }),
    ("an endless accept", |_, _| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.accept().map(drop)
    }),
    ("an accept loop that ignores errors", |stage, _| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        loop {
            if listener.accept().is_ok() && !stage.is_cut() {
                return Err(broken("nobody had connected"));
            }
        }
    }),
    ("an endless join", |stage, _| {
        join(spawn(stage, |_| {
            loop {
                park();
            }
        }))
    }),
    ("an endless scope", |_, _| {
        let mut borrowed = 0;
        scope(|scope| {
            scope.spawn(|| sleep(LONG));
            scope.spawn(|| {
                borrowed += 1;
                sleep(LONG);
            });
        });
        Ok(())
    }),
    ("endless blocking calls", |_, mut random| {
        loop {
            blocking(|| std::thread::sleep(random.pause(2000)));
        }
    }),
    ("a wait in a destructor", |_, _| {
        let _sleeps = SleepsInDrop;
        sleep(LONG);
        Ok(())
    }),
    ("an endless stream", stream),
];

struct SleepsInDrop;

impl Drop for SleepsInDrop {
    fn drop(&mut self) {
        sleep(LONG);
        park();
        yield_now();
    }
}

/// Streams in both directions, in pieces that may be cut anywhere.
fn stream(stage: &Arc<Stage>, mut random: Random) -> io::Result<()> {
    let (client, server) = connection(&mut random)?;
    let ends = [
        Ledger::open(stage, client.try_clone()?, server.try_clone()?, false),
        Ledger::open(stage, server, client, false),
    ];
    let mut handles: Vec<JoinHandle<io::Result<()>>> = Vec::new();
    for (mut sender, mut receiver) in ends {
        let mut random = random.fork();
        handles.push(spawn(stage, move |_| {
            loop {
                sender.send(&mut random)?;
                if random.percent(5) {
                    sleep(random.pause(2000));
                }
            }
        }));
        handles.push(spawn(stage, move |_| {
            receiver.receive_all()?;
            Err(broken("the endless stream has ended"))
        }));
    }
    join_all(handles)
}

/// Starts this many of each kind.
pub(crate) fn start_endless(
    stage: &Arc<Stage>,
    random: &mut Random,
    of_each: usize,
) -> Vec<JoinHandle<()>> {
    let all = ENDLESS.iter().cycle().take(of_each * ENDLESS.len());
    all.map(|&(name, endless)| {
        let random = random.fork();
        spawn(stage, move |stage| match endless(stage, random) {
            // While the runtime is dropped a sleep may return early, beside fibers that unwind.
            Ok(()) if stage.is_cut() => {}
            Ok(()) => stage.violation(format_args!("{name} has ended")),
            Err(error) => stage.judge(name, &error),
        })
    })
    .collect()
}
