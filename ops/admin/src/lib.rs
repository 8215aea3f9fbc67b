//! The cluster's administration, for the command line, the controller, top and the laboratory: what
//! the state bucket and the record hold, and how people see it. No role is linked here.

mod administrator;
pub mod admission;
pub mod calendar;
pub mod cluster_settings;
pub mod completion;
pub mod credentials;
pub mod csv;
pub mod errors;
pub mod evidence;
pub mod health;
pub mod memory;
pub mod nearest;
pub mod output;
pub mod process;
pub mod profiles;
pub mod record;
mod runtime;
pub mod session_table;
pub mod settings;
pub mod state_dir;
pub mod table;
pub mod target;
pub mod telemetry;
pub mod tenant_settings;
pub mod usage;
pub mod why;

pub use administrator::{
    Administrator, DeviceMemory, RemovedTenant, RenewedLogin, ServerStatus, SessionFilter,
    SessionProcess, SessionRow, TenantChange, entries,
};
pub use runtime::block_on;
