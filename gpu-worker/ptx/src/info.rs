//! The owned summary of a module that loaders and schedulers need.

use crate::{
    Function, FunctionKind, Linkage, Module, Position, PtxError, Scalar, Space, Statement,
};

/// Where one kernel parameter lies in the parameter block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    /// Its name.
    pub name: String,
    /// Bytes from the start of the block.
    pub offset: u32,
    /// Bytes it takes.
    pub size: u32,
    /// Its alignment in bytes.
    pub align: u32,
}

/// One kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryInfo {
    /// Its name.
    pub name: String,
    /// Its parameters, in order.
    pub params: Vec<ParamInfo>,
    /// Bytes of the whole parameter block, trailing padding left out.
    pub param_bytes: u32,
    /// Bytes of shared memory declared in the entry and at module scope.
    pub static_shared: u32,
    /// `.maxntid`.
    pub maxntid: Option<[u32; 3]>,
    /// `.reqntid`.
    pub reqntid: Option<[u32; 3]>,
}

/// One variable in the session's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalInfo {
    /// Its name.
    pub name: String,
    /// Bytes it takes.
    pub size: u64,
    /// Its alignment in bytes.
    pub align: u64,
    /// Whether kernels may only read it (`.const`).
    pub constant: bool,
    /// Whether it is defined elsewhere.
    pub external: bool,
}

/// What a module offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleInfo {
    /// PTX ISA version.
    pub version: (u32, u32),
    /// What `.target` lists.
    pub target: Vec<String>,
    /// Kernels, in order.
    pub entries: Vec<EntryInfo>,
    /// Variables of `.global` and `.const`, in order.
    pub globals: Vec<GlobalInfo>,
}

/// Most bytes of parameters a kernel may take (the limit since PTX 8.1).
const PARAM_LIMIT: u64 = 32_764;

/// Lays parameters out one behind the other, each at its alignment.
fn layout(function: &Function<'_>) -> Result<(Vec<ParamInfo>, u32), PtxError> {
    let mut at = 0_u64;
    let mut params = Vec::with_capacity(function.params.len());
    for param in &function.params {
        let size = param.size().unwrap_or(u64::MAX);
        let offset = at.next_multiple_of(param.align.max(1));
        at = offset.saturating_add(size);
        if at > PARAM_LIMIT {
            let message = format!(
                "parameters of `{}` exceed {PARAM_LIMIT} bytes",
                function.name
            );
            return Err(PtxError::new(param.position, message));
        }
        params.push(ParamInfo {
            name: param.name.to_owned(),
            offset: offset as u32,
            size: size as u32,
            align: param.align as u32,
        });
    }
    Ok((params, at as u32))
}

fn add_shared(at: u64, size: Option<u64>, align: u64, position: Position) -> Result<u64, PtxError> {
    size.and_then(|size| at.next_multiple_of(align.max(1)).checked_add(size))
        .filter(|end| *end <= u64::from(u32::MAX))
        .ok_or_else(|| PtxError::new(position, "too much shared memory"))
}

impl ModuleInfo {
    /// Parses an image and summarises it.
    ///
    /// # Errors
    /// As [`Module::parse_bytes`]; also for parameters beyond what a kernel may take.
    pub fn parse(image: &[u8]) -> Result<Self, PtxError> {
        Self::of(&Module::parse_bytes(image)?)
    }

    /// Summarises a parsed module.
    ///
    /// # Errors
    /// Where parameters or shared memory exceed what a kernel may have.
    pub fn of(module: &Module<'_>) -> Result<Self, PtxError> {
        let mut info = Self {
            version: module.version,
            target: module
                .target
                .iter()
                .map(|&option| option.to_owned())
                .collect(),
            ..Self::default()
        };
        let mut shared = 0;
        for variable in &module.variables {
            match variable.space {
                Space::Global | Space::Const => info.globals.push(GlobalInfo {
                    name: variable.name.to_owned(),
                    size: variable.size().unwrap_or(0),
                    align: variable.align,
                    constant: variable.space == Space::Const,
                    external: variable.linkage == Linkage::Extern,
                }),
                Space::Shared => {
                    shared =
                        add_shared(shared, variable.size(), variable.align, variable.position)?;
                }
                _ => {}
            }
        }
        for function in &module.functions {
            let (FunctionKind::Entry, Some(body)) = (function.kind, &function.body) else {
                continue;
            };
            let (params, param_bytes) = layout(function)?;
            let mut static_shared = shared;
            for statement in body {
                if let Statement::Variable(variable) = statement
                    && variable.space == Space::Shared
                    && variable.scalar != Scalar::Pred
                {
                    let size = variable.size();
                    static_shared =
                        add_shared(static_shared, size, variable.align, variable.position)?;
                }
            }
            info.entries.push(EntryInfo {
                name: function.name.to_owned(),
                params,
                param_bytes,
                static_shared: static_shared as u32,
                maxntid: function.maxntid,
                reqntid: function.reqntid,
            });
        }
        Ok(info)
    }

    /// The entry called `name`.
    pub fn entry(&self, name: &str) -> Option<&EntryInfo> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}
