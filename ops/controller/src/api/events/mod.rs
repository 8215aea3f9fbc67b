//! Live data as server-sent events: positions of the order, changes of tenants and settings, and
//! the cluster's status once a second. A client that lost its connection resumes with
//! `Last-Event-ID`.

pub(crate) mod order;
pub(crate) mod state;
pub(crate) mod status;
mod stream;
