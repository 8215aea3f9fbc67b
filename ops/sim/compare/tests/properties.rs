//! Properties of every simulation, and of each policy.

use sim_compare::{
    Arrivals, ComparedRun, DeviceKind, Kernel, KernelRow, MICRO, MILLI, Model, Nanos, Policy,
    SECOND, SHAPES, Scenario, TenantRole, TenantSetup, generate, quantile, run,
};

fn model(name: &str, role: TenantRole, kernels: &[Nanos], arrivals: Arrivals) -> Model {
    let kernel = |ns: &Nanos| Kernel {
        ns: *ns,
        compute: 80,
        memory: 30,
    };
    Model {
        name: name.to_owned(),
        role,
        arrivals,
        kernels: kernels.iter().map(kernel).collect(),
    }
}

fn closed(name: &str, role: TenantRole, kernels: &[Nanos]) -> Model {
    let arrivals = Arrivals::Closed {
        think: 0,
        random: false,
    };
    model(name, role, kernels, arrivals)
}

/// A chat at half load beside a training job.
fn pair(seed: u64) -> Scenario {
    let urgent = [20, 30, 40, 15, 60, 25, 35, 20, 10, 50].map(|us| us * MICRO);
    let effort = [100, 15, 300, 45, 20, 700, 80, 30].map(|us| us * MICRO);
    let chat = model(
        "chat",
        TenantRole::Latency,
        &urgent.repeat(4),
        Arrivals::Load(0.5),
    );
    let train = closed("train", TenantRole::Throughput, &effort.repeat(20));
    Scenario {
        warm_up: 1_500 * MILLI,
        measured: SECOND,
        timeline: true,
        ..Scenario::new(vec![chat.into(), train.into()], seed)
    }
}

fn outcome(scenario: &Scenario, policy: Policy) -> ComparedRun {
    run(scenario, policy).unwrap_or_else(|error| panic!("{}: {error}", policy.name()))
}

fn p99(outcome: &ComparedRun, tenant: usize) -> Nanos {
    quantile(&outcome.tenants[tenant].latencies, 0.99)
}

#[test]
fn alone_is_a_queue_that_can_be_computed_by_hand() {
    let times = [100, 110, 500].map(|us| us * MICRO);
    let trace = Arrivals::Trace(times.into());
    let chat = model("chat", TenantRole::Latency, &[1_000, 20_000], trace);
    let scenario = Scenario {
        warm_up: 0,
        measured: 600 * MICRO,
        timeline: true,
        ..Scenario::new(vec![chat.into()], 1)
    };
    let outcome = outcome(&scenario, Policy::Native);
    // A call of 4 us, a gap of 10 us and 1 us of work, again a gap and 20 us, and 5 us until noticed: 50
    // us. The second request came 10 us after the first, so it waits 40 us longer; the trace then repeats.
    let latencies = &outcome.tenants[0].latencies;
    assert_eq!(latencies[..3], [50_000, 50_000, 90_000]);
    let us = |row: &KernelRow| (row.start / 1_000, row.end / 1_000);
    let times: Vec<_> = outcome.rows.iter().map(us).collect();
    assert_eq!(times[..4], [(114, 115), (125, 145), (164, 165), (175, 195)]);
    assert_eq!(outcome.tenants[0].answered, 3);
}

#[test]
fn a_slow_caller_is_waited_for() {
    let chat = closed("chat", TenantRole::Latency, &[1_000; 3]);
    let scenario = Scenario {
        warm_up: 0,
        measured: MILLI,
        call: 50 * MICRO,
        ..Scenario::new(vec![chat.into()], 1)
    };
    let outcome = outcome(&scenario, Policy::Native);
    // Three calls, and a fourth to wait, which returns at once except for the notice.
    assert_eq!(quantile(&outcome.tenants[0].latencies, 0.5), 205 * MICRO);
}

#[test]
fn same_seed_same_outcome() {
    for policy in Policy::ALL {
        let first = outcome(&pair(3), policy);
        assert_eq!(first, outcome(&pair(3), policy), "{}", policy.name());
        assert_ne!(
            first.rows,
            outcome(&pair(4), policy).rows,
            "{}",
            policy.name()
        );
    }
}

#[test]
fn work_is_conserved() {
    for policy in Policy::ALL {
        let scenario = pair(5);
        let outcome = outcome(&scenario, policy);
        let name = policy.name();
        // No kernel begins before its call or while another runs. Every kernel runs whole and once, in its
        // tenant's order.
        let mut free = 0;
        let mut last = [(0, 0), (0, 0)];
        for row in &outcome.rows {
            let kernels = &scenario.tenants[row.tenant as usize].model.kernels;
            assert!(row.ready + scenario.gap <= row.start, "{name}");
            assert!(free + scenario.gap <= row.start, "{name}");
            assert_eq!(
                row.end - row.start,
                kernels[row.kernel as usize].ns,
                "{name}"
            );
            free = row.end;
            let (request, kernel) = last[row.tenant as usize];
            let next = match kernel == kernels.len() as u32 {
                true => (request + 1, 0),
                false => (request.max(1), kernel),
            };
            assert_eq!((row.request, row.kernel), next, "{name}");
            last[row.tenant as usize] = (row.request, row.kernel + 1);
        }
        let from = scenario.warm_up;
        let counted = outcome.rows.iter().filter(|row| row.end > from);
        let work: Nanos = counted.map(|row| row.end - row.start).sum();
        let told: Nanos = outcome.tenants.iter().map(|tenant| tenant.work_ns).sum();
        assert_eq!(work, told, "{name}");
        assert!(outcome.active_ns <= outcome.measured_ns, "{name}");
        // There is always work; only rate control holds it back.
        let least = if policy == Policy::Tgs { 0.5 } else { 0.9 };
        assert!(outcome.active() > least, "{name}: {}", outcome.active());
    }
}

#[test]
fn an_overlapping_device_does_no_kernel_faster_than_alone() {
    for policy in Policy::ALL {
        let scenario = Scenario {
            device: DeviceKind::Overlapping,
            ..pair(6)
        };
        let outcome = outcome(&scenario, policy);
        for row in &outcome.rows {
            let kernels = &scenario.tenants[row.tenant as usize].model.kernels;
            let alone = kernels[row.kernel as usize].ns;
            assert!(row.end - row.start >= alone, "{}", policy.name());
        }
        let both = outcome.tenants.iter().all(|tenant| tenant.answered > 0);
        assert!(both || policy == Policy::Native, "{}", policy.name());
    }
}

#[test]
fn queues_without_priorities_keep_the_urgent_waiting() {
    let by = |policy| p99(&outcome(&pair(7), policy), 0);
    let native = by(Policy::Native);
    let best = [Policy::Orion, Policy::XSched, Policy::Ours].map(by);
    assert!(
        best.iter().all(|p99| *p99 * 10 < native),
        "{best:?} {native}"
    );
    assert!(best.iter().all(|p99| *p99 < by(Policy::Mps)), "{best:?}");
}

#[test]
fn orion_lets_nothing_go_before_the_urgent() {
    let outcome = outcome(&pair(8), Policy::Orion);
    let gap = pair(8).gap;
    let (urgent, effort): (Vec<&KernelRow>, Vec<&KernelRow>) =
        outcome.rows.iter().partition(|row| row.tenant == 0);
    for row in urgent {
        let before = effort.iter().find(|other| {
            let begun = other.start - gap;
            begun > row.ready && other.end < row.start
        });
        assert_eq!(before, None, "{row:?}");
    }
}

#[test]
fn xsched_bounds_what_is_in_flight() {
    let outcome = outcome(&pair(9), Policy::XSched);
    let first = outcome
        .rows
        .iter()
        .filter(|row| row.tenant == 0 && row.kernel == 0);
    for row in first {
        let last = outcome.rows.iter().find(|end| {
            let same = end.tenant == 0 && end.request == row.request;
            same && end.kernel == 39
        });
        let Some(last) = last else { continue };
        let between = outcome
            .rows
            .iter()
            .filter(|other| other.tenant == 1 && other.start > row.ready && other.end < last.end);
        assert!(between.count() <= 9, "{row:?}");
    }
}

#[test]
fn equals_share_time_or_calls() {
    let kernels = [[200 * MICRO; 800], [20 * MICRO; 800]];
    let tenants = ["long", "short"].into_iter().zip(&kernels);
    let tenants =
        tenants.map(|(name, kernels)| closed(name, TenantRole::Throughput, kernels).into());
    let scenario = Scenario {
        warm_up: 100 * MILLI,
        ..Scenario::new(tenants.collect(), 1)
    };
    let device_time = |policy| {
        let tenants = outcome(&scenario, policy).tenants;
        let times = tenants
            .iter()
            .map(|tenant| tenant.work_ns + scenario.gap * tenant.kernels);
        let times: Vec<f64> = times.map(|ns| ns as f64).collect();
        times[0] / times[1]
    };
    // Time slices share time equally, and so do queues that share the device. Launches in the order of
    // their calls share calls.
    for policy in [Policy::TimeSlicing, Policy::Mps] {
        let share = device_time(policy);
        assert!((0.8..1.25).contains(&share), "{}: {share}", policy.name());
    }
    let calls = device_time(Policy::Native);
    assert!((4.0..8.0).contains(&calls), "{calls}");
}

#[test]
fn tgs_gives_way_to_production() {
    let scenario = pair(10);
    let (tgs, mps) = (
        outcome(&scenario, Policy::Tgs),
        outcome(&scenario, Policy::Mps),
    );
    assert!(p99(&tgs, 0) < p99(&mps, 0));
    assert!(tgs.tenants[1].work_ns < mps.tenants[1].work_ns);
    assert!(tgs.tenants[1].work_ns > 0);
}

#[test]
fn ours_shares_by_weight_once_it_knows_what_kernels_cost() {
    let kernels = [[300 * MICRO; 30], [30 * MICRO; 30]];
    let tenants = ["long", "short"].into_iter().zip(&kernels).zip([3, 1]);
    let tenants = tenants.map(|((name, kernels), weight)| TenantSetup {
        weight,
        ..closed(name, TenantRole::Throughput, kernels).into()
    });
    let scenario = Scenario {
        measured: 2 * SECOND,
        ..Scenario::new(tenants.collect(), 1)
    };
    let outcome = outcome(&scenario, Policy::Ours);
    let time = |index: usize| {
        let tenant = &outcome.tenants[index];
        (tenant.work_ns + scenario.gap * tenant.kernels) as f64
    };
    let share = time(0) / (time(0) + time(1));
    // Each tenant waits for its answers, the one with shorter requests more often.
    assert!((share - 0.75).abs() < 0.03, "{share}");
}

#[test]
fn ours_alone_costs_little() {
    let shape = SHAPES
        .iter()
        .find(|shape| shape.name == "resnet50-training");
    let train = generate(shape.unwrap(), 2);
    let scenario = Scenario::new(vec![train.into()], 2);
    let work = |policy| outcome(&scenario, policy).tenants[0].work_ns as f64;
    let part = work(Policy::Ours) / work(Policy::Native);
    assert!(part > 0.97 && part <= 1.0, "{part}");
}

#[test]
fn what_is_no_scenario_is_refused() {
    let chat = closed("chat", TenantRole::Latency, &[1_000]);
    let none = Scenario::new(Vec::new(), 1);
    let never = Scenario {
        measured: 0,
        ..Scenario::new(vec![chat.clone().into()], 1)
    };
    let empty = Scenario::new(vec![closed("none", TenantRole::Latency, &[]).into()], 1);
    let silent = TenantSetup {
        model: Model {
            arrivals: Arrivals::Rate(0.0),
            ..chat
        },
        priority: 0,
        weight: 1,
        start: 0,
    };
    for scenario in [none, never, empty, Scenario::new(vec![silent], 1)] {
        assert!(run(&scenario, Policy::Native).is_err());
        assert!(run(&scenario, Policy::Ours).is_err());
    }
}
