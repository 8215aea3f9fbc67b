//! Tree to decoded form: registers, labels and symbols resolved, operations checked.

mod accesses;
mod arithmetic;
mod array;
mod atomics;
mod body;
mod builder;
mod call;
mod calls;
mod compare;
mod control;
mod convert;
mod copies;
mod current;
mod data;
pub(crate) mod flow;
pub(crate) mod form;
mod fragment;
mod function;
mod jumps;
mod kind;
mod label;
mod legal;
pub(crate) mod lists;
mod liveness;
mod logic;
mod matrix;
mod module;
mod names;
mod operand;
mod order;
mod parts;
mod place;
mod registers;
mod scope;
mod signature;
mod sparse;
mod special;
mod stack;
mod texture;
mod texture_kind;
mod tile;
mod uses;
mod variables;
mod vector;
mod video;
mod video_kind;
mod warp;
mod wide;

pub(crate) use body::APART;
pub(crate) use module::{Decoded, Entry, Global, Relocation};
pub(crate) use scope::masked;

use crate::error::BuildError;
use crate::watched::Watched;
use builder::{Builder, Symbol};
use calls::{Reach, Stacks};
use form::{Constant, Reserved};
use ptx::ParsedModule;

/// Maximum number of decoded instructions of a module.
const CODE_LIMIT: usize = 1 << 22;
/// Decodes a parsed module.
///
/// If code is to be generated, the registers of a function that is short enough for native control
/// flow keep separate places. The place of a register then tells whether it is the same in all
/// lanes.
pub(crate) fn decode(
    module: &ParsedModule<'_>,
    native: bool,
    watched: &Watched<'_>,
) -> Result<Decoded, BuildError> {
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
    let mut builder = Builder::new(watched);
    builder.variables(module)?;
    builder.prototypes(module)?;
    builder.initialise(module)?;
    let info = ptx::ModuleInfo::of(module)?;
    builder.lay_shared();
    for index in 0..builder.functions.len() {
        let function = body::decode(&mut builder, index, native)?;
        builder.out.functions.push(function);
        if builder.out.code.len() > CODE_LIMIT {
            return Err(BuildError::Module(
                "the module has too many instructions".into(),
            ));
        }
    }
    entries(&mut builder, &info);
    watched.grown(module.lines.bytes())?;
    builder.out.lines = module.lines.clone();
    Ok(builder.out)
}

/// Adds the entries, with the stacks and constants that each takes.
fn entries(builder: &mut Builder<'_>, info: &ptx::ModuleInfo) {
    let stacks = Stacks::of(&builder.out.functions);
    let constants = (&builder.words.list[..], &builder.doubles.list[..]);
    let mut reach = Reach::new(&builder.out.functions, constants);
    let mut entries = Vec::with_capacity(info.entries.len());
    for entry in &info.entries {
        let Some(Symbol::Function(index)) = builder.symbols.get(entry.name.as_str()) else {
            continue;
        };
        let place = *index as usize;
        // Slots of constants are common to the module; a launch fills those that its entry can
        // reach.
        let (words, doubles) = reach.of(place);
        let asks = |(_, it): &(u32, Constant)| matches!(it, Constant::ReservedShared(_));
        let reserves = words.iter().chain(doubles.iter()).any(asks);
        let mut bytes = builder.functions[place].shared_end(builder.shared);
        if reserves {
            bytes = bytes.next_multiple_of(16) + u64::from(Reserved::BYTES);
        }
        let static_shared = builder.layout.padded(bytes) as u32;
        entries.push(Entry {
            name: entry.name.clone(),
            function: *index,
            param_bytes: entry.param_bytes,
            static_shared,
            reserves,
            maxntid: entry.maxntid,
            reqntid: entry.reqntid,
            stack: stacks.stack(place),
            words,
            doubles,
        });
    }
    builder.out.entries = entries;
    builder.out.constants = [&builder.words, &builder.doubles].map(|pool| pool.list.clone());
}
