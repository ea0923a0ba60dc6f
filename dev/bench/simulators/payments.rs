//! The service of `bindings/simulation/src/first_test.rs` as tasks of Tokio, for turmoil and madsim, whose `net` has the
//! types of `tokio::net`.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::{sleep, timeout};

use crate::account::Account;
use crate::net::{TcpListener, TcpStream};

/// Takes payments: a line with the number of a payment and an amount is answered with the balance.
pub async fn server(account: Account) -> io::Result<()> {
    let account = Arc::new(Mutex::new(account));
    let listener = TcpListener::bind("0.0.0.0:7000").await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(stream, Arc::clone(&account)));
    }
}

async fn serve(stream: TcpStream, account: Arc<Mutex<Account>>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        let (number, amount) = line
            .trim()
            .split_once(' ')
            .ok_or(io::ErrorKind::InvalidData)?;
        let number = number.parse().map_err(io::Error::other)?;
        let amount = amount.parse().map_err(io::Error::other)?;
        let balance = account.lock().unwrap().pay(number, amount);
        stream.write_all(format!("{balance}\n").as_bytes()).await?;
        stream.flush().await?;
        line.clear();
    }
    Ok(())
}

/// Pays ten times. Returns the balance.
pub async fn client() -> io::Result<u64> {
    for number in 0..10 {
        pay(number, 1).await?;
    }
    pay(10, 0).await
}

/// Pays, again if there is no answer within a second. Returns the balance.
async fn pay(number: u64, amount: u64) -> io::Result<u64> {
    for _ in 0..10 {
        if let Ok(Ok(balance)) = timeout(Duration::from_secs(1), try_to_pay(number, amount)).await {
            return Ok(balance);
        }
        sleep(Duration::from_millis(100)).await;
    }
    Err(io::ErrorKind::TimedOut.into())
}

async fn try_to_pay(number: u64, amount: u64) -> io::Result<u64> {
    let mut stream = BufReader::new(TcpStream::connect("server:7000").await?);
    stream
        .write_all(format!("{number} {amount}\n").as_bytes())
        .await?;
    stream.flush().await?;
    let mut balance = String::new();
    stream.read_line(&mut balance).await?;
    balance.trim().parse().map_err(io::Error::other)
}
