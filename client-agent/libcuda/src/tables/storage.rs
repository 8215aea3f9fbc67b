//! What libraries keep with a context: values by key, each with a destructor for the context's end.

#![expect(unsafe_code, reason = "destructors are functions of the program's")]

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::abi::Function;
use crate::current_context;
use crate::process::process;
use crate::status::{Result, Status};

/// A destructor of what is kept with a context: (context, key, value).
pub(super) type Destructor = unsafe extern "C" fn(usize, usize, usize);

/// A value and what ends it.
struct Kept {
    value: usize,
    destructor: Function<Destructor>,
}

/// By context and key.
static KEPT: LazyLock<Mutex<HashMap<(usize, usize), Kept>>> = LazyLock::new(Mutex::default);

/// Most values of a process: a program cannot fill its memory with them by mistake.
const MOST: usize = 1 << 20;

fn kept() -> MutexGuard<'static, HashMap<(usize, usize), Kept>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A context by its handle; 0 is the thread's.
fn context(handle: usize) -> Result<usize> {
    if handle == 0 {
        return Ok(current_context::current()?.1.handle);
    }
    Ok(process()?.contexts.get(handle)?.handle)
}

pub(super) fn put(
    handle: usize,
    key: usize,
    value: usize,
    destructor: Function<Destructor>,
) -> Result {
    let context = context(handle)?;
    let mut kept = kept();
    if kept.len() >= MOST {
        return Err(Status::OUT_OF_MEMORY);
    }
    kept.insert((context, key), Kept { value, destructor });
    Ok(())
}

pub(super) fn delete(handle: usize, key: usize) -> Result {
    let context = context(handle)?;
    kept().remove(&(context, key));
    Ok(())
}

pub(super) fn get(handle: usize, key: usize) -> Result<usize> {
    let context = context(handle)?;
    let found = kept().get(&(context, key)).map(|kept| kept.value);
    found.ok_or(Status::INVALID_HANDLE)
}

/// At the end of a context: everything that is kept with it ends.
pub(crate) fn end(context: usize) {
    let ended: Vec<_> = {
        let mut kept = kept();
        let keys: Vec<_> = kept
            .keys()
            .filter(|key| key.0 == context)
            .copied()
            .collect();
        let ended = keys.into_iter();
        ended
            .filter_map(|key| Some((key.1, kept.remove(&key)?)))
            .collect()
    };
    // Without the lock: they may keep or forget something themselves.
    for (key, kept) in ended {
        if let Some(destructor) = kept.destructor.get() {
            // SAFETY: a library that keeps a value names its destructor for this moment, once.
            unsafe { destructor(context, key, kept.value) };
        }
    }
}
