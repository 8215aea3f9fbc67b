//! The servers of a broker that is a cluster: who has what.

use std::time::{Duration, Instant};

use actors::storage::{Copies, Storage, Stored};
use anyhow::{Result, anyhow, bail};
use async_nats::jetstream;
use broker::Credentials;
use bus_schemas::BrokerUrl;

use super::Administrator;
use crate::credentials::logged_in;
use crate::exit::Unreachable;

/// How long one server may take to answer one question about what is stored.
const ASK: Duration = Duration::from_secs(1);
/// Before it is asked again.
const PAUSE: Duration = Duration::from_millis(50);

/// One server of a broker that is a cluster.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ServerStatus {
    /// Where it listens, as the credentials say.
    pub url: BrokerUrl,
    /// What the servers call it; none where it does not answer.
    pub name: Option<String>,
    /// It answers for the lease.
    pub leads_lease: bool,
    /// Copies that it has of what is stored.
    pub copies: usize,
    /// Those of them that are equal to their leader's.
    pub in_step: usize,
}

/// What each server has of what is stored.
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
    /// The servers of a broker that is a cluster; nothing of one that is a single server.
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
        // While they choose who leads, nobody can tell.
        view(named, &self.copies().await.unwrap_or_default())
    }

    /// What the cluster keeps, without knowing how many copies of it there are to be.
    fn unread_storage(&self) -> Storage {
        let mut jetstream = jetstream::new(self.client.clone());
        jetstream.set_timeout(ASK);
        Storage::new(jetstream, &self.subjects)
    }

    /// What the cluster keeps, with the copies that it is set to.
    async fn storage(&self) -> Result<Storage> {
        let storage = self.unread_storage();
        if storage.is_clustered() {
            storage.set_replicas(self.chosen().await?.settings()?.broker_replicas);
        }
        Ok(storage)
    }

    /// The same, for much to be written: the broker has the caller's patience for each answer.
    pub(crate) async fn bulk_storage(&self) -> Result<Storage> {
        Ok(self.storage().await?.over(self.jetstream()))
    }

    /// Has the broker keep as many copies of the state as all is to have: only the broker knows
    /// whether it has the servers. 0 is what it allows.
    ///
    /// # Errors
    /// `E-CLUSTER-REPLICAS` where it cannot.
    pub(crate) async fn spread(&self, replicas: u32) -> Result<()> {
        let storage = self.unread_storage();
        storage.set_replicas(replicas);
        storage.ensure_one(Stored::State).await.map_err(|error| {
            anyhow!(
                "E-CLUSTER-REPLICAS: the broker does not keep {replicas} copies: it has not as many \
                 servers, they are not all there, or they have no room; `warploom status` shows \
                 them: {error}"
            )
        })
    }

    /// Waits until the servers of a broker that is a cluster have agreed who leads, and lease and
    /// state are on as many of them as they should be.
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

    /// The copies of all that is stored; nothing of a broker that is a single server.
    ///
    /// # Errors
    /// [`Unreachable`] where the broker cannot tell.
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

    /// Waits until all copies of all that is stored are equal: from then on any one server may be
    /// lost.
    ///
    /// # Errors
    /// [`Unreachable`] after `patience`, with what is not in step.
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
    use actors::storage::Copy;

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
