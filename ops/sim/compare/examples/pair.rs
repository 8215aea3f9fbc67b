//! One pair under every policy: `cargo run --release -p sim-compare --example pair -- 0 4 2000`,
//! the last being the window in microseconds.

use std::time::Instant;

use sim_compare::{MICRO, Policy, SECOND, SHAPES, Scenario, generate, quantile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut index = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let (first, second) = (
        index.next().unwrap_or(Ok(0))?,
        index.next().unwrap_or(Ok(4))?,
    );
    let window = index.next().unwrap_or(Ok(2_000))? as u64 * MICRO;
    let (inference, training) = (generate(&SHAPES[first], 1), generate(&SHAPES[second], 1));
    let ms = |ns: u64| ns as f64 / 1e6;
    let tenants =
        |models: &[&sim_compare::Model]| models.iter().map(|m| (*m).clone().into()).collect();
    let length = |scenario: Scenario| Scenario {
        measured: 10 * SECOND,
        window,
        quantum: window.min(500 * MICRO),
        ..scenario
    };
    let mut work = [0; 2];
    for (index, model) in [&inference, &training].into_iter().enumerate() {
        let alone = sim_compare::run(&length(Scenario::new(tenants(&[model]), 1)), Policy::Native)?;
        work[index] = alone.tenants[0].work_ns;
        let p99 = quantile(&alone.tenants[0].latencies, 0.99);
        let ours = sim_compare::run(&length(Scenario::new(tenants(&[model]), 1)), Policy::ALL[0])?;
        let through = quantile(&ours.tenants[0].latencies, 0.99);
        println!(
            "{:24} alone p99 {:8.2} ms, through the cluster {:8.2} ms",
            model.name,
            ms(p99),
            ms(through)
        );
    }
    for policy in Policy::ALL {
        let began = Instant::now();
        let scenario = length(Scenario::new(tenants(&[&inference, &training]), 1));
        let shared = sim_compare::run(&scenario, policy)?;
        let part = |index: usize| shared.tenants[index].work_ns as f64 / work[index] as f64;
        println!(
            "{:14} p50 {:8.2} p99 {:8.2} ms, work {:.3} + {:.3}, active {:.3}, {} messages, {:.2} s",
            policy.name(),
            ms(quantile(&shared.tenants[0].latencies, 0.5)),
            ms(quantile(&shared.tenants[0].latencies, 0.99)),
            part(0),
            part(1),
            shared.active(),
            shared.messages,
            began.elapsed().as_secs_f64()
        );
    }
    Ok(())
}
