//! Memory that a program maps at addresses which it has reserved (`cuMemCreate`, `cuMemMap`).
//!
//! A piece of memory is allocated where it is mapped first, when it is. It gets an address of its own, which
//! the program does not see, once it is mapped a second time, or is unmapped while a handle refers to it, or is
//! exported: its bytes live there until no handle and no mapping is left. A piece of another process has its
//! memory there, and is mapped by an import.
//!
//! What is mapped where is in `mapped.rs`.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use bus_schemas::ExportPlace;

use crate::abi::Handle;
use crate::device::Device;
use crate::handle::table;
use crate::ipc::Name;
use crate::lock::lock;
use crate::status::{Result, Status};

/// Pieces of memory, addresses and reserved ranges are multiples of this.
pub(crate) const GRAIN: u64 = 2 << 20;

/// The kind of handles for other processes that there is: a file descriptor.
pub(crate) const SHARED: c_int = 1;

/// A piece of memory.
#[derive(Debug)]
pub(crate) struct Physical {
    /// The device's number.
    pub(crate) device: usize,
    pub(crate) bytes: u64,
    /// The kinds of handles for other processes that it was made for.
    pub(crate) shared: c_int,
    /// Locked behind the table of what is mapped, where both are.
    pub(crate) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// The program's own references.
    pub(crate) references: u32,
    /// Where its memory is.
    pub(crate) home: Home,
}

/// Where a piece's memory is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Home {
    /// It has none yet.
    #[default]
    None,
    /// At the one address where it is mapped; exported by this name where the worker moves no memory.
    Mapped(u64, Option<Name>),
    /// At an address of its own, exported by this name.
    Own(u64, Option<Name>),
    /// Where it was mapped until just now: it is moved ahead of most calls.
    Leaving(u64),
    /// Nowhere: it was unmapped, and found no address of its own.
    Gone,
    /// In another process.
    Other(Name, ExportPlace),
}

impl Physical {
    /// The whole of it, as whoever imports it needs to know.
    pub(crate) fn whole(&self) -> ExportPlace {
        ExportPlace {
            bytes: self.bytes,
            before: 0,
            span: self.bytes,
        }
    }

    pub(crate) fn of(device: &Device, bytes: u64, shared: c_int, home: Home) -> Self {
        let references = 1;
        Self {
            device: device.ordinal,
            bytes,
            shared,
            state: Mutex::new(State { references, home }),
        }
    }
}

table!(Physical, INVALID_VALUE);

impl Home {
    /// By what other processes know it.
    pub(crate) fn name(&self) -> Option<Name> {
        match self {
            Self::None | Self::Leaving(_) | Self::Gone => None,
            Self::Mapped(_, name) | Self::Own(_, name) => *name,
            Self::Other(name, _) => Some(*name),
        }
    }
}

/// The piece of a handle.
pub(crate) fn piece(handle: Handle<Physical>) -> Result<Arc<Physical>> {
    let found = handle.get().ok();
    let found = found.filter(|it| lock(&it.state).references > 0);
    found.ok_or(Status::INVALID_VALUE)
}
