//! The workloads by name.

use crate::{Chat, Gpu, Search, Train, Workload};

/// The names that [`by_name`] knows.
pub const NAMES: [&str; 3] = ["chat", "search", "train"];

/// No workload has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no workload is named {0:?}; there are chat, search and train")]
pub struct UnknownWorkload(pub String);

/// The workload of this name; equal seeds give equal weights, inputs and results.
///
/// # Errors
/// If no workload has this name.
pub fn by_name<G: Gpu>(name: &str, seed: u64) -> Result<Box<dyn Workload<G>>, UnknownWorkload> {
    match name {
        "chat" => Ok(Box::new(Chat::new(seed))),
        "search" => Ok(Box::new(Search::new(seed))),
        "train" => Ok(Box::new(Train::new(seed))),
        _ => Err(UnknownWorkload(name.to_owned())),
    }
}
