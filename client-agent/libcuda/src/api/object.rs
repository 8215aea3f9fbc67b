//! User objects.

use std::ffi::{c_uint, c_void};

use super::put;
use crate::graph::graph;
use crate::guard::api;
use crate::process::process;
use crate::status::Status;
use crate::user_object::{create, object, release, retain};

/// The flag of `cuGraphRetainUserObject` that gives the program's references to the graph.
const MOVE: c_uint = 1;

api! {
    fn cuUserObjectCreate(
        handle: *mut usize,
        data: *mut c_void,
        destroy: Option<unsafe extern "C" fn(*mut c_void)>,
        count: c_uint,
        flags: c_uint,
    ) {
        let _ = flags;
        process()?;
        let destroy = destroy.ok_or(Status::INVALID_VALUE)?;
        if handle.is_null() || count == 0 {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller's pointer.
        unsafe { put(handle, create(data as usize, destroy, count)) }
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
