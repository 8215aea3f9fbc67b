//! The cost of a grant to the leader's cores, by number of sessions and GPUs. It prints a table of
//! them, or one pair given as arguments.

use std::time::{Duration, Instant};

use scheduler_leader_bench::{Fleet, Load};

const TIME: Duration = Duration::from_secs(1);

fn main() {
    let given: Vec<usize> = std::env::args().skip(1).flat_map(|it| it.parse()).collect();
    let sizes = match given[..] {
        [sessions, gpus] => vec![(sessions, gpus)],
        _ => vec![(100, 10), (1_000, 100), (10_000, 1_000), (100_000, 10_000)],
    };
    for (sessions, gpus) in sizes {
        let mut load = Load::fleet(sessions, gpus);
        let order = measure(|| load.step());
        println!("{sessions} sessions, {gpus} GPUs: {order:.0} ns a grant by the order");
        if gpus > 1_000 {
            continue;
        }
        let mut fleet = Fleet::new(sessions, gpus);
        fleet.open();
        fleet.begin_work();
        let before = (fleet.recorded_bytes(), fleet.grants());
        let (whole, each) = apart(&mut fleet);
        println!("{sessions} sessions, {gpus} GPUs: {whole:.0} ns a grant by the protocol core");
        let most = 1e9 / (whole * each);
        println!(
            "{sessions} sessions, {gpus} GPUs: {each:.0} grants a second and GPU, {most:.0} GPUs of these a core"
        );
        let recorded = fleet.recorded_bytes() - before.0;
        let bytes = recorded as f64 / (fleet.grants() - before.1) as f64;
        println!("{sessions} sessions, {gpus} GPUs: {bytes:.1} bytes of record a grant");
    }
}

/// Nanoseconds per grant.
fn measure(mut step: impl FnMut() -> usize) -> f64 {
    let mut grants = 0;
    let mut begun = Instant::now();
    let mut warm = false;
    while !warm || begun.elapsed() < TIME {
        grants += (0..2_000).map(|_| step()).sum::<usize>();
        if !warm && begun.elapsed() > TIME / 4 {
            (warm, grants, begun) = (true, 0, Instant::now());
        }
    }
    begun.elapsed().as_nanos() as f64 / grants as f64
}

/// Nanoseconds per grant of the leader's part alone, and grants per second that each GPU takes.
fn apart(fleet: &mut Fleet) -> (f64, f64) {
    let (mut grants, mut reports, mut spent) = (0, 0, Duration::ZERO);
    while spent < TIME {
        fleet.prepare();
        reports += 1;
        let begun = Instant::now();
        grants += fleet.deliver();
        spent += begun.elapsed();
    }
    let seconds = f64::from(reports) * Fleet::PERIOD.as_secs_f64();
    let each = grants as f64 / seconds;
    (spent.as_nanos() as f64 / grants as f64, each)
}
