//! PoCL, an OpenCL implementation for processors, as far as the suite needs it.

#![expect(
    unsafe_code,
    reason = "what OpenCL is handed is not checked by its types"
)]

use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_CPU, Device};
use opencl3::kernel;
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, ClMem};
use opencl3::platform::get_platforms;
use opencl3::program::Program;
use opencl3::types::CL_BLOCKING;
use workloads::suite::{Argument, Case, Data};

/// PoCL's CPU device.
#[derive(Debug)]
pub(super) struct OpenCl {
    context: Context,
    queue: CommandQueue,
    /// The implementation, as it names itself.
    pub(super) version: String,
}

/// A kernel.
#[derive(Debug)]
pub(super) struct Kernel<'c> {
    queue: &'c CommandQueue,
    kernel: kernel::Kernel,
}

/// A kernel's buffers and their sizes.
#[derive(Debug)]
pub(super) struct Buffers<'c> {
    queue: &'c CommandQueue,
    list: Vec<(Buffer<u8>, usize)>,
}

impl OpenCl {
    /// Finds PoCL.
    ///
    /// # Errors
    /// If it is not installed.
    pub(super) fn open() -> Result<Self> {
        let platforms = get_platforms().context("no OpenCL")?;
        let named = platforms.into_iter().find(|platform| {
            let name = platform.name().unwrap_or_default();
            name.contains("Portable Computing Language")
        });
        let platform = named.context("PoCL is not installed")?;
        let devices = platform.get_devices(CL_DEVICE_TYPE_CPU)?;
        let device = Device::new(*devices.first().context("PoCL has no CPU device")?);
        let context = Context::from_device(&device)?;
        Ok(Self {
            queue: CommandQueue::create_default(&context, 0)?,
            context,
            version: platform.version()?,
        })
    }

    /// Builds a kernel from its source.
    ///
    /// # Errors
    /// If the build fails; the error contains the build log.
    pub(super) fn build(&self, case: &Case) -> Result<Kernel<'_>> {
        let source = case.opencl.context("it is not written in OpenCL C")?;
        let program = Program::create_and_build_from_source(&self.context, source, "")
            .map_err(|log| anyhow!("{}: {log}", case.name))?;
        Ok(Kernel {
            queue: &self.queue,
            kernel: kernel::Kernel::create(&program, case.name)?,
        })
    }

    /// Makes buffers with these contents.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub(super) fn buffers(&self, contents: &[Data]) -> Result<Buffers<'_>> {
        let filled = contents.iter().map(|data| {
            let (bytes, flags) = (data.bytes(), CL_MEM_READ_WRITE);
            // SAFETY: no memory of ours is passed.
            let mut buffer =
                unsafe { Buffer::create(&self.context, flags, bytes.len(), null_mut()) }?;
            // SAFETY: the write is over when the call returns.
            unsafe {
                let queue = &self.queue;
                queue.enqueue_write_buffer(&mut buffer, CL_BLOCKING, 0, &bytes, &[])?;
            }
            Ok((buffer, bytes.len()))
        });
        Ok(Buffers {
            queue: &self.queue,
            list: filled.collect::<Result<_>>()?,
        })
    }
}

impl Buffers<'_> {
    /// Reads the bytes of one buffer.
    ///
    /// # Errors
    /// If PoCL refuses.
    pub(super) fn read(&self, index: usize) -> Result<Vec<u8>> {
        let (buffer, size) = &self.list[index];
        let (mut bytes, queue) = (vec![0; *size], self.queue);
        // SAFETY: the read is over when the call returns.
        unsafe { queue.enqueue_read_buffer(buffer, CL_BLOCKING, 0, &mut bytes, &[]) }?;
        Ok(bytes)
    }
}

impl Kernel<'_> {
    /// Sets the arguments.
    ///
    /// # Errors
    /// If they do not match the kernel's declaration.
    pub(super) fn bind(&self, case: &Case, buffers: &Buffers<'_>) -> Result<()> {
        for (at, argument) in (0..).zip(case.arguments) {
            // SAFETY: the call copies the value, which has the size that the case's kernel declares.
            unsafe {
                match argument {
                    Argument::Buffer(index) => {
                        let buffer = buffers.list[*index].0.get();
                        self.kernel.set_arg(at, &buffer)?;
                    }
                    Argument::Word(word) => self.kernel.set_arg(at, word)?,
                    Argument::Float(value) => self.kernel.set_arg(at, value)?,
                }
            }
        }
        Ok(())
    }

    /// Runs the kernel once, to its end.
    ///
    /// # Errors
    /// If PoCL refuses.
    pub(super) fn launch(&self, grid: [u32; 3], block: [u32; 3]) -> Result<Duration> {
        let sizes: [usize; 3] =
            std::array::from_fn(|axis| grid[axis] as usize * block[axis] as usize);
        let block = block.map(|threads| threads as usize);
        let (sizes, block) = (sizes.as_ptr(), block.as_ptr());
        let began = Instant::now();
        // SAFETY: the call copies the sizes.
        unsafe {
            let kernel = self.kernel.get();
            self.queue
                .enqueue_nd_range_kernel(kernel, 3, null(), sizes, block, &[])?;
        }
        self.queue.finish()?;
        Ok(began.elapsed())
    }
}
