//! The functions in the tables.

use std::ffi::{c_int, c_void};

use super::storage::{self, Destructor};
use crate::abi::{Data, Function, Handle, InAny, Out};
use crate::api::{cuCtxGetCurrent, cuDevicePrimaryCtxRetain, cuModuleLoadData};
use crate::context::Context;
use crate::guard::unlisted;
use crate::module::Library;
use crate::status::{Result, Status};

/// Memory that tools would write to. It is zero, so nothing is enabled.
static QUIET: [u64; 4096] = [0; 4096];

fn code(answered: Result) -> c_int {
    answered.map_or_else(|status| status.0, |()| 0)
}

/// Does nothing and succeeds, which is the correct behaviour.
pub(super) extern "C" fn nothing() -> c_int {
    0
}

/// Refuses; libraries that call it work without it.
pub(super) extern "C" fn refused() -> c_int {
    Status::NOT_SUPPORTED.0
}

/// A function of which only the place is known.
pub(super) extern "C" fn unknown<const PLACE: usize>() -> c_int {
    super::asked::missed(PLACE);
    0
}

/// The primary context of a device, retained.
pub(super) extern "C" fn primary_context(
    context: Out<'_, Handle<Context>>,
    device: c_int,
) -> c_int {
    cuDevicePrimaryCtxRetain(context, device)
}

/// Loads an image that the program was linked with.
pub(super) extern "C" fn load(module: Out<'_, Handle<Library>>, image: InAny<'_>) -> c_int {
    cuModuleLoadData(module, image)
}

/// The buffer in which tools would enable their callbacks.
pub(super) extern "C" fn hooks(buffer: Out<'_, *const c_void>, size: Out<'_, usize>) {
    buffer.put_if(QUIET.as_ptr().cast());
    size.put_if(QUIET.len());
}

/// The calling thread's context.
pub(super) extern "C" fn thread_context(context: Out<'_, Handle<Context>>, kind: c_int) -> c_int {
    let _ = kind;
    cuCtxGetCurrent(context)
}

/// Stores a value with a context; null is the current one.
pub(super) extern "C" fn put<'c>(
    context: Handle<Context>,
    key: usize,
    value: Data<'c>,
    destructor: Function<'c, Destructor>,
) -> c_int {
    unlisted("the runtime's tables", || {
        storage::put(context, key, value, destructor)
    })
}

/// Removes a value; its destructor is not called.
pub(super) extern "C" fn delete(context: Handle<Context>, key: usize) -> c_int {
    unlisted("the runtime's tables", || storage::delete(context, key))
}

/// The value that is stored with a context.
pub(super) extern "C" fn get(value: Out<'_, usize>, context: Handle<Context>, key: usize) -> c_int {
    unlisted("the runtime's tables", || {
        value.put(storage::get(context, key)?)
    })
}

/// Reports that our contexts lack an optional feature.
pub(super) extern "C" fn check(
    context: Handle<Context>,
    state: Out<'_, u32>,
    more: Out<'_, *const c_void>,
) -> c_int {
    let _ = (context, more);
    state.put_if(0);
    0
}

/// Reports that no tool observes this context.
pub(super) extern "C" fn tools(context: Handle<Context>, state: Out<'_, u64>) -> c_int {
    let _ = context;
    state.put_if(1);
    0
}

/// The object of a number in a context; nothing is known of it except that it exists.
pub(super) extern "C" fn belonging(
    context: Handle<Context>,
    number: u64,
    found: Out<'_, *const c_void>,
) -> c_int {
    let _ = context;
    if number == u64::MAX {
        return code(found.check().and(Err(Status::INVALID_HANDLE)));
    }
    code(found.put(QUIET.as_ptr().cast()))
}

/// A number of the object that [`belonging`] found.
pub(super) extern "C" fn number(context: Handle<Context>, of: usize, found: Out<'_, u64>) -> c_int {
    let _ = context;
    match of {
        0 => Status::INVALID_VALUE.0,
        _ => code(found.put(0)),
    }
}
