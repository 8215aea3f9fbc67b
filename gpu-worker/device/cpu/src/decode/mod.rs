//! Tree to decoded form: registers, labels and symbols resolved, operations checked.

mod arithmetic;
mod atomics;
mod body;
mod builder;
mod calls;
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
mod module;
mod operand;
mod parts;
mod scope;
mod special;
mod tile;
mod wide;

pub(crate) use module::{Decoded, Entry};
pub(crate) use scope::masked;

use crate::error::BuildError;
use builder::{Builder, Pool};
use calls::{reachable, stack};
use ptx::{FunctionKind, Module};

/// Most decoded instructions of a module.
const CODE_LIMIT: usize = 1 << 22;
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
    let mut builder = Builder::new();
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
    entries(&mut builder, &info);
    Ok(builder.out)
}

/// The entries, with what each takes of stacks and constants.
fn entries(builder: &mut Builder<'_>, info: &ptx::ModuleInfo) {
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
}
