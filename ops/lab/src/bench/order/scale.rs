//! `warploom bench order`, the part on size: 10,000 sessions on 1,000 modelled GPUs.

use std::time::{Duration, Instant};

use counting_allocator::counted;
use scheduler_leader_bench::{Fleet, Load};

use crate::bench::{Goal, Measurement, metrics};

const SESSIONS: usize = 10_000;
const GPUS: usize = 1_000;
/// Duration of one repetition of each compared side.
const REPETITION: Duration = Duration::from_millis(500);
/// Steps between two looks at the clock: every GPU reports once.
const STRETCH: usize = GPUS;

metrics! {
    ORDER = "ns_per_grant_10000", "ns", Goal::AtMost(1_000.0),
        "what a grant costs the scheduler, 10,000 sessions backlogged on 1,000 GPUs";
    WHOLE = "ns_per_grant_whole_10000", "ns", Goal::AtMost(1_000.0),
        "the same with messages read and written, links, queues and record: the whole core";
    BYTES = "bytes_per_idle_session", "B", Goal::AtMost(2_048.0),
        "memory a session without work takes in the whole core, its queue included";
}

/// Measures all wanted metrics.
pub(super) fn scale(
    reps: usize,
    wanted: impl Fn(&str) -> bool,
    tell: &mut impl FnMut(Measurement),
) {
    if wanted(ORDER.name) {
        tell(grants(reps));
    }
    if wanted(WHOLE.name) {
        tell(whole_grants(reps));
    }
    if wanted(BYTES.name) {
        tell(idle_bytes(reps));
    }
}

fn sized(metric: Measurement) -> Measurement {
    metric.with("sessions", SESSIONS).with("gpus", GPUS)
}

fn grants(reps: usize) -> Measurement {
    eprintln!("{SESSIONS} sessions on {GPUS} GPUs");
    let (mut fleet, mut one) = (Load::fleet(SESSIONS, GPUS), Load::new(SESSIONS));
    let mut values = (Vec::new(), Vec::new());
    for rep in 0..=reps {
        let both = (measure(|| fleet.step()), measure(|| one.step()));
        // The first repetition warms up.
        if rep > 0 {
            values.0.push(both.0);
            values.1.push(both.1);
        }
    }
    let metric = Measurement::new(&ORDER, &values.0);
    sized(metric.against("the same sessions on one GPU", &values.1))
}

/// Nanoseconds per grant.
fn measure(mut step: impl FnMut() -> usize) -> f64 {
    let (mut grants, begun) = (0, Instant::now());
    while begun.elapsed() < REPETITION {
        grants += (0..STRETCH).map(|_| step()).sum::<usize>();
    }
    begun.elapsed().as_nanos() as f64 / grants as f64
}

fn whole_grants(reps: usize) -> Measurement {
    eprintln!("the same through the protocol");
    let mut fleet = Fleet::new(SESSIONS, GPUS);
    fleet.open();
    fleet.begin_work();
    let (mut values, mut recorded) = (Vec::new(), (0, 0));
    for rep in 0..=reps {
        let before = fleet.recorded_bytes();
        let (mut grants, mut spent) = (0, Duration::ZERO);
        while spent < REPETITION {
            fleet.prepare();
            let begun = Instant::now();
            grants += fleet.deliver();
            spent += begun.elapsed();
        }
        if rep > 0 {
            values.push(spent.as_nanos() as f64 / grants as f64);
            recorded.0 += fleet.recorded_bytes() - before;
            recorded.1 += grants as u64;
        }
    }
    let bytes = recorded.0 as f64 / recorded.1.max(1) as f64;
    sized(Measurement::new(&WHOLE, &values)).with("record_bytes_per_grant", bytes)
}

fn idle_bytes(reps: usize) -> Measurement {
    let opened = |_| {
        let mut fleet = Fleet::new(SESSIONS, GPUS);
        counted(|| fleet.open()).1.left as f64 / SESSIONS as f64
    };
    let values: Vec<_> = (0..reps).map(opened).collect();
    sized(Measurement::new(&BYTES, &values))
}
