//! A virtual device, from the view of a program.

/// A module loaded into a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub u64);

/// A kernel entry of a loaded module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u64);

/// A virtual device, from the view of its program: ops run in the order of the calls.
///
/// Only [`copy_out`](Gpu::copy_out) and [`sync`](Gpu::sync) wait for the device. The other calls
/// may return before their op has run; its error is then returned by a later call.
pub trait Gpu {
    /// Error of a call.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Loads a PTX image. Images are content-addressed: equal bytes are transferred and compiled
    /// only once.
    ///
    /// # Errors
    /// If the image is malformed, or the device is lost.
    fn load(&mut self, ptx: &[u8]) -> Result<ModuleId, Self::Error>;

    /// Finds a kernel by its entry name.
    ///
    /// # Errors
    /// If the module has no such entry, or the device is lost.
    fn function(&mut self, module: ModuleId, entry: &str) -> Result<FunctionId, Self::Error>;

    /// Allocates `bytes` of device memory, aligned to at least 256 bytes; returns the device
    /// address.
    ///
    /// # Errors
    /// If the quota or the device is exhausted, or the device is lost.
    fn alloc(&mut self, bytes: u64) -> Result<u64, Self::Error>;

    /// Frees an allocation of [`alloc`](Gpu::alloc).
    ///
    /// # Errors
    /// If `address` is not the start of an allocation, or the device is lost.
    fn free(&mut self, address: u64) -> Result<(), Self::Error>;

    /// Copies `bytes` to device address `to`. The bytes are read during the call.
    ///
    /// # Errors
    /// If the range is not this program's memory, or the device is lost.
    fn copy_in(&mut self, to: u64, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Copies device memory at `from` into `bytes`; waits for all earlier ops.
    ///
    /// # Errors
    /// If the range is not this program's memory, an earlier op failed, or the device is lost.
    fn copy_out(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Self::Error>;

    /// Launches a kernel. `grid` and `block` are (x, y, z). `shared` is the size of dynamic shared
    /// memory in bytes. `params` are the packed parameters (see [`Params`](crate::Params)), read
    /// during the call.
    ///
    /// # Errors
    /// If the shape or the parameters do not fit the kernel, an earlier op failed, or the device is
    /// lost.
    fn launch(
        &mut self,
        function: FunctionId,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        params: &[u8],
    ) -> Result<(), Self::Error>;

    /// Waits until all earlier ops have run.
    ///
    /// # Errors
    /// If an earlier op failed, or the device is lost.
    fn sync(&mut self) -> Result<(), Self::Error>;
}

/// Counts a program's launches on one device.
pub(crate) struct Launches<'a, G: Gpu> {
    /// The device.
    pub(crate) gpu: &'a mut G,
    /// Number of launches.
    pub(crate) count: u64,
}

impl<'a, G: Gpu> Launches<'a, G> {
    pub(crate) fn on(gpu: &'a mut G) -> Self {
        Self { gpu, count: 0 }
    }

    /// Launches `blocks` x `threads`, each (x, y).
    pub(crate) fn launch(
        &mut self,
        function: FunctionId,
        blocks: (u32, u32),
        threads: (u32, u32),
        params: &crate::Params,
    ) -> Result<(), G::Error> {
        self.count += 1;
        let (grid, block) = ([blocks.0, blocks.1, 1], [threads.0, threads.1, 1]);
        self.gpu.launch(function, grid, block, 0, params.bytes())
    }

    /// Launches one thread per element of `elements`, in blocks of 128.
    pub(crate) fn elementwise(
        &mut self,
        function: FunctionId,
        elements: usize,
        params: &crate::Params,
    ) -> Result<(), G::Error> {
        let blocks = u32::try_from(elements.div_ceil(128)).unwrap_or(u32::MAX);
        self.launch(function, (blocks, 1), (128, 1), params)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A device type without values: it names a type for tests of references.
    pub(crate) struct NoGpu;

    #[derive(Debug, thiserror::Error)]
    #[error("there is no device")]
    pub(crate) struct NoDevice;

    impl Gpu for NoGpu {
        type Error = NoDevice;

        fn load(&mut self, _: &[u8]) -> Result<ModuleId, NoDevice> {
            Err(NoDevice)
        }
        fn function(&mut self, _: ModuleId, _: &str) -> Result<FunctionId, NoDevice> {
            Err(NoDevice)
        }
        fn alloc(&mut self, _: u64) -> Result<u64, NoDevice> {
            Err(NoDevice)
        }
        fn free(&mut self, _: u64) -> Result<(), NoDevice> {
            Err(NoDevice)
        }
        fn copy_in(&mut self, _: u64, _: &[u8]) -> Result<(), NoDevice> {
            Err(NoDevice)
        }
        fn copy_out(&mut self, _: u64, _: &mut [u8]) -> Result<(), NoDevice> {
            Err(NoDevice)
        }
        fn launch(
            &mut self,
            _: FunctionId,
            _: [u32; 3],
            _: [u32; 3],
            _: u32,
            _: &[u8],
        ) -> Result<(), NoDevice> {
            Err(NoDevice)
        }
        fn sync(&mut self) -> Result<(), NoDevice> {
            Err(NoDevice)
        }
    }

    #[test]
    fn a_workload_says_what_is_wrong() {
        for name in crate::NAMES {
            let mut workload = crate::by_name::<NoGpu>(name, 1).expect("a known name");
            assert_eq!(workload.name(), name);
            let text = workload
                .run(&mut NoGpu)
                .expect_err("unprepared")
                .to_string();
            assert_eq!(text, format!("{name} was not prepared on a device"));
            let text = workload
                .prepare(&mut NoGpu)
                .expect_err("no device")
                .to_string();
            assert_eq!(text, format!("{name}: there is no device"));
        }
        let unknown = crate::by_name::<NoGpu>("mine", 1)
            .err()
            .expect("an unknown name");
        assert_eq!(
            unknown.to_string(),
            "no workload is named \"mine\"; there are chat, search and train"
        );
    }
}
