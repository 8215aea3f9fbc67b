//! Jumps of a body: to labels, and by lists of labels, which may be declared behind the jump.

use super::builder::fail;
use super::form::Inst;
use super::label::{Labels, Reference};
use crate::error::BuildResult as Result;
use ptx::Position;
use std::collections::HashMap;

/// The labels of a body, and its jumps to labels that may be unknown yet.
#[derive(Default)]
pub(super) struct Jumps<'a> {
    labels: Labels<'a>,
    /// Instructions that jump to a label.
    single: Vec<(usize, Reference<'a>)>,
    /// Instructions that jump by a list of labels.
    listed: Vec<(usize, Reference<'a>)>,
}

impl<'a> Jumps<'a> {
    /// The labels.
    pub(super) fn labels(&mut self) -> &mut Labels<'a> {
        &mut self.labels
    }

    /// Notes the jump of the instruction at `at` to a label.
    pub(super) fn to(&mut self, at: usize, label: &'a str, position: Position) {
        let reference = self.labels.refer(label, position);
        self.single.push((at, reference));
    }

    /// Notes the jump of the instruction at `at` by a list of labels.
    pub(super) fn by(&mut self, at: usize, list: &'a str, position: Position) {
        let reference = self.labels.refer(list, position);
        self.listed.push((at, reference));
    }

    /// Gives the instructions their targets, now that every label is known.
    pub(super) fn resolve(&mut self, code: &mut [Inst], tables: &mut Vec<Vec<u32>>) -> Result<()> {
        for (at, label) in std::mem::take(&mut self.single) {
            code[at].target = self.target(label)?;
        }
        // Each list is one table, no matter how many instructions jump by it.
        let mut known = HashMap::new();
        for (at, list) in std::mem::take(&mut self.listed) {
            let Some((scope, names)) = self.labels.find_list(list) else {
                let message = format!("there is no list of targets `{}`", list.name);
                return fail(list.position, message);
            };
            let table = *known.entry((scope, list.name)).or_insert(tables.len());
            code[at].imm = table as i64;
            if table < tables.len() {
                continue;
            }
            let labels = names.iter().map(|name| Reference {
                name,
                scope,
                ..list
            });
            let targets = labels.map(|label| self.target(label));
            tables.push(targets.collect::<Result<_>>()?);
        }
        Ok(())
    }

    fn target(&self, label: Reference<'a>) -> Result<u32> {
        match self.labels.find(label) {
            Some(target) => Ok(target),
            None => {
                let message = format!("there is no label `{}`", label.name);
                fail(label.position, message)
            }
        }
    }
}
