//! `libcuda.so.1` for machines without a GPU: the CUDA driver API, served by a worker of a Warploom
//! cluster.
//!
//! This library runs inside the process of another program. It starts nothing when it is loaded.
//! Its threads begin with `cuInit` and take no signals. It prints only the output of kernels. Every
//! export catches panics. After a `fork`, the child is not initialised: every function returns an
//! error there, and nothing here takes a lock.
//!
//! | module | what |
//! | --- | --- |
//! | [`api`] | the exported functions: thin, each one names its arguments and calls the rest |
//! | [`abi`] | types of the exports' arguments, by the program's promises about them |
//! | [`handle`] | tables of the objects that programs name by handles |
//! | [`symbol`] | every symbol of the driver API, and the lookup by name and version |
//! | [`process`] | the state of the process from `cuInit` on: settings, connection, devices |
//! | [`visible`] | the devices that the program sees, by CUDA's variables |
//! | [`uuid`] | UUIDs, read and written |
//! | [`connection`] | the sessions' connection to the cluster: opened, kept alive, ended |
//! | [`fork`] | forks of the process: the child is not initialised |
//! | [`device`] | one virtual device: its session, its memory, its properties |
//! | [`context`], [`stack`], [`current_context`] | contexts, each thread's stack and current one |
//! | [`module`] | images, libraries, functions |
//! | [`pool`], [`pool_handle`] | pools of memory, and their handles |
//! | [`physical`] | memory that is mapped at reserved addresses |
//! | [`nvml`] | the part of NVIDIA's management library that JAX needs |
//! | [`copy`], [`copy3d`], [`fill`] | copies and sets |
//! | [`mod@array`], [`texture`] | arrays, texture and surface objects |
//! | [`reset`], [`held`] | the end of everything that a context owns |
//! | [`graph`], [`capture`], [`user_object`] | graphs, stream capture, objects held by graphs |
//! | [`thread_form`] | forms of functions for programs that use the thread's default stream |
//! | [`tables`] | tables of functions that the CUDA runtime requests from its driver |
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
mod failed;
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

use crate::abi::{Count, OutList, Text};
use crate::status::Status;

/// Tells a worker that this is not a driver: a worker that loaded it would be its own client.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub static warploom_drop_in: u8 = 1;

/// For test runners: 1 if a device of this process no longer answers, else 0.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub extern "C" fn warploom_lost() -> std::ffi::c_int {
    std::ffi::c_int::from(process::is_any_lost())
}

/// For programs that trace themselves: sets the W3C `traceparent` of the calling thread's following requests. Null or
/// an empty text ends it. Returns 0, or `CUDA_ERROR_INVALID_VALUE` for a text that is none. It may be called at any
/// time, and never waits.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn warploom_set_traceparent(text: Text<'_>) -> std::ffi::c_int {
    let text = text.take_or_empty();
    match text.map(|text| client_session::set_traceparent(Some(text))) {
        Ok(Ok(())) => 0,
        _ => Status::INVALID_VALUE.0,
    }
}

/// For test runners: number of requested kernels without PTX. The message of the last one is
/// written to `text`, which has room for `room` bytes, with a terminating zero byte.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn warploom_refusals<'c>(text: OutList<'c, u8>, room: Count<'c>) -> u64 {
    let (count, said) = module::last_refusal();
    if let Some(length) = room.number().checked_sub(1) {
        // Null means that the text is not wanted.
        let _ = text.put(room, said.bytes().take(length).chain([0]));
    }
    count
}

/// For test runners: number of sessions of this process that have failed. The last failure in words is written to
/// `text`, which has room for `room` bytes, with a terminating zero byte.
#[expect(unsafe_code, reason = "an exported name")]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn warploom_last_failure<'c>(text: OutList<'c, u8>, room: Count<'c>) -> u64 {
    let (count, said) = failed::last();
    if let Some(length) = room.number().checked_sub(1) {
        // Null means that the text is not wanted.
        let _ = text.put(room, said.bytes().take(length).chain([0]));
    }
    count
}
