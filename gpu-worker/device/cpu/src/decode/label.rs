//! Labels: each is visible in the block of braces that declares it, and in the blocks inside.

use ptx::Position;
use std::collections::HashMap;

/// A label in an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference<'a> {
    pub(crate) name: &'a str,
    pub(crate) position: Position,
    /// The block of braces that contains the instruction.
    pub(crate) scope: u32,
}

/// The labels of a body.
#[derive(Clone, Debug)]
pub(crate) struct Labels<'a> {
    places: HashMap<(u32, &'a str), u32>,
    lists: HashMap<(u32, &'a str), Vec<&'a str>>,
    /// The enclosing block of each block; the body's is itself.
    outer: Vec<u32>,
    scope: u32,
}

impl Default for Labels<'_> {
    fn default() -> Self {
        Self {
            places: HashMap::new(),
            lists: HashMap::new(),
            outer: vec![0],
            scope: 0,
        }
    }
}

impl<'a> Labels<'a> {
    /// Opens a block.
    pub(crate) fn open(&mut self) {
        self.outer.push(self.scope);
        self.scope = self.outer.len() as u32 - 1;
    }

    /// Closes a block.
    pub(crate) fn close(&mut self) {
        self.scope = self.outer[self.scope as usize];
    }

    /// Defines a label; false if the block already has one of this name.
    pub(crate) fn define(&mut self, name: &'a str, at: u32) -> bool {
        self.places.insert((self.scope, name), at).is_none()
    }

    /// A reference to a label from this block.
    pub(crate) fn refer(&self, name: &'a str, position: Position) -> Reference<'a> {
        Reference {
            name,
            position,
            scope: self.scope,
        }
    }

    /// Defines a list of labels in this block.
    pub(crate) fn list(&mut self, name: &'a str, labels: Vec<&'a str>) {
        self.lists.insert((self.scope, name), labels);
    }

    /// Position of a label; the innermost block wins.
    pub(crate) fn find(&self, reference: Reference<'a>) -> Option<u32> {
        let mut scopes = self.around(reference.scope);
        scopes.find_map(|scope| self.places.get(&(scope, reference.name)).copied())
    }

    /// The labels of a list and the block that defines it; the innermost block wins.
    pub(crate) fn find_list(&self, reference: Reference<'a>) -> Option<(u32, &[&'a str])> {
        self.around(reference.scope).find_map(|scope| {
            let list = self.lists.get(&(scope, reference.name))?;
            Some((scope, &list[..]))
        })
    }

    /// A block and the blocks around it.
    fn around(&self, scope: u32) -> impl Iterator<Item = u32> {
        let outer = |scope: &u32| (*scope != 0).then(|| self.outer[*scope as usize]);
        std::iter::successors(Some(scope), outer)
    }
}
