//! The hostile tenant's probes, on its own sessions, for another tenant's data. It tries memory by handle
//! and bytes by hash, and reads memory that it has not written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use admin::settings::Settings;
use anyhow::{Context, Result, bail};
use async_nats::{Client, Subscriber};
use broker::Credentials;
use bus_schemas::subject::{ToLeader, ToWorker};
use bus_schemas::{
    CloseReason, CloseRequest, CopyOffer, DataChunk, IpcAction, IpcAnswer, IpcRequest, OpenAnswer,
    OpenRequest, Opened, WIRE_VERSION, WorkerAck, decode, encode,
};
use futures_util::StreamExt;

use super::attacker::{Attacked, Attacker};
use super::secret::{BYTES, Secret};
use crate::chaos::args::ChaosHostileArgs;
use crate::chaos::mixing::MIX;
use warploom_cli::client_settings::client_settings;

/// Maximum wait for an answer, and the time after which a question is repeated.
const PATIENCE: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(200);
/// Name of its connection.
const NAME: &str = "client-probe";
/// The transfers of its offers: the copy and the image.
const COPY: u64 = 1;
const IMAGE: u64 = 3;

/// An own session, driven without the client.
struct Own {
    client: Client,
    opened: Opened,
    heard: Subscriber,
}

/// Makes one round of probes for the neighbour's data.
pub(super) async fn probe(
    attacker: &Attacker,
    login: &Credentials,
    attacked: &mut Attacked,
) -> Result<()> {
    let mut own = Own::open(attacker, login).await?;
    let asked = own.ask(attacker, attacked).await;
    own.close(attacker).await?;
    asked?;
    attacked.probes += 1;
    Ok(())
}

impl Own {
    async fn open(attacker: &Attacker, login: &Credentials) -> Result<Self> {
        let client = attacker.connect(login, NAME).await?;
        let nonce = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), NAME);
        let request = OpenRequest {
            v: WIRE_VERSION,
            nonce,
            connection: NAME.into(),
            devices: 1,
        };
        let subject = attacker
            .subjects
            .to_leader(&attacker.tenant, ToLeader::Open);
        let begun = Instant::now();
        let mut refused = None;
        let opened = loop {
            let answer = client.request(subject.clone(), encode(&request).into());
            if let Ok(Ok(answer)) = tokio::time::timeout(PATIENCE / 5, answer).await
                && let Ok(answer) = decode::<OpenAnswer>(&answer.payload)
            {
                match answer.opened {
                    Some(opened) => break opened,
                    None => refused = answer.failure,
                }
            }
            if begun.elapsed() > PATIENCE {
                bail!("a probe got no session: {refused:?}");
            }
            tokio::time::sleep(AGAIN).await;
        };
        let session = opened.session;
        let heard = attacker.subjects.session_inbound(&attacker.tenant, session);
        let heard = client.subscribe(heard).await?;
        client.flush().await?;
        Ok(Self {
            client,
            opened,
            heard,
        })
    }

    async fn ask(&mut self, attacker: &Attacker, attacked: &mut Attacked) -> Result<()> {
        let key = attacker.secret.key;
        let address = self.opened.window.base;
        let actions = [
            IpcAction::Find { key },
            IpcAction::Import { key, address },
            IpcAction::Export { key, address },
        ];
        for (number, action) in (1..).zip(actions) {
            let request = IpcRequest {
                v: WIRE_VERSION,
                number,
                action,
            };
            let is_answer = |bytes: &[u8]| {
                let answer = decode::<IpcAnswer>(bytes).ok();
                answer.filter(|answer| answer.number == number)
            };
            let answer = self
                .answered(attacker, ToWorker::Ipc, encode(&request), is_answer)
                .await?;
            if answer.failure.is_none() {
                attacked.found += 1;
                attacked.note(Some(format!("{action:?} was granted: {answer:?}")));
            }
        }
        self.offer(attacker, attacked).await
    }

    /// Offers the neighbour's bytes and image by their hashes, as if it had them.
    async fn offer(&mut self, attacker: &Attacker, attacked: &mut Attacked) -> Result<()> {
        let hashes = attacker.secret.hashes();
        let offer = CopyOffer {
            v: WIRE_VERSION,
            transfer: COPY,
            total: BYTES as u64,
            hashes: &hashes,
        };
        let held = self
            .answered(attacker, ToWorker::Offer, encode(&offer), |bytes| {
                let ack = decode::<WorkerAck<'_>>(bytes).ok()?;
                let whole = ack.staged.iter().find(|row| row.transfer == COPY);
                let whole = whole.map(|row| u64::from(row.received > 0));
                let held = ack.held.iter().find(|row| row.transfer == COPY);
                held.map(|row| row.chunks).or(whole)
            })
            .await?;
        if held != 0 {
            attacked.held += 1;
            attacked.note(Some(format!("the worker holds chunks {held:#b} for it")));
        }
        let hash = *blake3::hash(MIX).as_bytes();
        let image = DataChunk {
            v: WIRE_VERSION,
            transfer: IMAGE,
            total: MIX.len() as u64,
            offset: 0,
            hash: &hash,
            bytes: &[],
        };
        let received = self
            .answered(attacker, ToWorker::Data, encode(&image), |bytes| {
                let ack = decode::<WorkerAck<'_>>(bytes).ok()?;
                let mut rows = ack.staged.iter();
                let row = rows.find(|row| row.transfer == IMAGE);
                row.map(|row| row.received)
            })
            .await?;
        if received > 0 {
            attacked.held += 1;
            attacked.note(Some("the worker has another's image for it".into()));
        }
        Ok(())
    }

    /// Repeats a message until a received message answers it.
    async fn answered<T>(
        &mut self,
        attacker: &Attacker,
        what: ToWorker,
        bytes: Vec<u8>,
        answers: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<T> {
        let (worker, session) = (self.opened.incarnation, self.opened.session);
        let subject = attacker
            .subjects
            .to_worker(&attacker.tenant, worker, session, what);
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let said = self.client.publish(subject.clone(), bytes.clone().into());
            said.await?;
            let again = Instant::now() + AGAIN;
            while let Ok(heard) = tokio::time::timeout_at(again.into(), self.heard.next()).await {
                let heard = heard.context("a connection")?;
                if let Some(answer) = answers(&heard.payload) {
                    return Ok(answer);
                }
            }
        }
        bail!("a probe's {what:?} was not answered")
    }

    async fn close(self, attacker: &Attacker) -> Result<()> {
        let request = CloseRequest {
            v: WIRE_VERSION,
            session: self.opened.session,
            after: 0,
            reason: CloseReason::Killed,
        };
        let subject = attacker
            .subjects
            .to_leader(&attacker.tenant, ToLeader::Close);
        let closed = self.client.request(subject, encode(&request).into());
        tokio::time::timeout(PATIENCE, closed)
            .await
            .context("a probe's session does not close")??;
        Ok(())
    }
}

/// Reads memory that it has not written, as a program would.
pub(super) async fn read_unwritten(
    args: &ChaosHostileArgs,
    settings: &Settings,
    secret: &Arc<Secret>,
    attacked: &mut Attacked,
) -> Result<()> {
    let mut joined = client_settings(settings, args.tenant.as_str())?;
    joined.submitted = Some(args.evidence.clone());
    joined.patience = PATIENCE;
    let secret = Arc::clone(secret);
    let read = tokio::task::spawn_blocking(move || {
        let client = client_agent::Client::connect(joined)?;
        let session = client.open()?;
        let mut bytes = vec![0; BYTES];
        let mut marked = 0;
        for _ in 0..4 {
            let address = session.alloc(BYTES as u64)?;
            session.copy_out(address, &mut bytes)?;
            marked += u64::from(secret.is_in(&bytes));
        }
        session.close()?;
        Ok::<u64, client_agent::Error>(marked)
    });
    attacked.marked += read.await??;
    Ok(())
}
