//! The clients: one for people and scripts, and one that sends many requests and checks each
//! answer.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Sends the lines of standard input, and prints the answers.
pub(crate) fn talk(address: &str) -> Result<(), Box<dyn Error>> {
    let stream = TcpStream::connect(address)?;
    let mut answers = stream.try_clone()?;
    let printing = thread::spawn(move || io::copy(&mut answers, &mut io::stdout()));
    io::copy(&mut io::stdin(), &mut &stream)?;
    stream.shutdown(Shutdown::Write)?;
    printing.join().expect("printing does not panic")?;
    Ok(())
}

/// Lets many clients change, read and add in several rounds at the same time.
pub(crate) fn load(address: &str, clients: &str, rounds: &str) -> Result<(), Box<dyn Error>> {
    let (clients, rounds) = (clients.parse()?, rounds.parse()?);
    let start = Barrier::new(clients);
    let (sender, latencies) = mpsc::channel();
    let begin = Instant::now();
    thread::scope(|scope| {
        for number in 0..clients {
            let (sender, start) = (sender.clone(), &start);
            scope.spawn(move || {
                let stream = TcpStream::connect(address);
                start.wait(); // even after a failure, because the others wait for it
                if let Err(error) = stream.and_then(|stream| work(stream, number, rounds, &sender))
                {
                    eprintln!("keep: client {number}: {error}");
                }
            });
        }
    });
    drop(sender);
    let mut latencies: Vec<Duration> = latencies.iter().collect();
    latencies.sort_unstable();
    let right = latencies.len();
    if right < clients * rounds * 3 {
        return Err(format!("only {right} right answers").into());
    }
    println!("{clients} clients: {right} right answers");
    let at = |index: usize| latencies.get(index).copied().unwrap_or_default();
    let (median, worst) = (at(right / 2), at(right.saturating_sub(1)));
    eprintln!(
        "median {median:.1?}, worst {worst:.1?}, all in {:.1?}",
        begin.elapsed()
    );
    Ok(())
}

fn work(
    stream: TcpStream,
    number: usize,
    rounds: usize,
    latencies: &mpsc::Sender<Duration>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut answer) = (BufReader::new(stream), String::new());
    for round in 0..rounds {
        for (command, expected) in [
            (format!("SET client-{number} {round}\n"), "OK\n".to_owned()),
            (format!("GET client-{number}\n"), format!("VALUE {round}\n")),
            ("ADD total 1\n".to_owned(), "VALUE ".to_owned()),
        ] {
            let begin = Instant::now();
            reader.get_mut().write_all(command.as_bytes())?;
            answer.clear();
            reader.read_line(&mut answer)?;
            if !answer.starts_with(&expected) {
                return Err(io::Error::other(format!("{command}: {answer}")));
            }
            latencies.send(begin.elapsed()).expect("the receiver stays");
        }
    }
    Ok(())
}
