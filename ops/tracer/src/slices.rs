//! The slices of a request that have spans.

use std::rc::Rc;

use bus_schemas::{COMPILATIONS, CostRun};
use scheduler_leader_core::why::Wait;

use crate::fit::fit;
use crate::join::Part;
use crate::timeline::Stretch;

/// Maximum number of slices that have spans of their own; the later ones share one.
pub(crate) const SLICES: usize = 128;

/// Maximum number of kinds of work of a span that are told apart.
const KINDS: usize = 32;

/// One slice of a request, or several that share a span.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) part: Part,
    /// Number of slices.
    pub(crate) slices: u64,
}

/// The slices with spans of their own.
pub(crate) fn with_own_spans(parts: &[Rc<Part>]) -> &[Rc<Part>] {
    let own = parts.get(..SLICES - 1).filter(|_| parts.len() > SLICES);
    own.unwrap_or(parts)
}

/// The slices with spans of their own, and one that stands for the later ones.
pub(crate) fn slices(parts: &[Rc<Part>], moved: i64, bounds: Stretch) -> Vec<Slice> {
    let own = with_own_spans(parts).len();
    let mut slices: Vec<Slice> = Vec::with_capacity(own + 1);
    for part in parts {
        let part = fit(part, moved, bounds);
        match slices.get_mut(own) {
            Some(rest) => {
                add(&mut rest.part, &part);
                rest.slices += 1;
            }
            None => slices.push(Slice { part, slices: 1 }),
        }
    }
    slices
}

/// Adds a later slice to one that stands for several.
fn add(all: &mut Part, part: &Part) {
    all.last = part.last;
    all.launches = all
        .launches
        .zip(part.launches)
        .map(|(one, other)| one + other);
    all.device_ns = all.device_ns.saturating_add(part.device_ns);
    let mut work = std::mem::take(&mut all.work).into_vec();
    for run in &part.work {
        let full = work.len() >= KINDS;
        let same = |it: &CostRun| it.class == run.class && it.key == run.key;
        let at = work.iter().position(same);
        let at = at.or_else(|| work.iter().position(|it| full && it.class == run.class));
        match at.and_then(|at| work.get_mut(at)) {
            Some(known) => {
                known.count = known.count.saturating_add(run.count);
                known.bytes = known.bytes.saturating_add(run.bytes);
            }
            None => work.push(*run),
        }
    }
    all.work = work.into();
    let timing = &mut all.timing;
    timing.ended = timing.ended.max(part.timing.ended);
    timing.waited_ns = timing.waited_ns.saturating_add(part.timing.waited_ns);
    timing.compiled.extend_from_slice(&part.timing.compiled);
    timing.compiled.truncate(COMPILATIONS);
    for wait in &part.timing.waits {
        let same = |it: &&mut Wait| it.cause == wait.cause && it.of == wait.of;
        match timing.waits.iter_mut().find(same) {
            Some(known) => known.ns = known.ns.saturating_add(wait.ns),
            None => timing.waits.push(wait.clone()),
        }
    }
}
