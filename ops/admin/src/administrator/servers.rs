//! The servers of a clustered broker, and the data that each has.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use async_nats::jetstream;
use broker::Credentials;
use bus_schemas::BrokerUrl;
use storage::{Copies, Storage, Stored};

use super::Administrator;
use crate::credentials::logged_in;
use crate::errors::{ErrorCode, Unreachable};

/// Time that one server may take to answer one question about stored data.
const ASK: Duration = Duration::from_secs(1);
/// Pause before the question is repeated.
const PAUSE: Duration = Duration::from_millis(50);

/// One server of a clustered broker.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ServerStatus {
    /// Its address, as in the credentials.
    pub url: BrokerUrl,
    /// Its name in the broker; `None` if it does not answer.
    pub name: Option<String>,
    /// True if it leads the stream of the lease.
    pub leads_lease: bool,
    /// Number of replicas that it has of the stored data.
    pub copies: usize,
    /// Number of those replicas that are equal to their leader's.
    pub in_step: usize,
}

/// The stored data of each server.
fn view(named: Vec<(BrokerUrl, Option<String>)>, copies: &[Copies]) -> Vec<ServerStatus> {
    let view = |(url, name): (BrokerUrl, Option<String>)| {
        let mut server = ServerStatus {
            url,
            name: name.clone(),
            leads_lease: false,
            copies: 0,
            in_step: 0,
        };
        let Some(name) = name else {
            return server;
        };
        for of in copies {
            let leads = of.leader.as_ref() == Some(&name);
            let follower = of.followers.iter().find(|copy| copy.server == name);
            server.leads_lease |= leads && of.stored == Stored::Lease;
            server.copies += usize::from(leads || follower.is_some());
            server.in_step += usize::from(leads || follower.is_some_and(|copy| copy.in_step));
        }
        server
    };
    named.into_iter().map(view).collect()
}

impl Administrator {
    /// The servers of a clustered broker; empty if the broker is a single server.
    pub async fn servers(&self, credentials: &Credentials) -> Vec<ServerStatus> {
        if !self.unread_storage().is_clustered() {
            return Vec::new();
        }
        let mut named = Vec::new();
        for url in credentials.url.addresses() {
            let mut options = async_nats::ConnectOptions::new()
                .name("administrator")
                .ignore_discovered_servers()
                .connection_timeout(ASK);
            options = logged_in(options, credentials, credentials.cluster_user.as_ref());
            let client = tokio::time::timeout(ASK, options.connect(&url)).await;
            let name = match client {
                Ok(Ok(client)) => Some(client.server_info().server_name),
                _ => None,
            };
            named.push((url.into(), name));
        }
        // While the servers elect a leader, no answer is possible.
        view(named, &self.copies().await.unwrap_or_default())
    }

    /// The cluster's storage, without reading the configured number of replicas.
    fn unread_storage(&self) -> Storage {
        let mut jetstream = jetstream::new(self.client.clone());
        jetstream.set_timeout(ASK);
        Storage::new(jetstream, &self.subjects)
    }

    /// The cluster's storage, with the configured number of replicas.
    async fn storage(&self) -> Result<Storage> {
        let storage = self.unread_storage();
        if storage.is_clustered() {
            storage.set_replicas(self.chosen().await?.settings()?.broker_replicas);
        }
        Ok(storage)
    }

    /// The cluster's storage for large writes: each answer of the broker may take the caller's
    /// patience.
    ///
    /// # Errors
    /// [`crate::errors::Unreachable`] if the broker does not answer.
    pub async fn bulk_storage(&self) -> Result<Storage> {
        Ok(self.storage().await?.over(self.jetstream()))
    }

    /// Makes the broker keep this many replicas of the state. The same number applies to all other
    /// data; only the broker knows whether it has enough servers. 0 is the most that it allows.
    ///
    /// # Errors
    /// `E-CLUSTER-REPLICAS` if it cannot.
    pub(crate) async fn spread(&self, replicas: u32) -> Result<()> {
        let storage = self.unread_storage();
        storage.set_replicas(replicas);
        storage.ensure_one(Stored::State).await.map_err(|error| {
            anyhow!(ErrorCode::ClusterReplicas.failed(format!(
                "the broker does not keep {replicas} copies: it has not as many \
                 servers, they are not all there, or they have no room; `warploom status` shows \
                 them: {error}"
            )))
        })
    }

    /// Waits until the servers of a clustered broker have elected a leader, and lease and state
    /// have their configured number of replicas.
    ///
    /// # Errors
    /// [`Unreachable`] after `patience`.
    pub async fn stored_everywhere(&self, patience: Duration) -> Result<()> {
        let asked = Instant::now();
        if !self.unread_storage().is_clustered() {
            return Ok(());
        }
        for stored in [Stored::Lease, Stored::State] {
            while let Err(error) = self.settle(stored).await {
                if asked.elapsed() > patience {
                    let why = format!("the broker is not ready after {patience:?}: {error:#}");
                    bail!(Unreachable(why));
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    async fn settle(&self, stored: Stored) -> Result<()> {
        let storage = self.storage().await?;
        storage
            .ensure_one(stored)
            .await
            .map_err(|error| anyhow!(error))
    }

    /// The replicas of all stored data; empty if the broker is a single server.
    ///
    /// # Errors
    /// [`Unreachable`] if the broker cannot tell.
    pub async fn copies(&self) -> Result<Vec<Copies>> {
        let (storage, mut all) = (self.storage().await?, Vec::new());
        if !storage.is_clustered() {
            return Ok(all);
        }
        for stored in Stored::ALL {
            let copies = storage.copies_of(stored).await.map_err(|error| {
                let name = storage.name(stored);
                anyhow!(Unreachable(format!("the copies of {name}: {error}")))
            })?;
            all.extend(copies);
        }
        Ok(all)
    }

    /// Waits until all replicas of all stored data are equal: from then on any one server may be
    /// lost.
    ///
    /// # Errors
    /// [`Unreachable`] after `patience`, with the replicas that are not in step.
    pub async fn in_step(&self, patience: Duration) -> Result<()> {
        let asked = Instant::now();
        loop {
            let copies = self.copies().await;
            if let Ok(all) = &copies
                && all.iter().all(Copies::are_in_step)
            {
                return Ok(());
            }
            if asked.elapsed() > patience {
                let why = format!("not in step after {patience:?}: {copies:?}");
                bail!(Unreachable(why));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use storage::Copy;

    use super::*;

    #[test]
    fn a_server_shows_what_it_has() {
        let copy = |server: &str, in_step| Copy {
            server: server.into(),
            in_step,
            lag: u64::from(!in_step),
        };
        let copies = |stored, leader: Option<&str>, followers| Copies {
            stored,
            wanted: 3,
            leader: leader.map(str::to_owned),
            followers,
        };
        let all = [
            copies(
                Stored::Lease,
                Some("b"),
                vec![copy("a", true), copy("c", false)],
            ),
            copies(Stored::Record, None, vec![copy("a", true), copy("b", true)]),
        ];
        let named =
            ["a", "b", "c"].map(|name| (format!("nats://{name}").into(), Some(name.to_owned())));
        let mut named = named.to_vec();
        named.push(("nats://d".into(), None));
        let shown = view(named, &all).into_iter();
        let shown: Vec<_> = shown
            .map(|server| (server.leads_lease, server.copies, server.in_step))
            .collect();
        let expected = [(false, 2, 2), (true, 2, 2), (false, 1, 0), (false, 0, 0)];
        assert_eq!(shown, expected);
    }
}
