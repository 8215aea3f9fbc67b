//! The launch path: a client's batches and intents, the leader's grants, a worker's results, and
//! their ops.

pub(crate) mod batch;
pub(crate) mod descriptor;
pub(crate) mod done;
pub(crate) mod fingerprint;
pub(crate) mod grant;
pub(crate) mod intent;
pub(crate) mod op;
pub(crate) mod ops;
pub(crate) mod session_data;
pub(crate) mod tensor_map;
pub(crate) mod texture;
pub(crate) mod times;
