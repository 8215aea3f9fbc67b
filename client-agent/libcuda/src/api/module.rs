//! Modules, libraries, functions and kernels.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use bus_schemas::Code;
use client_session::{ClientError, refused};

use super::device::device as numbered;
use super::options::{Options, Values};
use crate::abi::{Count, Handle, InAny, List, Out, OutList, Text};
use crate::context::Context;
use crate::current_context::current_device;
use crate::device::Device;
use crate::fatbin::{self, Refusal, Target};
use crate::guard::api;
use crate::module::{
    Image, Kernel, Library, Missing, Place, Refused, Source, Wrong, image, machine_code, origin,
    unload,
};
use crate::process::process;
use crate::settings::is_eager;
use crate::stack::top;
use crate::status::{Result, Status, explain, note};

/// Converts the wanted part of an image to the form in which it is kept.
type Pack<'a> = fn(fatbin::Entry<'a>) -> fatbin::Entry<'static>;

/// The program of a container, or of its linked parts: machine code that suits the device, or PTX.
fn contained<'a>(
    whole: &'a [u8],
    parts: Vec<&'a [u8]>,
    pack: Pack<'a>,
    target: Target,
) -> std::result::Result<Source, Refusal> {
    let code = fatbin::machine_code(whole, target)?;
    let text = match fatbin::choose(whole, target) {
        Err(Refusal::NoPtx(_)) if !parts.is_empty() => {
            let chosen = |part| fatbin::choose(part, target).map(pack);
            let entries = parts.into_iter().map(chosen);
            entries
                .collect::<std::result::Result<_, _>>()
                .map(Source::Parts)
        }
        entry => entry.map(|entry| Source::Packed(pack(entry))),
    };
    match code {
        Some(code) => {
            let text = text.ok().filter(|_| !target.grids);
            Ok(Source::Code(pack(code), text.map(Box::new)))
        }
        None => text,
    }
}

/// The source of an image's program.
fn source<'a>(from: Place<'a>, pack: Pack<'a>) -> std::result::Result<Source, Wrong> {
    let bare = |status: Status| (status, "it is no image".to_owned());
    let found = image(from).map_err(bare)?;
    let unfit = |on_gpu: bool, has: String| {
        Source::Unfit(Missing {
            on_gpu,
            has,
            origin: origin(from),
        })
    };
    let (whole, parts) = match found {
        Image::Ptx(text) => return Ok(Source::Bare(text.into())),
        Image::Binary if target().is_ok_and(|target| target.code) => {
            return Ok(Source::Bare(machine_code(from).map_err(bare)?.into()));
        }
        Image::Binary => return Ok(unfit(false, "it is machine code of a GPU".into())),
        Image::Fatbin(container) => (container, Vec::new()),
        Image::Parts(whole, parts) => (whole, parts),
    };
    let target = target().map_err(bare)?;
    match contained(whole, parts, pack, target) {
        Ok(source) => Ok(source),
        Err(Refusal::NoPtx(has)) => Ok(unfit(target.code, has)),
        Err(Refusal::Malformed(why)) => Err((Status::INVALID_IMAGE, why.to_owned())),
    }
}

/// Loads an image for a context, or for no context (null); writes the log if it is not an image. An
/// image without a container is parsed and loaded on the device at once, so that the call fails on
/// a bad one.
fn load<'a>(
    from: Place<'a>,
    pack: Pack<'a>,
    options: Options<'_>,
    device: Option<&Device>,
    context: Handle<Context>,
) -> Result<Arc<Library>> {
    let source = source(from, pack).map_err(|(status, detail)| {
        options.log_error(&detail);
        note_bad_image(device, status, &detail);
        note(status, detail);
        status
    })?;
    let eager = match &source {
        Source::Bare(_) => true,
        Source::Packed(_) | Source::Parts(_) | Source::Code(..) => is_eager(),
        Source::Unfit(_) => false,
    };
    let library = Library::new(source, options.registers(), context);
    let checked = if eager { library.check(device) } else { Ok(()) };
    let Err(wrong) = checked else {
        let compute = device.map(|device| device.properties.compute());
        match compute {
            Some(compute) => options.log_notes(&library.notes(compute)),
            None => options.log_nothing(),
        }
        return Ok(library);
    };
    library.handle.remove()?;
    if let (Refused::Device(error), Some(device)) = (&wrong, device) {
        device.note_error(error);
    }
    let (status, detail) = match wrong {
        Refused::Image((status, detail)) => {
            note_bad_image(device, status, &detail);
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

/// Notes for the traces that an image cannot be loaded.
fn note_bad_image(device: Option<&Device>, status: Status, detail: &str) {
    let code = match status == Status::NO_BINARY_FOR_GPU {
        true => Code::NoBinary,
        false => Code::BadModule,
    };
    if let Some(device) = device {
        device.note_error(&refused(code, detail));
    }
}

/// The same of an image that was parsed only when one of its kernels was asked for.
#[cold]
fn note_bad_kernel(status: Status) {
    let of_images = [
        Status::INVALID_PTX,
        Status::INVALID_IMAGE,
        Status::NO_BINARY_FOR_GPU,
    ];
    if of_images.contains(&status) {
        let detail = explain(status.0).unwrap_or_default();
        let detail = detail.trim_end_matches('\0');
        note_bad_image(current_device().ok(), status, detail);
    }
}

/// The target of images: the current device, or the first one.
pub(super) fn target() -> Result<Target> {
    match current_device() {
        Ok(device) => Ok(device.properties.target()),
        Err(_) => Ok(numbered(0)?.properties.target()),
    }
}

/// Loads an image on the current device: a module belongs to a context.
fn load_module(module: &Out<'_, Handle<Library>>, from: Place<'_>, options: Options<'_>) -> Result {
    let device = current_device()?;
    module.put_made(|| Ok(load(from, fatbin::Entry::owned, options, Some(device), top())?.handle))
}

/// Loads an image that belongs to no context.
fn load_library<'a>(
    library: &Out<'_, Handle<Library>>,
    from: Place<'a>,
    pack: Pack<'a>,
    options: Options<'_>,
) -> Result {
    library.put_made(|| {
        let device = current_device().ok();
        Ok(load(from, pack, options, device, Handle::NULL)?.handle)
    })
}

/// The bytes of a file.
pub(super) fn file(path: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|_| Status::FILE_NOT_FOUND)
}

/// Answers with the kernel of a name.
fn named(kernel: &Out<'_, Handle<Kernel>>, of: Handle<Library>, name: &Text<'_>) -> Result {
    let devices = process()?.devices.len();
    let found = of.get()?.kernel(name.take()?, devices);
    kernel.put(found.inspect_err(|status| note_bad_kernel(*status))?)
}

/// Answers with the address of a variable on a device, and its bytes. Either may be null, but not
/// both.
fn put_variable((at, size): (u64, u64), address: &Out<'_, u64>, bytes: &Out<'_, usize>) -> Result {
    address.check().or_else(|_| bytes.check())?;
    address.put_if(at);
    bytes.put_if(size as usize);
    Ok(())
}

fn attribute(number: c_int, kernel: Handle<Kernel>, device: &Device) -> Result<c_int> {
    kernel.get()?.attribute(number, device.properties.compute())
}

fn set_attribute(number: c_int, value: c_int, kernel: Handle<Kernel>, device: &Device) -> Result {
    let optin = device.properties.shared_optin();
    kernel.get()?.set_attribute(number, value, optin)
}

api! {
    fn cuModuleLoadData(module: Out<'_, Handle<Library>>, from: InAny<'_>) also cuModuleLoadFatBinary
        => load_module(&module, Place::at(from), Options::NONE);
    fn cuModuleLoadDataEx<'c>(
        module: Out<'_, Handle<Library>>, from: InAny<'_>, count: Count<'c, u32>, keys: List<'c, c_int>,
        values: Values<'c>,
    ) => load_module(&module, Place::at(from), Options { count, keys, values });
    fn cuModuleLoad(module: Out<'_, Handle<Library>>, path: Text<'_>)
        => load_module(&module, Place::within(&file(path.take()?)?), Options::NONE);

    fn cuLibraryLoadData<'c, 'l>(
        library: Out<'_, Handle<Library>>, from: InAny<'_>,
        keys: List<'c, c_int>, values: Values<'c>, count: Count<'c, u32>,
        library_keys: List<'l, c_int>, library_values: Values<'l>, library_count: Count<'l, u32>,
    ) {
        let options = Options { count, keys, values };
        let of_library = Options { count: library_count, keys: library_keys, values: library_values };
        if !of_library.is_kept() {
            return load_library(&library, Place::at(from), fatbin::Entry::owned, options);
        }
        // SAFETY: this option promises that the program keeps the image until the library is
        // unloaded.
        load_library(&library, unsafe { Place::kept(from) }, |entry| entry, options)
    }

    fn cuLibraryLoadFromFile<'c>(
        library: Out<'_, Handle<Library>>, path: Text<'_>,
        keys: List<'c, c_int>, values: Values<'c>, count: Count<'c, u32>,
        _library_keys: List<'_, c_int>, _library_values: Values<'_>, _library_count: Count<'_, u32>,
    ) {
        let options = Options { count, keys, values };
        load_library(&library, Place::within(&file(path.take()?)?), fatbin::Entry::owned, options)
    }

    fn cuModuleUnload(library: Handle<Library>) also cuLibraryUnload => unload(library, &process()?.devices);
    fn cuModuleGetFunction(function: Out<'_, Handle<Kernel>>, of: Handle<Library>, name: Text<'_>)
        also cuLibraryGetKernel => named(&function, of, &name);
    fn cuModuleGetFunctionCount(count: Out<'_, u32>, module: Handle<Library>) also cuLibraryGetKernelCount
        => count.put(module.get()?.names()?.len() as u32);

    fn cuModuleEnumerateFunctions<'c>(
        functions: OutList<'c, Handle<Kernel>>, count: Count<'c, u32>, module: Handle<Library>,
    ) also cuLibraryEnumerateKernels {
        let devices = process()?.devices.len();
        let library = module.get()?;
        let names = library.names()?;
        let count = count.whole();
        let names = names.iter().take(count.number());
        let kernels = names.map(|name| library.kernel(name, devices));
        functions.put(count, kernels.collect::<Result<Vec<_>>>()?)
    }

    fn cuLibraryGetModule(module: Out<'_, Handle<Library>>, library: Handle<Library>) {
        library.check()?;
        current_device()?;
        // A library's module has the same handle.
        module.put(library)
    }

    fn cuModuleGetGlobal_v2(
        address: Out<'_, u64>, bytes: Out<'_, usize>, module: Handle<Library>, name: Text<'_>,
    ) also cuLibraryGetGlobal
        => put_variable(module.get()?.variable(current_device()?, name.take()?)?, &address, &bytes);

    fn cuLibraryGetManaged(
        address: Out<'_, u64>, bytes: Out<'_, usize>, library: Handle<Library>, name: Text<'_>,
    ) {
        // Runtimes ask during their start, before there is a context.
        let device = current_device().or_else(|_| numbered(0))?;
        let (at, size) = library.get()?.managed_variable(device, name.take()?)?;
        let reserved = device.has_reserved(at, size);
        device.with(|session| device.managed.adopt(session, &device.mirrors, (at, size), reserved))?;
        put_variable((at, size), &address, &bytes)
    }

    fn cuKernelGetFunction(function: Out<'_, Handle<Kernel>>, kernel: Handle<Kernel>) {
        kernel.get()?.on(current_device()?)?;
        // A kernel's function has the same handle.
        function.put(kernel)
    }

    fn cuKernelGetLibrary(library: Out<'_, Handle<Library>>, kernel: Handle<Kernel>) also cuFuncGetModule
        => library.put(kernel.get()?.library()?);

    // The name lives as long as the kernel's library.
    fn cuKernelGetName(name: Out<'_, *const c_char>, kernel: Handle<Kernel>) also cuFuncGetName
        => name.put(kernel.get()?.name.as_ptr());

    fn cuFuncGetAttribute(value: Out<'_, c_int>, number: c_int, function: Handle<Kernel>)
        => value.put(attribute(number, function, current_device()?)?);
    fn cuFuncSetAttribute(function: Handle<Kernel>, number: c_int, value: c_int)
        => set_attribute(number, value, function, current_device()?);
    fn cuFuncSetCacheConfig(function: Handle<Kernel>, _config: c_int) also cuFuncSetSharedMemConfig
        => function.check();
    fn cuKernelGetAttribute(value: Out<'_, c_int>, number: c_int, kernel: Handle<Kernel>, device: c_int)
        => value.put(attribute(number, kernel, numbered(device)?)?);
    fn cuKernelSetAttribute(number: c_int, value: c_int, kernel: Handle<Kernel>, device: c_int)
        => set_attribute(number, value, kernel, numbered(device)?);
    fn cuKernelSetCacheConfig(kernel: Handle<Kernel>, _config: c_int, device: c_int)
        => numbered(device).and(kernel.check());

    fn cuKernelGetParamInfo(
        kernel: Handle<Kernel>, index: usize, offset: Out<'_, usize>, size: Out<'_, usize>,
    ) also cuFuncGetParamInfo {
        let kernel = kernel.get()?;
        let param = kernel.entry().params.get(index).ok_or(Status::INVALID_VALUE)?;
        offset.put(param.offset as usize)?;
        size.put_if(param.size as usize);
        Ok(())
    }

    fn cuKernelGetParamCount(kernel: Handle<Kernel>, count: Out<'_, usize>) also cuFuncGetParamCount
        => count.put(kernel.get()?.entry().params.len());
    fn cuFuncIsLoaded(state: Out<'_, c_int>, function: Handle<Kernel>)
        => state.put(c_int::from(function.get()?.is_on(current_device()?)));

    fn cuFuncLoad(function: Handle<Kernel>) {
        function.get()?.on(current_device()?)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fatbin::tests::{CPU, code, container, gpu, text};

    /// The part that is chosen from containers: a linked one, and its parts.
    fn taken(whole: &[Vec<u8>], parts: &[Vec<u8>], target: Target) -> &'static str {
        let whole = container(whole);
        let parts: Vec<_> = parts
            .iter()
            .map(|part| container(std::slice::from_ref(part)))
            .collect();
        let parts = parts.iter().map(|part| &part[..]).collect();
        match contained(&whole, parts, fatbin::Entry::owned, target) {
            Ok(Source::Code(_, None)) => "machine code",
            Ok(Source::Code(_, Some(text))) => match *text {
                Source::Parts(_) => "machine code, and parts",
                _ => "machine code, and a text",
            },
            Ok(Source::Packed(_)) => "a text",
            Ok(Source::Parts(_)) => "parts",
            Ok(_) => "something else",
            Err(Refusal::NoPtx(_)) => "nothing",
            Err(Refusal::Malformed(why)) => why,
        }
    }

    #[test]
    fn machine_code_goes_before_a_text_where_it_runs() {
        let both = [code(90), text(75, ".version 8.0")];
        assert_eq!(taken(&both, &[], gpu(90)), "machine code, and a text");
        assert_eq!(taken(&both, &[], gpu(80)), "a text");
        assert_eq!(taken(&both, &[], CPU), "a text");
        let bare = [code(90)];
        assert_eq!(taken(&bare, &[], gpu(90)), "machine code");
        assert_eq!(taken(&bare, &[], gpu(100)), "nothing");
        assert_eq!(taken(&bare, &[], CPU), "nothing");
    }

    #[test]
    fn a_program_of_parts_is_taken_linked_where_it_runs() {
        let (whole, parts) = ([code(90)], [text(75, "one"), text(80, "two")]);
        assert_eq!(taken(&whole, &parts, gpu(90)), "machine code, and parts");
        assert_eq!(taken(&whole, &parts, gpu(80)), "parts");
        assert_eq!(taken(&whole, &parts, CPU), "parts");
        // The parts are never used as machine code, which is not linked.
        let parts = [text(75, "one"), code(90)];
        assert_eq!(taken(&whole, &parts, gpu(90)), "machine code");
        assert_eq!(taken(&[], &parts, gpu(90)), "nothing");
    }
}
