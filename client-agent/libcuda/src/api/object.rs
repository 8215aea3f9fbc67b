//! User objects.

use std::ffi::c_uint;

use crate::abi::{Data, Function, HostCall, HostFunction, Out};
use crate::graph::graph;
use crate::guard::api;
use crate::process::process;
use crate::status::Status;
use crate::user_object::{create, object, release, retain};

/// The flag of `cuGraphRetainUserObject` that gives the program's references to the graph.
const MOVE: c_uint = 1;

api! {
    fn cuUserObjectCreate(
        handle: Out<'_, usize>,
        data: Data,
        destroy: Function<HostFunction>,
        count: c_uint,
        flags: c_uint,
    ) {
        let _ = flags;
        process()?;
        let destroy = HostCall::new(destroy, data)?;
        handle.check()?;
        if count == 0 {
            return Err(Status::INVALID_VALUE);
        }
        handle.put(create(destroy, count))
    }

    fn cuUserObjectRetain(handle: usize, count: c_uint) {
        retain(handle, count)
    }

    fn cuUserObjectRelease(handle: usize, count: c_uint) {
        release(handle, count)
    }

    fn cuGraphRetainUserObject(handle: usize, held: usize, count: c_uint, flags: c_uint) {
        graph(handle)?.hold(held, object(held)?, count);
        match flags & MOVE {
            0 => Ok(()),
            _ => release(held, count),
        }
    }

    fn cuGraphReleaseUserObject(handle: usize, held: usize, count: c_uint) {
        graph(handle)?.let_go(held, count)
    }
}
