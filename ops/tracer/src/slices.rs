//! The slices of a request that have spans.

use std::rc::Rc;

use crate::fit::fit;
use crate::join::Part;
use crate::timeline::Stretch;

/// Maximum number of slices that have spans of their own; the later ones share one.
pub(crate) const SLICES: usize = 128;

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
                rest.part.add(&part);
                rest.slices = rest.part.slices;
            }
            None => slices.push(Slice {
                slices: part.slices,
                part,
            }),
        }
    }
    slices
}
