//! Labels: each is known in the block of braces it stands in, and in those inside.

use ptx::Position;
use std::collections::HashMap;

/// A label as an instruction names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference<'a> {
    pub(crate) name: &'a str,
    pub(crate) position: Position,
    /// The block of braces it is named in.
    pub(crate) scope: u32,
}

/// The labels of a body.
#[derive(Clone, Debug)]
pub(crate) struct Labels<'a> {
    places: HashMap<(u32, &'a str), u32>,
    lists: HashMap<(u32, &'a str), Vec<&'a str>>,
    /// Each block's outer one; the body itself is its own.
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
    /// A block begins.
    pub(crate) fn open(&mut self) {
        self.outer.push(self.scope);
        self.scope = self.outer.len() as u32 - 1;
    }

    /// A block ends.
    pub(crate) fn close(&mut self) {
        self.scope = self.outer[self.scope as usize];
    }

    /// A label stands here; false if the block has one of this name.
    pub(crate) fn define(&mut self, name: &'a str, at: u32) -> bool {
        self.places.insert((self.scope, name), at).is_none()
    }

    /// A label is named here.
    pub(crate) fn refer(&self, name: &'a str, position: Position) -> Reference<'a> {
        Reference {
            name,
            position,
            scope: self.scope,
        }
    }

    /// A list of labels has this name here.
    pub(crate) fn list(&mut self, name: &'a str, labels: Vec<&'a str>) {
        self.lists.insert((self.scope, name), labels);
    }

    /// Where a label stands, innermost block first.
    pub(crate) fn find(&self, reference: Reference<'a>) -> Option<u32> {
        let mut scopes = self.around(reference.scope);
        scopes.find_map(|scope| self.places.get(&(scope, reference.name)).copied())
    }

    /// The labels of a list, innermost block first, and the block that the list stands in.
    pub(crate) fn find_list(&self, reference: Reference<'a>) -> Option<(u32, &[&'a str])> {
        self.around(reference.scope).find_map(|scope| {
            let list = self.lists.get(&(scope, reference.name))?;
            Some((scope, &list[..]))
        })
    }

    /// A block and those around it.
    fn around(&self, scope: u32) -> impl Iterator<Item = u32> {
        let outer = |scope: &u32| (*scope != 0).then(|| self.outer[*scope as usize]);
        std::iter::successors(Some(scope), outer)
    }
}
