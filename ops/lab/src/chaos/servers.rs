//! Faults of the broker's servers; of several servers, one at a time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use broker::Server;
use storage::Stored;

use super::acts::Deed;
use super::strikes::{KILL, Strikes, Undo, asked, broker_name};

impl Strikes {
    /// Stops a server in good order and starts it again.
    pub(super) async fn restart(&mut self, index: usize) -> Result<()> {
        let pid = self.take(index).await?;
        self.note("restart", &broker_name(index), Some(pid));
        self.did(&broker_name(index), Deed::Away, None);
        self.server_mut(index)?.restart()?;
        Ok(())
    }

    /// Restarts a server with an empty store.
    pub(super) async fn wipe(&mut self, index: usize) -> Result<()> {
        let pid = self.take(index).await?;
        self.note("restart empty", &broker_name(index), Some(pid));
        self.did(&broker_name(index), Deed::Away, None);
        self.server_mut(index)?.restart_empty()?;
        Ok(())
    }

    /// Cuts a server off from the others; its clients still reach it.
    pub(super) async fn part(&mut self, index: usize, time: Duration) -> Result<()> {
        let pid = self.take(index).await?;
        let routes = self.routes.as_ref().context("there is one broker")?;
        routes.cut_off(index, true);
        let fault = format!("cut off from the others for {time:?}");
        self.note(&fault, &broker_name(index), Some(pid));
        self.did(&broker_name(index), Deed::Away, None);
        self.later(time, Undo::Unite(index));
        Ok(())
    }

    /// Kills a server that [`Strikes::take`] allowed to be hit.
    pub(super) fn kill_broker(&mut self, index: usize) -> Result<()> {
        let pid = self.server(index)?.pid();
        self.note(KILL, &broker_name(index), Some(pid));
        self.did(&broker_name(index), Deed::Away, None);
        self.server_mut(index)?.kill()?;
        Ok(())
    }

    /// Index of the server that leads the lease's stream; 0 with a single server.
    pub(super) async fn lease_server(&self) -> Result<usize> {
        let servers = self.cluster.broker.servers();
        if servers.len() == 1 {
            return Ok(0);
        }
        let copies = asked(self.administrator.copies()).await?;
        let lease = copies.iter().find(|copies| copies.stored == Stored::Lease);
        let leader = lease.and_then(|lease| lease.leader.as_deref());
        let leader = leader.context("no server leads the lease's stream")?;
        let mut names = servers.iter().map(Server::name);
        names
            .position(|name| name == leader)
            .context("a server that is not ours")
    }

    pub(super) fn server(&self, index: usize) -> Result<&Server> {
        let server = self.cluster.broker.servers().get(index);
        server.context("no such broker")
    }

    fn server_mut(&mut self, index: usize) -> Result<&mut Server> {
        let server = self.cluster.broker.servers_mut().get_mut(index);
        server.context("no such broker")
    }

    /// Process id of this server if it may be struck now. With several servers, all have to be there with
    /// equal copies.
    pub(super) async fn take(&mut self, index: usize) -> Result<u32> {
        let pid = self.server(index)?.pid();
        self.in_step().await?;
        if self.cluster.broker.servers().len() > 1 {
            self.pulse.lost();
        }
        Ok(pid)
    }

    /// Checks that every server runs, and that none is stopped or cut off.
    pub(super) fn all_serve(&self) -> Result<()> {
        for (index, server) in self.cluster.broker.servers().iter().enumerate() {
            let pid = server.pid();
            let away = |it: &(Instant, Undo)| match it.1 {
                Undo::Continue(of) => of == pid,
                Undo::Unite(of) => of == index,
                _ => false,
            };
            if !server.is_running() || self.undo.iter().any(away) {
                bail!("{} is away", server.name());
            }
        }
        Ok(())
    }

    /// Checks that the last strike on a server is over. All servers are there; with several, their copies
    /// of all stored data are equal, and a leader has granted since the last kill.
    pub(super) async fn in_step(&self) -> Result<()> {
        self.all_serve()?;
        if self.cluster.broker.servers().len() > 1 && self.without_successor() > 0 {
            bail!("no leader has granted anything since one was killed");
        }
        let copies = asked(self.administrator.copies()).await?;
        if let Some(behind) = copies.iter().find(|copies| !copies.are_in_step()) {
            bail!("not in step: {behind:?}");
        }
        self.pulse.whole();
        Ok(())
    }
}
