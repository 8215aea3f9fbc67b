//! The owned summary of a module that loaders and schedulers need.

use std::collections::HashMap;

use crate::{
    FunctionKind, Linkage, ParsedFunction, ParsedModule, ParsedVariable, Position, PtxError,
    Scalar, SharedLayout, Space, Statement,
};

/// The place of one kernel parameter in the parameter block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    /// Its name. In machine code parameters have no names, and this one is made of its number.
    pub name: String,
    /// Bytes from the start of the block.
    pub offset: u32,
    /// Size in bytes.
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
    /// Bytes of shared memory declared in the entry, at module scope and in functions.
    pub static_shared: u32,
    /// `.maxntid`.
    pub maxntid: Option<[u32; 3]>,
    /// `.reqntid`.
    pub reqntid: Option<[u32; 3]>,
    /// `.minnctapersm`, which machine code lacks.
    pub minnctapersm: Option<u32>,
    /// Bytes of local memory that the entry declares for each thread.
    pub local_bytes: u64,
    /// Registers of 32 bits that the entry declares, at most 255 and at most its `.maxnreg`. A compiler
    /// declares one for each value, so this is more than an assembler would need. For machine code, the
    /// registers that it uses.
    pub registers: u32,
}

/// One variable in the session's memory. A declaration and its definition are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalInfo {
    /// Its name.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Its alignment in bytes.
    pub align: u64,
    /// True if kernels may only read it (`.const`).
    pub constant: bool,
    /// True if it is defined elsewhere.
    pub external: bool,
    /// True if the host may access it too; `None` for machine code.
    pub managed: Option<bool>,
}

/// The metadata of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleInfo {
    /// PTX ISA version; for machine code the version of CUDA that made it.
    pub version: (u32, u32),
    /// Items of `.target`; for machine code its architecture.
    pub target: Vec<String>,
    /// Kernels, in the order of the text or of their code.
    pub entries: Vec<EntryInfo>,
    /// Variables of `.global` and `.const`, in order.
    pub globals: Vec<GlobalInfo>,
}

/// Maximum bytes of parameters of a kernel (the limit since PTX 8.1).
const PARAM_LIMIT: u64 = 32_764;

/// Maximum number of registers of a thread.
const REGISTER_LIMIT: u64 = 255;

/// Registers of 32 bits that a declaration takes. Predicates have their own register file.
fn registers(variable: &ParsedVariable<'_>) -> u64 {
    let words = match variable.scalar {
        Scalar::Pred => 0,
        scalar => scalar.size().div_ceil(4),
    };
    words * u64::from(variable.lanes) * u64::from(variable.range.unwrap_or(1))
}

/// The number of an architecture: `80` for `sm_80` and 90 for `sm_90a`.
pub(crate) fn architecture(target: &str) -> Option<u32> {
    let digits = target
        .strip_prefix("sm_")
        .or(target.strip_prefix("compute_"))?;
    let end = digits.bytes().take_while(u8::is_ascii_digit).count();
    digits[..end].parse().ok()
}

/// Declarations in the body of an entry.
struct Declared {
    shared: u64,
    local: u64,
    registers: u64,
}

impl Declared {
    /// Adds the declarations of a body to the module's `shared` bytes.
    fn of(body: &[Statement<'_>], shared: u64) -> Result<Self, PtxError> {
        let mut declared = Self {
            shared,
            local: 0,
            registers: 0,
        };
        for statement in body {
            let Statement::Variable(variable) = statement else {
                continue;
            };
            let (size, align) = (variable.size(), variable.align);
            match variable.space {
                Space::Shared if variable.scalar != Scalar::Pred => {
                    declared.shared =
                        add(declared.shared, size, align, variable.position, "shared")?;
                }
                Space::Local => {
                    declared.local = add(declared.local, size, align, variable.position, "local")?;
                }
                Space::Reg => {
                    declared.registers = declared.registers.saturating_add(registers(variable));
                }
                _ => {}
            }
        }
        Ok(declared)
    }
}

/// Lays parameters out one after the other, each at its alignment.
fn layout(function: &ParsedFunction<'_>) -> Result<(Vec<ParamInfo>, u32), PtxError> {
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

/// Returns the end of a variable that is laid out behind `at`.
fn add(
    at: u64,
    size: Option<u64>,
    align: u64,
    position: Position,
    what: &str,
) -> Result<u64, PtxError> {
    size.and_then(|size| at.next_multiple_of(align.max(1)).checked_add(size))
        .filter(|end| *end <= u64::from(u32::MAX))
        .ok_or_else(|| PtxError::new(position, format!("too much {what} memory")))
}

impl ParsedFunction<'_> {
    /// Returns the end of the shared variables of its body if they are laid out behind `at`; `u64::MAX` if
    /// that is no address.
    pub fn shared_end(&self, at: u64) -> u64 {
        let mut end = Some(at);
        for statement in self.body.iter().flatten() {
            if let Statement::Variable(variable) = statement
                && variable.space == Space::Shared
            {
                let place = end.and_then(|end| end.checked_next_multiple_of(variable.align.max(1)));
                end = place.and_then(|place| place.checked_add(variable.size()?));
            }
        }
        end.unwrap_or(u64::MAX)
    }
}

impl ModuleInfo {
    /// Summarises a parsed module.
    ///
    /// # Errors
    /// If parameters or shared memory exceed a kernel's limits.
    pub fn of(module: &ParsedModule<'_>) -> Result<Self, PtxError> {
        let mut info = Self {
            version: module.version,
            target: module
                .target
                .iter()
                .map(|&option| option.to_owned())
                .collect(),
            ..Self::default()
        };
        let mut places = HashMap::new();
        for variable in &module.variables {
            if matches!(variable.space, Space::Global | Space::Const) {
                info.declare(variable, &mut places);
            }
        }
        let room = SharedLayout::of(module)?;
        let mut shared = room.end();
        // Every function has its own copy of the variables that its body declares, whichever kernel calls it.
        for function in &module.functions {
            if function.kind == FunctionKind::Func {
                shared = function.shared_end(shared);
                let fits = (shared <= u64::from(u32::MAX)).then_some(0);
                add(0, fits, 1, function.position, "shared")?;
            }
        }
        for function in &module.functions {
            let (FunctionKind::Entry, Some(body)) = (function.kind, &function.body) else {
                continue;
            };
            let (params, param_bytes) = layout(function)?;
            let declared = Declared::of(body, shared)?;
            let static_shared = room.padded(declared.shared);
            let fits = (static_shared <= u64::from(u32::MAX)).then_some(0);
            add(0, fits, 1, function.position, "shared")?;
            let most = function.maxnreg.map_or(REGISTER_LIMIT, u64::from);
            info.entries.push(EntryInfo {
                name: function.name.to_owned(),
                params,
                param_bytes,
                static_shared: static_shared as u32,
                maxntid: function.maxntid,
                reqntid: function.reqntid,
                minnctapersm: function.minnctapersm,
                local_bytes: declared.local,
                registers: declared.registers.min(most).min(REGISTER_LIMIT) as u32,
            });
        }
        Ok(info)
    }

    /// Adds a variable, or the facts that its earlier declaration left open; `places` has the variables so
    /// far.
    fn declare<'a>(&mut self, variable: &ParsedVariable<'a>, places: &mut HashMap<&'a str, usize>) {
        let size = variable.size().unwrap_or(0);
        let external = variable.linkage == Linkage::Extern;
        if let Some(place) = places.get(variable.name) {
            let known = &mut self.globals[*place];
            known.size = known.size.max(size);
            known.external &= external;
            known.managed = known.managed.map(|it| it || variable.managed);
            return;
        }
        places.insert(variable.name, self.globals.len());
        self.globals.push(GlobalInfo {
            name: variable.name.to_owned(),
            size,
            align: variable.align,
            constant: variable.space == Space::Const,
            external,
            managed: Some(variable.managed),
        });
    }

    /// Returns the architecture that the module was made for: 80 for `sm_80`; 0 if the module does not name
    /// one.
    pub fn architecture(&self) -> u32 {
        self.target
            .iter()
            .find_map(|target| architecture(target))
            .unwrap_or(0)
    }

    /// Returns the target of the module, if that is more than a device of this compute capability has:
    /// `sm_90` on one of 8.0.
    pub fn target_above(&self, (major, minor): (u32, u32)) -> Option<&str> {
        let has = 10 * major + minor;
        let above = |target: &&String| architecture(target).is_some_and(|wants| wants > has);
        self.target.iter().find(above).map(String::as_str)
    }

    /// The entry called `name`.
    pub fn entry(&self, name: &str) -> Option<&EntryInfo> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}
