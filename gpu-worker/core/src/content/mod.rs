//! The chunks of large copies that a worker keeps by their content: the tenants that each chunk may answer,
//! and the chunks that are given up.
//!
//! **Problem.** Programs that serve the same model copy the same weights, one after the other and again after
//! every restart. A chunk that the worker has need not be sent again. But a hash does not prove that its
//! sender has the bytes, one tenant must not learn what another has, and kept chunks take the host's memory.
//!
//! **Rules.**
//! - A tenant is answered from chunks that its own sessions have sent, and from chunks that were published to
//!   it.
//! - Equal chunks are kept once for each [`Pool`]: one pool for each tenant, or one for all, by the worker's
//!   setting. A tenant that sends a chunk which its pool has is given that chunk too, once the bytes were
//!   compared.
//! - A chunk that a transfer or a session's memory uses costs nothing more. Of the other chunks, as many
//!   bytes stay as the worker's setting allows. If there are more, the pool with the most such bytes gives up
//!   its least recently wanted chunk. So a tenant that fills the memory displaces its own chunks first, if
//!   tenants have pools of their own.
//! - An offer that needs published chunks which the worker lacks waits for them, for a limited time. If a
//!   chunk cannot be had, does not come in time, or too many offers wait, the client sends the bytes.
//!
//! The shell has the bytes; `C` is the shell's chunk type.

mod copy_chunks;
mod offers;
mod published;
mod table;

pub use copy_chunks::{CopyChunks, chunk_ids};
pub use offers::{Asker, Content, Offered};
pub use published::{Audience, PublishedTensor, PublishedWeights};
pub use table::{ChunkId, ContentTable, Pool};
