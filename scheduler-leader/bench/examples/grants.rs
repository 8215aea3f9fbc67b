//! Grants per second that the scheduler decides on this machine, by number of sessions.

use std::time::{Duration, Instant};

use scheduler_leader_bench::Load;

fn main() {
    for sessions in [10, 100, 1_000, 10_000] {
        let mut load = Load::new(sessions);
        run(&mut load, Duration::from_millis(200));
        let per_second = run(&mut load, Duration::from_secs(1));
        println!("grants_per_s_{sessions} {per_second:.0}");
    }
}

fn run(load: &mut Load, time: Duration) -> f64 {
    let (start, mut grants) = (Instant::now(), 0);
    while start.elapsed() < time {
        grants += (0..16).map(|_| load.step()).sum::<usize>();
    }
    grants as f64 / start.elapsed().as_secs_f64()
}
