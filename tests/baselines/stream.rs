//! The baseline of launches per second: one bare publisher and one bare subscriber over NATS, in
//! separate processes.
//!
//! `stream subscribe DATA ACK MESSAGES` counts messages on DATA and reports on ACK after every
//! MESSAGES of them; an empty message resets the count. `stream publish DATA ACK MESSAGES BYTES
//! ROUNDS` publishes MESSAGES messages of BYTES bytes as fast as it can, and waits until the
//! subscriber has them all. It does so ROUNDS times, and prints messages per second. A round must
//! fit the server's queue for one subscriber, or the server drops it.
//!
//! `NATS_URL`, `NATS_USER` and `NATS_PASSWORD` name the server and the login.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use async_nats::{Client, ConnectOptions};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::timeout;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let set = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
    let (user, password) = (set("NATS_USER")?, set("NATS_PASSWORD")?);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [what, data, ack, messages, rest @ ..] = &arguments[..] else {
        bail!("stream subscribe DATA ACK MESSAGES | stream publish DATA ACK MESSAGES BYTES ROUNDS");
    };
    let messages: usize = messages.parse()?;
    let options = ConnectOptions::new().user_and_password(user, password);
    let options = options.subscription_capacity(messages + 1);
    let client = options.connect(set("NATS_URL")?).await?;
    match (*what, rest) {
        ("subscribe", []) => subscribe(&client, data, ack, messages).await,
        ("publish", [bytes, rounds]) => {
            let load = [messages, bytes.parse()?, rounds.parse()?];
            publish(&client, [data, ack], load).await
        }
        _ => bail!("neither subscribe nor publish with what it needs"),
    }
}

async fn subscribe(client: &Client, data: &str, ack: &str, messages: usize) -> Result<()> {
    let mut heard = client.subscribe(data.to_owned()).await?;
    let mut count = 0;
    while let Some(message) = heard.next().await {
        count += 1;
        if count == messages || message.payload.is_empty() {
            count = 0;
            client.publish(ack.to_owned(), "done".into()).await?;
        }
    }
    Ok(())
}

async fn publish(client: &Client, names: [&str; 2], load: [usize; 3]) -> Result<()> {
    let ([data, ack], [messages, bytes, rounds]) = (names, load);
    let mut heard = client.subscribe(ack.to_owned()).await?;
    loop {
        client.publish(data.to_owned(), Bytes::new()).await?;
        if timeout(Duration::from_millis(100), heard.next())
            .await
            .is_ok()
        {
            break;
        }
    }
    // Discards answers to earlier attempts, in case the subscriber started late.
    while timeout(Duration::from_millis(50), heard.next())
        .await
        .is_ok()
    {}
    let payload = Bytes::from(vec![7; bytes.max(1)]);
    let subject = async_nats::Subject::from(data);
    let mut rates = Vec::new();
    for _ in 0..rounds {
        let began = Instant::now();
        for _ in 0..messages {
            client.publish(subject.clone(), payload.clone()).await?;
        }
        let all = timeout(Duration::from_secs(10), heard.next()).await;
        all.context("the subscriber did not get them all")?
            .context("the connection closed")?;
        rates.push(messages as f64 / began.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    println!("{{\"messages_per_s\":{:.1}}}", rates[rates.len() / 2]);
    Ok(())
}
