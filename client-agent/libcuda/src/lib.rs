//! `libcuda.so.1` for machines without a GPU: the CUDA driver API, served by a worker of a Warploom
//! cluster.
//!
//! This library is a guest in somebody else's process. It starts nothing when it is loaded; its
//! threads begin with `cuInit` and take no signals; it prints nothing but what kernels print; every
//! export catches panics; after a `fork` the child is told that it is not initialised, and nothing
//! here takes a lock there.
//!
//! | module | what |
//! | --- | --- |
//! | [`api`] | the exported functions: thin, each one names its arguments and calls the rest |
//! | [`symbol`] | every symbol of the driver API, and how names and versions find them |
//! | [`process`] | what begins with `cuInit`: settings, connection, devices |
//! | [`connection`] | the sessions' way to the cluster: opened, kept alive, ended |
//! | [`fork`] | what the child of a fork is told |
//! | [`device`] | one virtual device: its session, its memory, what is known of it |
//! | [`context`], [`stack`], [`current`] | contexts, each thread's stack of them, the one a thread is in |
//! | [`module`] | images, libraries, functions |
//! | [`copy`], [`volume`] | copies and sets |
//! | [`graph`], [`capture`], [`user_object`] | graphs, streams that record them, what they hold |
//! | [`status`] | the driver's result codes |

mod api;
mod attribute;
mod capture;
mod connection;
mod context;
mod copy;
mod current;
mod device;
mod event;
mod fatbin;
mod fork;
mod graph;
mod guard;
mod handle;
mod host;
mod launch;
mod managed;
mod mirror;
mod module;
mod onlooker;
mod process;
mod settings;
mod signal;
mod stack;
mod status;
mod stream;
mod symbol;
mod timekeeper;
mod user_object;
mod volume;
mod work;

/// Tells a worker that this is no driver: on it, it would be its own client.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub static warploom_drop_in: u8 = 1;
