//! Tables of the objects that handles name.

use std::collections::BTreeMap;

/// Distance of two handles, so that they look like addresses.
const STEP: u64 = 16;
const FIRST: u64 = 0x1000;

/// Handles, none of which is used twice.
#[derive(Debug)]
pub(crate) struct Handles(u64);

impl Default for Handles {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Handles {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 += STEP;
        self.0
    }
}

/// Objects by their handles.
#[derive(Debug)]
pub(crate) struct Table<T>(BTreeMap<u64, T>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Table<T> {
    pub(crate) fn add(&mut self, handles: &mut Handles, it: T) -> u64 {
        let handle = handles.next();
        self.0.insert(handle, it);
        handle
    }

    pub(crate) fn get(&self, handle: u64) -> Result<&T, u32> {
        self.0.get(&handle).ok_or(crate::codes::INVALID_HANDLE)
    }

    pub(crate) fn get_mut(&mut self, handle: u64) -> Result<&mut T, u32> {
        self.0.get_mut(&handle).ok_or(crate::codes::INVALID_HANDLE)
    }

    pub(crate) fn remove(&mut self, handle: u64) -> Result<T, u32> {
        self.0.remove(&handle).ok_or(crate::codes::INVALID_HANDLE)
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.0.retain(|_, it| keep(it));
    }
}
