//! Rows with `csv` and `serde` from many connections at once, read as they arrive, and added up
//! through a channel.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use uthread::net::{TcpListener, TcpStream};
use uthread::sync::mpsc;

const SENSORS: u32 = 30;
const ROWS: u32 = 200;

#[derive(Serialize, Deserialize)]
struct Reading {
    place: String,
    degrees: f64,
}

fn main() -> Result<()> {
    uthread::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        for number in 0..SENSORS {
            uthread::spawn(move || report(number, TcpStream::connect(address)?));
        }
        let (sender, readings) = mpsc::sync_channel(100);
        for stream in listener.incoming().take(SENSORS as usize) {
            let (stream, sender) = (stream?, sender.clone());
            uthread::spawn(move || {
                let rows = csv::Reader::from_reader(stream).into_deserialize::<Reading>();
                rows.for_each(|row| {
                    sender
                        .send(row)
                        .expect("the receiver waits for all senders")
                });
            });
        }
        drop(sender);
        let mut places = BTreeMap::<String, (u32, f64)>::new();
        for reading in readings {
            let Reading { place, degrees } = reading?;
            let (count, sum) = places.entry(place).or_default();
            (*count, *sum) = (*count + 1, *sum + degrees);
        }
        for (place, (count, sum)) in &places {
            let average = sum / f64::from(*count);
            println!("{place}: {count} readings, {average:.2} degrees on average");
        }
        let counted: u32 = places.values().map(|(count, _)| count).sum();
        ensure!(counted == SENSORS * ROWS);
        Ok(())
    })
}

/// Sends the rows of a sensor, some with names that need quotes.
fn report(number: u32, stream: TcpStream) -> Result<()> {
    let place = ["cellar", "roof, south side", "the \"warm\" room"][number as usize % 3];
    let mut writer = csv::Writer::from_writer(stream);
    for hour in 0..ROWS {
        let (place, degrees) = (
            place.to_owned(),
            f64::from(number % 3 * 10 + hour % 24) / 2.0,
        );
        writer.serialize(Reading { place, degrees })?;
    }
    Ok(writer.flush()?)
}
