//! The slices of a request that have spans.

use std::rc::Rc;

use crate::fit::fit;
use crate::join::Part;
use crate::parts::SLICES;
use crate::timeline::Stretch;

/// The slices with spans of their own.
pub(crate) fn with_own_spans(parts: &[Rc<Part>]) -> &[Rc<Part>] {
    let own = parts.get(..SLICES - 1).filter(|_| parts.len() > SLICES);
    own.unwrap_or(parts)
}

/// The slices with spans of their own, and one that stands for the later ones.
pub(crate) fn slices(parts: &[Rc<Part>], moved: i64, bounds: Stretch) -> Vec<Part> {
    let own = with_own_spans(parts).len();
    let (own, later) = parts.split_at(own);
    let mut slices: Vec<_> = own.iter().map(|part| fit(part, moved, bounds)).collect();
    if let Some((first, later)) = later.split_first() {
        let mut tail = Part::clone(first);
        later.iter().for_each(|part| tail.add(part));
        slices.push(fit(&tail, moved, bounds));
    }
    slices
}
