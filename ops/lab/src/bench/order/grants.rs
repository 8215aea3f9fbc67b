//! The cost of a decision: the leader's scheduler alone, on one core.

use std::time::{Duration, Instant};

use scheduler_leader_bench::Load;

use crate::bench::metric::{Goal, Measurement, Spec};

/// Duration of one repetition at one size.
const REPETITION: Duration = Duration::from_millis(500);
const WARM_UP: Duration = Duration::from_millis(200);
/// Steps between two looks at the clock: with fewer, reading the clock would distort the result.
const STRETCH: usize = 20_000;

/// Metrics, each with its number of sessions.
pub(super) const METRICS: [(Spec, usize); 4] = [
    (spec("grants_per_s_10", Goal::None), 10),
    (spec("grants_per_s_100", Goal::None), 100),
    (spec("grants_per_s_1000", Goal::AtLeast(3e6)), 1_000),
    (spec("grants_per_s_10000", Goal::None), 10_000),
];

const fn spec(name: &'static str, goal: Goal) -> Spec {
    let what = "grants decided a second by the scheduler on one core, so many sessions backlogged";
    Spec {
        name,
        unit: "1/s",
        goal,
        what,
    }
}

/// Measures all sizes, one after the other in every repetition.
pub(super) fn grants(
    reps: usize,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) {
    let sizes: Vec<_> = METRICS
        .iter()
        .filter(|(spec, _)| wanted(spec.name))
        .collect();
    if sizes.is_empty() {
        return;
    }
    let mut loads: Vec<_> = sizes
        .iter()
        .map(|(_, sessions)| Load::new(*sessions))
        .collect();
    let mut rates = vec![Vec::new(); sizes.len()];
    eprintln!("warming up");
    for load in &mut loads {
        measure(load, WARM_UP);
    }
    for rep in 1..=reps {
        eprintln!("repetition {rep} of {reps}");
        for (load, rates) in loads.iter_mut().zip(&mut rates) {
            rates.extend(measure(load, REPETITION));
        }
    }
    for ((spec, sessions), rates) in sizes.into_iter().zip(rates) {
        let metric = if rates.is_empty() {
            Measurement::missing(spec, "the core decided nothing")
        } else {
            Measurement::new(spec, &rates)
        };
        let ns = metric.value.map(|rate| 1e9 / rate);
        let metric = metric.with("sessions", *sessions);
        tell(match ns {
            Some(ns) => metric.with("ns_per_grant", ns),
            None => metric,
        });
    }
}

/// Grants per second, measured for about `time`; `None` if a whole stretch of steps decided nothing.
fn measure(load: &mut Load, time: Duration) -> Option<f64> {
    let mut grants = 0;
    let began = Instant::now();
    loop {
        let mut stretch = 0;
        for _ in 0..STRETCH {
            stretch += load.step();
            if stretch >= STRETCH {
                break;
            }
        }
        grants += stretch;
        let elapsed = began.elapsed();
        if stretch == 0 {
            return None;
        }
        if elapsed >= time {
            return Some(grants as f64 / elapsed.as_secs_f64());
        }
    }
}
