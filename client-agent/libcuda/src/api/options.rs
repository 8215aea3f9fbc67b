//! Options of compilations and links, and the logs that they name.

use std::ffi::{c_int, c_void};

use crate::abi::{Count, InOutList, List, Room};

/// The `CUjit_option` that limits registers.
const MAX_REGISTERS: c_int = 0;
/// The `CUlibraryOption` by which the program keeps an image in place.
const PRESERVED: c_int = 1;
/// `CUjit_option`s that name the buffers of logs.
const INFO_LOG: [c_int; 2] = [3, 4];
const ERROR_LOG: [c_int; 2] = [5, 6];

/// Options of a compilation: their keys, and their values, stored in the pointers themselves.
#[derive(Clone, Copy)]
pub(super) struct Options<'a> {
    pub(super) count: Count<'a, u32>,
    pub(super) keys: List<'a, c_int>,
    pub(super) values: Values<'a>,
}

/// The values of options.
pub(super) type Values<'a> = InOutList<'a, *mut c_void>;

impl Options<'_> {
    pub(super) const NONE: Options<'static> = Options {
        count: Count::NONE,
        keys: List::NONE,
        values: Values::NONE,
    };

    /// The index of an option.
    fn place(self, key: c_int) -> Option<usize> {
        let mut keys = self.keys.items(self.count.whole()).ok()?;
        keys.position(|each| each == key)
    }

    /// The value of an option.
    fn value(self, key: c_int) -> Option<*mut c_void> {
        self.values.get(self.count.whole(), self.place(key)?)
    }

    /// Maximum number of registers of a thread.
    pub(super) fn registers(self) -> Option<u32> {
        let value = self.value(MAX_REGISTERS)?;
        Some(value as usize as u32).filter(|count| *count > 0)
    }

    /// True if the program keeps the image in place, which is an option of libraries.
    pub(super) fn is_kept(self) -> bool {
        self.value(PRESERVED).is_some_and(|value| !value.is_null())
    }

    /// Writes a log and its length to the buffers of the options.
    fn log(self, [buffer, size]: [c_int; 2], text: &str) {
        let (Some(to), Some(place)) = (self.value(buffer), self.place(size)) else {
            return;
        };
        let room = self
            .value(size)
            .map_or(0, |room| room as usize as u32 as usize);
        let count = text.len().min(room.saturating_sub(1));
        // SAFETY: the option of a log's buffer promises as many bytes as the option of its size
        // says.
        if let Ok(room @ [_, ..]) = unsafe { Room::at(to, room) } {
            room[..count].copy_from_slice(&text.as_bytes()[..count]);
            room[count] = 0;
        }
        let length = std::ptr::without_provenance_mut(count);
        self.values.set(self.count.whole(), place, length);
    }

    /// Writes an error to its log.
    pub(super) fn log_error(self, text: &str) {
        self.log(ERROR_LOG, text);
    }

    /// Writes notes to the info log, and empties the error log.
    pub(super) fn log_notes(self, text: &str) {
        self.log(INFO_LOG, text);
        self.log(ERROR_LOG, "");
    }

    /// Empties both logs.
    pub(super) fn log_nothing(self) {
        self.log_notes("");
    }
}
