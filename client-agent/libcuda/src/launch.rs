//! Launches: parameters as CUDA passes them become the block that the kernel's image describes.

#![expect(unsafe_code, reason = "parameters come as pointers of the program's")]

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::atomic::Ordering;

use bus_schemas::Dim;

use crate::device::Device;
use crate::host::translated;
use crate::module::{KERNELS, Kernel};
use crate::settings::is_blocking;
use crate::status::{Result, Status};
use crate::work::submit;

/// Grid, block and dynamic shared bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: Dim,
    pub(crate) block: Dim,
    pub(crate) shared: u32,
}

/// Parameters as a program passes them: one of the two is null.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments {
    /// A pointer for each.
    pub(crate) pointers: *const *const c_void,
    /// Pairs of a key and a value: a packed block and its size.
    pub(crate) extra: *const *const c_void,
}

/// Keys of the extra list.
const END: usize = 0;
const POINTER: usize = 1;
const SIZE: usize = 2;

thread_local! {
    /// Kept, so that a launch allocates nothing.
    static BLOCK: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Launches a kernel.
///
/// # Safety
/// The arguments' pointers are what the kernel's image asks for.
pub(crate) unsafe fn launch(
    device: &Device,
    kernel: usize,
    shape: Shape,
    stream: u16,
    arguments: Arguments,
) -> Result {
    let run = |kernel: &Kernel| {
        let with = |block: &mut Vec<u8>| {
            // SAFETY: the caller vouches for the arguments.
            unsafe { pack(kernel, arguments, block)? };
            start(device, kernel, shape, stream, block)
        };
        let launched = BLOCK.try_with(|block| match block.try_borrow_mut() {
            Ok(mut block) => with(&mut block),
            Err(_) => Err(Status::UNKNOWN),
        });
        // A thread that is ending has no block of its own any more.
        launched.unwrap_or_else(|_| with(&mut Vec::new()))
    };
    KERNELS
        .with(kernel, run)
        .unwrap_or(Err(Status::INVALID_HANDLE))
}

/// Launches a kernel with packed parameters.
pub(crate) fn start(
    device: &Device,
    kernel: &Kernel,
    shape: Shape,
    stream: u16,
    params: &[u8],
) -> Result {
    let function = kernel.on(device)?;
    crate::stats::launched();
    if i64::from(shape.shared) > i64::from(kernel.dynamic.load(Ordering::Relaxed)) {
        return Err(Status::INVALID_VALUE);
    }
    let params = &*translated(device, &kernel.entry().params, params)?;
    let submitted = submit(device, |session| {
        session.launch_on(
            stream,
            function,
            shape.grid,
            shape.block,
            shape.shared,
            params,
        )
    });
    submitted.map_err(|status| match status {
        // A shape that no device has. The runtime hands on what it is told, and its programs know this
        // by a code of the runtime's.
        Status::INVALID_VALUE if crate::tables::asked::is_used() => Status::INVALID_CONFIGURATION,
        status => status,
    })?;
    match is_blocking() {
        true => crate::work::sync(device),
        false => Ok(()),
    }
}

/// Puts a kernel's parameters into one block.
///
/// # Safety
/// As [`launch`].
pub(crate) unsafe fn pack(kernel: &Kernel, arguments: Arguments, block: &mut Vec<u8>) -> Result {
    let entry = kernel.entry();
    let bytes = entry.param_bytes as usize;
    block.clear();
    block.resize(bytes, 0);
    if !arguments.extra.is_null() {
        // SAFETY: the caller vouches for the list.
        let packed = unsafe { extra(arguments.extra)? };
        block.copy_from_slice(packed.get(..bytes).ok_or(Status::INVALID_VALUE)?);
        return Ok(());
    }
    if arguments.pointers.is_null() && !entry.params.is_empty() {
        return Err(Status::INVALID_VALUE);
    }
    for (at, param) in entry.params.iter().enumerate() {
        // SAFETY: there is a pointer for each parameter, to as many bytes as it has.
        unsafe {
            let from = arguments.pointers.add(at).read();
            if from.is_null() {
                return Err(Status::INVALID_VALUE);
            }
            let (offset, size) = (param.offset as usize, param.size as usize);
            let to = block[offset..offset + size].as_mut_ptr();
            std::ptr::copy_nonoverlapping(from.cast(), to, size);
        }
    }
    Ok(())
}

/// The packed block that an extra list names.
///
/// # Safety
/// The list ends with its end key, and its values are what its keys say.
unsafe fn extra<'a>(list: *const *const c_void) -> Result<&'a [u8]> {
    let (mut pointer, mut size) = (std::ptr::null(), None);
    for pair in 0.. {
        // SAFETY: the end key has not been seen yet.
        let key = unsafe { list.add(2 * pair).read() } as usize;
        if key == END {
            break;
        }
        // SAFETY: a value follows each key.
        let value = unsafe { list.add(2 * pair + 1).read() };
        match key {
            POINTER => pointer = value,
            // SAFETY: the value is a pointer to a size.
            SIZE if !value.is_null() => size = Some(unsafe { value.cast::<usize>().read() }),
            _ => return Err(Status::INVALID_VALUE),
        }
    }
    match size {
        Some(0) => Ok(&[]),
        Some(size) if !pointer.is_null() => {
            // SAFETY: the program says that so many bytes are there.
            Ok(unsafe { std::slice::from_raw_parts(pointer.cast(), size) })
        }
        _ => Err(Status::INVALID_VALUE),
    }
}
