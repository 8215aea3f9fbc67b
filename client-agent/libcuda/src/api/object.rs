//! User objects.

use std::ffi::c_uint;

use crate::abi::{Data, Function, Handle, HostCall, HostFunction, Out};
use crate::graph::Graph;
use crate::guard::api;
use crate::status::Status;
use crate::user_object::{UserObject, create, release, retain};

/// The flag of `cuGraphRetainUserObject` that moves the program's references to the graph.
const MOVE: c_uint = 1;

api! {
    fn cuUserObjectCreate<'c>(
        object: Out<'_, Handle<UserObject>>, data: Data<'c>, destroy: Function<'c, HostFunction>, count: c_uint,
        _flags: c_uint,
    ) {
        let destroy = HostCall::new(destroy, data)?;
        object.put_made(|| match count {
            0 => Err(Status::INVALID_VALUE),
            _ => Ok(create(destroy, count)),
        })
    }

    fn cuUserObjectRetain(object: Handle<UserObject>, count: c_uint) => retain(object, count);
    fn cuUserObjectRelease(object: Handle<UserObject>, count: c_uint) => release(object, count);

    fn cuGraphRetainUserObject(
        graph: Handle<Graph>, object: Handle<UserObject>, count: c_uint, flags: c_uint,
    ) {
        graph.get()?.hold(object, object.get()?, count);
        match flags & MOVE {
            0 => Ok(()),
            _ => release(object, count),
        }
    }

    fn cuGraphReleaseUserObject(graph: Handle<Graph>, object: Handle<UserObject>, count: c_uint)
        => graph.get()?.let_go(object, count);
}
