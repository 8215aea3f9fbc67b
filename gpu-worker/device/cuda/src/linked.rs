//! A module as the device keeps it for its sessions.

use bus_schemas::{Code, Failure, ModuleHash};
use device::{BlockBytes, FunctionInfo, PreparedModule};

use crate::driver::Module;

/// A module as machine code for this GPU.
#[derive(Debug)]
pub(crate) struct Linked {
    pub(crate) hash: ModuleHash,
    pub(crate) code: Vec<u8>,
    pub(crate) info: PreparedModule,
    /// Its variables, from our own parser, because the driver does not list their names.
    pub(crate) variables: Vec<ptx::GlobalInfo>,
}

/// The first driver version that reports a kernel's parameters.
pub(crate) const SAYS_PARAMETERS: u32 = 12_040;

/// Checks that the driver and our own reader agree on the kernels of machine code: their names and their
/// bytes of parameters. A kernel that the driver does not find by name cannot be launched, and is not
/// checked.
pub(crate) fn agrees(parsed: &ptx::ModuleInfo, module: &Module) -> Result<(), Failure> {
    for entry in &parsed.entries {
        let function = match module.function(&entry.name) {
            Ok(function) => function,
            Err(failure) if failure.code == Code::UnknownFunction => continue,
            Err(failure) => return Err(failure),
        };
        let (ours, theirs) = (entry.param_bytes, function.param_bytes());
        if ours != theirs {
            let name = &entry.name;
            let detail = format!(
                "kernel {name:?} takes {ours} bytes of parameters by its image, {theirs} by the driver"
            );
            return Err(Failure::new(Code::BadModule, detail));
        }
    }
    Ok(())
}

/// Returns the kernels in the order of our own parser, which is the client's.
pub(crate) fn functions(parsed: &ptx::ModuleInfo) -> Vec<FunctionInfo> {
    let entries = parsed.entries.iter();
    let info = entries.map(|entry| FunctionInfo {
        name: entry.name.clone(),
        param_bytes: entry.param_bytes,
        block: BlockBytes::default(),
    });
    info.collect()
}
