//! Modules, libraries, functions and kernels.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use client_session::ClientError;

use super::options::{Options, Values};
use crate::abi::{Count, InAny, List, Out, OutList, Text};
use crate::current_context::current_device;
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
fn source(from: Place<'_>, kept: bool) -> std::result::Result<Source, Wrong> {
    let bare = |status: Status| (status, "it is no image".to_owned());
    let found = image(from).map_err(bare)?;
    let missing = |has: String| {
        Source::MachineCode(Missing {
            has,
            origin: origin(from),
        })
    };
    let pack = |entry: fatbin::Entry<'_>| match kept {
        // SAFETY: a program that says that it keeps an image does so until the library is unloaded.
        true => unsafe { std::mem::transmute::<fatbin::Entry<'_>, fatbin::Entry<'static>>(entry) },
        false => entry.owned(),
    };
    let target = || target().map_err(bare);
    let chosen = |container, target| match fatbin::choose(container, target) {
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
/// the device, at once: what is wrong with it is the error of the call that brings it.
fn load(
    from: Place<'_>,
    kept: bool,
    options: Options<'_>,
    device: Option<&Device>,
    context: usize,
) -> Result<Arc<Library>> {
    let source = source(from, kept).map_err(|(status, detail)| {
        options.log_error(&detail);
        note(status, detail);
        status
    })?;
    let eager = match &source {
        Source::Text(_) => true,
        Source::Packed(_) | Source::Parts(_) => is_eager(),
        Source::MachineCode(_) => false,
    };
    let library = Library::new(source, options.registers(), context);
    let checked = if eager { library.check(device) } else { Ok(()) };
    let Err(refused) = checked else {
        let compute = device.map(|device| device.properties.compute());
        match compute {
            Some(compute) => options.log_notes(&library.notes(compute)),
            None => options.log_nothing(),
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
        options.log_error(&detail);
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
fn load_library(
    from: Place<'_>,
    options: Options<'_>,
    library: Options<'_>,
) -> Result<Arc<Library>> {
    load(from, library.is_kept(), options, current_device().ok(), 0)
}

/// Loads an image on the current device: a module belongs to a context.
fn load_module(module: &Out<'_, usize>, from: Place<'_>, options: Options<'_>) -> Result {
    let device = current_device()?;
    module.check()?;
    module.put(load(from, false, options, Some(device), top())?.handle)
}

fn library(handle: usize) -> Result<Arc<Library>> {
    LIBRARIES.get(handle).ok_or(Status::INVALID_HANDLE)
}

/// The kernel of a name.
fn named(kernel: &Out<'_, usize>, handle: usize, name: &Text<'_>) -> Result {
    let devices = process()?.devices.len();
    kernel.put(library(handle)?.kernel(name.take()?, devices)?)
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
    fn cuModuleLoadData(module: Out<'_, usize>, from: InAny<'_>) also cuModuleLoadFatBinary {
        load_module(&module, Place::at(from), Options::NONE)
    }

    fn cuModuleLoadDataEx(
        module: Out<'_, usize>,
        from: InAny<'_>,
        count: Count<'_, u32>,
        keys: List<'_, c_int>,
        values: Values<'_>,
    ) {
        load_module(&module, Place::at(from), Options { count, keys, values })
    }

    fn cuModuleLoad(module: Out<'_, usize>, path: Text<'_>) {
        let bytes = std::fs::read(path.take()?).map_err(|_| Status::FILE_NOT_FOUND)?;
        load_module(&module, Place::within(&bytes), Options::NONE)
    }

    fn cuModuleUnload(module: usize) {
        unload(module, &process()?.devices)
    }

    fn cuModuleGetFunction(function: Out<'_, usize>, module: usize, name: Text<'_>) {
        named(&function, module, &name)
    }

    fn cuModuleGetFunctionCount(count: Out<'_, u32>, module: usize) also cuLibraryGetKernelCount {
        count.put(library(module)?.names()?.len() as u32)
    }

    fn cuModuleEnumerateFunctions(functions: OutList<'_, usize>, count: Count<'_, u32>, module: usize)
        also cuLibraryEnumerateKernels
    {
        let devices = process()?.devices.len();
        let library = library(module)?;
        let names = library.names()?;
        let count = count.whole();
        let names = names.iter().take(count.number());
        let kernels = names.map(|name| library.kernel(name, devices));
        functions.put(count, kernels.collect::<Result<Vec<_>>>()?)
    }

    fn cuLibraryLoadData(
        handle: Out<'_, usize>,
        from: InAny<'_>,
        keys: List<'_, c_int>,
        values: Values<'_>,
        count: Count<'_, u32>,
        library_keys: List<'_, c_int>,
        library_values: Values<'_>,
        library_count: Count<'_, u32>,
    ) {
        process()?;
        handle.check()?;
        let options = Options { count, keys, values };
        let library = Options {
            count: library_count,
            keys: library_keys,
            values: library_values,
        };
        handle.put(load_library(Place::at(from), options, library)?.handle)
    }

    fn cuLibraryLoadFromFile(
        handle: Out<'_, usize>,
        path: Text<'_>,
        keys: List<'_, c_int>,
        values: Values<'_>,
        count: Count<'_, u32>,
        library_keys: List<'_, c_int>,
        library_values: Values<'_>,
        library_count: Count<'_, u32>,
    ) {
        let _ = (library_keys, library_values, library_count);
        process()?;
        let bytes = std::fs::read(path.take()?).map_err(|_| Status::FILE_NOT_FOUND)?;
        let options = Options { count, keys, values };
        handle.put(load_library(Place::within(&bytes), options, Options::NONE)?.handle)
    }

    fn cuLibraryUnload(handle: usize) {
        unload(handle, &process()?.devices)
    }

    fn cuLibraryGetKernel(kernel: Out<'_, usize>, handle: usize, name: Text<'_>) {
        named(&kernel, handle, &name)
    }

    fn cuLibraryGetModule(module: Out<'_, usize>, handle: usize) {
        library(handle)?;
        current_device()?;
        // A library's module is known by the same handle.
        module.put(handle)
    }

    fn cuModuleGetGlobal_v2(
        address: Out<'_, u64>,
        bytes: Out<'_, usize>,
        module: usize,
        name: Text<'_>,
    ) also cuLibraryGetGlobal {
        let (at, size) = library(module)?.variable(current_device()?, name.take()?)?;
        address.put_if(at);
        bytes.put_if(size as usize);
        Ok(())
    }

    fn cuLibraryGetManaged(
        address: Out<'_, u64>,
        bytes: Out<'_, usize>,
        handle: usize,
        name: Text<'_>,
    ) {
        // Runtimes ask while they begin, before there is a context.
        let device = current_device().or_else(|_| super::device::device(0))?;
        let (at, size) = library(handle)?.variable(device, name.take()?)?;
        device.with(|session| device.managed.adopt(session, &device.mirrors, at, size))?;
        address.put_if(at);
        bytes.put_if(size as usize);
        Ok(())
    }

    fn cuKernelGetFunction(function: Out<'_, usize>, kernel: usize) {
        KERNELS.get(kernel).ok_or(Status::INVALID_HANDLE)?.on(current_device()?)?;
        // A kernel's function is known by the same handle.
        function.put(kernel)
    }

    fn cuKernelGetLibrary(handle: Out<'_, usize>, kernel: usize) also cuFuncGetModule {
        let kernel = KERNELS.get(kernel).ok_or(Status::INVALID_HANDLE)?;
        handle.put(kernel.library()?)
    }

    fn cuKernelGetName(name: Out<'_, *const c_char>, kernel: usize) also cuFuncGetName {
        let kernel = KERNELS.get(kernel).ok_or(Status::INVALID_HANDLE)?;
        // The text lives as long as the kernel's library.
        name.put(kernel.name.as_ptr())
    }

    fn cuFuncGetAttribute(value: Out<'_, c_int>, number: c_int, function: usize) {
        value.put(attribute(number, function, current_device()?)?)
    }

    fn cuFuncSetAttribute(function: usize, number: c_int, value: c_int) {
        set_attribute(number, value, function, current_device()?.ordinal as c_int)
    }

    fn cuFuncSetCacheConfig(function: usize, config: c_int) also cuFuncSetSharedMemConfig {
        let _ = config;
        KERNELS.get(function).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    }

    fn cuKernelGetAttribute(value: Out<'_, c_int>, number: c_int, kernel: usize, device: c_int) {
        let device = super::device::device(device)?;
        value.put(attribute(number, kernel, device)?)
    }

    fn cuKernelSetAttribute(number: c_int, value: c_int, kernel: usize, device: c_int) {
        set_attribute(number, value, kernel, device)
    }

    fn cuKernelSetCacheConfig(kernel: usize, config: c_int, device: c_int) {
        let _ = config;
        super::device::device(device)?;
        KERNELS.get(kernel).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    }

    fn cuKernelGetParamInfo(kernel: usize, index: usize, offset: Out<'_, usize>, size: Out<'_, usize>)
        also cuFuncGetParamInfo
    {
        let kernel = KERNELS.get(kernel).ok_or(Status::INVALID_HANDLE)?;
        let param = kernel.entry().params.get(index).ok_or(Status::INVALID_VALUE)?;
        offset.put_if(param.offset as usize);
        size.put_if(param.size as usize);
        Ok(())
    }

    fn cuKernelGetParamCount(kernel: usize, count: Out<'_, usize>) also cuFuncGetParamCount {
        let kernel = KERNELS.get(kernel).ok_or(Status::INVALID_HANDLE)?;
        count.put(kernel.entry().params.len())
    }

    fn cuFuncIsLoaded(state: Out<'_, c_int>, function: usize) {
        let kernel = KERNELS.get(function).ok_or(Status::INVALID_HANDLE)?;
        let loaded = kernel.is_on(current_device()?);
        state.put(c_int::from(loaded))
    }

    fn cuFuncLoad(function: usize) {
        KERNELS.get(function).ok_or(Status::INVALID_HANDLE)?.on(current_device()?).map(|_| ())
    }
}
