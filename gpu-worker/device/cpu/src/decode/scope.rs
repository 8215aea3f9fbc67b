//! A module's scope: its variables, functions and aliases, and the initial values of the variables.

use super::builder::{Builder, Symbol, code, fail};
use super::form;
use super::module::{Global, Relocation};
use crate::error::BuildError;
use ptx::{FunctionKind, Init, Linkage, ParsedModule, ParsedVariable, Space, Statement};
use std::collections::HashMap;

impl<'a> Builder<'a> {
    /// Adds the variables, each as a symbol; declarations and their definition are one.
    pub(super) fn variables(&mut self, module: &'a ParsedModule<'a>) -> Result<(), BuildError> {
        self.layout = ptx::SharedLayout::of(module)?;
        self.shared = self.layout.end();
        for variable in &module.variables {
            self.watched.grown(size_of::<Global>())?;
            let size = variable.size().unwrap_or(0);
            let element = variable.scalar.size() * u64::from(variable.lanes);
            self.elements.insert(variable.name, element);
            let symbol = match variable.space {
                Space::Global | Space::Const => {
                    if let Some(Symbol::Global(index)) = self.symbols.get(variable.name).copied() {
                        // Declarations and their definition are one; two definitions in one module
                        // are an error.
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
                Space::Shared => match self.layout.place(variable.name) {
                    Some(ptx::SharedPlace::At(at)) => Symbol::Shared(at),
                    _ => Symbol::Dynamic,
                },
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

    /// Adds the functions and their aliases, each as a symbol.
    pub(super) fn prototypes(&mut self, module: &'a ParsedModule<'a>) -> Result<(), BuildError> {
        // A definition after its declaration takes the declaration's index.
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

    /// Sets the initial values of the variables, now that all symbols are known. Adds the variables
    /// that are local to functions, behind the module's own.
    pub(super) fn initialise(&mut self, module: &'a ParsedModule<'a>) -> Result<(), BuildError> {
        let nobody = HashMap::new();
        for variable in &module.variables {
            if let Some(Symbol::Global(index)) = self.symbols.get(variable.name).copied() {
                self.begin(index, variable, &nobody)?;
            }
        }
        for function in &module.functions {
            let mut own = HashMap::new();
            for statement in function.body.iter().flatten() {
                if let Statement::Variable(variable) = statement
                    && matches!(variable.space, Space::Global | Space::Const)
                {
                    let index = self.out.globals.len() as u32;
                    self.out.globals.push(Global {
                        name: format!("{}.{}", function.name, variable.name),
                        size: variable.size().unwrap_or(0),
                        align: variable.align,
                        writable: variable.space == Space::Global,
                        defined: true,
                        bytes: Vec::new(),
                        relocations: Vec::new(),
                    });
                    self.statics.insert(variable.position, index);
                    own.insert(variable.name, Symbol::Global(index));
                    self.begin(index, variable, &own)?;
                }
            }
        }
        Ok(())
    }

    /// A variable's initial values. `own` are the variables of its function, which hide others.
    fn begin(
        &mut self,
        index: u32,
        variable: &ParsedVariable<'a>,
        own: &HashMap<&str, Symbol>,
    ) -> Result<(), BuildError> {
        if !variable.init.is_empty() {
            let element = variable.scalar.size() as usize;
            self.watched.grown(element * variable.init.len())?;
            let mut bytes = vec![0; element * variable.init.len()];
            let mut relocations = Vec::new();
            for (at, init) in variable.init.iter().enumerate() {
                self.watched.grown(0)?;
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
                        match own.get(name).or(self.symbols.get(name)).copied() {
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

    /// Places the functions' own shared variables, one function behind the other, because any
    /// function may call any other.
    pub(super) fn lay_shared(&mut self) {
        let mut places = vec![0; self.functions.len()];
        for (place, function) in places.iter_mut().zip(&self.functions) {
            if function.kind == FunctionKind::Func {
                *place = self.shared;
                self.shared = function.shared_end(self.shared);
            }
        }
        self.shared_of = places;
    }
}

/// The bytes of a value that a mask selects, moved to the bottom.
pub(crate) fn masked(value: u64, mask: Option<u64>) -> u64 {
    match mask {
        Some(mask) if mask != 0 => (value & mask) >> mask.trailing_zeros(),
        _ => value,
    }
}
