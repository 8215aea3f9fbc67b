//! The unit that goes to devices as a whole: an image, or the PTX that some kernels of a large
//! image need.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bus_schemas::{Code, Symbol};
use client_session::{ClientError, Module};
use ptx::ModuleInfo;

use super::source::Wrong;
use crate::device::Device;
use crate::lock::lock;
use crate::status::{Result, Status};

/// An image that goes to devices as a whole.
pub(crate) struct Part {
    image: Arc<[u8]>,
    pub(crate) info: ModuleInfo,
    /// The loaded modules, by device.
    loaded: Mutex<HashMap<usize, Module>>,
    /// The variables, by device; set when first requested.
    symbols: Mutex<HashMap<usize, Arc<[Symbol]>>>,
}

impl Part {
    /// Parses an image; machine code stays unchanged.
    ///
    /// # Errors
    /// With line and column if it is not PTX that we support.
    pub(super) fn new(image: Arc<[u8]>) -> std::result::Result<Self, Wrong> {
        let (image, status) = match ptx::is_machine_code(&image) {
            true => (image, Status::INVALID_IMAGE),
            false => (with_workspace(image), Status::INVALID_PTX),
        };
        let info = ModuleInfo::parse(&image).map_err(|error| (status, error.to_string()))?;
        Ok(Self {
            image,
            info,
            loaded: Mutex::default(),
            symbols: Mutex::default(),
        })
    }

    /// True if the image is machine code.
    pub(super) fn is_machine_code(&self) -> bool {
        ptx::is_machine_code(&self.image)
    }

    /// Loads the image on a device unless it is there; fails with the device's reason if it cannot
    /// run the image.
    pub(super) fn place(&self, device: &Device) -> client_session::Result<Module> {
        let mut loaded = lock(&self.loaded);
        if let Some(module) = loaded.get(&device.ordinal) {
            return Ok(module.clone());
        }
        // The session is not held meanwhile, because compilation may take long.
        device.round_trip(true);
        let module = device.session().try_load(&self.image)?;
        loaded.insert(device.ordinal, module.clone());
        Ok(module)
    }

    /// Unloads it from all devices.
    pub(super) fn unload(&self, devices: &[Device]) -> Result {
        devices.iter().try_for_each(|device| self.withdraw(device))
    }

    /// Unloads it from a device, if it is there.
    pub(super) fn withdraw(&self, device: &Device) -> Result {
        let symbols = lock(&self.symbols).remove(&device.ordinal);
        for symbol in symbols.iter().flat_map(|symbols| symbols.iter()) {
            device.managed.disown(&device.mirrors, symbol.address);
        }
        let loaded = lock(&self.loaded).remove(&device.ordinal);
        match loaded {
            Some(module) => device
                .with(|session| session.unload(module))
                .map_err(Status::from),
            None => Ok(()),
        }
    }

    /// Says whether the host may access a variable too; machine code does not say.
    pub(super) fn is_managed(&self, name: &str) -> Option<bool> {
        let mut globals = self.info.globals.iter();
        globals.find(|it| it.name == name)?.managed
    }

    /// The address of a variable on a device, and its bytes.
    pub(super) fn variable(&self, device: &Device, name: &str) -> Result<(u64, u64)> {
        let mut globals = self.info.globals.iter();
        let index = globals.position(|it| it.name == name);
        let index = index.ok_or(Status::NOT_FOUND)?;
        let module = self.place(device)?;
        let mut symbols = lock(&self.symbols);
        let rows = match symbols.get(&device.ordinal) {
            Some(rows) => rows,
            None => {
                let rows = device.symbols(&module)?;
                symbols.entry(device.ordinal).or_insert(rows.into())
            }
        };
        let found = rows.get(index).filter(|symbol| symbol.address != 0);
        let found = found.ok_or(Status::NOT_FOUND)?;
        Ok((found.address, found.bytes))
    }
}

/// Says whether a device refused an image because of its contents.
pub(super) fn is_refused(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(failure) if failure.code == Code::BadModule)
}

/// Adds a workspace for its grids to a text, if its kernels look for one.
fn with_workspace(image: Arc<[u8]>) -> Arc<[u8]> {
    let text = std::str::from_utf8(&image).ok();
    match text.and_then(ptx::with_grid_workspace) {
        Some(with) => with.into_bytes().into(),
        None => image,
    }
}
