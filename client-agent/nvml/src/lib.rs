//! A tenant's view of its devices, and NVIDIA's management library (NVML) on top of it: the drop-in
//! is `libnvidia-ml.so.1` too.
//!
//! Numbers are fetched from the cluster on demand: memory, activity and processes are those of the
//! tenant. Nothing here opens a session. Like `libcuda`, the library runs inside the process of
//! another program. It starts nothing when it is loaded. Its one thread begins with `nvmlInit` and
//! takes no signals. It prints nothing, and every export catches panics. Every call ends within two
//! seconds, whatever the cluster does.
//!
//! | module | what |
//! | --- | --- |
//! | [`snapshot`] | the tenant's devices at one moment, and their order |
//! | [`ask`] | requests to leader and workers |
//! | [`watcher`] | the thread that owns the connection |
//! | [`library`] | the state of a process from `nvmlInit` on, and after a fork |
//! | [`symbol`] | every function of NVML, by the table `symbols.txt` |
//! | [`api`] | the functions that work |
//! | [`abi`], [`layout`] | types of their arguments; structures |
//! | [`guard`] | the checks between a caller and a function |
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

pub use ask::{AskError, StatusClient};
pub use client_session::{GPU_DRIVER, driver_version_for};
pub use snapshot::{DeviceShare, DeviceState, ProcessState, Viewer, arranged, percent};
pub use symbol::{ExportedSymbol, symbols};
pub use version::driver_text;
