//! Images, libraries and kernels. An image is parsed once here; a device gets it with the first use
//! of one of its kernels there.

#![expect(
    unsafe_code,
    reason = "images come as bare pointers: their length is found in them"
)]

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};

use bus_schemas::{ModuleHash, Symbol};
use client_line::{Function, Module};
use ptx::ModuleInfo;

use crate::device::Device;
use crate::fatbin;
use crate::handle::Handles;
use crate::status::{Result, Status, note};

/// How machine code begins.
const ELF: u32 = 0x464c_457f;

/// Dynamic and static shared bytes that a kernel may use without asking for more.
const SHARED: i32 = 48 << 10;

/// Registers of a multiprocessor.
const REGISTERS: u32 = 65_536;

/// A loaded image: a `CUmodule` or a `CUlibrary`.
pub(crate) struct Library {
    pub(crate) handle: usize,
    image: Arc<[u8]>,
    pub(crate) info: Arc<ModuleInfo>,
    /// By device.
    loaded: Mutex<HashMap<usize, Module>>,
    /// Where its variables lie, by device, once asked.
    symbols: Mutex<HashMap<usize, Arc<[Symbol]>>>,
    /// Most registers of a thread, as the program set it.
    registers: u32,
    /// Handles of its kernels, by entry.
    kernels: Mutex<HashMap<usize, usize>>,
}

/// An entry of a library: a `CUfunction` or a `CUkernel`.
pub(crate) struct Kernel {
    pub(crate) library: Weak<Library>,
    pub(crate) info: Arc<ModuleInfo>,
    /// Which entry.
    pub(crate) index: usize,
    /// Its name, as C has it.
    pub(crate) name: CString,
    /// By device, once used there.
    functions: Box<[OnceLock<Function>]>,
    /// Most dynamic shared bytes, as the program set it.
    pub(crate) dynamic: AtomicI32,
    registers: u32,
}

pub(crate) static LIBRARIES: LazyLock<Handles<Library>> = LazyLock::new(Handles::new);
pub(crate) static KERNELS: LazyLock<Handles<Kernel>> = LazyLock::new(Handles::new);

/// Most registers of images that were linked so.
static LIMITED: LazyLock<Mutex<HashMap<ModuleHash, u32>>> = LazyLock::new(Mutex::default);

/// What an image is, by its first bytes.
pub(crate) enum Image<'a> {
    Ptx(&'a [u8]),
    /// A container of PTX and machine code.
    Fatbin(&'a [u8]),
    /// Machine code of a GPU.
    Binary,
}

/// Where an image begins, and how many bytes are there: as many as the image says, where the
/// program gives a pointer.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) first: *const c_void,
    pub(crate) room: usize,
}

impl Place {
    pub(crate) fn at(first: *const c_void) -> Self {
        Self {
            first,
            room: usize::MAX,
        }
    }

    /// A file's bytes, with a zero byte behind.
    pub(crate) fn within(bytes: &[u8]) -> Self {
        Self {
            first: bytes.as_ptr().cast(),
            room: bytes.len(),
        }
    }
}

/// Looks at an image.
///
/// # Safety
/// The place is that of a PTX text that ends with a zero byte, of a cubin or fatbin, or of the
/// structure that points to a fatbin.
pub(crate) unsafe fn image<'a>(place: Place) -> Result<Image<'a>> {
    if place.first.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let first: *const u8 = place.first.cast();
    let mut head = [0; 4];
    for (at, byte) in head.iter_mut().enumerate() {
        // SAFETY: a text is read to its zero byte at most; the others are longer than this.
        *byte = unsafe { first.add(at).read() };
        if *byte == 0 {
            break;
        }
    }
    match u32::from_le_bytes(head) {
        // Only what is in the program's memory can point there.
        fatbin::WRAPPER if place.room == usize::MAX => {
            // SAFETY: the pointer stands behind the magic and a version.
            let container = unsafe { first.add(8).cast::<*const c_void>().read_unaligned() };
            // SAFETY: it points to a container.
            unsafe { contained(Place::at(container)) }
        }
        // SAFETY: a container begins here.
        fatbin::MAGIC => unsafe { contained(place) },
        ELF => Ok(Image::Binary),
        // SAFETY: a text ends with a zero byte.
        _ => Ok(Image::Ptx(
            unsafe { std::ffi::CStr::from_ptr(first.cast()) }.to_bytes(),
        )),
    }
}

/// A fatbin, as long as it says.
///
/// # Safety
/// As [`image`].
unsafe fn contained<'a>(place: Place) -> Result<Image<'a>> {
    if place.first.is_null() || place.room < fatbin::HEADER {
        return Err(Status::INVALID_IMAGE);
    }
    // SAFETY: there is a header at least.
    let header = unsafe { place.first.cast::<[u8; fatbin::HEADER]>().read_unaligned() };
    let length = fatbin::length(&header).filter(|length| *length <= place.room);
    let length = length.ok_or(Status::INVALID_IMAGE)?;
    // SAFETY: the caller vouches for as many bytes as the header says.
    Ok(Image::Fatbin(unsafe {
        std::slice::from_raw_parts(place.first.cast(), length)
    }))
}

/// Loads an image.
///
/// # Errors
/// With line and column noted where it is not PTX that we know.
pub(crate) fn load(
    image: &[u8],
    registers: Option<u32>,
) -> std::result::Result<Arc<Library>, (Status, String)> {
    let info = ModuleInfo::parse(image).map_err(|error| {
        let detail = error.to_string();
        note(Status::INVALID_PTX, detail.clone());
        (Status::INVALID_PTX, detail)
    })?;
    let limited = lock(&LIMITED).get(&ModuleHash::of(image)).copied();
    let registers = registers.or(limited).unwrap_or(u32::MAX);
    let (_, library) = LIBRARIES.add_with(|handle| Library {
        handle,
        image: image.into(),
        info: Arc::new(info),
        loaded: Mutex::default(),
        symbols: Mutex::default(),
        registers,
        kernels: Mutex::default(),
    });
    Ok(library)
}

/// Notes how many registers a thread may have of an image that was linked with that option.
pub(crate) fn limit_registers(image: &[u8], registers: u32) {
    lock(&LIMITED).insert(ModuleHash::of(image), registers);
}

/// Unloads a library; its kernels are not known any more.
pub(crate) fn unload(handle: usize, devices: &[Device]) -> Result {
    let library = LIBRARIES.remove(handle).ok_or(Status::INVALID_HANDLE)?;
    let kernels = std::mem::take(&mut *lock(&library.kernels));
    for handle in kernels.into_values() {
        KERNELS.remove(handle);
    }
    for (device, module) in std::mem::take(&mut *lock(&library.loaded)) {
        if let Some(device) = devices.get(device) {
            device.with(|session| session.unload(module))?;
        }
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Library {
    /// Loads it on a device, if it is not there yet.
    pub(crate) fn on(&self, device: &Device) -> Result<Module> {
        self.place(device).map_err(Status::from)
    }

    /// As [`Library::on`]; says what the device says of an image that it cannot run.
    pub(crate) fn place(&self, device: &Device) -> client_line::Result<Module> {
        let mut loaded = lock(&self.loaded);
        if let Some(module) = loaded.get(&device.ordinal) {
            return Ok(module.clone());
        }
        // The session is not held meanwhile: compiling takes as long as it takes.
        device.round_trip(true);
        let module = device.session().load(&self.image)?;
        loaded.insert(device.ordinal, module.clone());
        Ok(module)
    }

    /// What is worth knowing of the image on a device of this compute capability.
    pub(crate) fn notes(&self, compute: (i32, i32)) -> String {
        let (major, minor) = compute;
        match self.info.target_above((major as u32, minor as u32)) {
            Some(target) => format!(
                "the image is for {target}, the device is of compute capability {major}.{minor}: \
                 it was loaded all the same"
            ),
            None => String::new(),
        }
    }

    /// Where a variable lies on a device, and its bytes.
    pub(crate) fn variable(&self, device: &Device, name: &str) -> Result<(u64, u64)> {
        let named = |global: &ptx::GlobalInfo| global.name == name;
        let index = self.info.globals.iter().position(named);
        let index = index.ok_or(Status::NOT_FOUND)?;
        let module = self.on(device)?;
        let mut symbols = lock(&self.symbols);
        let rows = match symbols.get(&device.ordinal) {
            Some(rows) => rows,
            None => {
                device.round_trip(true);
                let rows = device.session().symbols(&module)?;
                symbols.entry(device.ordinal).or_insert(rows.into())
            }
        };
        let found = rows.get(index).filter(|symbol| symbol.address != 0);
        let found = found.ok_or(Status::NOT_FOUND)?;
        Ok((found.address, found.bytes))
    }

    /// The handle of an entry.
    pub(crate) fn kernel(self: &Arc<Self>, index: usize, devices: usize) -> Result<usize> {
        if index >= self.info.entries.len() {
            return Err(Status::NOT_FOUND);
        }
        let mut kernels = lock(&self.kernels);
        let make = || {
            KERNELS.add(Kernel {
                library: Arc::downgrade(self),
                info: Arc::clone(&self.info),
                index,
                name: CString::new(self.info.entries[index].name.as_str()).unwrap_or_default(),
                functions: (0..devices).map(|_| OnceLock::new()).collect(),
                dynamic: AtomicI32::new(SHARED),
                registers: self.registers,
            })
        };
        Ok(*kernels.entry(index).or_insert_with(make))
    }

    /// The handle of the entry of this name.
    pub(crate) fn kernel_named(self: &Arc<Self>, name: &str, devices: usize) -> Result<usize> {
        let index = self
            .info
            .entries
            .iter()
            .position(|entry| entry.name == name);
        self.kernel(index.ok_or(Status::NOT_FOUND)?, devices)
    }
}

impl Kernel {
    pub(crate) fn entry(&self) -> &ptx::EntryInfo {
        &self.info.entries[self.index]
    }

    /// The kernel on a device.
    #[inline]
    pub(crate) fn on(&self, device: &Device) -> Result<&Function> {
        let slot = self
            .functions
            .get(device.ordinal)
            .ok_or(Status::INVALID_DEVICE)?;
        match slot.get() {
            Some(function) => Ok(function),
            None => self.find(device, slot),
        }
    }

    #[cold]
    fn find<'a>(&self, device: &Device, slot: &'a OnceLock<Function>) -> Result<&'a Function> {
        let library = self.library.upgrade().ok_or(Status::INVALID_HANDLE)?;
        let function = library.on(device)?.function(&self.entry().name)?;
        Ok(slot.get_or_init(|| function))
    }

    /// `CUfunction_attribute` by its number.
    pub(crate) fn attribute(&self, number: i32, compute: (i32, i32)) -> Result<i32> {
        let entry = self.entry();
        let threads = |dim: [u32; 3]| dim.iter().map(|side| u64::from(*side)).product::<u64>();
        let most = entry
            .reqntid
            .or(entry.maxntid)
            .map_or(1024, threads)
            .min(1024);
        let (major, minor) = self.info.version;
        Ok(match number {
            0 => most as i32,
            1 => entry.static_shared as i32,
            2 => {
                let constant = self.info.globals.iter().filter(|global| global.constant);
                constant.map(|global| global.size).sum::<u64>() as i32
            }
            3 => entry.local_bytes as i32,
            // A block of the most threads fits a multiprocessor.
            4 => entry
                .registers
                .min(REGISTERS / most.max(1) as u32)
                .clamp(1, self.registers) as i32,
            7 | 10..=13 | 15 => 0,
            5 => (major * 10 + minor) as i32,
            6 => compute.0 * 10 + compute.1,
            8 => self.dynamic.load(Ordering::Relaxed),
            9 => -1,
            14 => 0,
            _ => return Err(Status::INVALID_VALUE),
        })
    }

    /// Sets the attributes that can be set.
    pub(crate) fn set_attribute(&self, number: i32, value: i32, optin: i32) -> Result {
        match number {
            8 if value < 0 || value > optin - self.entry().static_shared as i32 => {
                Err(Status::INVALID_VALUE)
            }
            8 => {
                self.dynamic.store(value, Ordering::Relaxed);
                Ok(())
            }
            // Hints.
            9..=15 => Ok(()),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}
