//! Starts controllers of a local cluster, and waits for them.

use admin::errors::ErrorCode;
use anyhow::{Context, Result};

use super::controller::Controller;
use super::{LocalCluster, RoleProcess};

impl LocalCluster {
    /// Starts a controller, and waits until it prints its address.
    ///
    /// # Errors
    /// If it cannot be started, or prints nothing within [`super::LocalOptions::deadline`].
    pub async fn start_controller(&mut self) -> Result<&mut Controller> {
        let name = format!("controller-{}", self.controllers.len());
        let mut role = self.controller_role(&name)?;
        let said = Controller::said(&mut role, self.options().deadline).await;
        let said = said.with_context(|| {
            let log = role.log().display();
            ErrorCode::LocalStart.failed(format!("{name} does not come up; see {log}"))
        })?;
        self.controllers.push(Controller { role, said });
        Ok(self.controllers.last_mut().expect("just pushed"))
    }

    /// Starts the process of a controller.
    pub(super) fn controller_role(&self, name: &str) -> Result<RoleProcess> {
        let broker = self.options().state_dir.join("broker");
        let arguments = [
            "--json".to_owned(),
            "--broker-dir".to_owned(),
            broker.display().to_string(),
        ];
        self.role("controller", name, &arguments)
    }
}
