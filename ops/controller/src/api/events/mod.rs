//! Live data, as server-sent events: positions of the order, changes of tenants and settings, and the
//! cluster's status once a second. Whoever was cut off goes on with `Last-Event-ID`.

pub(crate) mod order;
pub(crate) mod state;
pub(crate) mod status;
mod stream;
