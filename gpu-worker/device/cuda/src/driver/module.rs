//! Linking of texts for the GPU, modules and their entries.

use std::ffi::{CStr, CString, c_void};
use std::ptr;

use bus_schemas::{Code, Failure};
use cudarc::driver::sys::{self, CUresult};

use super::check;

/// Links PTX and returns machine code for this GPU.
pub(crate) fn link(text: &[u8]) -> Result<Vec<u8>, Failure> {
    use sys::CUjit_option_enum as Option;
    let mut log = vec![0_u8; 8 << 10];
    let mut options = [
        Option::CU_JIT_ERROR_LOG_BUFFER,
        Option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values = [
        log.as_mut_ptr().cast::<c_void>(),
        ptr::without_provenance_mut(log.len()),
    ];
    let kind = sys::CUjitInputType::CU_JIT_INPUT_PTX;
    // PTX is text that the driver reads to its terminator.
    let mut data = text.to_vec();
    data.push(0);
    let (mut state, mut cubin, mut size) = (ptr::null_mut(), ptr::null_mut(), 0);
    // SAFETY: options, values, log and data outlive the link, which ends in this block; `cubin`
    // belongs to the link and is copied before it is destroyed.
    let linked = unsafe {
        let created =
            sys::cuLinkCreate_v2(2, options.as_mut_ptr(), values.as_mut_ptr(), &raw mut state);
        check(created, "linking")?;
        let name = c"image";
        let mut result = sys::cuLinkAddData_v2(
            state,
            kind,
            data.as_mut_ptr().cast(),
            data.len(),
            name.as_ptr(),
            0,
            ptr::null_mut(),
            ptr::null_mut(),
        );
        if result == CUresult::CUDA_SUCCESS {
            result = sys::cuLinkComplete(state, &raw mut cubin, &raw mut size);
        }
        let linked = check(result, "linking")
            .map(|()| std::slice::from_raw_parts(cubin.cast::<u8>(), size).to_vec());
        sys::cuLinkDestroy(state);
        linked
    };
    linked.map_err(|mut failure| {
        let log = CStr::from_bytes_until_nul(&log)
            .unwrap_or_default()
            .to_string_lossy();
        failure.detail = format!("{}: {}", failure.detail, log.trim());
        failure
    })
}

/// A module of one session; unloaded when dropped, after its work.
#[derive(Debug)]
pub(crate) struct Module(sys::CUmodule);

// SAFETY: driver handles may be used from any thread in which the context is current.
unsafe impl Send for Module {}

impl Module {
    pub(crate) fn load(code: &[u8]) -> Result<Self, Failure> {
        let mut module = ptr::null_mut();
        // SAFETY: `code` is a whole image and outlives the call, which copies it.
        let result = unsafe { sys::cuModuleLoadData(&raw mut module, code.as_ptr().cast()) };
        check(result, "loading the module")?;
        Ok(Self(module))
    }

    /// Creates no module, which needs no driver call to make or to drop.
    pub(crate) fn none() -> Self {
        Self(ptr::null_mut())
    }

    pub(crate) fn function(&self, name: &str) -> Result<Function, Failure> {
        let unknown = || Failure::new(Code::UnknownFunction, format!("no entry {name:?}"));
        let text = CString::new(name).map_err(|_| unknown())?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is loaded; the name is terminated and outlives the call.
        let result = unsafe { sys::cuModuleGetFunction(&raw mut function, self.0, text.as_ptr()) };
        check(result, &format!("entry {name:?}"))?;
        Ok(Function(function))
    }

    /// Returns address and bytes of a variable; `None` if the driver has none of this name, because nothing
    /// uses it.
    pub(crate) fn variable(&self, name: &str) -> Result<Option<(u64, u64)>, Failure> {
        let Ok(text) = CString::new(name) else {
            return Ok(None);
        };
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: the module is loaded; the out-pointers are to locals; the name is terminated and
        // outlives the call.
        let result = unsafe {
            sys::cuModuleGetGlobal_v2(&raw mut address, &raw mut bytes, self.0, text.as_ptr())
        };
        if result == CUresult::CUDA_ERROR_NOT_FOUND {
            return Ok(None);
        }
        check(result, &format!("variable {name:?}"))?;
        Ok(Some((address, bytes as u64)))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: loaded by `load`, unloaded once, after its session's work.
            unsafe { sys::cuModuleUnload(self.0) };
        }
    }
}

/// An entry of a loaded module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function(pub(super) sys::CUfunction);

// SAFETY: as `Module`.
unsafe impl Send for Function {}

impl Function {
    /// Returns the bytes of its parameter block.
    pub(crate) fn param_bytes(self) -> Result<u32, Failure> {
        let mut bytes = 0;
        for index in 0.. {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: out-pointers to locals; an index past the last is refused.
            let result =
                unsafe { sys::cuFuncGetParamInfo(self.0, index, &raw mut offset, &raw mut size) };
            if result == CUresult::CUDA_ERROR_INVALID_VALUE {
                break;
            }
            check(result, "reading a kernel's parameters")?;
            bytes = (offset + size) as u32;
        }
        Ok(bytes)
    }

    /// Allows clusters of more blocks than every device of the architecture takes.
    pub(crate) fn allow_large_clusters(self) -> Result<(), Failure> {
        use sys::CUfunction_attribute as Attribute;
        let which = Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        // SAFETY: plain values.
        let result = unsafe { sys::cuFuncSetAttribute(self.0, which, 1) };
        check(result, "large clusters")
    }

    /// Allows dynamic shared memory beyond the 48 KiB every launch may have.
    pub(crate) fn allow_shared(self, bytes: u32) -> Result<(), Failure> {
        use sys::CUfunction_attribute as Attribute;
        let which = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: plain values.
        let result = unsafe { sys::cuFuncSetAttribute(self.0, which, bytes as i32) };
        check(result, "dynamic shared memory").map_err(|mut failure| {
            failure.code = Code::LaunchResources;
            failure
        })
    }
}
