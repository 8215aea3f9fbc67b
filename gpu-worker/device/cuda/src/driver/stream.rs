//! Streams and events.

use std::ffi::c_void;
use std::ptr;

use bus_schemas::{Failure, Launch, LaunchAttributes};
use cudarc::driver::sys::{self, CUresult};

use super::check;
use super::module::Function;
use super::pinned::Pinned;

/// A stream; destroyed when dropped, after its work.
#[derive(Debug)]
pub(crate) struct Stream(sys::CUstream);

// SAFETY: as `Module`.
unsafe impl Send for Stream {}

impl Stream {
    /// Creates a stream for work of this urgency, 0 (highest) to 4. Devices have fewer steps than we have, or
    /// none; the most urgent ones are kept apart first.
    pub(crate) fn new(urgency: u8) -> Result<Self, Failure> {
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: out-pointers to locals.
        let range = unsafe { sys::cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest) };
        check(range, "reading the stream priorities")?;
        let priority = greatest.saturating_add(i32::from(urgency)).min(least);
        let mut stream = ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: an out-pointer to a local.
        let made = unsafe { sys::cuStreamCreateWithPriority(&raw mut stream, flags, priority) };
        check(made, "making a stream")?;
        Ok(Self(stream))
    }

    pub(crate) fn wait(&self) -> Result<(), Failure> {
        // SAFETY: the stream lives.
        check(
            unsafe { sys::cuStreamSynchronize(self.0) },
            "waiting for the device",
        )
    }

    /// Copies to the device. `bytes` lives until the stream has passed this point.
    pub(crate) fn copy_in(&self, to: u64, bytes: &[u8]) -> Result<(), Failure> {
        // SAFETY: the source is valid for its length and, by the caller's word, lives long enough; the
        // destination was checked to be the session's.
        let result =
            unsafe { sys::cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), bytes.len(), self.0) };
        check(result, "copying to the device")
    }

    /// Copies the first `bytes` from an address to the host, at most as many as the buffer holds. `pinned`
    /// lives until the stream has passed this point.
    pub(crate) fn copy_out(
        &self,
        pinned: &mut Pinned,
        (from, bytes): (u64, usize),
    ) -> Result<(), Failure> {
        let bytes = bytes.min(pinned.len());
        // SAFETY: the pinned buffer is long enough and lives long enough; the source was checked to be the
        // session's.
        let result = unsafe { sys::cuMemcpyDtoHAsync_v2(pinned.pointer(), from, bytes, self.0) };
        check(result, "copying to the host")
    }

    /// As [`Stream::copy_out`], and waits until the bytes have arrived.
    pub(crate) fn bring_out<'p>(
        &self,
        pinned: &'p mut Pinned,
        (from, bytes): (u64, usize),
    ) -> Result<&'p [u8], Failure> {
        self.copy_out(pinned, (from, bytes))?;
        self.wait()?;
        Ok(pinned.bytes(bytes))
    }

    pub(crate) fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<(), Failure> {
        // SAFETY: both ranges were checked to be the session's.
        let result = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes as usize, self.0) };
        check(result, "copying on the device")
    }

    pub(crate) fn set(&self, to: u64, count: u64, value: u32, width: u8) -> Result<(), Failure> {
        let count = count as usize;
        // SAFETY: the range was checked to be the session's and aligned to the width.
        let result = unsafe {
            match width {
                1 => sys::cuMemsetD8Async(to, value as u8, count, self.0),
                2 => sys::cuMemsetD16Async(to, value as u16, count, self.0),
                _ => sys::cuMemsetD32Async(to, value, count, self.0),
            }
        };
        check(result, "setting device memory")
    }

    /// Launches a kernel; `params` has the layout and the length that the function's image defines.
    pub(crate) fn launch(
        &self,
        function: Function,
        launch: &Launch,
        params: &[u8],
    ) -> Result<(), Failure> {
        let mut size = params.len();
        let mut extra = [
            ptr::without_provenance_mut::<c_void>(sys::CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT as _),
            params.as_ptr().cast_mut().cast(),
            ptr::without_provenance_mut(sys::CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT as _),
            (&raw mut size).cast(),
            ptr::without_provenance_mut(sys::CU_LAUNCH_PARAM_END_AS_INT as _),
        ];
        let ([gx, gy, gz], [bx, by, bz]) = (launch.grid, launch.block);
        let (none, extra) = (ptr::null_mut(), extra.as_mut_ptr());
        let (mut attributes, count) = attributes(launch.attributes);
        if count == 0 {
            // SAFETY: the driver copies the parameters during the call; their length was checked
            // against the function's.
            let result = unsafe {
                sys::cuLaunchKernel(
                    function.0,
                    gx,
                    gy,
                    gz,
                    bx,
                    by,
                    bz,
                    launch.shared,
                    self.0,
                    none,
                    extra,
                )
            };
            return check(result, "launching");
        }
        let config = sys::CUlaunchConfig {
            gridDimX: gx,
            gridDimY: gy,
            gridDimZ: gz,
            blockDimX: bx,
            blockDimY: by,
            blockDimZ: bz,
            sharedMemBytes: launch.shared,
            hStream: self.0,
            attrs: attributes.as_mut_ptr(),
            numAttrs: count,
        };
        // SAFETY: as above; the attributes live until the call has returned.
        let result = unsafe { sys::cuLaunchKernelEx(&raw const config, function.0, none, extra) };
        check(result, "launching with attributes")
    }

    pub(crate) fn record(&self, event: &Event) -> Result<(), Failure> {
        // SAFETY: both handles live.
        check(
            unsafe { sys::cuEventRecord(event.0, self.0) },
            "recording an event",
        )
    }
}

/// Returns a launch's attributes in the driver's form, and their number.
fn attributes(of: LaunchAttributes) -> ([sys::CUlaunchAttribute; 2], u32) {
    use sys::CUlaunchAttributeID as Id;
    // SAFETY: a structure of numbers, for which zero is a value.
    let mut all: [sys::CUlaunchAttribute; 2] = unsafe { std::mem::zeroed() };
    let mut count = 0;
    let [x, y, z] = of.cluster.map(u32::from);
    if x > 0 {
        all[count].id = Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        all[count].value.clusterDim.x = x;
        all[count].value.clusterDim.y = y.max(1);
        all[count].value.clusterDim.z = z.max(1);
        count += 1;
    }
    if of.cooperative {
        all[count].id = Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        all[count].value.cooperative = 1;
        count += 1;
    }
    (all, count as u32)
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        unsafe { sys::cuStreamDestroy_v2(self.0) };
    }
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// Records the time at which the stream passed it. The device waits some 2 us at one.
    Timed,
    /// Records only that the stream has passed it.
    Plain,
}

/// A point in a stream.
#[derive(Debug)]
pub(crate) struct Event(sys::CUevent, EventKind);

// SAFETY: as `Module`.
unsafe impl Send for Event {}
// SAFETY: only the handle is shared, and calls with it may be made from any thread.
unsafe impl Sync for Event {}

impl Event {
    pub(crate) fn new(kind: EventKind) -> Result<Self, Failure> {
        let flags = match kind {
            EventKind::Timed => sys::CUevent_flags::CU_EVENT_DEFAULT,
            EventKind::Plain => sys::CUevent_flags::CU_EVENT_DISABLE_TIMING,
        };
        let mut event = ptr::null_mut();
        // SAFETY: an out-pointer to a local.
        let made = unsafe { sys::cuEventCreate(&raw mut event, flags as u32) };
        check(made, "making an event")?;
        Ok(Self(event, kind))
    }

    /// Creates no event, which needs no driver call to make or to drop.
    pub(crate) fn none() -> Self {
        Self(ptr::null_mut(), EventKind::Plain)
    }

    pub(crate) fn kind(&self) -> EventKind {
        self.1
    }

    /// True if the stream has passed it.
    pub(crate) fn is_done(&self) -> Result<bool, Failure> {
        // SAFETY: the event lives.
        match unsafe { sys::cuEventQuery(self.0) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => check(result, "running").map(|()| true),
        }
    }

    /// Nanoseconds since an earlier event; both are timed, and done.
    pub(crate) fn since(&self, earlier: &Self) -> u64 {
        let mut ms = 0.0;
        // SAFETY: both events live and are done.
        let result = unsafe { sys::cuEventElapsedTime(&raw mut ms, earlier.0, self.0) };
        if result == CUresult::CUDA_SUCCESS {
            (f64::from(ms) * 1e6) as u64
        } else {
            0
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: made by `new`, destroyed once.
            unsafe { sys::cuEventDestroy_v2(self.0) };
        }
    }
}
