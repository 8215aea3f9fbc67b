//! The metrics endpoints of a local cluster's roles, each at its own port.

use std::net::{Ipv4Addr, SocketAddr};

use admin::errors::UsageError;
use admin::settings::Settings;
use anyhow::{Result, bail};

use super::LocalOptions;

impl LocalOptions {
    /// True if there are ports for all roles.
    #[must_use]
    pub fn metrics_fit(&self) -> bool {
        self.metrics.is_none_or(|first| {
            // The tracer has one too.
            let others = self.leaders + self.workers;
            first != 0 && usize::from(first) + others <= usize::from(u16::MAX)
        })
    }

    /// Takes the first port of the metrics endpoints from `up.metrics`; none if that is empty.
    ///
    /// # Errors
    /// If it is no number, and [`UsageError`] if the ports behind it are too few.
    pub fn take_metrics(&mut self, settings: &Settings) -> Result<()> {
        if settings.given("up.metrics").is_none() {
            return Ok(());
        }
        self.metrics = Some(settings.number("up.metrics")?);
        if !self.metrics_fit() {
            bail!(UsageError(
                "up.metrics leaves no ports for all leaders, workers and the tracer: 9464 is usual"
                    .into()
            ));
        }
        Ok(())
    }

    /// Refuses one port for several roles.
    ///
    /// # Errors
    /// [`UsageError`] if two roles would listen on the same port.
    pub fn check_metrics(&self) -> Result<(), UsageError> {
        for (key, roles) in [
            ("leader.metrics", self.leaders),
            ("worker.metrics", self.workers),
        ] {
            let mut set = self.settings.iter().rev();
            let set = set.find(|(of, value)| of == key && !value.is_empty());
            if self.metrics.is_none() && roles > 1 && set.is_some() {
                return Err(UsageError(format!(
                    "{key} is one port, and {roles} processes would listen on it: set up.metrics, from \
                     which on each gets a port of its own"
                )));
            }
        }
        Ok(())
    }

    /// The metrics endpoint of the role with this name; `None` for leaders and workers that were added later.
    #[must_use]
    pub fn metrics_at(&self, name: &str) -> Option<SocketAddr> {
        let (role, number) = name.rsplit_once('-').unwrap_or((name, "0"));
        let number: usize = number.parse().ok()?;
        let behind = match role {
            "leader" if number < self.leaders => number,
            "worker" if number < self.workers => self.leaders.checked_add(number)?,
            "tracer" => self.leaders.checked_add(self.workers)?,
            _ => return None,
        };
        let port = self.metrics?.checked_add(u16::try_from(behind).ok()?)?;
        Some((Ipv4Addr::LOCALHOST, port).into())
    }

    /// The metrics endpoint as flags.
    pub(super) fn metrics_of(&self, role: &str, name: &str) -> Vec<String> {
        let at = self.metrics_at(name);
        at.map_or_else(Vec::new, |at| {
            vec!["--set".to_owned(), format!("{role}.metrics={at}")]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_has_a_port_of_its_own() {
        let mut options = LocalOptions::new("unused", "test").expect("options");
        assert_eq!(options.metrics_at("leader-0"), None);
        (options.leaders, options.workers, options.metrics) = (2, 2, Some(9_464));
        let ports = |options: &LocalOptions| {
            let names = [
                "leader-0", "leader-1", "leader-2", "worker-0", "worker-1", "tracer",
            ];
            names.map(|name| options.metrics_at(name).map(|at| at.port()))
        };
        let some = [9_464, 9_465, 0, 9_466, 9_467, 9_468].map(|port| (port > 0).then_some(port));
        assert_eq!(ports(&options), some);
        assert!(options.metrics_fit());
        options.metrics = Some(65_532);
        assert!(!options.metrics_fit());
        assert_eq!(ports(&options)[5], None);
    }
}
