//! Yesterday's record is ordered today as it was: `../golden/order-3.bin` holds the inputs (each
//! its length, 32 bit little-endian, and its MessagePack), `../golden/order-3.txt` the digest. A
//! change of the rules makes this fail: give it a new `ORDER_VERSION` and a new pair of files,
//! written by running this test with `WARPLOOM_GOLDEN=write`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{env, fs};

use crate::model::{Model, launches, sync, tenant};
use bus_schemas::{Chain, ChainEntry, CloseReason, ClusterSettings, GpuTail, Incarnation};
use bus_schemas::{SessionId, Tenant, TenantSettings, digest};
use scheduler_leader_core::{Effect, Input, ORDER_VERSION, Order};

fn file(extension: &str) -> PathBuf {
    let name = format!("order-{ORDER_VERSION}.{extension}");
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// A few hundred inputs of every kind, from a small generator of numbers.
fn scenario() -> Vec<Input> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let tenants = (0..4).map(|index| TenantSettings {
        priority: [0, 2, 2, 4][index],
        weight: [1, 1, 3, 1][index],
        outstanding_ns: [0, 0, 1_500_000, 0][index],
        slo_ns: [1_000_000, 0, 0, 0][index],
        ..TenantSettings::default()
    });
    let settings = ClusterSettings {
        floors: [0, 0, 0, 0, 10],
        ..ClusterSettings::default()
    };
    let mut model = Model::new(settings, tenants.collect(), 2);
    let sessions: Vec<_> = (0..8).map(|index| model.open(index % 4).unwrap()).collect();
    for round in 0..220 {
        let id = sessions[random(8)];
        match random(10) {
            0..=2 => {
                let runs = [launches(random(6), 1 + random(90) as u32), sync()];
                model.submit(id, &runs[..1 + random(2)], random(8) > 0);
                model.announce(id, 500);
            }
            3 => {
                let session = model.sessions.get_mut(&id).unwrap();
                session.received = session.ops.len() as u64;
                model.tell_received(id);
            }
            4 => drop(model.apply(Input::Tick)),
            _ => {
                model.run(Incarnation(100 + random(2) as u64), 1 + random(4));
            }
        }
        if round == 110 {
            model.apply(Input::Hold { held: true });
            // The naive view counts what is outstanding at today's priority: let it end first.
            for worker in [100, 101].map(Incarnation) {
                while model.run(worker, 4) > 0 {}
            }
            let tenant = tenant(1);
            let changed = TenantSettings {
                priority: 1,
                weight: 5,
                cap: 40,
                ..TenantSettings::default()
            };
            model.tenants[1] = changed.clone();
            let settings = Some(changed);
            model.apply(Input::TenantSet { tenant, settings });
            model.apply(Input::Tick);
            model.apply(Input::Hold { held: false });
        }
        if round == 200 {
            let (session, after, reason) = (sessions[0], 0, CloseReason::Killed);
            model.apply(Input::SessionClose {
                session,
                after,
                reason,
            });
        }
    }
    model.settle();
    model.inputs
}

/// The digest of what the inputs are ordered to.
fn order(inputs: &[Input]) -> Chain {
    let (mut order, mut effects) = (Order::new(), Vec::new());
    let mut names: BTreeMap<SessionId, (Tenant, u64)> = BTreeMap::new();
    let mut tails: BTreeMap<Incarnation, GpuTail> = BTreeMap::new();
    for input in inputs {
        if let Input::WorkerSealed {
            incarnation,
            answer,
        } = input
        {
            let (gpu, position, chain) = (answer.gpu, answer.position, answer.chain);
            tails.insert(
                *incarnation,
                GpuTail {
                    gpu,
                    position,
                    chain,
                },
            );
        }
        order.apply(input, &mut effects);
        for effect in effects.drain(..) {
            if let Effect::Grant {
                incarnation,
                position,
                grant,
                open,
            } = effect
            {
                if let Some(open) = open {
                    names.insert(open.session, (open.tenant, open.ordinal));
                }
                let (tenant, ordinal) = &names[&grant.session];
                let tail = tails.get_mut(&incarnation).unwrap();
                tail.position = position;
                tail.chain = tail.chain.then(&ChainEntry {
                    position,
                    tenant,
                    ordinal: *ordinal,
                    kind: grant.kind,
                    first: grant.first,
                    last: grant.last,
                });
            }
        }
    }
    digest(&tails.into_values().collect::<Vec<_>>())
}

#[test]
fn the_golden_record_is_ordered_as_it_was() {
    if env::var("WARPLOOM_GOLDEN").as_deref() == Ok("write") {
        let (inputs, mut bytes) = (scenario(), Vec::new());
        for input in &inputs {
            let input = rmp_serde::to_vec_named(input).unwrap();
            bytes.extend_from_slice(&(input.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&input);
        }
        fs::write(file("bin"), bytes).unwrap();
        fs::write(file("txt"), format!("{}\n", order(&inputs))).unwrap();
    }
    let bytes = fs::read(file("bin")).expect("the golden record of these rules");
    let mut rest = bytes.as_slice();
    let mut inputs: Vec<Input> = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let (input, behind) = behind.split_at(u32::from_le_bytes(*length) as usize);
        inputs.push(rmp_serde::from_slice(input).expect("an input of these rules"));
        rest = behind;
    }
    assert!(inputs.len() > 300, "{}", inputs.len());
    let expected = fs::read_to_string(file("txt")).unwrap();
    assert_eq!(order(&inputs).to_string(), expected.trim());
    // Not just the end of it: leaving one input out is noticed.
    let done = |input: &Input| matches!(input, Input::Done { .. });
    let middle = inputs.iter().rposition(done).unwrap() / 2;
    inputs.remove((middle..).find(|at| done(&inputs[*at])).unwrap());
    assert_ne!(order(&inputs).to_string(), expected.trim());
}
