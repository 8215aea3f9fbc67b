//! The cluster, asked again and again, and its order, followed: what comes goes to whoever shows it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use warploom_cli::admin::{Administrator, SessionFilter};
use warploom_cli::calendar::now_ms;
use warploom_cli::record::{Followed, follow};
use warploom_cli::settings::Settings;

use crate::rows::Sample;

/// A position that has ended just now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) gpu: u32,
    pub(crate) tenant: String,
    pub(crate) ended_ms: u64,
    pub(crate) ran_ns: u64,
}

/// Before the order is followed anew, where that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// Asks once.
pub(crate) async fn sample(administrator: &Administrator) -> Result<Sample> {
    let status = administrator.status(administrator.patience()).await?;
    let memory = administrator.memory(&status).await;
    let sessions = administrator.sessions(&SessionFilter::default()).await?;
    Ok(Sample {
        status,
        memory,
        sessions,
    })
}

/// Asks again and again, and tells what it finds; whoever shows it does not wait meanwhile.
pub(crate) fn samples(
    administrator: &Arc<Administrator>,
    every: Duration,
) -> mpsc::Receiver<Result<Sample>> {
    let (tell, heard) = mpsc::channel(1);
    let administrator = administrator.clone();
    tokio::spawn(async move {
        let mut looks = tokio::time::interval(every);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first is there at once, and so is what there was to see.
        looks.tick().await;
        loop {
            looks.tick().await;
            if tell.send(sample(&administrator).await).await.is_err() {
                return;
            }
        }
    });
    heard
}

/// Follows the order on a thread of its own, for a replay computes; what ends from now on is told.
pub(crate) fn order(settings: &Settings) -> mpsc::Receiver<Ran> {
    let (tell, heard) = mpsc::channel(4_096);
    let settings = settings.clone();
    std::thread::spawn(move || {
        let followed = warploom_cli::commands::block_on(async {
            let administrator = Administrator::of(&settings).await?;
            // Where it cannot go on it begins anew: a block may have been stored late.
            while !tell.is_closed() {
                if let Err(error) = follow(&administrator, |told| tell_news(told, &tell)).await {
                    tracing::info!("the order is followed anew: {error:#}");
                }
                tokio::time::sleep(AGAIN).await;
            }
            Ok(())
        });
        if let Err(error) = followed {
            tracing::info!("the order is not followed: {error:#}");
        }
    });
    heard
}

/// Tells of what has just ended.
fn tell_news(told: Followed, tell: &mpsc::Sender<Ran>) -> Result<()> {
    let Followed::Ended {
        position,
        news_of_ms: Some(_),
    } = told
    else {
        return Ok(());
    };
    let ran = Ran {
        gpu: position.gpu,
        tenant: position.tenant.to_string(),
        ended_ms: now_ms(),
        ran_ns: position.end.map_or(0, |end| end.measured),
    };
    // Whoever shows it is behind: a picture with less in it is as good.
    drop(tell.try_send(ran));
    Ok(())
}
