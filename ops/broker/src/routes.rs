//! Routes: the ports by which the servers of a cluster connect to one another.

use std::io;
use std::path::Path;

use crate::permissions::quote;
use crate::{BrokerError, Result, ports};

/// The ports on 127.0.0.1 by which servers connect to one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// Port on which each server listens for the others.
    pub listen: Vec<u16>,
    /// Port that server `i` dials to reach server `j`, in row `i`, column `j`: the port of `j`, or
    /// that of a proxy in front of it.
    pub dial: Vec<Vec<u16>>,
    /// True if a server advertises the other servers to its clients, so that they may switch. False
    /// if clients must reach each server through a proxy, with an address that they are given.
    pub told_to_clients: bool,
}

impl Routes {
    /// Free ports for this many servers, each dialled directly.
    ///
    /// # Errors
    /// If no port is free.
    pub fn free(servers: usize) -> io::Result<Routes> {
        let listen = ports::free(ports::ROUTES, servers)?;
        Ok(Routes {
            dial: vec![listen.clone(); servers],
            listen,
            told_to_clients: true,
        })
    }

    /// True if some server is reached through another port than its own.
    fn are_proxied(&self) -> bool {
        self.dial.iter().any(|row| *row != self.listen)
    }

    pub(crate) fn check(&self, servers: usize) -> Result<()> {
        let rows = self.dial.iter().all(|row| row.len() == servers);
        if self.listen.len() == servers && self.dial.len() == servers && rows {
            return Ok(());
        }
        let wrong = io::Error::new(io::ErrorKind::InvalidInput, "one port for each server");
        Err(BrokerError::io("setting", Path::new("routes"))(wrong))
    }

    /// The route blocks of all servers' configurations. Only the servers know the secret: it admits
    /// any process that reaches the port as a server.
    pub(crate) fn blocks(&self, cluster: &str, secret: &str) -> Vec<RouteBlock> {
        let block = |server: usize| RouteBlock {
            cluster: cluster.to_owned(),
            secret: secret.to_owned(),
            listen: self.listen[server],
            dial: self.dial[server].clone(),
            // Without this, servers would learn one another's own ports and bypass the proxies.
            hidden: self.are_proxied(),
            told_to_clients: self.told_to_clients,
        };
        (0..self.listen.len()).map(block).collect()
    }
}

/// The `cluster` block of one server's configuration.
pub(crate) struct RouteBlock {
    cluster: String,
    secret: String,
    listen: u16,
    dial: Vec<u16>,
    hidden: bool,
    told_to_clients: bool,
}

impl RouteBlock {
    pub(crate) fn render(&self) -> String {
        let route = |port: &u16| {
            let secret = &self.secret;
            quote(&format!("nats-route://route:{secret}@127.0.0.1:{port}"))
        };
        let routes: Vec<_> = self.dial.iter().map(route).collect();
        // A port without a listener.
        let advertise = self.hidden.then_some("  advertise: \"127.0.0.1:1\"\n");
        let untold = (!self.told_to_clients).then_some("  no_advertise: true\n");
        format!(
            "cluster {{\n  \
               name: {name}\n  \
               host: \"127.0.0.1\"\n  \
               port: {port}\n{advertise}{untold}  \
               authorization {{ user: \"route\", password: {secret}, timeout: 5 }}\n  \
               ping_interval: \"1s\"\n  \
               ping_max: 2\n  \
               routes: [ {routes} ]\n}}\n",
            name = quote(&self.cluster),
            port = self.listen,
            advertise = advertise.unwrap_or_default(),
            untold = untold.unwrap_or_default(),
            secret = quote(&self.secret),
            routes = routes.join(", "),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_each_is_another() {
        let routes = Routes::free(3).unwrap();
        let mut ports = routes.listen.clone();
        ports.dedup();
        assert_eq!(ports.len(), 3);
        assert_eq!(routes.dial, [ports.clone(), ports.clone(), ports]);
        routes.check(3).unwrap();
        assert!(routes.check(1).is_err());
    }

    #[test]
    fn servers_behind_proxies_do_not_tell_their_ports() {
        let mut routes = Routes::free(3).unwrap();
        let told = |routes: &Routes| routes.blocks("lab", "secret")[1].render();
        assert!(!told(&routes).contains("advertise"));
        routes.dial[0][1] = 7;
        assert!(told(&routes).contains("advertise: \"127.0.0.1:1\""));
    }
}
