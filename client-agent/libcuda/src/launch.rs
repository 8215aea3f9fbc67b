//! Launches: packs parameters as CUDA passes them into the block that the kernel's image describes.

#![expect(
    unsafe_code,
    reason = "how many bytes a parameter has is said by the kernel, not by a count beside it"
)]

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bus_schemas::{Dim, LaunchAttributes};
use client_session::LaunchOn;

use crate::abi::{Call, Handle, List, Word};
use crate::device::Device;
use crate::host::translated;
use crate::module::Kernel;
use crate::settings::is_blocking;
use crate::status::{Result, Status};
use crate::tensor_map;
use crate::work::submit;

/// Grid, block and dynamic shared bytes, in the order of CUDA's structures.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: Dim,
    pub(crate) block: Dim,
    pub(crate) shared: u32,
}

/// A shape with attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) shape: Shape,
    pub(crate) attributes: LaunchAttributes,
}

/// Pointers to parameters, or the pairs of an extra list.
pub(crate) type Parameters<'a> = List<'a, *const c_void>;

/// The kernel that the parameters of the same call are for. The program promises that they match
/// the kernel's image.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callee<'a> {
    kernel: Handle<Kernel>,
    call: Call<'a>,
}

impl Callee<'_> {
    /// The handle of the kernel.
    pub(crate) fn kernel(self) -> Handle<Kernel> {
        self.kernel
    }
}

impl Word for Callee<'_> {
    #[inline]
    fn word(&self) -> u64 {
        self.kernel.word()
    }
}

/// A kernel with parameters as a program passes them; one of the two lists is null.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments<'a> {
    kernel: Handle<Kernel>,
    /// A pointer for each parameter.
    pointers: Parameters<'a>,
    /// Pairs of a key and a value: a packed block and its size.
    extra: Parameters<'a>,
}

impl<'a> Arguments<'a> {
    /// A kernel with the parameters of the call that names it.
    pub(crate) fn new(callee: Callee<'a>, pointers: Parameters<'a>, extra: Parameters<'a>) -> Self {
        Self {
            kernel: callee.kernel,
            pointers,
            extra,
        }
    }

    /// The kernel's handle.
    pub(crate) fn kernel(&self) -> Handle<Kernel> {
        self.kernel
    }
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
pub(crate) fn launch(device: &Device, how: How, stream: u16, arguments: Arguments<'_>) -> Result {
    let run = |kernel: &Kernel| {
        let with = |block: &mut Vec<u8>| {
            arguments.pack(kernel, block)?;
            start(device, kernel, how, stream, block)
        };
        let launched = BLOCK.try_with(|block| match block.try_borrow_mut() {
            Ok(mut block) => with(&mut block),
            Err(_) => Err(Status::UNKNOWN),
        });
        // An ending thread no longer has a block of its own.
        launched.unwrap_or_else(|_| with(&mut Vec::new()))
    };
    arguments.kernel.with(run)?
}

/// Launches a kernel with packed parameters.
pub(crate) fn start(
    device: &Device,
    kernel: &Kernel,
    how: How,
    stream: u16,
    params: &[u8],
) -> Result {
    let function = kernel.on(device)?;
    let shape = how.shape;
    if i64::from(shape.shared) > i64::from(kernel.dynamic.load(Ordering::Relaxed)) {
        return Err(Status::INVALID_VALUE);
    }
    let translated = translated(device, &kernel.entry().params, params)?;
    let params = translated.as_deref().unwrap_or(params);
    let on = LaunchOn {
        stream,
        grid: shape.grid,
        block: shape.block,
        shared: shape.shared,
        attributes: attributes(device, kernel, how.attributes, params),
    };
    let submitted = submit(device, |session| session.launch_on(function, &on, params));
    submitted.map_err(|status| match status {
        // A shape that no device supports. The runtime passes this error on, and its programs
        // expect a code of the runtime.
        Status::INVALID_VALUE if crate::tables::asked::is_used() => Status::INVALID_CONFIGURATION,
        status => status,
    })?;
    match is_blocking() {
        true => crate::work::sync(device),
        false => Ok(()),
    }
}

/// The attributes of a launch, with those that the kernel and its parameters need; none on a device
/// that accepts none.
fn attributes(
    device: &Device,
    kernel: &Kernel,
    named: LaunchAttributes,
    params: &[u8],
) -> LaunchAttributes {
    match device.properties.takes_launch_attributes() {
        true => LaunchAttributes {
            non_portable: kernel.non_portable.load(Ordering::Relaxed),
            tensor_maps: tensor_map::stands_in(params),
            ..named
        },
        false => LaunchAttributes::default(),
    }
}

impl Arguments<'_> {
    /// Packs the parameters into a block; also returns the kernel.
    pub(crate) fn packed(&self) -> Result<(Vec<u8>, Arc<Kernel>)> {
        let kernel = self.kernel.get()?;
        let mut block = Vec::new();
        self.pack(&kernel, &mut block)?;
        Ok((block, kernel))
    }

    /// Packs the parameters into a block; `kernel` is the one that the call names.
    fn pack(&self, kernel: &Kernel, block: &mut Vec<u8>) -> Result {
        let entry = kernel.entry();
        let bytes = entry.param_bytes as usize;
        block.clear();
        block.resize(bytes, 0);
        if !self.extra.is_null() {
            if !self.pointers.is_null() {
                return Err(Status::INVALID_VALUE);
            }
            let packed = self.extra()?;
            block.copy_from_slice(packed.get(..bytes).ok_or(Status::INVALID_VALUE)?);
            return Ok(());
        }
        if self.pointers.is_null() && !entry.params.is_empty() {
            return Err(Status::INVALID_VALUE);
        }
        for (at, param) in entry.params.iter().enumerate() {
            // SAFETY: CUDA requires as many pointers as the kernel has parameters; it is the kernel
            // that the call names.
            let from = unsafe { self.pointers.item(at) };
            if from.is_null() {
                return Err(Status::INVALID_VALUE);
            }
            let (offset, size) = (param.offset as usize, param.size as usize);
            let to = &mut block[offset..offset + size];
            // SAFETY: the pointer is to the whole parameter, and its place in our block is as
            // large.
            unsafe { std::ptr::copy_nonoverlapping(from.cast(), to.as_mut_ptr(), size) };
        }
        Ok(())
    }

    /// The packed block that the extra list names.
    fn extra(&self) -> Result<&[u8]> {
        let (mut pointer, mut size) = (std::ptr::null(), None);
        for pair in 0.. {
            // SAFETY: the list ends with its end key, which was not reached yet.
            let key = unsafe { self.extra.item(2 * pair) } as usize;
            if key == END {
                break;
            }
            // SAFETY: a value follows each key but the last.
            let value = unsafe { self.extra.item(2 * pair + 1) };
            match key {
                POINTER => pointer = value,
                // SAFETY: the value of this key is a pointer to a size, by CUDA's definition of it.
                SIZE if !value.is_null() => size = Some(unsafe { value.cast::<usize>().read() }),
                _ => return Err(Status::INVALID_VALUE),
            }
        }
        match size {
            Some(0) => Ok(&[]),
            Some(size) if !pointer.is_null() => {
                // SAFETY: the list states how many bytes its block has; it stays during the call.
                Ok(unsafe { std::slice::from_raw_parts(pointer.cast(), size) })
            }
            _ => Err(Status::INVALID_VALUE),
        }
    }
}
