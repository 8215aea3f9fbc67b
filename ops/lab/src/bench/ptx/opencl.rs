//! The few calls of OpenCL that the suite needs, found at run time.

#![expect(unsafe_code, reason = "OpenCL is a C library")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use libloading::Library;
use workloads::suite::{Argument, Case, Data};

/// What Debian calls the loader of installed OpenCL implementations.
const LOADER: &str = "libOpenCL.so.1";
const SUCCESS: c_int = 0;
const DEVICE_CPU: u64 = 1 << 1;
const PLATFORM_NAME: u32 = 0x0902;
const PLATFORM_VERSION: u32 = 0x0901;
const BUILD_LOG: u32 = 0x1183;
const READ_WRITE: u64 = 1;
const BLOCKING: u32 = 1;

type Handle = *mut c_void;

macro_rules! calls {
    ($($field:ident = $symbol:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The calls by name.
        #[derive(Debug)]
        struct Calls {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            // Last: the functions above point into it.
            _library: Library,
        }

        impl Calls {
            fn load() -> Result<Self, libloading::Error> {
                // SAFETY: the loader's initialisers are those of any OpenCL program; the
                // signatures are those of the OpenCL 1.2 specification.
                unsafe {
                    let library = Library::new(LOADER)?;
                    Ok(Self {
                        $($field: *library.get($symbol)?,)*
                        _library: library,
                    })
                }
            }
        }
    };
}

calls! {
    platforms = b"clGetPlatformIDs\0"(u32, *mut Handle, *mut u32) -> c_int;
    platform_info = b"clGetPlatformInfo\0"(Handle, u32, usize, *mut c_void, *mut usize) -> c_int;
    devices = b"clGetDeviceIDs\0"(Handle, u64, u32, *mut Handle, *mut u32) -> c_int;
    context = b"clCreateContext\0"(
        *const isize, u32, *const Handle, *const c_void, *const c_void, *mut c_int) -> Handle;
    queue = b"clCreateCommandQueue\0"(Handle, Handle, u64, *mut c_int) -> Handle;
    program = b"clCreateProgramWithSource\0"(
        Handle, u32, *const *const c_char, *const usize, *mut c_int) -> Handle;
    build = b"clBuildProgram\0"(
        Handle, u32, *const Handle, *const c_char, *const c_void, *const c_void) -> c_int;
    build_info = b"clGetProgramBuildInfo\0"(
        Handle, Handle, u32, usize, *mut c_void, *mut usize) -> c_int;
    kernel = b"clCreateKernel\0"(Handle, *const c_char, *mut c_int) -> Handle;
    buffer = b"clCreateBuffer\0"(Handle, u64, usize, *const c_void, *mut c_int) -> Handle;
    argument = b"clSetKernelArg\0"(Handle, u32, usize, *const c_void) -> c_int;
    write = b"clEnqueueWriteBuffer\0"(
        Handle, Handle, u32, usize, usize, *const c_void, u32, *const Handle, *mut Handle) -> c_int;
    read = b"clEnqueueReadBuffer\0"(
        Handle, Handle, u32, usize, usize, *mut c_void, u32, *const Handle, *mut Handle) -> c_int;
    enqueue = b"clEnqueueNDRangeKernel\0"(
        Handle, Handle, u32, *const usize, *const usize, *const usize, u32, *const Handle,
        *mut Handle) -> c_int;
    finish = b"clFinish\0"(Handle) -> c_int;
    release_kernel = b"clReleaseKernel\0"(Handle) -> c_int;
    release_program = b"clReleaseProgram\0"(Handle) -> c_int;
    release_buffer = b"clReleaseMemObject\0"(Handle) -> c_int;
}

fn check(what: &str, code: c_int) -> Result<()> {
    if code != SUCCESS {
        bail!("OpenCL: {what} failed with code {code}");
    }
    Ok(())
}

/// PoCL's CPU device.
#[derive(Debug)]
pub(super) struct OpenCl {
    calls: Calls,
    device: Handle,
    context: Handle,
    queue: Handle,
    /// The implementation, as it names itself.
    pub(super) version: String,
}

/// A kernel.
#[derive(Debug)]
pub(super) struct Kernel<'c> {
    opencl: &'c OpenCl,
    program: Handle,
    kernel: Handle,
}

/// A kernel's buffers: handles and sizes.
#[derive(Debug)]
pub(super) struct Buffers<'c> {
    opencl: &'c OpenCl,
    list: Vec<(Handle, usize)>,
}

impl OpenCl {
    /// Finds PoCL.
    ///
    /// # Errors
    /// When it is not installed.
    pub(super) fn open() -> Result<Self> {
        let calls = Calls::load().map_err(|error| anyhow!("no OpenCL loader: {error}"))?;
        let mut platforms = [null_mut(); 8];
        let mut count = 0;
        // SAFETY: the list has room for as many as are asked for.
        let code = unsafe { (calls.platforms)(8, platforms.as_mut_ptr(), &raw mut count) };
        check("clGetPlatformIDs", code)?;
        let known = &platforms[..(count as usize).min(8)];
        let named = |platform: &&Handle| {
            calls
                .text(**platform, PLATFORM_NAME)
                .contains("Portable Computing Language")
        };
        let platform = *known.iter().find(named).context("PoCL is not installed")?;
        let version = calls.text(platform, PLATFORM_VERSION);
        let (mut device, mut code) = (null_mut(), SUCCESS);
        // SAFETY: room for one device, which then makes a context and a queue.
        let (context, queue) = unsafe {
            let found = (calls.devices)(platform, DEVICE_CPU, 1, &raw mut device, null_mut());
            check("clGetDeviceIDs", found)?;
            let list = &raw const device;
            let context = (calls.context)(null(), 1, list, null(), null(), &raw mut code);
            check("clCreateContext", code)?;
            let queue = (calls.queue)(context, device, 0, &raw mut code);
            check("clCreateCommandQueue", code)?;
            (context, queue)
        };
        Ok(Self {
            calls,
            device,
            context,
            queue,
            version,
        })
    }

    /// Builds a kernel from its source.
    ///
    /// # Errors
    /// With the build log.
    pub(super) fn build(&self, case: &Case) -> Result<Kernel<'_>> {
        let source = case.opencl.context("it is not written in OpenCL C")?;
        let text = source.as_ptr().cast::<c_char>();
        let (name, options) = (CString::new(case.name)?, CString::new("")?);
        let (length, mut code) = (source.len(), SUCCESS);
        // SAFETY: source, name and lists live through the calls that read them.
        unsafe {
            let (texts, lengths) = (&raw const text, &raw const length);
            let program = (self.calls.program)(self.context, 1, texts, lengths, &raw mut code);
            check("clCreateProgramWithSource", code)?;
            let devices = &raw const self.device;
            let options = options.as_ptr();
            if (self.calls.build)(program, 1, devices, options, null(), null()) != SUCCESS {
                bail!("{}: {}", case.name, self.log(program));
            }
            let kernel = (self.calls.kernel)(program, name.as_ptr(), &raw mut code);
            check("clCreateKernel", code)?;
            Ok(Kernel {
                opencl: self,
                program,
                kernel,
            })
        }
    }

    /// Makes buffers with these contents.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub(super) fn buffers(&self, contents: &[Data]) -> Result<Buffers<'_>> {
        let mut buffers = Buffers {
            opencl: self,
            list: Vec::new(),
        };
        for data in contents {
            buffers.add(data)?;
        }
        Ok(buffers)
    }

    fn log(&self, program: Handle) -> String {
        let mut log = vec![0_u8; 4096];
        let (room, mut used) = (log.len(), 0);
        let to = log.as_mut_ptr().cast();
        // SAFETY: the log has the room that is announced.
        unsafe {
            (self.calls.build_info)(program, self.device, BUILD_LOG, room, to, &raw mut used);
        }
        String::from_utf8_lossy(&log[..used.min(room)]).into_owned()
    }
}

impl Calls {
    fn text(&self, platform: Handle, what: u32) -> String {
        let mut text = vec![0_u8; 256];
        let mut used = 0;
        let to = text.as_mut_ptr().cast();
        // SAFETY: the text has the room that is announced.
        unsafe { (self.platform_info)(platform, what, 256, to, &raw mut used) };
        String::from_utf8_lossy(&text[..used.clamp(1, 256) - 1]).into_owned()
    }
}

impl Buffers<'_> {
    fn add(&mut self, data: &Data) -> Result<()> {
        let (bytes, mut code) = (data.bytes(), SUCCESS);
        let calls = &self.opencl.calls;
        let (size, context) = (bytes.len(), self.opencl.context);
        // SAFETY: the write is over when the call returns.
        unsafe {
            let buffer = (calls.buffer)(context, READ_WRITE, size, null(), &raw mut code);
            check("clCreateBuffer", code)?;
            self.list.push((buffer, size));
            let (queue, from) = (self.opencl.queue, bytes.as_ptr().cast());
            let (write, events) = (calls.write, null_mut());
            let code = write(queue, buffer, BLOCKING, 0, size, from, 0, null(), events);
            check("clEnqueueWriteBuffer", code)
        }
    }

    /// The bytes of one.
    ///
    /// # Errors
    /// When PoCL refuses.
    pub(super) fn read(&self, index: usize) -> Result<Vec<u8>> {
        let (buffer, size) = self.list[index];
        let mut bytes = vec![0; size];
        let (read, queue) = (self.opencl.calls.read, self.opencl.queue);
        let (to, events) = (bytes.as_mut_ptr().cast(), null_mut());
        // SAFETY: the read is over when the call returns.
        let code = unsafe { read(queue, buffer, BLOCKING, 0, size, to, 0, null(), events) };
        check("clEnqueueReadBuffer", code)?;
        Ok(bytes)
    }
}

impl Kernel<'_> {
    /// Gives it its arguments.
    ///
    /// # Errors
    /// When they are not those of its declaration.
    pub(super) fn bind(&self, case: &Case, buffers: &Buffers<'_>) -> Result<()> {
        for (at, argument) in case.arguments.iter().enumerate() {
            let (at, kernel) = (at as u32, self.kernel);
            let set = self.opencl.calls.argument;
            // SAFETY: the value is copied by the call.
            let code = unsafe {
                match argument {
                    Argument::Buffer(index) => {
                        let buffer = &raw const buffers.list[*index].0;
                        set(kernel, at, size_of::<Handle>(), buffer.cast())
                    }
                    Argument::Word(word) => set(kernel, at, 4, (&raw const *word).cast()),
                    Argument::Float(value) => set(kernel, at, 4, (&raw const *value).cast()),
                }
            };
            check("clSetKernelArg", code)?;
        }
        Ok(())
    }

    /// Runs it once, to its end.
    ///
    /// # Errors
    /// When PoCL refuses.
    pub(super) fn launch(&self, grid: [u32; 3], block: [u32; 3]) -> Result<Duration> {
        let sizes: [usize; 3] =
            std::array::from_fn(|axis| grid[axis] as usize * block[axis] as usize);
        let block = block.map(|threads| threads as usize);
        let (calls, queue) = (&self.opencl.calls, self.opencl.queue);
        let began = Instant::now();
        // SAFETY: the sizes are copied by the call.
        unsafe {
            let (sizes, block) = (sizes.as_ptr(), block.as_ptr());
            let (kernel, events) = (self.kernel, null_mut());
            let code = (calls.enqueue)(queue, kernel, 3, null(), sizes, block, 0, null(), events);
            check("clEnqueueNDRangeKernel", code)?;
            check("clFinish", (calls.finish)(queue))?;
        }
        Ok(began.elapsed())
    }
}

impl Drop for Kernel<'_> {
    fn drop(&mut self) {
        let calls = &self.opencl.calls;
        // SAFETY: each handle is released once; a failure leaves it to the end of the process.
        unsafe {
            (calls.release_kernel)(self.kernel);
            (calls.release_program)(self.program);
        }
    }
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        for (buffer, _) in &self.list {
            // SAFETY: as above.
            unsafe { (self.opencl.calls.release_buffer)(*buffer) };
        }
    }
}
