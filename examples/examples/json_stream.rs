//! A stream of JSON values with serde_json: a server that divides, and clients that send many
//! questions before they read the first answer.

use std::io::{BufReader, BufWriter};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Deserializer;
use uthread::net::{Shutdown, TcpListener, TcpStream};

const CLIENTS: u32 = 40;
const QUESTIONS: u32 = 100;

#[derive(Serialize, Deserialize)]
struct Question {
    dividend: u32,
    divisor: u32,
}

type Answer = Result<u32, String>;

fn main() -> Result<()> {
    uthread::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        uthread::spawn(move || {
            for stream in listener.incoming().flatten() {
                uthread::spawn(move || divide(&stream));
            }
        });
        let ask = move |number| ask(number, &TcpStream::connect(address)?);
        let clients = (1..=CLIENTS).map(|number| uthread::spawn(move || ask(number)));
        for client in clients.collect::<Vec<_>>() {
            client.join().expect("no panic")?;
        }
        println!("{CLIENTS} clients, each {QUESTIONS} questions and the right answers");
        Ok(())
    })
}

/// Answers each question as soon as its last brace has arrived.
fn divide(stream: &TcpStream) -> Result<()> {
    for question in Deserializer::from_reader(BufReader::new(stream)).into_iter() {
        let Question { dividend, divisor } = question?;
        let quotient = dividend.checked_div(divisor);
        let answer: Answer = quotient.ok_or_else(|| format!("{dividend} by zero"));
        serde_json::to_writer(stream, &answer)?;
    }
    Ok(())
}

fn ask(dividend: u32, stream: &TcpStream) -> Result<()> {
    let mut writer = BufWriter::new(stream);
    for divisor in 0..QUESTIONS {
        serde_json::to_writer(&mut writer, &Question { dividend, divisor })?;
    }
    drop(writer);
    stream.shutdown(Shutdown::Write)?;
    let answers = Deserializer::from_reader(BufReader::new(stream)).into_iter::<Answer>();
    let answers = answers.collect::<Result<Vec<_>, _>>()?;
    ensure!(answers[0] == Err(format!("{dividend} by zero")));
    ensure!((1..QUESTIONS).all(|divisor| answers[divisor as usize] == Ok(dividend / divisor)));
    Ok(())
}
