//! Modules, libraries, functions and kernels.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use client_line::ClientError;

use super::options::Options;
use super::{put, put_if, text};
use crate::current::current_device;
use crate::device::Device;
use crate::fatbin::{self, Refusal, Target};
use crate::guard::api;
use crate::module::{
    Image, KERNELS, LIBRARIES, Library, Missing, Place, Refused, Source, Wrong, image, origin,
    unload,
};
use crate::process::process;
use crate::settings::is_eager;
use crate::stack::top;
use crate::status::{Result, Status, note};

/// Where the PTX of an image is.
///
/// # Safety
/// The place is that of an image; where it is `kept` that stays as it is.
unsafe fn source(from: Place, kept: bool) -> std::result::Result<Source, Wrong> {
    let bare = |status: Status| (status, "it is no image".to_owned());
    // SAFETY: the caller vouches for the image; what is not kept is copied here.
    let found: Image<'static> = unsafe { image(from) }.map_err(bare)?;
    let missing = |has: String| {
        Source::MachineCode(Missing {
            has,
            origin: origin(from.first),
        })
    };
    let pack = |entry: fatbin::Entry<'static>| if kept { entry } else { entry.owned() };
    let target = || target().map_err(bare);
    let chosen = |container: &'static [u8], target| match fatbin::choose(container, target) {
        Ok(entry) => Ok(Ok(pack(entry))),
        Err(Refusal::NoPtx(what)) => Ok(Err(what)),
        Err(Refusal::Malformed(why)) => Err((Status::INVALID_IMAGE, why.to_owned())),
    };
    Ok(match found {
        Image::Ptx(text) => Source::Text(text.into()),
        Image::Binary => missing("it is machine code of a GPU".into()),
        Image::Fatbin(container) => match chosen(container, target()?)? {
            Ok(entry) => Source::Packed(entry),
            Err(has) => missing(has),
        },
        Image::Parts(whole, parts) => {
            let target = target()?;
            if let Ok(entry) = chosen(whole, target)? {
                return Ok(Source::Packed(entry));
            }
            let mut entries = Vec::with_capacity(parts.len());
            for part in parts {
                match chosen(part, target)? {
                    Ok(entry) => entries.push(entry),
                    Err(has) => return Ok(missing(has)),
                }
            }
            Source::Parts(entries)
        }
    })
}

/// Loads an image for a context, or for none, which is 0; writes the log where it is none. PTX that is given as text is parsed, and loaded on
/// the device, at once: what is wrong with it is told by the call that brings it.
///
/// # Safety
/// As [`source`], and the options are as CUDA says.
unsafe fn load(
    from: Place,
    kept: bool,
    options: Options,
    device: Option<&Device>,
    context: usize,
) -> Result<Arc<Library>> {
    // SAFETY: the caller vouches for it.
    let source = unsafe { source(from, kept) }.map_err(|(status, detail)| {
        // SAFETY: the caller vouches for the options.
        unsafe { options.log_error(&detail) };
        note(status, detail);
        status
    })?;
    let eager = match &source {
        Source::Text(_) => true,
        Source::Packed(_) | Source::Parts(_) => is_eager(),
        Source::MachineCode(_) => false,
    };
    // SAFETY: as above.
    let library = Library::new(source, unsafe { options.registers() }, context);
    let checked = if eager { library.check(device) } else { Ok(()) };
    let Err(refused) = checked else {
        let compute = device.map(|device| device.properties.compute());
        // SAFETY: as above.
        unsafe {
            match compute {
                Some(compute) => options.log_notes(&library.notes(compute)),
                None => options.log_nothing(),
            }
        }
        return Ok(library);
    };
    LIBRARIES.remove(library.handle);
    let (status, detail) = match refused {
        Refused::Image((status, detail)) => {
            note(status, detail.clone());
            (status, Some(detail))
        }
        Refused::Device(ClientError::Refused(failure)) => ((&failure).into(), Some(failure.detail)),
        Refused::Device(error) => (error.into(), None),
    };
    if let Some(detail) = detail {
        // SAFETY: as above.
        unsafe { options.log_error(&detail) };
    }
    Err(status)
}

/// What images are to be for: the current device, or the first one.
pub(super) fn target() -> Result<Target> {
    match current_device() {
        Ok(device) => Ok(device.properties.target()),
        Err(_) => Ok(super::device::device(0)?.properties.target()),
    }
}

/// Loads an image that belongs to no context.
///
/// # Safety
/// As [`load`].
unsafe fn load_library(from: Place, options: Options, library: Options) -> Result<Arc<Library>> {
    // SAFETY: the caller vouches for all.
    unsafe { load(from, library.is_kept(), options, current_device().ok(), 0) }
}

/// Loads an image on the current device: a module belongs to a context.
///
/// # Safety
/// As [`load`].
unsafe fn load_module(module: *mut usize, from: Place, options: Options) -> Result {
    let device = current_device()?;
    if module.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller vouches for them.
    unsafe {
        let made = load(from, false, options, Some(device), top())?;
        put(module, made.handle)
    }
}

fn library(handle: usize) -> Result<Arc<Library>> {
    LIBRARIES.get(handle).ok_or(Status::INVALID_HANDLE)
}

/// The kernel of a name.
///
/// # Safety
/// The pointers are valid.
unsafe fn named(kernel: *mut usize, handle: usize, name: *const c_char) -> Result {
    let devices = process()?.devices.len();
    // SAFETY: the caller vouches for them.
    unsafe { put(kernel, library(handle)?.kernel(text(name)?, devices)?) }
}

/// Where the variable of a name lies on the current device.
///
/// # Safety
/// The pointers are valid, or null where the answer is not wanted.
unsafe fn variable(
    address: *mut u64,
    bytes: *mut usize,
    handle: usize,
    name: *const c_char,
) -> Result {
    let device = current_device()?;
    // SAFETY: the caller vouches for it.
    let (at, size) = library(handle)?.variable(device, unsafe { text(name)? })?;
    // SAFETY: as above.
    unsafe {
        put_if(address, at);
        put_if(bytes, size as usize);
    }
    Ok(())
}

fn attribute(number: c_int, kernel: usize, device: &Device) -> Result<c_int> {
    let kernel = KERNELS.get(kernel).ok_or(Status::INVALID_HANDLE)?;
    kernel.attribute(number, device.properties.compute())
}

fn set_attribute(number: c_int, value: c_int, kernel: usize, device: c_int) -> Result {
    let optin = super::device::device(device)?.properties.shared_optin();
    KERNELS
        .get(kernel)
        .ok_or(Status::INVALID_HANDLE)?
        .set_attribute(number, value, optin)
}

api! {
    fn cuModuleLoadData(module: *mut usize, from: *const c_void) also cuModuleLoadFatBinary {
        // SAFETY: the caller's pointers.
        unsafe { load_module(module, Place::at(from), Options::NONE) }
    }

    fn cuModuleLoadDataEx(
        module: *mut usize,
        from: *const c_void,
        count: u32,
        keys: *const c_int,
        values: *mut *mut c_void,
    ) {
        // SAFETY: the caller's pointers.
        unsafe { load_module(module, Place::at(from), Options { count, keys, values }) }
    }

    fn cuModuleLoad(module: *mut usize, path: *const c_char) {
        // SAFETY: the caller's pointer.
        let path = unsafe { text(path)? };
        let mut bytes = std::fs::read(path).map_err(|_| Status::FILE_NOT_FOUND)?;
        bytes.push(0);
        // SAFETY: the image ends with a zero byte.
        unsafe { load_module(module, Place::within(&bytes), Options::NONE) }
    }

    fn cuModuleUnload(module: usize) {
        unload(module, &process()?.devices)
    }

    fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) {
        // SAFETY: the caller's pointers.
        unsafe { named(function, module, name) }
    }

    fn cuModuleGetFunctionCount(count: *mut u32, module: usize) also cuLibraryGetKernelCount {
        // SAFETY: the caller's pointer.
        unsafe { put(count, library(module)?.names()?.len() as u32) }
    }

    fn cuModuleEnumerateFunctions(functions: *mut usize, count: u32, module: usize)
        also cuLibraryEnumerateKernels
    {
        let devices = process()?.devices.len();
        let library = library(module)?;
        let names = library.names()?;
        if functions.is_null() && !names.is_empty() && count > 0 {
            return Err(Status::INVALID_VALUE);
        }
        for (index, name) in names.iter().enumerate().take(count as usize) {
            // SAFETY: the caller has room for so many.
            unsafe { put(functions.add(index), library.kernel(name, devices)?)? };
        }
        Ok(())
    }

    fn cuLibraryLoadData(
        handle: *mut usize,
        from: *const c_void,
        keys: *const c_int,
        values: *mut *mut c_void,
        count: u32,
        library_keys: *const c_int,
        library_values: *mut *mut c_void,
        library_count: u32,
    ) {
        process()?;
        if handle.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let options = Options { count, keys, values };
        let library = Options {
            count: library_count,
            keys: library_keys,
            values: library_values,
        };
        // SAFETY: the caller's pointers.
        unsafe { put(handle, load_library(Place::at(from), options, library)?.handle) }
    }

    fn cuLibraryLoadFromFile(
        handle: *mut usize,
        path: *const c_char,
        keys: *const c_int,
        values: *mut *mut c_void,
        count: u32,
        library_keys: *const c_int,
        library_values: *mut *mut c_void,
        library_count: u32,
    ) {
        let _ = (library_keys, library_values, library_count);
        process()?;
        // SAFETY: the caller's pointer.
        let path = unsafe { text(path)? };
        let mut bytes = std::fs::read(path).map_err(|_| Status::FILE_NOT_FOUND)?;
        bytes.push(0);
        // SAFETY: the image ends with a zero byte, the rest are the caller's pointers.
        unsafe {
            let options = Options { count, keys, values };
            put(handle, load_library(Place::within(&bytes), options, Options::NONE)?.handle)
        }
    }

    fn cuLibraryUnload(handle: usize) {
        unload(handle, &process()?.devices)
    }

    fn cuLibraryGetKernel(kernel: *mut usize, handle: usize, name: *const c_char) {
        // SAFETY: the caller's pointers.
        unsafe { named(kernel, handle, name) }
    }

    fn cuLibraryGetModule(module: *mut usize, handle: usize) {
        library(handle)?;
        current_device()?;
        // SAFETY: the caller's pointer. A library's module is known by the same handle.
        unsafe { put(module, handle) }
    }

    fn cuModuleGetGlobal_v2(
        address: *mut u64,
        bytes: *mut usize,
        module: usize,
        name: *const c_char,
    ) also cuLibraryGetGlobal {
        // SAFETY: the caller's pointers.
        unsafe { variable(address, bytes, module, name) }
    }

    fn cuLibraryGetManaged(
        address: *mut u64,
        bytes: *mut usize,
        handle: usize,
        name: *const c_char,
    ) {
        // Runtimes ask while they begin, before there is a context.
        let device = current_device().or_else(|_| super::device::device(0))?;
        // SAFETY: the caller's pointer.
        let (at, size) = library(handle)?.variable(device, unsafe { text(name)? })?;
        device.with(|session| device.managed.adopt(session, &device.mirrors, at, size))?;
        // SAFETY: the caller's pointers.
        unsafe {
            put_if(address, at);
            put_if(bytes, size as usize);
        }
        Ok(())
    }

    fn cuKernelGetFunction(function: *mut usize, kernel: usize) {
        KERNELS.get(kernel).ok_or(Status::INVALID_HANDLE)?.on(current_device()?)?;
        // SAFETY: the caller's pointer. A kernel's function is known by the same handle.
        unsafe { put(function, kernel) }
    }

    fn cuKernelGetLibrary(handle: *mut usize, kernel: usize) also cuFuncGetModule {
        let kernel = KERNELS.get(kernel).ok_or(Status::INVALID_HANDLE)?;
        let library = kernel.library.upgrade().ok_or(Status::INVALID_HANDLE)?;
        // SAFETY: the caller's pointer.
        unsafe { put(handle, library.handle) }
    }

    fn cuKernelGetName(name: *mut *const c_char, kernel: usize) also cuFuncGetName {
        let kernel = KERNELS.get(kernel).ok_or(Status::INVALID_HANDLE)?;
        // SAFETY: the caller's pointer; the text lives as long as the kernel's library.
        unsafe { put(name, kernel.name.as_ptr()) }
    }

    fn cuFuncGetAttribute(value: *mut c_int, number: c_int, function: usize) {
        // SAFETY: the caller's pointer.
        unsafe { put(value, attribute(number, function, current_device()?)?) }
    }

    fn cuFuncSetAttribute(function: usize, number: c_int, value: c_int) {
        set_attribute(number, value, function, current_device()?.ordinal as c_int)
    }

    fn cuFuncSetCacheConfig(function: usize, config: c_int) also cuFuncSetSharedMemConfig {
        let _ = config;
        KERNELS.get(function).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    }

    fn cuKernelGetAttribute(value: *mut c_int, number: c_int, kernel: usize, device: c_int) {
        let device = super::device::device(device)?;
        // SAFETY: the caller's pointer.
        unsafe { put(value, attribute(number, kernel, device)?) }
    }

    fn cuKernelSetAttribute(number: c_int, value: c_int, kernel: usize, device: c_int) {
        set_attribute(number, value, kernel, device)
    }

    fn cuKernelSetCacheConfig(kernel: usize, config: c_int, device: c_int) {
        let _ = config;
        super::device::device(device)?;
        KERNELS.get(kernel).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    }

    fn cuKernelGetParamInfo(kernel: usize, index: usize, offset: *mut usize, size: *mut usize)
        also cuFuncGetParamInfo
    {
        let kernel = KERNELS.get(kernel).ok_or(Status::INVALID_HANDLE)?;
        let param = kernel.entry().params.get(index).ok_or(Status::INVALID_VALUE)?;
        // SAFETY: the caller's pointers.
        unsafe {
            put_if(offset, param.offset as usize);
            put_if(size, param.size as usize);
        }
        Ok(())
    }

    fn cuKernelGetParamCount(kernel: usize, count: *mut usize) also cuFuncGetParamCount {
        let kernel = KERNELS.get(kernel).ok_or(Status::INVALID_HANDLE)?;
        // SAFETY: the caller's pointer.
        unsafe { put(count, kernel.entry().params.len()) }
    }

    fn cuFuncIsLoaded(state: *mut c_int, function: usize) {
        let kernel = KERNELS.get(function).ok_or(Status::INVALID_HANDLE)?;
        let loaded = kernel.is_on(current_device()?);
        // SAFETY: the caller's pointer.
        unsafe { put(state, c_int::from(loaded)) }
    }

    fn cuFuncLoad(function: usize) {
        KERNELS.get(function).ok_or(Status::INVALID_HANDLE)?.on(current_device()?).map(|_| ())
    }
}
