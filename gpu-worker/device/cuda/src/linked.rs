//! A module as the device keeps it for its sessions.

use std::time::Instant;

use bus_schemas::{Code, Failure, ModuleHash};
use device::{BlockBytes, FunctionInfo, PreparedModule};

use crate::clock::Clock;
use crate::driver::{Module, link};

/// A module as machine code for this GPU.
#[derive(Debug)]
pub(crate) struct Linked {
    pub(crate) hash: ModuleHash,
    pub(crate) code: Vec<u8>,
    pub(crate) info: PreparedModule,
    /// Its variables, from our own parser, because the driver does not list their names.
    pub(crate) variables: Vec<ptx::GlobalInfo>,
}

/// Begin and end of a compilation.
type Compiled = Option<(Instant, Instant)>;

impl Linked {
    /// Checks and links an image for a driver of this version. Also returns the time of its compilation; there
    /// is none if the image is machine code.
    pub(crate) fn new(
        hash: ModuleHash,
        image: &[u8],
        driver: u32,
        clock: &Clock,
    ) -> Result<(Self, Compiled), Failure> {
        // Our own parser's message has line and column; the driver's has a log.
        let parsed = ptx::ModuleInfo::parse(image)
            .map_err(|error| Failure::new(Code::BadModule, error.to_string()))?;
        let is_machine_code = ptx::is_machine_code(image);
        // Machine code is linked already, and the driver's linker does not take it.
        let (code, compiled) = match is_machine_code {
            true => (image.to_vec(), None),
            false => {
                let began = clock.now();
                let code = link(image)?;
                (code, Some((began, clock.now())))
            }
        };
        let module = Module::load(&code)?;
        if is_machine_code && driver >= SAYS_PARAMETERS {
            agrees(&parsed, &module)?;
        }
        let info = PreparedModule {
            functions: functions(&parsed),
            bytes: (image.len() + code.len()) as u64,
            // The driver has variables and heap beside the memory that sessions get.
            variables: 0,
            heap: 0,
            compiled: None,
        };
        let linked = Self {
            hash,
            code,
            info,
            variables: parsed.globals,
        };
        Ok((linked, compiled))
    }
}

/// The first driver version that reports a kernel's parameters.
const SAYS_PARAMETERS: u32 = 12_040;

/// Checks that the driver and our own reader agree on the kernels of machine code: their names and their
/// bytes of parameters. A kernel that the driver does not find by name cannot be launched, and is not
/// checked.
fn agrees(parsed: &ptx::ModuleInfo, module: &Module) -> Result<(), Failure> {
    for entry in &parsed.entries {
        let function = match module.function(&entry.name) {
            Ok(function) => function,
            Err(failure) if failure.code == Code::UnknownFunction => continue,
            Err(failure) => return Err(failure),
        };
        let (ours, theirs) = (entry.param_bytes, function.param_bytes()?);
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
fn functions(parsed: &ptx::ModuleInfo) -> Vec<FunctionInfo> {
    let entries = parsed.entries.iter();
    let info = entries.map(|entry| FunctionInfo {
        name: entry.name.clone(),
        param_bytes: entry.param_bytes,
        block: BlockBytes::default(),
    });
    info.collect()
}
