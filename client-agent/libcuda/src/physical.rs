//! Memory that a program maps at addresses which it has reserved (`cuMemCreate`, `cuMemMap`).
//!
//! A piece of memory is allocated at the address where it is first mapped, when that happens. It
//! later gets an address of its own, which the program does not see. That happens once it is mapped
//! a second time, is unmapped while a handle refers to it, or is exported. Its bytes live there
//! until no handle and no mapping is left. The memory of an imported piece is in the other process;
//! the piece is mapped by an import.
//!
//! The mappings are in `mapped.rs`.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use bus_schemas::ExportPlace;

use crate::abi::Handle;
use crate::device::Device;
use crate::handle::table;
use crate::ipc::Name;
use crate::lock::lock;
use crate::status::{Result, Status};

/// Granularity of pieces of memory, addresses and reserved ranges.
pub(crate) const GRAIN: u64 = 2 << 20;

/// The only kind of export handle: a file descriptor.
pub(crate) const SHARED: c_int = 1;

/// A piece of memory.
#[derive(Debug)]
pub(crate) struct Physical {
    /// The device's number.
    pub(crate) device: usize,
    pub(crate) bytes: u64,
    /// The kinds of export handles that it was created for.
    pub(crate) shared: c_int,
    /// Locked after the table of mappings, if both are locked.
    pub(crate) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// The program's own references.
    pub(crate) references: u32,
    /// The place of its memory.
    pub(crate) home: Home,
}

/// The place of a piece's memory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Home {
    /// It has no memory yet.
    #[default]
    None,
    /// At its only mapped address; exported by this name if the worker moves no memory.
    Mapped(u64, Option<Name>),
    /// At an address of its own, exported by this name.
    Own(u64, Option<Name>),
    /// At the address where it was mapped until just now; most calls first move it.
    Leaving(u64),
    /// Freed: it was unmapped, and found no address of its own.
    Gone,
    /// In another process.
    Other(Name, ExportPlace),
}

impl Physical {
    /// The whole piece, as an importing process must describe it.
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
    /// The name by which other processes know it.
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
