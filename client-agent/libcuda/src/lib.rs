//! `libcuda.so.1` for machines without a GPU: the CUDA driver API, served by a worker of a Warploom
//! cluster.
//!
//! This library is a guest in somebody else's process. It starts nothing when it is loaded; its
//! threads begin with `cuInit` and take no signals; it prints nothing but what kernels print; every
//! export catches panics; after a `fork` every function is an error in the child, which is not
//! initialised, and nothing here takes a lock there.
//!
//! | module | what |
//! | --- | --- |
//! | [`api`] | the exported functions: thin, each one names its arguments and calls the rest |
//! | [`abi`] | types of the exports' arguments, by what the program promises of them |
//! | [`handle`] | tables of the objects that programs name by handles |
//! | [`symbol`] | every symbol of the driver API, and how names and versions find them |
//! | [`process`] | the state of the process from `cuInit` on: settings, connection, devices |
//! | [`visible`] | the devices that the program sees, by CUDA's variables |
//! | [`uuid`] | UUIDs, read and written |
//! | [`connection`] | the sessions' way to the cluster: opened, kept alive, ended |
//! | [`fork`] | forks of the process: the child is not initialised |
//! | [`device`] | one virtual device: its session, its memory, its properties |
//! | [`context`], [`stack`], [`current_context`] | contexts, each thread's stack of them, and its current one |
//! | [`module`] | images, libraries, functions |
//! | [`pool`], [`pool_handle`] | pools of memory, and their handles |
//! | [`physical`] | memory that is mapped at reserved addresses |
//! | [`nvml`] | the little of NVIDIA's management library that JAX asks for |
//! | [`copy`], [`copy3d`], [`fill`] | copies and sets |
//! | [`array`], [`texture`] | arrays, texture and surface objects |
//! | [`reset`], [`held`] | the end of all that a primary context has |
//! | [`graph`], [`capture`], [`user_object`] | graphs, streams that record them, what they hold |
//! | [`thread_form`] | forms of functions for programs whose default stream is the thread's |
//! | [`tables`] | tables of functions that the CUDA runtime asks its driver for |
//! | [`stats`] | the report at the program's end |
//! | [`status`] | the driver's result codes |

mod abi;
mod advised;
mod api;
mod array;
mod attribute;
mod capture;
mod connection;
mod context;
mod copy;
mod copy3d;
mod current_context;
mod device;
mod event;
mod event_times;
mod exchange;
mod fatbin;
mod fill;
mod fork;
mod graph;
mod guard;
mod handle;
mod held;
mod host;
mod ipc;
mod launch;
mod launch_attributes;
mod lock;
mod managed;
mod mapped;
mod mirror;
mod module;
use nvml as _;
mod occupancy;
mod old_launch;
mod onlooker;
mod physical;
mod pieces;
mod pool;
mod pool_handle;
mod process;
mod reset;
mod settings;
mod stack;
mod stats;
mod status;
mod stream;
mod symbol;
mod tables;
mod tensor_map;
mod texture;
mod thread_form;
mod user_object;
mod uuid;
mod visible;
mod work;

use crate::abi::{Count, OutList};

/// Tells a worker that this is no driver: on it, it would be its own client.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub static warploom_drop_in: u8 = 1;

/// For those who run tests: 1 where a device of this process answers no more, else 0.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub extern "C" fn warploom_lost() -> std::ffi::c_int {
    std::ffi::c_int::from(process::is_any_lost())
}

/// For those who run tests: how many kernels were asked for that there is no PTX of; what was said of
/// the last one goes to `text`, of so many bytes, ended by a zero byte.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn warploom_refusals<'c>(text: OutList<'c, u8>, room: Count<'c>) -> u64 {
    let (count, said) = module::last_refusal();
    if let Some(length) = room.number().checked_sub(1) {
        // Null says that the text is not wanted.
        let _ = text.put(room, said.bytes().take(length).chain([0]));
    }
    count
}
