//! Libraries: kernels and variables by name.

use std::any::Any;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, Weak};

use bus_schemas::ModuleHash;
use client_session::Module;

use super::kernel::Kernel;
use super::opened::Opened;
use super::part::{Part, is_refused};
use super::source::{Source, Wrong};
use crate::abi::Handle;
use crate::context::Context;
use crate::device::Device;
use crate::handle::{Object, table};
use crate::lock::lock;
use crate::status::{Result, Status, note};

/// The number of a whole image that is kept beside its parts.
const WHOLE: usize = usize::MAX;

/// Maximum registers of a thread, for images linked with that option.
static LIMITED: LazyLock<Mutex<HashMap<ModuleHash, u32>>> = LazyLock::new(Mutex::default);

table!(Library, INVALID_HANDLE);

/// A loaded image: a `CUmodule` or a `CUlibrary`.
pub(crate) struct Library {
    pub(crate) handle: Handle<Self>,
    /// The context of a module; null if it belongs to no context.
    context: Handle<Context>,
    source: Source,
    /// Maximum registers of a thread, as set by the program.
    registers: Option<u32>,
    /// Its text or machine code, set at the first use.
    opened: OnceLock<std::result::Result<Opened, Wrong>>,
    parts: Mutex<Parts>,
    /// Handles of its kernels, by name.
    kernels: Mutex<HashMap<Box<str>, Handle<Kernel>>>,
}

/// The parts of a library that were needed so far.
#[derive(Default)]
struct Parts {
    /// Parts by kernel. A whole image is under 0, or under [`WHOLE`] once it is split.
    of_kernel: HashMap<usize, Arc<Part>>,
    /// Parts by variable, for variables that no kernel names.
    of_variable: HashMap<Box<str>, Arc<Part>>,
}

/// Notes the maximum registers of a thread for an image linked with that option.
pub(crate) fn limit_registers(image: &[u8], registers: u32) {
    lock(&LIMITED).insert(ModuleHash::of(image), registers);
}

/// Unloads a library and removes its kernels from the table.
pub(crate) fn unload(library: Handle<Library>, devices: &[Device]) -> Result {
    let library = library.remove()?;
    let kernels = std::mem::take(&mut *lock(&library.kernels));
    for kernel in kernels.into_values() {
        kernel.remove()?;
    }
    let parts = std::mem::take(&mut *lock(&library.parts));
    for part in parts.of_kernel.values().chain(parts.of_variable.values()) {
        // A part is listed under each of its kernels; it is unloaded once.
        part.unload(devices)?;
    }
    Ok(())
}

/// Unloads the modules of a context that ends.
pub(crate) fn unload_all(context: Handle<Context>, devices: &[Device]) -> Result {
    for library in Library::table().which(|library| library.context == context) {
        // Another thread may have unloaded it meanwhile.
        if library.check().is_ok() {
            unload(library, devices)?;
        }
    }
    Ok(())
}

/// Removes all libraries from the device of a primary context that is reset. They are loaded again
/// at their next use there, with the initial values of their variables.
pub(crate) fn reset(device: &Device) -> Result {
    for library in Library::table().which(|library| library.context.is_null()) {
        if let Ok(library) = library.get() {
            library.withdraw(device)?;
        }
    }
    Ok(())
}

impl Kernel {
    /// The handle of its library, while that is loaded.
    pub(crate) fn library(&self) -> Result<Handle<Library>> {
        let library = self.library.upgrade().and_then(|it| it.downcast().ok());
        library.map_or(Err(Library::UNKNOWN), |it: Arc<Library>| Ok(it.handle))
    }

    /// Loads the kernel on a device: its whole image. If the device cannot run some kernel of the
    /// image, perhaps another one, only the needed part is loaded.
    pub(super) fn place(&self, device: &Device) -> client_session::Result<Module> {
        match self.part.place(device) {
            Err(error) if is_refused(&error) => {
                let library = self.library.upgrade().and_then(|it| it.downcast().ok());
                let alone =
                    library.and_then(|it: Arc<Library>| it.part_of_kernel(&self.entry().name));
                alone.map_or(Err(error), |part| part.place(device))
            }
            placed => placed,
        }
    }
}

impl Library {
    /// Makes a library from a source.
    pub(crate) fn new(
        source: Source,
        registers: Option<u32>,
        context: Handle<Context>,
    ) -> Arc<Self> {
        let make = |handle| Self {
            handle,
            context,
            source,
            registers,
            opened: OnceLock::new(),
            parts: Mutex::default(),
            kernels: Mutex::default(),
        };
        Self::table().add_with(make).1
    }

    /// Unloads the library from a device.
    fn withdraw(&self, device: &Device) -> Result {
        for kernel in lock(&self.kernels).values() {
            Kernel::table().replace(*kernel, |kernel| kernel.forget(device));
        }
        let parts = lock(&self.parts);
        for part in parts.of_kernel.values().chain(parts.of_variable.values()) {
            part.withdraw(device)?;
        }
        Ok(())
    }

    /// Opens the source; `wanted` is the name of the requested item.
    fn open(&self, wanted: &str) -> std::result::Result<&Opened, Wrong> {
        if let Source::Unfit(missing) = &self.source {
            return Err(missing.asked_for(wanted));
        }
        let opened = self.opened.get_or_init(|| {
            let text = self.source.image()?;
            let registers = self.registers.or_else(|| limited(&text));
            Ok(Opened::new(text, registers.unwrap_or(u32::MAX)))
        });
        opened.as_ref().map_err(|(status, detail)| {
            note(*status, detail.clone());
            (*status, detail.clone())
        })
    }

    /// Parses the library now and loads it on a device, unless it is large. So an invalid image is
    /// an error of the call that brings it. If only one of several kernels cannot run on the
    /// device, that is an error of its launch.
    ///
    /// # Errors
    /// With line and column if it is not PTX; the device's reason if it cannot run it.
    pub(crate) fn check(&self, device: Option<&Device>) -> std::result::Result<(), Refused> {
        let opened = self.open("the image").map_err(Refused::Image)?;
        if opened.apart().is_some() {
            return Ok(());
        }
        let part = self.part(opened, 0).map_err(Refused::Image)?;
        let Some(device) = device else {
            return Ok(());
        };
        match part.place(device) {
            Ok(_) => Ok(()),
            Err(error) if is_refused(&error) && self.split(opened) => Ok(()),
            Err(error) => Err(Refused::Device(error)),
        }
    }

    /// Splits a text that a device has refused as a whole; returns true if it is split.
    fn split(&self, opened: &Opened) -> bool {
        let mut parts = lock(&self.parts);
        if opened.apart().is_none() {
            if !opened.split() {
                return false;
            }
            // Kernel numbers are now those of the outline. Another device may have the whole image.
            let whole = parts.of_kernel.remove(&0);
            parts.of_kernel.extend(whole.map(|it| (WHOLE, it)));
        }
        true
    }

    /// The part that one kernel needs, if a device has refused the whole; `None` if there is no
    /// smaller one.
    fn part_of_kernel(&self, kernel: &str) -> Option<Arc<Part>> {
        let opened = self.open(kernel).ok()?;
        if !self.split(opened) {
            return None;
        }
        let place = opened.apart()?.0.find(kernel)?;
        self.part(opened, place).ok()
    }

    /// Notes about the image on a device of this compute capability.
    pub(crate) fn notes(&self, compute: (i32, i32)) -> String {
        let (major, minor) = compute;
        let part = lock(&self.parts).of_kernel.values().next().map(Arc::clone);
        let target = part.as_ref();
        let target = target.and_then(|it| it.info.target_above((major as u32, minor as u32)));
        match target {
            Some(target) => format!(
                "the image is for {target}, the device is of compute capability {major}.{minor}: \
                 it was loaded all the same"
            ),
            None => String::new(),
        }
    }

    /// The part that contains a kernel.
    fn part(&self, opened: &Opened, kernel: usize) -> std::result::Result<Arc<Part>, Wrong> {
        let mut parts = lock(&self.parts);
        if let Some(part) = parts.of_kernel.get(&kernel) {
            return Ok(Arc::clone(part));
        }
        if let Some(whole) = opened.whole() {
            let part = Arc::new(Part::new(Arc::clone(whole))?);
            parts.of_kernel.insert(0, Arc::clone(&part));
            return Ok(part);
        }
        let Some((outline, text)) = opened.apart() else {
            return Err((
                Status::UNKNOWN,
                "an image that is neither whole nor apart".into(),
            ));
        };
        let cut = outline.cut(text, kernel);
        let (kernels, image) = cut.map_err(|error| (Status::INVALID_PTX, error.to_string()))?;
        let part = Arc::new(Part::new(image.into_bytes().into())?);
        parts.keep(&kernels, &part);
        Ok(part)
    }

    /// The address of a variable on a device, and its bytes.
    pub(crate) fn variable(&self, device: &Device, name: &str) -> Result<(u64, u64)> {
        self.part_of_variable(name)?.variable(device, name)
    }

    /// The same for a variable that the host may access too.
    ///
    /// # Errors
    /// `NOT_FOUND` if the variable is not declared managed. Machine code does not say, so its
    /// variables are treated as managed.
    pub(crate) fn managed_variable(&self, device: &Device, name: &str) -> Result<(u64, u64)> {
        let part = self.part_of_variable(name)?;
        match part.is_managed(name) {
            Some(false) => Err(Status::NOT_FOUND),
            _ => part.variable(device, name),
        }
    }

    /// The part that contains a variable.
    fn part_of_variable(&self, name: &str) -> Result<Arc<Part>> {
        let opened = self.open(name).map_err(|wrong| wrong.0)?;
        let Some((outline, text)) = opened.apart() else {
            return self.part(opened, 0).map_err(noted);
        };
        if !outline.has_variable(name) {
            return Err(Status::NOT_FOUND);
        }
        let mut parts = lock(&self.parts);
        let cut = outline.cut_with(text, name);
        let (kernels, image) =
            cut.map_err(|error| noted((Status::INVALID_PTX, error.to_string())))?;
        let known = match kernels.first() {
            Some(kernel) => parts.of_kernel.get(kernel),
            None => parts.of_variable.get(name),
        };
        if let Some(part) = known {
            return Ok(Arc::clone(part));
        }
        let part = Arc::new(Part::new(image.into_bytes().into()).map_err(noted)?);
        parts.keep(&kernels, &part);
        if kernels.is_empty() {
            parts.of_variable.insert(name.into(), Arc::clone(&part));
        }
        Ok(part)
    }

    /// Names of its kernels, in order.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let opened = self.open("the list of kernels").map_err(|wrong| wrong.0)?;
        Ok(match opened.apart() {
            Some((outline, text)) => {
                let names = (0..outline.len()).filter_map(|at| outline.name(text, at));
                names.map(str::to_owned).collect()
            }
            None => {
                let part = self.part(opened, 0).map_err(noted)?;
                part.info
                    .entries
                    .iter()
                    .map(|entry| entry.name.clone())
                    .collect()
            }
        })
    }

    /// The handle of the kernel with a name.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is none, `NO_BINARY_FOR_GPU` if there is no PTX, `INVALID_PTX` if it is
    /// not PTX that we support.
    pub(crate) fn kernel(self: &Arc<Self>, name: &str, devices: usize) -> Result<Handle<Kernel>> {
        if let Some(handle) = lock(&self.kernels).get(name) {
            return Ok(*handle);
        }
        let opened = self.open(name).map_err(|wrong| wrong.0)?;
        let place = match opened.apart() {
            Some((outline, _)) => outline.find(name).ok_or(Status::NOT_FOUND)?,
            None => 0,
        };
        let part = self.part(opened, place).map_err(noted)?;
        let mut entries = part.info.entries.iter();
        let index = entries.position(|entry| entry.name == name);
        let index = index.ok_or(Status::NOT_FOUND)?;
        let text = CString::new(name).map_err(|_| Status::INVALID_VALUE)?;
        let registers = opened.registers();
        let mut kernels = lock(&self.kernels);
        let library: Weak<dyn Any + Send + Sync> = Arc::<Self>::downgrade(self);
        let make =
            || Kernel::table().add(Kernel::new(library, part, index, text, registers, devices));
        Ok(*kernels.entry(name.into()).or_insert_with(make))
    }
}

/// The reason why an image is refused.
pub(crate) enum Refused {
    Image(Wrong),
    Device(client_session::ClientError),
}

/// Maximum registers of a thread, for an image linked with that option.
fn limited(text: &[u8]) -> Option<u32> {
    let limited = lock(&LIMITED);
    match limited.is_empty() {
        true => None,
        false => limited.get(&ModuleHash::of(text)).copied(),
    }
}

impl Parts {
    fn keep(&mut self, kernels: &[usize], part: &Arc<Part>) {
        for kernel in kernels {
            self.of_kernel.insert(*kernel, Arc::clone(part));
        }
    }
}

/// Notes an error and returns its status.
fn noted((status, detail): Wrong) -> Status {
    note(status, detail);
    status
}
