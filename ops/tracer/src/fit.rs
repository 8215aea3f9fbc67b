//! Times of slices on the clock of their request, and waits as long as their stretches.
//!
//! The times of a request are by its program's clock, and those of slices by their leader's, to which the worker's are
//! converted. The clocks of two hosts differ, and a conversion is as good as the quickest message. But an op cannot be
//! heard of before it was made, and its end not after its answer.

use std::rc::Rc;

use bus_schemas::OpNumber;
use scheduler_leader_core::why::Timing;

use crate::join::{Part, Request};
use crate::parts::{fill_waits, shorten_waits};
use crate::timeline::{Stretch, within};

/// Moves a slice of a request, and cuts off what still reaches beyond its bounds. Waits add up to the time from
/// announced to started then.
pub(crate) fn fit(part: &Part, moved: i64, bounds: Stretch) -> Part {
    let mut fitted = part.clone();
    let timing = &mut *fitted.timing;
    let here = |at: u64| at.saturating_add_signed(moved);
    let (announced, started) = within((here(timing.announced), here(timing.started)), bounds);
    let (_, ended) = within((here(timing.started), here(timing.ended)), bounds);
    let between = |at: u64| here(at).clamp(announced, started);
    *timing = Timing {
        announced,
        granted: between(timing.granted),
        accepted: between(timing.accepted),
        begun: between(timing.begun),
        started,
        ended,
        waited_ns: timing.waited_ns,
        waits: std::mem::take(&mut timing.waits),
        compiled: std::mem::take(&mut timing.compiled),
    };
    // The same bounds as the slice's keep the order of the two: a compilation after its load stays visible.
    for compilation in &mut timing.compiled {
        let (began, ended) = (here(compilation.began), here(compilation.ended));
        (compilation.began, compilation.ended) = within((began, ended), bounds);
    }
    match fitted.slices {
        1 => fill_waits(&mut fitted.timing),
        // Ops ran between its waits.
        _ => shorten_waits(&mut fitted.timing, ended - announced),
    }
    fitted
}

/// The least distance by which all slices of a request must be moved to lie within it.
pub(crate) fn distance(request: &Request, parts: &[Rc<Part>]) -> i64 {
    let report = &request.report;
    let gap = |to: u64, from: u64| i64::try_from(i128::from(to) - i128::from(from)).unwrap_or(0);
    // Ops of other requests in the same slice may be earlier or later.
    let (first, last): (OpNumber, OpNumber) = (report.first, report.last);
    let own = |part: &&Rc<Part>| part.first >= first && part.last <= last;
    let starts = parts
        .iter()
        .filter(own)
        .map(|part| gap(report.began, part.timing.announced));
    let ends = parts
        .iter()
        .filter(own)
        .map(|part| gap(report.ended, part.timing.ended));
    match (starts.max(), ends.min()) {
        (Some(least), Some(most)) if least <= most => 0.clamp(least, most),
        // They do not fit: as much is cut off at both ends.
        (Some(least), Some(most)) => least.midpoint(most),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::Compilation;
    use proptest::prelude::*;

    use super::*;
    use crate::join::Join;
    use crate::join::tests::{position, request};

    fn parts(announced: &[u64]) -> Vec<Rc<Part>> {
        let mut join = Join::new();
        join.is_read(0);
        for (op, at) in (1..).zip(announced) {
            join.position(&position("chat", 1, (op, op), *at));
        }
        join.request(request("chat", 1, (1, announced.len() as u64)), 0, 1);
        join.due(1).remove(0).parts
    }

    fn fitted(request: &Request, parts: &[Rc<Part>]) -> Vec<Part> {
        let (report, moved) = (&request.report, distance(request, parts));
        let fit = |part: &Rc<Part>| fit(part, moved, (report.began, report.ended));
        parts.iter().map(fit).collect()
    }

    fn stretches(fitted: &[Part]) -> Vec<(u64, u64, u64)> {
        let times = |part: &Part| {
            (
                part.timing.announced,
                part.timing.started,
                part.timing.ended,
            )
        };
        fitted.iter().map(times).collect()
    }

    #[test]
    fn slices_are_moved_into_their_request_by_the_least_distance() {
        // A request lasts from 1,000 to 2,000, a slice for 150.
        let whole = request("chat", 1, (1, 2));
        let fit = |announced: &[u64]| stretches(&fitted(&whole, &parts(announced)));
        assert_eq!(
            fit(&[1_200, 1_500]),
            [(1_200, 1_300, 1_350), (1_500, 1_600, 1_650)]
        );
        assert_eq!(
            fit(&[900, 1_500]),
            [(1_000, 1_100, 1_150), (1_600, 1_700, 1_750)]
        );
        assert_eq!(
            fit(&[1_200, 2_000]),
            [(1_050, 1_150, 1_200), (1_850, 1_950, 2_000)]
        );
        // 1,450 ns do not fit into 1,000: as much is cut off at both ends.
        assert_eq!(
            fit(&[500, 1_800]),
            [(1_000, 1_000, 1_000), (2_000, 2_000, 2_000)]
        );
    }

    #[test]
    fn a_slice_with_an_earlier_requests_ops_moves_nothing_and_is_cut() {
        let mut whole = request("chat", 1, (2, 2));
        whole.report.first = 2;
        let mut early = parts(&[850]);
        Rc::make_mut(&mut early[0]).last = 2;
        let fitted = fitted(&whole, &early);
        assert_eq!(stretches(&fitted), [(1_000, 1_000, 1_000)]);
        assert_eq!(fitted[0].timing.waits, []);
    }

    proptest! {
        #[test]
        fn a_compilation_before_its_slice_is_before_the_fitted_slice(
            announced in prop::collection::vec(0u64..3_000, 1..5),
            (began, took) in (0u64..3_000, 0u64..1_000),
        ) {
            let whole = request("chat", 1, (1, announced.len() as u64));
            let mut parts = parts(&announced);
            for part in &mut parts {
                let timing = &mut Rc::make_mut(part).timing;
                let began = began.min(timing.begun);
                let ended = (began + took).min(timing.begun);
                timing.compiled = vec![Compilation { began, ended }];
            }
            for part in fitted(&whole, &parts) {
                let (timing, compiled) = (&part.timing, part.timing.compiled[0]);
                let order = [
                    whole.report.began, compiled.began, compiled.ended, timing.started,
                ];
                prop_assert!(order.is_sorted(), "{:?}", order);
            }
        }

        #[test]
        fn waits_are_as_long_as_their_stretches_and_all_is_within(
            announced in prop::collection::vec(0u64..3_000, 1..5),
        ) {
            let whole = request("chat", 1, (1, announced.len() as u64));
            for part in fitted(&whole, &parts(&announced)) {
                let timing = &part.timing;
                let sum: u64 = timing.waits.iter().map(|wait| wait.ns).sum();
                prop_assert_eq!(sum, timing.started - timing.announced);
                prop_assert_eq!(sum, timing.waited_ns);
                let order = [
                    whole.report.began, timing.announced, timing.granted, timing.accepted,
                    timing.begun, timing.started, timing.ended, whole.report.ended,
                ];
                prop_assert!(order.is_sorted(), "{:?}", order);
            }
        }
    }
}
