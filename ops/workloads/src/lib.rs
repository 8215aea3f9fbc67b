//! Kernels and tenants of the demo, each checked against a plain Rust reference.
//!
//! A [`Workload`] is a program that knows only the small trait [`Gpu`]. The client library
//! implements the trait over the bus, a test over a device in its own process. This crate has no
//! clock and no think time. The caller that drives a workload decides when, how often and how long
//! it runs, and measures the times.
//!
//! | name | a request is | launches |
//! | --- | --- | --- |
//! | `chat` | one token of a small GPT-style decoder | 48 |
//! | `search` | one batch of queries ranked against all documents | 3 |
//! | `train` | one step of a two-layer perceptron | 12, or 13 at the start of an epoch |
//!
//! [`checks`] compare every kernel by itself with a reference, on any [`Gpu`]. The module [`local`]
//! runs all of them on a device in this process; tests call [`local::suite`].
//!
//! ```
//! # fn drive<G: workloads::Gpu>(mut gpu: G) -> Result<(), Box<dyn std::error::Error>> {
//! let mut chat = workloads::by_name("chat", 7)?;
//! chat.prepare(&mut gpu)?;
//! let outcome = chat.request(&mut gpu)?;
//! assert!(outcome.verified, "{:?}", outcome.detail);
//! # Ok(())
//! # }
//! ```

mod by_name;
mod chat;
pub mod checks;
mod compare;
mod gpu;
pub mod kernels;
pub mod local;
mod params;
mod search;
mod split_mix;
pub mod suite;
mod train;
mod workload;

pub use by_name::{NAMES, UnknownWorkload, by_name};
pub use chat::Chat;
pub use compare::Tolerance;
pub use gpu::{FunctionId, Gpu, ModuleId};
pub use params::Params;
pub use search::Search;
pub use split_mix::SplitMix64;
pub use train::Train;
pub use workload::{RequestOutcome, Verification, Workload, WorkloadError};
