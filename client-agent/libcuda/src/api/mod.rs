//! The exported functions.

#![expect(
    unsafe_code,
    reason = "a C interface: pointers of the caller's, exported names"
)]

mod advice;
mod array;
mod array_copy;
mod capture;
mod context;
mod copy;
mod device;
mod dot;
mod event;
mod exec;
mod general;
mod graph;
mod host;
mod ipc;
mod launch;
mod link;
mod mapping;
mod memory;
mod module;
mod node;
mod object;
mod old_launch;
mod options;
mod pool;
mod stream;
mod tensor_map;
mod texture;

pub(crate) use advice::*;
pub(crate) use array::*;
pub(crate) use array_copy::*;
pub(crate) use capture::*;
pub(crate) use context::*;
pub(crate) use copy::*;
pub(crate) use device::*;
pub(crate) use dot::*;
pub(crate) use event::*;
pub(crate) use exec::*;
pub(crate) use general::*;
pub(crate) use graph::*;
pub(crate) use host::*;
pub(crate) use ipc::*;
pub(crate) use launch::*;
pub(crate) use link::*;
pub(crate) use mapping::*;
pub(crate) use memory::*;
pub(crate) use module::*;
pub(crate) use node::*;
pub(crate) use object::*;
pub(crate) use old_launch::*;
pub(crate) use pool::*;
pub(crate) use stream::*;
pub(crate) use tensor_map::*;
pub(crate) use texture::*;
