//! The chunks of large copies that a worker keeps, by their content: who may be answered from which, and
//! which ones go.
//!
//! **Problem.** Programs that serve the same model copy the same weights, one after the other and again
//! after every restart. What is here need not be sent again. But a hash is no proof that its sender has
//! the bytes, one tenant must not learn what another has, and what is kept takes the host's memory.
//!
//! **Rules.**
//! - A tenant is answered from what its own sessions have sent, and from what was published to it.
//! - Equal chunks are kept once for each [`Pool`]: one for a tenant, or one for all, as the worker's
//!   setting says. Whoever sends what is kept there already is given it as well, once its bytes were
//!   compared.
//! - A chunk that is used, by a transfer or by a session's memory, costs nothing more. Of the others so
//!   many bytes stay as the worker's setting says; when there are more, the pool with the most such bytes
//!   gives up the one that was wanted longest ago. So a tenant that fills the memory displaces its own
//!   chunks first, where tenants have pools of their own.
//! - An offer that needs published chunks which are not here waits for them, not for ever: what cannot be
//!   had, or not in time, or where too many wait, its client sends.
//!
//! The shell has the bytes; `C` is a chunk as it has it.

mod offers;
mod published;
mod table;

pub use offers::{Asker, Content, Offered};
pub use published::{Audience, PublishedTensor, PublishedWeights};
pub use table::{ChunkId, ContentTable, Pool};
