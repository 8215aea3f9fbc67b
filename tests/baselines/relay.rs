//! The baseline of a synchronous launch: a bare relay over NATS, with one process for each side.
//!
//! `relay hop FROM TO BYTES` answers every message on FROM with one of BYTES bytes on TO.
//! `relay client TO FROM BYTES ROUNDS` sends BYTES bytes to TO and waits for the answer on FROM,
//! ROUNDS times, and prints the round trips' quantiles in microseconds.
//!
//! `NATS_URL`, `NATS_USER` and `NATS_PASSWORD` name the server and the login. The first 8 bytes of
//! a message are its number.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use async_nats::{Client, ConnectOptions};
use futures_util::StreamExt;

const WARM_UP: u64 = 200;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let set = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
    let (user, password) = (set("NATS_USER")?, set("NATS_PASSWORD")?);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let options = ConnectOptions::new().user_and_password(user, password);
    let client = options.connect(set("NATS_URL")?).await?;
    match arguments[..] {
        ["hop", from, to, bytes] => hop(&client, from, to, bytes.parse()?).await,
        ["client", to, from, bytes, rounds] => {
            measure(&client, to, from, bytes.parse()?, rounds.parse()?).await
        }
        _ => bail!("relay hop FROM TO BYTES | relay client TO FROM BYTES ROUNDS"),
    }
}

async fn hop(client: &Client, from: &str, to: &str, bytes: usize) -> Result<()> {
    let mut heard = client.subscribe(from.to_owned()).await?;
    while let Some(message) = heard.next().await {
        let mut answer = vec![0; bytes.max(8)];
        let number = message
            .payload
            .get(..8)
            .context("a message without a number")?;
        answer[..8].copy_from_slice(number);
        client.publish(to.to_owned(), answer.into()).await?;
    }
    Ok(())
}

async fn measure(client: &Client, to: &str, from: &str, bytes: usize, rounds: u64) -> Result<()> {
    let mut heard = client.subscribe(from.to_owned()).await?;
    let mut times = Vec::with_capacity(rounds as usize);
    for number in 0..WARM_UP + rounds {
        let mut message = vec![0; bytes.max(8)];
        message[..8].copy_from_slice(&number.to_le_bytes());
        let began = Instant::now();
        client
            .publish(to.to_owned(), message.clone().into())
            .await?;
        let patience = Duration::from_millis(if number < WARM_UP { 100 } else { 5_000 });
        loop {
            // The process that starts first has no peers yet: then it sends again.
            match tokio::time::timeout(patience, heard.next()).await {
                Ok(None) => bail!("the connection closed"),
                Ok(Some(answer)) if answer.payload[..8] == number.to_le_bytes() => break,
                Ok(_) => {}
                Err(_) if number < WARM_UP => {
                    client
                        .publish(to.to_owned(), message.clone().into())
                        .await?;
                }
                Err(_) => bail!("message {number} was lost"),
            }
        }
        if number >= WARM_UP {
            times.push(began.elapsed().as_nanos() as f64 / 1e3);
        }
    }
    times.sort_by(f64::total_cmp);
    let at = |quantile: f64| times[((times.len() - 1) as f64 * quantile) as usize];
    println!("{{\"p50_us\":{:.2},\"p99_us\":{:.2}}}", at(0.5), at(0.99));
    Ok(())
}
