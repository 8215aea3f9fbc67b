//! The waits of launches and the causes of idle devices, for people and programs. The answers come
//! from the record ([`scheduler_leader_core::why`]); `docs/howto/why.md` explains each cause.

mod account;
mod begin;
mod changes;
mod cluster;
mod devices;
mod distribution;
mod row;
mod target;
mod within;
mod words;

pub use account::{Account, WaitSummary};
pub use begin::RecordBegin;
pub use changes::{ChangeRow, change_rows, change_table};
pub use cluster::explain;
pub use devices::{DeviceDayRow, device_days};
pub use row::{ExplainedRow, WaitRow, wait_rows};
pub use target::Target;
pub use within::Within;
pub use words::{sentence, table};
