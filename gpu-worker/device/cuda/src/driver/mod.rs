//! The driver API as this crate uses it. Every `unsafe` call of the crate is here, wrapped so that handles
//! are owned and errors are [`Failure`]s.
//!
//! It runs on the device's thread, on which [`Context::new`] made the context current. Moving memory, an image
//! and a session's module have threads of their own; [`Context::enter`] makes the context current there.

#![expect(unsafe_code, reason = "the CUDA boundary")]

mod clusters;
mod module;
mod pinned;
mod stream;
mod tensor_map;

use std::ffi::CStr;
use std::ptr;

use bus_schemas::{Code, Failure};
use cudarc::driver::sys::{self, CUresult};

pub(crate) use clusters::{SharedMemory, active};
pub(crate) use module::{Function, Module, link};
pub(crate) use pinned::Pinned;
pub(crate) use stream::{Event, EventKind, Stream};
pub(crate) use tensor_map::encode;

/// The failure of a call, with CUDA's name of the error and the attempted action.
pub(crate) fn failure(result: CUresult, what: &str) -> Failure {
    use CUresult as R;
    let code = match result {
        R::CUDA_ERROR_OUT_OF_MEMORY => Code::OutOfMemory,
        R::CUDA_ERROR_INVALID_PTX | R::CUDA_ERROR_INVALID_IMAGE => Code::BadModule,
        R::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => Code::PtxVersion,
        R::CUDA_ERROR_NO_BINARY_FOR_GPU => Code::NoBinary,
        R::CUDA_ERROR_NOT_FOUND => Code::UnknownFunction,
        R::CUDA_ERROR_INVALID_VALUE => Code::BadLaunch,
        R::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES => Code::LaunchResources,
        R::CUDA_ERROR_ILLEGAL_ADDRESS => Code::IllegalAddress,
        R::CUDA_ERROR_MISALIGNED_ADDRESS => Code::Misaligned,
        R::CUDA_ERROR_ILLEGAL_INSTRUCTION => Code::IllegalInstruction,
        R::CUDA_ERROR_LAUNCH_TIMEOUT => Code::Watchdog,
        R::CUDA_ERROR_LAUNCH_FAILED => Code::Trap,
        R::CUDA_ERROR_ASSERT => Code::Assert,
        R::CUDA_ERROR_DEVICE_UNAVAILABLE | R::CUDA_ERROR_ECC_UNCORRECTABLE => Code::DeviceLost,
        _ => Code::Device,
    };
    let mut name = ptr::null();
    // SAFETY: `name` outlives the call; on success it points at a static string of the driver.
    let named = unsafe { sys::cuGetErrorName(result, &raw mut name) };
    let name = if named == CUresult::CUDA_SUCCESS && !name.is_null() {
        // SAFETY: a static, terminated string, see above.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    } else {
        format!("{result:?}")
    };
    Failure::new(code, format!("{what}: {name}"))
}

fn check(result: CUresult, what: &str) -> Result<(), Failure> {
    if result == CUresult::CUDA_SUCCESS {
        Ok(())
    } else {
        Err(failure(result, what))
    }
}

/// True if the driver library found is Warploom's own drop-in, which has no GPU: a worker on it would be its
/// own client.
pub(crate) fn is_drop_in() -> bool {
    // SAFETY: as below; the call only asks if a symbol is there.
    unsafe {
        let names = ["libcuda.so.1", "libcuda.so"];
        names.iter().any(|name| {
            let library = libloading::Library::new(*name);
            library.is_ok_and(|it| it.get::<*const u8>(b"warploom_drop_in").is_ok())
        })
    }
}

/// True if a driver library can be loaded.
pub(crate) fn is_present() -> bool {
    // SAFETY: loads and unloads a library of the system, as every CUDA program does.
    unsafe { sys::is_culib_present() }
}

/// The device's primary context, current on this thread. It is never released, so it may be kept for ever.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context {
    device: sys::CUdevice,
    context: sys::CUcontext,
}

// SAFETY: driver handles may be used from any thread; the device is moved to its thread once and
// `Context::enter` makes the context current there.
unsafe impl Send for Context {}
// SAFETY: it has only handles that never change, and calls with them may be made from any thread.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn new(ordinal: i32) -> Result<Self, Failure> {
        let (mut device, mut context) = (0, ptr::null_mut());
        // SAFETY: out-pointers to locals that outlive the calls.
        unsafe {
            check(sys::cuInit(0), "initialising CUDA")?;
            check(
                sys::cuDeviceGet(&raw mut device, ordinal),
                "finding the device",
            )?;
            let retained = sys::cuDevicePrimaryCtxRetain(&raw mut context, device);
            check(retained, "making a context")?;
        }
        let this = Self { device, context };
        this.enter()?;
        Ok(this)
    }

    /// Makes the context current on the calling thread.
    pub(crate) fn enter(&self) -> Result<(), Failure> {
        // SAFETY: the context was retained by `new` and is never released.
        check(
            unsafe { sys::cuCtxSetCurrent(self.context) },
            "entering the context",
        )
    }

    /// Returns the failure that has ended the context, if any: then every call reports it, as CUDA defines.
    pub(crate) fn end(&self) -> Option<Failure> {
        // SAFETY: the query asks if the default stream is empty, which is never used.
        match unsafe { sys::cuStreamQuery(ptr::null_mut()) } {
            CUresult::CUDA_SUCCESS | CUresult::CUDA_ERROR_NOT_READY => None,
            result => {
                let why = failure(result, "a kernel's fault has ended the GPU's context").detail;
                Some(Failure::new(
                    Code::DeviceLost,
                    format!("{why}; its sessions have ended; start the worker again"),
                ))
            }
        }
    }

    pub(crate) fn name(&self) -> Result<String, Failure> {
        let mut name = [0_u8; 128];
        // SAFETY: the buffer has the given length; the driver terminates the string.
        let result = unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast(), 128, self.device) };
        check(result, "naming the device")?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(name.to_string_lossy().into_owned())
    }

    pub(crate) fn attribute(&self, which: sys::CUdevice_attribute) -> Result<u32, Failure> {
        let mut value = 0;
        // SAFETY: an out-pointer to a local.
        let result = unsafe { sys::cuDeviceGetAttribute(&raw mut value, which, self.device) };
        check(result, "reading a device attribute")?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    pub(crate) fn free_memory(&self) -> Result<u64, Failure> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: out-pointers to locals.
        let result = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        check(result, "reading free memory")?;
        Ok(free as u64)
    }

    /// The device's UUID; the nil one if the driver has none.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        let mut uuid = sys::CUuuid { bytes: [0; 16] };
        // SAFETY: an out-pointer to a local.
        let result = unsafe { sys::cuDeviceGetUuid_v2(&raw mut uuid, self.device) };
        match result {
            CUresult::CUDA_SUCCESS => uuid.bytes.map(|byte| byte as u8),
            _ => [0; 16],
        }
    }

    /// Total bytes of the device's memory.
    pub(crate) fn total_memory(&self) -> Result<u64, Failure> {
        let mut bytes = 0;
        // SAFETY: an out-pointer to a local.
        let result = unsafe { sys::cuDeviceTotalMem_v2(&raw mut bytes, self.device) };
        check(result, "reading the device's memory")?;
        Ok(bytes as u64)
    }

    /// Version of the driver API, such as 13000.
    pub(crate) fn version(&self) -> Result<u32, Failure> {
        let mut version = 0;
        // SAFETY: an out-pointer to a local.
        let result = unsafe { sys::cuDriverGetVersion(&raw mut version) };
        check(result, "reading the driver's version")?;
        Ok(u32::try_from(version).unwrap_or(0))
    }

    fn location(&self) -> sys::CUmemLocation {
        sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: self.device,
        }
    }

    fn properties(&self) -> sys::CUmemAllocationProp {
        sys::CUmemAllocationProp {
            type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: self.location(),
            win32HandleMetaData: ptr::null_mut(),
            allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
                compressionType: 0,
                gpuDirectRDMACapable: 0,
                usage: 0,
                reserved: [0; 4],
            },
        }
    }

    /// Granularity of physical memory, bytes.
    pub(crate) fn granularity(&self) -> Result<u64, Failure> {
        use sys::CUmemAllocationGranularity_flags as Flags;
        let (mut bytes, properties) = (0, self.properties());
        let minimum = Flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        // SAFETY: pointers to locals that outlive the call.
        let result = unsafe {
            sys::cuMemGetAllocationGranularity(&raw mut bytes, &raw const properties, minimum)
        };
        check(result, "reading the allocation granularity")?;
        Ok((bytes as u64).max(1))
    }

    /// Reserves exactly these addresses, or fails.
    pub(crate) fn reserve(&self, base: u64, size: u64) -> Result<Reservation, Failure> {
        let mut got = 0;
        // SAFETY: an out-pointer to a local; reserving maps nothing.
        let result = unsafe { sys::cuMemAddressReserve(&raw mut got, size as usize, 0, base, 0) };
        check(result, "reserving the session's addresses")?;
        if got == base {
            return Ok(Reservation { base, size });
        }
        // SAFETY: frees the addresses just reserved; nothing is mapped there.
        unsafe { sys::cuMemAddressFree(got, size as usize) };
        Err(Failure::new(
            Code::BadAddress,
            format!("addresses at {base:#x} are not free"),
        ))
    }

    /// Maps fresh physical memory at reserved, unmapped addresses.
    pub(crate) fn map(&self, base: u64, size: u64) -> Result<Mapping, Failure> {
        let (mut handle, properties) = (0, self.properties());
        let bytes = size as usize;
        // SAFETY: pointers to locals that outlive the call.
        unsafe {
            let created = sys::cuMemCreate(&raw mut handle, bytes, &raw const properties, 0);
            check(created, "allocating device memory")?;
        }
        self.map_handle(base, size, handle)
    }

    /// Maps the physical memory of another address at reserved, unmapped addresses as well. It has `size`
    /// bytes, all of which are mapped.
    pub(crate) fn map_again(&self, base: u64, size: u64, other: u64) -> Result<Mapping, Failure> {
        let mut handle = 0;
        // SAFETY: an out-pointer to a local; the handle is counted once more, and released with the mapping.
        let retained = unsafe {
            let at = ptr::without_provenance_mut(other as usize);
            sys::cuMemRetainAllocationHandle(&raw mut handle, at)
        };
        check(retained, "finding device memory")?;
        self.map_handle(base, size, handle)
    }

    /// Maps physical memory, which the mapping owns from here on.
    fn map_handle(
        &self,
        base: u64,
        size: u64,
        handle: sys::CUmemGenericAllocationHandle,
    ) -> Result<Mapping, Failure> {
        let access = sys::CUmemAccessDesc {
            location: self.location(),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        let bytes = size as usize;
        // SAFETY: pointers to locals that outlive the calls; the range is reserved by the session
        // and not mapped, and both base and size are multiples of the granularity.
        unsafe {
            let mapped = sys::cuMemMap(base, bytes, 0, handle, 0);
            if let Err(failure) = check(mapped, "mapping device memory") {
                sys::cuMemRelease(handle);
                return Err(failure);
            }
            let mapping = Mapping { base, size, handle };
            check(
                sys::cuMemSetAccess(base, bytes, &raw const access, 1),
                "opening device memory",
            )?;
            Ok(mapping)
        }
    }
}

/// Reserved addresses, released when dropped. The owner has unmapped everything there before.
#[derive(Debug)]
pub(crate) struct Reservation {
    base: u64,
    size: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: made by `Context::reserve`, undone once; nothing is mapped there, see above.
        unsafe { sys::cuMemAddressFree(self.base, self.size as usize) };
    }
}

/// Physical memory at some addresses, unmapped and released when dropped. The owner has waited for all work
/// that uses it.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: u64,
    size: u64,
    handle: sys::CUmemGenericAllocationHandle,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by `Context::map`, undone once; no work uses it, see above.
        unsafe {
            sys::cuMemUnmap(self.base, self.size as usize);
            sys::cuMemRelease(self.handle);
        }
    }
}
