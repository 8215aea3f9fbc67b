//! The controller: its operations, logins, roles and live data, over HTTP, against a real cluster.

mod agents;
mod failures;
mod faults;
pub(crate) mod interface;
mod logins;
mod operations;
mod roles;
mod shares;
mod streams;
mod why;
