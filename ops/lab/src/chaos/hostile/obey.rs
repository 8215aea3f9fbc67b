//! The process of the hostile tenant. It has only its own tenant's login. All other knowledge arrives in
//! its orders, as if the tenant had guessed it.

use std::time::{Duration, Instant};

use admin::process;
use admin::settings::Settings;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::attacker::{Attacked, Attacker};
use super::flood::flood;
use super::forger::Facts;
use super::phases::Phase;
use super::probe::{probe, read_unwritten};
use crate::chaos::args::ChaosHostileArgs;
use crate::lines::say;

/// An order, one line of standard input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Order {
    /// The phase.
    pub(super) phase: Phase,
    /// Its duration, in milliseconds.
    pub(super) ms: u64,
    /// The current facts.
    pub(super) facts: Facts,
}

/// Obeys orders one after the other until standard input ends.
///
/// # Errors
/// If its logins cannot be read, or its output has no reader.
pub async fn run_hostile(args: &ChaosHostileArgs, settings: &Settings) -> Result<()> {
    process::follow_parent()?;
    let mut attacker = Attacker::new(args, settings)?;
    let ears = attacker.listen().await?;
    let (orders, mut ordered) = tokio::sync::mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let order = serde_json::from_str::<Order>(&line);
            if order.is_err() || orders.blocking_send(order).is_err() {
                return;
            }
        }
    });
    while let Some(order) = ordered.recv().await {
        let order = order.context("an order")?;
        let mut attacked = Attacked::default();
        if let Err(error) = obey(&mut attacker, order, args, settings, &mut attacked).await {
            attacked.note(Some(format!("{error:#}")));
        }
        attacker.take_heard(&mut attacked);
        say(&attacked)?;
    }
    drop(ears);
    Ok(())
}

/// Carries out an order.
async fn obey(
    attacker: &mut Attacker,
    order: Order,
    args: &ChaosHostileArgs,
    settings: &Settings,
    attacked: &mut Attacked,
) -> Result<()> {
    attacker.learn(order.facts);
    let until = Instant::now() + Duration::from_millis(order.ms);
    match order.phase {
        Phase::Forge => {
            attacker.forge(until, attacked).await?;
            probe(attacker, &attacker.login, attacked).await?;
            read_unwritten(args, settings, &attacker.secret, attacked).await
        }
        Phase::Rest => {
            tokio::time::sleep_until(until.into()).await;
            Ok(())
        }
        Phase::Here => {
            attacked.here += flood(attacker, &attacker.login.clone(), until).await?;
            Ok(())
        }
        Phase::There => {
            attacked.there += flood(attacker, &attacker.other.clone(), until).await?;
            Ok(())
        }
    }
}
