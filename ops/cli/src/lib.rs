//! The commands of the product, and their parts: settings, credentials, the local cluster, the
//! record's reader, tables and evidence. The binary is `ops/warploom`; benchmarks, demo, chaos and
//! simulations are in `ops/lab`.

pub mod admin;
pub mod calendar;
pub mod cluster_settings;
pub mod commands;
pub mod completion;
pub mod credentials;
pub mod csv;
pub mod display;
pub mod drop_in;
pub mod evidence;
pub mod exit;
pub mod global;
mod host_memory;
pub mod local;
pub mod memory;
pub mod nearest;
pub mod output;
pub mod process;
pub mod profiles;
pub mod record;
mod runtime;
pub mod settings;
pub mod state_dir;
pub mod table;
pub mod target;
pub mod telemetry;
pub mod timeline;
pub mod usage;
pub mod weights;
pub mod why;
