//! What a tenant has of its devices, and NVIDIA's management library (NVML) over it: the drop-in is
//! `libnvidia-ml.so.1` too.
//!
//! Numbers come from the cluster when they are asked for: memory is the tenant's, and so are activity
//! and processes. Nothing here opens a session. As its neighbour `libcuda`, the library is a guest in
//! somebody else's process: it starts nothing when it is loaded, its one thread begins with `nvmlInit`
//! and takes no signals, it prints nothing, every export catches panics, and every call ends within two
//! seconds, whatever the cluster does.
//!
//! | module | what |
//! | --- | --- |
//! | [`snapshot`] | the tenant's devices at one moment, and their order |
//! | [`ask`] | the questions to leader and workers |
//! | [`watcher`] | the thread that has the connection |
//! | [`library`] | the state of a process from `nvmlInit` on, and after a fork |
//! | [`symbol`] | every function of NVML, by the table `symbols.txt` |
//! | [`api`] | the functions that work |
//! | [`abi`], [`layout`] | types of their arguments; structures |
//! | [`guard`] | what stands between a caller and a function |
//! | [`status`] | result codes |

mod abi;
mod api;
mod ask;
mod guard;
mod layout;
mod library;
mod snapshot;
mod status;
mod symbol;
mod version;
mod watcher;

pub use ask::{AskError, Asker};
pub use client_session::driver_version;
pub use snapshot::{DeviceState, ProcessState, Share, Viewer, arranged, percent};
pub use symbol::{Symbol, symbols};
pub use version::driver_text;
