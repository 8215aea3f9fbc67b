//! Graphs: work that is recorded here, and launched as one run of ops. A session runs its ops in
//! one order. So a launch runs the nodes in an order that their dependencies allow.

mod exec;
mod owner;
pub(crate) mod params;
mod recorded;
mod work;

pub(crate) use exec::Exec;
pub(crate) use recorded::{Graph, Launch, Node, Work};
