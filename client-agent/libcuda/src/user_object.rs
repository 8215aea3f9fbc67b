//! User objects: what a program ties to graphs, and takes down when nothing refers to it any more.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

use crate::abi::HostCall;
use crate::handle::Handles;
use crate::status::{Result, Status};

/// A user object. Graphs hold it, and the table does while the program has references of its own.
#[derive(Debug)]
pub(crate) struct UserObject {
    destroy: HostCall,
    /// The program's own references.
    references: AtomicU32,
}

static OBJECTS: LazyLock<Handles<UserObject>> = LazyLock::new(Handles::new);

/// A new object with so many references of the program's.
pub(crate) fn create(destroy: HostCall, references: u32) -> usize {
    OBJECTS.add(UserObject {
        destroy,
        references: AtomicU32::new(references),
    })
}

/// The object of a handle.
pub(crate) fn object(handle: usize) -> Result<Arc<UserObject>> {
    OBJECTS.get(handle).ok_or(Status::INVALID_VALUE)
}

/// Adds references of the program's.
pub(crate) fn retain(handle: usize, count: u32) -> Result {
    object(handle)?
        .references
        .fetch_add(count, Ordering::Relaxed);
    Ok(())
}

/// Takes references of the program's away.
pub(crate) fn release(handle: usize, count: u32) -> Result {
    let fewer = |have: u32| have.checked_sub(count);
    let had = object(handle)?
        .references
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer)
        .map_err(|_| Status::INVALID_VALUE)?;
    if had == count {
        OBJECTS.remove(handle);
    }
    Ok(())
}

impl Drop for UserObject {
    fn drop(&mut self) {
        self.destroy.call();
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;

    use super::*;

    static DESTROYED: AtomicU32 = AtomicU32::new(0);

    extern "C" fn destroy(data: *mut c_void) {
        DESTROYED.fetch_add(data as usize as u32, Ordering::Relaxed);
    }

    #[test]
    fn the_last_reference_takes_an_object_down() {
        let handle = create(
            HostCall::of_test(destroy, std::ptr::without_provenance_mut(7)),
            1,
        );
        retain(handle, 1).expect("known");
        let held = object(handle).expect("known");
        assert_eq!(release(handle, 3), Err(Status::INVALID_VALUE));
        release(handle, 2).expect("so many");
        assert!(object(handle).is_err());
        assert_eq!(DESTROYED.load(Ordering::Relaxed), 0);
        drop(held);
        assert_eq!(DESTROYED.load(Ordering::Relaxed), 7);
    }
}
