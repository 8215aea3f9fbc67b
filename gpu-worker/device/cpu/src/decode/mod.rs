//! Tree to decoded form: registers, labels and symbols resolved, operations checked.

mod arithmetic;
mod atomics;
mod body;
mod compare;
mod control;
mod convert;
mod copies;
mod data;
pub(crate) mod form;
mod fragment;
mod kind;
mod label;
mod legal;
mod liveness;
mod logic;
mod matrix;
mod operand;
mod parts;
mod special;
mod tile;
mod wide;

use crate::error::BuildError;
use form::{CallSite, Constant, Frame, Function, Inst};
use ptx::{FunctionKind, Init, Linkage, Module, Position, PtxError, Space};
use std::collections::{BTreeSet, HashMap};

/// Most decoded instructions of a module.
const CODE_LIMIT: usize = 1 << 22;
/// Most bytes of one function's registers for a warp: some ten thousand registers.
const REGISTER_LIMIT: u32 = 2 << 20;
/// Most bytes of one function's local memory.
const LOCAL_LIMIT: u64 = 512 << 10;

/// A module-scope variable to be placed in each session.
#[derive(Clone, Debug)]
pub(crate) struct Global {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) writable: bool,
    /// Whether more than a declaration was seen.
    pub(crate) defined: bool,
    /// Initial bytes; what is missing at the end is zero.
    pub(crate) bytes: Vec<u8>,
    /// Addresses to write into it: offset, bytes, symbol, addend, byte mask shift.
    pub(crate) relocations: Vec<Relocation>,
}

/// An address inside an initial value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relocation {
    pub(crate) at: u64,
    pub(crate) bytes: u8,
    pub(crate) symbol: u32,
    pub(crate) addend: i64,
    pub(crate) mask: Option<u64>,
}

/// An entry as launches see it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) function: u32,
    pub(crate) param_bytes: u32,
    pub(crate) static_shared: u32,
    pub(crate) maxntid: Option<[u32; 3]>,
    pub(crate) reqntid: Option<[u32; 3]>,
    /// What one warp's stacks of registers and local memory take.
    pub(crate) stack: Frame,
    /// The constants it and what it calls use, with their places.
    pub(crate) words: Vec<(u32, Constant)>,
    /// As `words`, of 64 bits.
    pub(crate) doubles: Vec<(u32, Constant)>,
}

/// A decoded module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) code: Vec<Inst>,
    pub(crate) functions: Vec<Function>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) globals: Vec<Global>,
    pub(crate) sites: Vec<CallSite>,
    pub(crate) tables: Vec<Vec<u32>>,
    /// Operands of instructions that have more than fit into one, each instruction's together.
    pub(crate) operands: Vec<form::Slot>,
    /// Whether it allocates from kernels.
    pub(crate) heap: bool,
}

/// What a module-scope name means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Symbol {
    Global(u32),
    Shared(u64),
    /// Behind all static shared memory of the entry.
    Dynamic,
    Function(u32),
}

/// Constants of one bank, each kept once.
#[derive(Default)]
pub(crate) struct Pool {
    pub(crate) list: Vec<Constant>,
    index: HashMap<Constant, u32>,
}

impl Pool {
    fn place(&mut self, constant: Constant) -> u32 {
        let list = &mut self.list;
        *self.index.entry(constant).or_insert_with(|| {
            list.push(constant);
            list.len() as u32 - 1
        })
    }
}

/// What is known while a module is decoded.
pub(crate) struct Builder<'a> {
    pub(crate) out: Decoded,
    pub(crate) symbols: HashMap<&'a str, Symbol>,
    pub(crate) words: Pool,
    pub(crate) doubles: Pool,
    pub(crate) functions: Vec<&'a ptx::Function<'a>>,
    /// Bytes of the shared variables of the module's scope and of its functions.
    pub(crate) shared: u64,
    /// Where each function's own begin, by its index; an entry's begin behind all others.
    shared_of: Vec<u64>,
    /// Bytes of one element of each module-scope variable.
    pub(crate) elements: HashMap<&'a str, u64>,
}

pub(crate) fn fail<T>(position: Position, message: impl Into<String>) -> Result<T, BuildError> {
    Err(PtxError::new(position, message).into())
}

/// Decodes a parsed module.
pub(crate) fn decode(module: &Module<'_>) -> Result<Decoded, BuildError> {
    if module.address_size != 64 {
        return Err(BuildError::Module(
            "only modules of 64-bit addresses are supported".into(),
        ));
    }
    let known = |target: &&&str| {
        ["sm_", "compute_"]
            .iter()
            .any(|prefix| target.starts_with(prefix))
            || [
                "debug",
                "texmode_unified",
                "texmode_independent",
                "map_f64_to_f32",
            ]
            .contains(target)
    };
    if let Some(target) = module.target.iter().find(|target| !known(target)) {
        let message = format!("`.target {target}` is no architecture that PTX names");
        return Err(BuildError::Module(message));
    }
    let mut builder = Builder {
        out: Decoded::default(),
        symbols: HashMap::new(),
        words: Pool::default(),
        doubles: Pool::default(),
        functions: Vec::new(),
        shared: 0,
        shared_of: Vec::new(),
        elements: HashMap::new(),
    };
    builder.variables(module)?;
    builder.prototypes(module)?;
    builder.initialise(module)?;
    let info = ptx::ModuleInfo::of(module)?;
    builder.lay_shared();
    for index in 0..builder.functions.len() {
        let function = body::decode(&mut builder, index)?;
        builder.out.functions.push(function);
        if builder.out.code.len() > CODE_LIMIT {
            return Err(BuildError::Module(
                "the module has too many instructions".into(),
            ));
        }
    }
    for entry in &info.entries {
        let place = builder.functions.iter().position(|function| {
            function.kind == FunctionKind::Entry && function.name == entry.name
        });
        let Some(index) = place else { continue };
        let stack = stack(&builder.out, index);
        builder.out.entries.push(Entry {
            name: entry.name.clone(),
            function: index as u32,
            param_bytes: entry.param_bytes,
            static_shared: builder.functions[index].shared_end(builder.shared) as u32,
            maxntid: entry.maxntid,
            reqntid: entry.reqntid,
            stack,
            words: Vec::new(),
            doubles: Vec::new(),
        });
    }
    // Slots of constants are common to the module; a launch fills those its entry can reach.
    for index in 0..builder.out.entries.len() {
        let start = builder.out.entries[index].function as usize;
        let (words, doubles) = reachable(&builder.out, start);
        let place = |pool: &Pool, at: u32| (at, pool.list[at as usize]);
        let entry = &mut builder.out.entries[index];
        entry.words = words
            .into_iter()
            .map(|at| place(&builder.words, at))
            .collect();
        entry.doubles = doubles
            .into_iter()
            .map(|at| place(&builder.doubles, at))
            .collect();
    }
    Ok(builder.out)
}

/// Constants used by a function and whatever it may call.
fn reachable(decoded: &Decoded, start: usize) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let mut seen = vec![false; decoded.functions.len()];
    let mut path = vec![start];
    let (mut words, mut doubles) = (BTreeSet::new(), BTreeSet::new());
    while let Some(at) = path.pop() {
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        let function = &decoded.functions[at];
        words.extend(&function.constants.0);
        doubles.extend(&function.constants.1);
        path.extend(function.calls.iter().map(|callee| *callee as usize));
        if function.indirect {
            path.extend(0..decoded.functions.len());
        }
    }
    (words, doubles)
}

/// Largest stacks a recursive program gets, bytes per warp.
const RECURSION_REGISTERS: u32 = 1 << 20;
/// Largest stack of local memory a recursive program gets, bytes per thread.
const RECURSION_LOCAL: u32 = 32 << 10;

/// What the deepest chain of calls takes; a bounded allowance where it cannot be known.
fn stack(decoded: &Decoded, start: usize) -> Frame {
    // Depth-first without recursion: 0 unseen, 1 on the path, 2 done with its need known.
    let functions = &decoded.functions;
    let mut state = vec![0_u8; functions.len()];
    let mut need = vec![Frame::default(); functions.len()];
    let mut unbounded = false;
    let mut path = vec![(start, 0_usize)];
    state[start] = 1;
    while let Some((at, next)) = path.last_mut() {
        let function = &functions[*at];
        unbounded |= function.indirect;
        if let Some(&callee) = function.calls.get(*next) {
            *next += 1;
            let callee = callee as usize;
            match state[callee] {
                0 => {
                    state[callee] = 1;
                    path.push((callee, 0));
                }
                1 => unbounded = true,
                _ => {}
            }
            continue;
        }
        let below = function.calls.iter().map(|callee| need[*callee as usize]);
        let deepest = below.fold(Frame::default(), |a, b| Frame {
            words: a.words.max(b.words),
            doubles: a.doubles.max(b.doubles),
            preds: a.preds.max(b.preds),
            local: a.local.max(b.local),
        });
        let own = function.frame;
        need[*at] = Frame {
            words: own.words.saturating_add(deepest.words),
            doubles: own.doubles.saturating_add(deepest.doubles),
            preds: own.preds.saturating_add(deepest.preds),
            local: own.local.saturating_add(deepest.local),
        };
        state[*at] = 2;
        path.pop();
    }
    let mut total = need[start];
    if unbounded {
        total.words = total.words.saturating_add(RECURSION_REGISTERS);
        total.doubles = total.doubles.saturating_add(RECURSION_REGISTERS);
        total.preds = total.preds.saturating_add(RECURSION_REGISTERS / 128);
        total.local = total.local.saturating_add(RECURSION_LOCAL);
    }
    total.local = total.local.next_multiple_of(16);
    total
}

impl<'a> Builder<'a> {
    fn variables(&mut self, module: &'a Module<'a>) -> Result<(), BuildError> {
        for variable in &module.variables {
            let size = variable.size().unwrap_or(0);
            let element = variable.scalar.size() * u64::from(variable.lanes);
            self.elements.insert(variable.name, element);
            let symbol = match variable.space {
                Space::Global | Space::Const => {
                    if let Some(Symbol::Global(index)) = self.symbols.get(variable.name).copied() {
                        // Declarations and their definition are one; what is defined twice in one
                        // module is none.
                        let known = &mut self.out.globals[index as usize];
                        let declared = [Linkage::Extern, Linkage::Common, Linkage::Weak];
                        let again = !declared.contains(&variable.linkage);
                        if again && known.defined {
                            let message = format!("`{}` is defined twice", variable.name);
                            return fail(variable.position, message);
                        }
                        known.defined |= again;
                        known.size = known.size.max(size);
                        continue;
                    }
                    self.out.globals.push(Global {
                        name: variable.name.to_owned(),
                        size,
                        align: variable.align,
                        writable: variable.space == Space::Global,
                        defined: !matches!(variable.linkage, Linkage::Extern),
                        bytes: Vec::new(),
                        relocations: Vec::new(),
                    });
                    Symbol::Global(self.out.globals.len() as u32 - 1)
                }
                Space::Shared if size == 0 || variable.linkage == Linkage::Extern => {
                    Symbol::Dynamic
                }
                Space::Shared => {
                    let at = self.shared.next_multiple_of(variable.align);
                    self.shared = at.saturating_add(size);
                    Symbol::Shared(at)
                }
                _ => {
                    return fail(
                        variable.position,
                        "no variable of this space at module scope",
                    );
                }
            };
            self.symbols.insert(variable.name, symbol);
        }
        for variable in &module.variables {
            if let Some(Symbol::Global(index)) = self.symbols.get(variable.name)
                && !self.out.globals[*index as usize].defined
            {
                let name = variable.name;
                let message =
                    format!("`{name}` is declared extern: link the image that defines it");
                return fail(variable.position, message);
            }
        }
        Ok(())
    }

    fn prototypes(&mut self, module: &'a Module<'a>) -> Result<(), BuildError> {
        // A definition after its declaration takes the declaration's place.
        for function in &module.functions {
            match self.symbols.get(function.name) {
                Some(Symbol::Function(index)) => {
                    let known = &mut self.functions[*index as usize];
                    if known.body.is_none() {
                        *known = function;
                    } else if function.body.is_some() {
                        let message = format!("`{}` is defined twice", function.name);
                        return fail(function.position, message);
                    }
                }
                Some(_) => {
                    let message = format!("`{}` is a variable already", function.name);
                    return fail(function.position, message);
                }
                None => {
                    let index = self.functions.len() as u32;
                    self.symbols.insert(function.name, Symbol::Function(index));
                    self.functions.push(function);
                }
            }
        }
        for (alias, target) in &module.aliases {
            let Some(symbol @ Symbol::Function(_)) = self.symbols.get(target).copied() else {
                let message = format!("`{alias}` is an alias of `{target}`, which is no function");
                return Err(BuildError::Module(message));
            };
            self.symbols.insert(alias, symbol);
        }
        Ok(())
    }

    fn initialise(&mut self, module: &'a Module<'a>) -> Result<(), BuildError> {
        for variable in &module.variables {
            let Some(Symbol::Global(index)) = self.symbols.get(variable.name).copied() else {
                continue;
            };
            if variable.init.is_empty() {
                continue;
            }
            let element = variable.scalar.size() as usize;
            let mut bytes = vec![0; element * variable.init.len()];
            let mut relocations = Vec::new();
            for (at, init) in variable.init.iter().enumerate() {
                let place = at * element;
                let value = match init {
                    Init::Bits(bits) => *bits,
                    Init::Symbol {
                        name,
                        offset,
                        generic,
                        mask,
                    } => {
                        let addend = *offset;
                        match self.symbols.get(name).copied() {
                            Some(Symbol::Global(symbol)) => {
                                relocations.push(Relocation {
                                    at: place as u64,
                                    bytes: element as u8,
                                    symbol,
                                    addend,
                                    mask: *mask,
                                });
                                0
                            }
                            Some(Symbol::Function(function)) => masked(code(function), *mask),
                            Some(Symbol::Shared(at)) => {
                                let base = if *generic { form::SHARED_WINDOW } else { 0 };
                                masked(base.wrapping_add(at).wrapping_add(addend as u64), *mask)
                            }
                            _ => {
                                let message = format!("`{name}` is not a symbol with an address");
                                return fail(variable.position, message);
                            }
                        }
                    }
                };
                bytes[place..place + element.min(8)]
                    .copy_from_slice(&value.to_le_bytes()[..element.min(8)]);
            }
            let global = &mut self.out.globals[index as usize];
            global.bytes = bytes;
            global.relocations = relocations;
        }
        Ok(())
    }

    /// Gives the functions' own shared variables their places, one function behind the other: any
    /// may call any.
    fn lay_shared(&mut self) {
        let mut places = vec![0; self.functions.len()];
        for (place, function) in places.iter_mut().zip(&self.functions) {
            if function.kind == FunctionKind::Func {
                *place = self.shared;
                self.shared = function.shared_end(self.shared);
            }
        }
        self.shared_of = places;
    }

    /// Where a function's own shared variables begin.
    pub(crate) fn shared_start(&self, function: usize) -> u64 {
        match self.functions[function].kind {
            FunctionKind::Func => self.shared_of[function],
            FunctionKind::Entry => self.shared,
        }
    }
}

/// Address of a function.
pub(crate) fn code(function: u32) -> u64 {
    form::CODE_WINDOW + u64::from(function + 1) * form::CODE_STRIDE
}

/// The bytes of a value that a mask selects, moved to the bottom.
pub(crate) fn masked(value: u64, mask: Option<u64>) -> u64 {
    match mask {
        Some(mask) if mask != 0 => (value & mask) >> mask.trailing_zeros(),
        _ => value,
    }
}
