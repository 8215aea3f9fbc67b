//! A session as the workloads see it.

use client_agent::{Error, Function, Module, Session};
use workloads::{FunctionId, Gpu, ModuleId};

/// A session with the modules and functions that its program named.
pub(crate) struct VirtualDevice {
    session: Session,
    modules: Vec<Module>,
    functions: Vec<Function>,
}

impl VirtualDevice {
    /// Makes the device of a session.
    #[must_use]
    pub(crate) fn new(session: Session) -> Self {
        Self {
            session,
            modules: Vec::new(),
            functions: Vec::new(),
        }
    }

    /// Returns the session, to close it.
    #[must_use]
    pub(crate) fn into_session(self) -> Session {
        self.session
    }
}

impl Gpu for VirtualDevice {
    type Error = Error;

    fn load(&mut self, ptx: &[u8]) -> Result<ModuleId, Error> {
        self.modules.push(self.session.load(ptx)?);
        Ok(ModuleId(self.modules.len() as u64 - 1))
    }

    fn function(&mut self, module: ModuleId, entry: &str) -> Result<FunctionId, Error> {
        self.functions
            .push(self.modules[module.0 as usize].function(entry)?);
        Ok(FunctionId(self.functions.len() as u64 - 1))
    }

    fn alloc(&mut self, bytes: u64) -> Result<u64, Error> {
        self.session.alloc(bytes)
    }

    fn free(&mut self, address: u64) -> Result<(), Error> {
        self.session.free(address)
    }

    fn copy_in(&mut self, to: u64, bytes: &[u8]) -> Result<(), Error> {
        self.session.copy_in(to, bytes)
    }

    fn copy_out(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.session.copy_out(from, bytes)
    }

    fn launch(
        &mut self,
        function: FunctionId,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        params: &[u8],
    ) -> Result<(), Error> {
        self.session.launch(
            &self.functions[function.0 as usize],
            grid,
            block,
            shared,
            params,
        )
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.session.sync()
    }
}
