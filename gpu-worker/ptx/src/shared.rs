//! The places of a module's variables in the shared memory of a block.

use std::collections::HashMap;

use crate::{ParsedModule, ParsedVariable, PtxError, Space};

/// Minimum alignment of dynamic shared memory.
const DYNAMIC_ALIGN: u64 = 16;

/// The place of a shared variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedPlace {
    /// Offset in bytes from the start of the block's shared memory.
    At(u64),
    /// The start of dynamic shared memory.
    Dynamic,
}

/// The shared variables of a module's scope, laid out as an assembler does. A variable of a known size has
/// its bytes even if it is only declared `.extern`, because no other image could define it. Declarations of
/// one name are one variable. An unsized array is dynamic shared memory, for which static memory ends at a
/// multiple of its alignment, and of 16.
#[derive(Debug, Default)]
pub struct SharedLayout<'a> {
    places: HashMap<&'a str, SharedPlace>,
    end: u64,
    dynamic: Option<u64>,
}

impl<'a> SharedLayout<'a> {
    /// Lays out the shared variables of a module.
    ///
    /// # Errors
    /// If the variables reach beyond 32 bits.
    pub fn of(module: &ParsedModule<'a>) -> Result<Self, PtxError> {
        let mut known: HashMap<&str, (u64, u64)> = HashMap::new();
        let shared = |it: &&ParsedVariable<'a>| it.space == Space::Shared;
        for variable in module.variables.iter().filter(shared) {
            let size = variable.size().ok_or_else(|| too_much(variable))?;
            let (bytes, align) = known.entry(variable.name).or_insert((0, 1));
            (*bytes, *align) = ((*bytes).max(size), (*align).max(variable.align));
        }
        let mut layout = Self::default();
        for variable in module.variables.iter().filter(shared) {
            if layout.places.contains_key(variable.name) {
                continue;
            }
            let (bytes, align) = known[variable.name];
            let place = if bytes == 0 {
                layout.dynamic = Some(layout.dynamic.unwrap_or(DYNAMIC_ALIGN).max(align));
                SharedPlace::Dynamic
            } else {
                let at = layout.end.checked_next_multiple_of(align);
                let at = at.ok_or_else(|| too_much(variable))?;
                let end = at
                    .checked_add(bytes)
                    .filter(|end| *end <= u64::from(u32::MAX));
                layout.end = end.ok_or_else(|| too_much(variable))?;
                SharedPlace::At(at)
            };
            layout.places.insert(variable.name, place);
        }
        Ok(layout)
    }

    /// Returns the place of a variable.
    pub fn place(&self, name: &str) -> Option<SharedPlace> {
        self.places.get(name).copied()
    }

    /// End of the variables.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the end of `bytes` of static memory, padded to the start of dynamic memory if there is any.
    /// `u64::MAX` if that is no address.
    pub fn padded(&self, bytes: u64) -> u64 {
        match self.dynamic {
            Some(align) => bytes.checked_next_multiple_of(align).unwrap_or(u64::MAX),
            None => bytes,
        }
    }
}

fn too_much(variable: &ParsedVariable<'_>) -> PtxError {
    PtxError::new(variable.position, "too much shared memory".to_owned())
}
