//! Graphs: work that is recorded here, and launched as one run of ops. A session runs its ops in
//! one order, so that a graph's launch is its nodes in an order that its dependencies allow.

mod exec;
mod owner;
pub(crate) mod params;
mod recorded;
mod work;

pub(crate) use exec::Exec;
pub(crate) use recorded::{Graph, Launch, Node, Work};
