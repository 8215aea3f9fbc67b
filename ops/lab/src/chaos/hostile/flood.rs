//! A flood: as many messages as one process can send.

use std::time::Instant;

use anyhow::Result;
use broker::Credentials;

use super::attacker::{Attacker, flushed, publish};
use super::forger::Forged;

/// Messages that the flood repeats.
const MESSAGES: usize = 4_096;
/// Maximum bytes of a message: a flood consists of many messages.
const BYTES: usize = 4_096;
/// Messages between two looks at the clock.
const BURST: usize = 256;
/// Connections.
const CONNECTIONS: usize = 2;

/// Floods a broker until a given time. Returns the number of messages.
pub(super) async fn flood(
    attacker: &mut Attacker,
    to: &Credentials,
    until: Instant,
) -> Result<u64> {
    let mut messages: Vec<Forged> = Vec::new();
    while messages.len() < MESSAGES {
        let message = attacker.message();
        if message.payload.len() <= BYTES {
            messages.push(message);
        }
    }
    let mut clients = Vec::new();
    for index in 0..CONNECTIONS {
        clients.push(
            attacker
                .connect(to, &format!("client-flood-{index}"))
                .await?,
        );
    }
    let mut sent = 0;
    let mut next = messages.iter().cycle();
    'flood: loop {
        for client in &clients {
            for message in next.by_ref().take(BURST) {
                publish(client, message.clone()).await?;
            }
            sent += BURST as u64;
            if Instant::now() >= until {
                break 'flood;
            }
        }
    }
    for client in &clients {
        flushed(client).await?;
    }
    Ok(sent)
}
