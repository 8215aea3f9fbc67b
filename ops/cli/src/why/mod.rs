//! What launches waited for and why devices were idle, as people and programs read it. The answers come from the
//! record ([`scheduler_leader_core::why`]); `docs/howto/why.md` says what each cause means.

mod account;
mod cluster;
mod devices;
mod distribution;
mod row;
mod target;
mod words;

pub use account::{Account, WaitSummary};
pub use cluster::explain;
pub use devices::{DeviceDayRow, device_days};
pub use row::{ExplainedRow, WaitRow, wait_rows};
pub use target::Target;
pub use words::{sentence, table};
