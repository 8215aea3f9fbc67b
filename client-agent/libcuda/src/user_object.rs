//! User objects: resources that a program ties to graphs, and that are destroyed once unreferenced.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::abi::{Handle, HostCall};
use crate::handle::{Object, table};
use crate::status::{Result, Status};

/// A user object. Graphs hold it, and the table holds it while the program has references of its
/// own.
#[derive(Debug)]
pub(crate) struct UserObject {
    destroy: HostCall,
    /// The program's own references.
    references: AtomicU32,
}

table!(UserObject, INVALID_VALUE);

/// Creates an object with `references` references of the program.
pub(crate) fn create(destroy: HostCall, references: u32) -> Handle<UserObject> {
    UserObject::table().add(UserObject {
        destroy,
        references: AtomicU32::new(references),
    })
}

/// Adds references of the program.
pub(crate) fn retain(object: Handle<UserObject>, count: u32) -> Result {
    let references = &object.get()?.references;
    references.fetch_add(count, Ordering::Relaxed);
    Ok(())
}

/// Removes references of the program.
pub(crate) fn release(object: Handle<UserObject>, count: u32) -> Result {
    let fewer = |have: u32| have.checked_sub(count);
    let had = object
        .get()?
        .references
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer)
        .map_err(|_| Status::INVALID_VALUE)?;
    match had == count {
        true => object.remove().map(|_| ()),
        false => Ok(()),
    }
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
        let held = handle.get().expect("known");
        assert_eq!(release(handle, 3), Err(Status::INVALID_VALUE));
        release(handle, 2).expect("so many");
        assert!(handle.get().is_err());
        assert_eq!(DESTROYED.load(Ordering::Relaxed), 0);
        drop(held);
        assert_eq!(DESTROYED.load(Ordering::Relaxed), 7);
    }
}
