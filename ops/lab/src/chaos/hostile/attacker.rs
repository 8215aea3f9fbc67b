//! The hostile tenant: its connections, the messages that it hears, and those that it forges.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use admin::credentials::credentials;
use admin::settings::Settings;
use anyhow::{Context, Result};
use async_nats::{Client, Event};
use broker::Credentials;
use bus_schemas::Tenant;
use bus_schemas::subject::Subjects;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

use super::forger::{Facts, Forged, Forger};
use super::secret::Secret;
use crate::chaos::args::ChaosHostileArgs;

/// Messages between two looks at the clock.
const BURST: usize = 40;
/// Of a burst, messages that the tenant may not publish.
const FORBIDDEN: usize = 10;
/// Time within which the broker has to accept a connection or a burst.
const PATIENCE: Duration = Duration::from_secs(5);

/// Counts of the hostile tenant's actions and gains; one line of its standard output for each order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Attacked {
    /// Forged messages.
    pub(super) sent: u64,
    /// Messages of floods at the cluster's broker.
    pub(super) here: u64,
    /// Messages of floods at the other broker.
    pub(super) there: u64,
    /// Errors returned by the broker.
    pub(super) refused: u64,
    /// Connections made under the names of others.
    pub(super) impersonated: u64,
    /// Rounds of probes for data of another tenant, by handles and hashes.
    pub(super) probes: u64,
    /// Foreign messages that it heard.
    pub(super) foreign: u64,
    /// Messages and pieces of memory that contain bytes of another tenant's secret.
    pub(super) marked: u64,
    /// Handles of another tenant that were valid.
    pub(super) found: u64,
    /// Hashes of another tenant's chunks that the worker admitted to hold.
    pub(super) held: u64,
    /// The first failure or gain, in words.
    pub(super) first: Option<String>,
}

impl Attacked {
    /// Adds the counts of another.
    pub(super) fn add(&mut self, other: Attacked) {
        self.sent += other.sent;
        self.here += other.here;
        self.there += other.there;
        self.refused += other.refused;
        self.impersonated += other.impersonated;
        self.probes += other.probes;
        self.foreign += other.foreign;
        self.marked += other.marked;
        self.found += other.found;
        self.held += other.held;
        self.note(other.first);
    }

    pub(super) fn note(&mut self, first: Option<String>) {
        self.first = self.first.take().or(first);
    }
}

/// Counts of messages that arrive on other tasks.
#[derive(Debug, Default)]
struct Heard {
    refused: AtomicU64,
    foreign: AtomicU64,
    marked: AtomicU64,
}

/// The hostile tenant's process.
pub(super) struct Attacker {
    pub(super) tenant: Tenant,
    pub(super) subjects: Subjects,
    pub(super) secret: Arc<Secret>,
    pub(super) login: Credentials,
    pub(super) other: Credentials,
    forger: Forger,
    heard: Arc<Heard>,
    names: usize,
}

impl Attacker {
    pub(super) fn new(args: &ChaosHostileArgs, settings: &Settings) -> Result<Self> {
        let login = credentials(settings)?;
        let subjects = login.subjects()?;
        let secret = Arc::new(Secret::of(args.secret));
        let guessed = (secret.key, secret.hashes());
        let (tenant, others) = (args.tenant.clone(), args.others.clone());
        let forger = Forger::new(subjects.clone(), tenant, others, guessed, args.seed);
        Ok(Self {
            tenant: args.tenant.clone(),
            subjects,
            secret,
            login,
            other: Credentials::load(&args.other)?,
            forger,
            heard: Arc::default(),
            names: 0,
        })
    }

    /// Connects under a name.
    pub(super) async fn connect(&self, to: &Credentials, name: &str) -> Result<Client> {
        let tenant = to.for_tenant(self.tenant.as_str())?;
        let login = tenant.tenants.first().context("a login")?.login.clone();
        let heard = Arc::clone(&self.heard);
        let options = async_nats::ConnectOptions::new()
            .name(name)
            .connection_timeout(PATIENCE)
            .custom_inbox_prefix(self.subjects.tenant_inbox(&self.tenant))
            .user_and_password(login.user, login.password)
            .event_callback(move |event| {
                if matches!(event, Event::ServerError(_)) {
                    heard.refused.fetch_add(1, Ordering::Relaxed);
                }
                std::future::ready(())
            });
        options.connect(to.urls()).await.context("connecting")
    }

    /// Subscribes to foreign subjects and to its own.
    pub(super) async fn listen(&self) -> Result<Client> {
        let client = self.connect(&self.login, "client-hostile").await?;
        let own = self.subjects.tenant_inbound(&self.tenant);
        let prefix = own.trim_end_matches('>').to_owned();
        for subject in self.forger.subscriptions().into_iter().chain([own]) {
            let heard = client.subscribe(subject).await?;
            let (counts, secret) = (Arc::clone(&self.heard), Arc::clone(&self.secret));
            let prefix = prefix.clone();
            tokio::spawn(heard.for_each(move |message| {
                if !message.subject.starts_with(&prefix) {
                    counts.foreign.fetch_add(1, Ordering::Relaxed);
                }
                if secret.is_in(&message.payload) {
                    counts.marked.fetch_add(1, Ordering::Relaxed);
                }
                std::future::ready(())
            }));
        }
        flushed(&client).await?;
        Ok(client)
    }

    /// Adds the counts of the other tasks.
    pub(super) fn take_heard(&self, attacked: &mut Attacked) {
        attacked.refused += self.heard.refused.swap(0, Ordering::Relaxed);
        attacked.foreign += self.heard.foreign.swap(0, Ordering::Relaxed);
        attacked.marked += self.heard.marked.swap(0, Ordering::Relaxed);
    }

    /// Replaces the known facts.
    pub(super) fn learn(&mut self, facts: Facts) {
        self.forger.learn(facts);
    }

    /// Makes a message for a flood.
    pub(super) fn message(&mut self) -> Forged {
        self.forger.allowed()
    }

    /// Connects under the names of others and publishes forged messages, until a given time.
    pub(super) async fn forge(&mut self, until: Instant, attacked: &mut Attacked) -> Result<()> {
        let client = self.connect(&self.login, "client-forger").await?;
        while Instant::now() < until {
            let names = self.forger.names();
            let name = &names[self.names % names.len()];
            self.names += 1;
            let other = self.connect(&self.login, name).await?;
            attacked.impersonated += 1;
            for index in 0..BURST {
                let message = match index < FORBIDDEN {
                    true => self.forger.forbidden(),
                    false => self.forger.allowed(),
                };
                // Every other message goes over the connection under another's name.
                let by = if index % 2 == 0 { &other } else { &client };
                publish(by, message).await?;
                attacked.sent += 1;
            }
            flushed(&other).await?;
            flushed(&client).await?;
        }
        Ok(())
    }
}

/// Publishes a message.
pub(super) async fn publish(client: &Client, message: Forged) -> Result<()> {
    let (subject, payload) = (message.subject, message.payload.into());
    match message.reply {
        Some(reply) => client.publish_with_reply(subject, reply, payload).await?,
        None => client.publish(subject, payload).await?,
    }
    Ok(())
}

/// Waits until the broker has taken all messages.
pub(super) async fn flushed(client: &Client) -> Result<()> {
    let flushed = tokio::time::timeout(PATIENCE, client.flush()).await;
    Ok(flushed.context("the broker takes nothing")??)
}
