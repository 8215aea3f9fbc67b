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
    /// Its variables, as our own parser has them: the driver does not name any.
    pub(crate) variables: Vec<ptx::GlobalInfo>,
}

/// The driver's version from which on it says what parameters a kernel takes.
pub(crate) const SAYS_PARAMETERS: u32 = 12_040;

/// Checks that the driver takes the kernels of machine code for what our own reader does: by name, and with as many
/// bytes of parameters. One that it does not give by its name cannot be launched, and is not looked at.
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

/// Kernels in the order of our own parser, which is the client's.
pub(crate) fn functions(parsed: &ptx::ModuleInfo) -> Vec<FunctionInfo> {
    let entries = parsed.entries.iter();
    let info = entries.map(|entry| FunctionInfo {
        name: entry.name.clone(),
        param_bytes: entry.param_bytes,
        block: BlockBytes::default(),
    });
    info.collect()
}
