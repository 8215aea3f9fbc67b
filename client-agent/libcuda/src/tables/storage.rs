//! Values that libraries store with a context: by key, each with a destructor for the context's
//! end.

#![expect(unsafe_code, reason = "destructors are functions of the program's")]

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use crate::abi::{Data, Function, Handle};
use crate::context::Context;
use crate::lock::lock;
use crate::status::{Result, Status};

/// The destructor of a value stored with a context: (context, key, value).
pub(super) type Destructor = unsafe extern "C" fn(Handle<Context>, usize, usize);

/// A value with its destructor.
struct Kept {
    value: usize,
    destructor: Option<Destructor>,
}

/// The stored values, by context and key.
type AllKept = HashMap<(Handle<Context>, usize), Kept>;

static KEPT: LazyLock<Mutex<AllKept>> = LazyLock::new(Mutex::default);

/// Maximum number of values of a process, so that a faulty program cannot fill its memory with
/// them.
const MOST: usize = 1 << 20;

/// Stores a value, with the destructor that the same call names for it.
pub(super) fn put<'c>(
    context: Handle<Context>,
    key: usize,
    value: Data<'c>,
    destructor: Function<'c, Destructor>,
) -> Result {
    let context = context.or_current()?.handle;
    let mut kept = lock(&KEPT);
    if kept.len() >= MOST {
        return Err(Status::OUT_OF_MEMORY);
    }
    let (value, destructor) = (value.pointer() as usize, destructor.get());
    kept.insert((context, key), Kept { value, destructor });
    Ok(())
}

pub(super) fn delete(context: Handle<Context>, key: usize) -> Result {
    let context = context.or_current()?.handle;
    lock(&KEPT).remove(&(context, key));
    Ok(())
}

pub(super) fn get(context: Handle<Context>, key: usize) -> Result<usize> {
    let context = context.or_current()?.handle;
    let found = lock(&KEPT).get(&(context, key)).map(|kept| kept.value);
    found.ok_or(Status::INVALID_HANDLE)
}

/// Destroys all values stored with a context that ends.
pub(crate) fn end(context: Handle<Context>) {
    let ended: Vec<_> = {
        let mut kept = lock(&KEPT);
        kept.extract_if(|key, _| key.0 == context).collect()
    };
    // Without the lock, because the destructors may add or remove values themselves.
    for ((_, key), kept) in ended {
        if let Some(destructor) = kept.destructor {
            // SAFETY: a library that stores a value names its destructor to be called once, at this
            // time.
            unsafe { destructor(context, key, kept.value) };
        }
    }
}
