//! Enqueueing allocates nothing once the columns have grown to the program's bursts.

use std::hint::black_box;

use bus_schemas::{
    Column, FunctionFingerprint, Launch, LeaderId, Op, SessionId, WIRE_VERSION, WorkerAck,
};
use client_agent_core::{Action, Event, Outbox, OutboxSettings};
use counting_allocator::{CountingAllocator, counted};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const BURST: u64 = 1000;

/// A burst of launches with its batches; the last launch is acknowledged as done.
fn burst(outbox: &mut Outbox, actions: &mut Vec<Action>, function: FunctionFingerprint) {
    let params = [0_u8; 64];
    for index in 0..BURST {
        let launch = Launch {
            module: 0,
            function: 3,
            grid: [black_box(64), 1, 1],
            block: [128, 1, 1],
            shared: 0,
            attributes: bus_schemas::LaunchAttributes::default(),
        };
        let key = function.key(launch.grid, launch.block, launch.shared);
        outbox
            .push(&Op::Launch(launch), 0, black_box(&params), key)
            .expect("there is room");
        if outbox.wants_flush() {
            outbox.handle(index, Event::Flush, actions);
            // The bus has taken them.
            actions.clear();
        }
    }
    outbox.handle(0, Event::Flush, actions);
    actions.clear();
    let ack = WorkerAck {
        v: WIRE_VERSION,
        epoch: 1,
        leader: LeaderId(1),
        received: outbox.last(),
        done: outbox.last(),
        send_through: outbox.last() + 100_000,
        staging: 0,
        results: 0,
        staged: Column::default(),
        failure: None,
        failed_op: 0,
        prepared: Column::default(),
        refused: Vec::new(),
        held: Column::default(),
    };
    outbox.handle(0, Event::WorkerAck(&ack), actions);
    actions.clear();
}

#[test]
fn a_warm_outbox_enqueues_and_flushes_without_allocating() {
    let mut outbox = Outbox::new(OutboxSettings::new(SessionId(1), 1, LeaderId(1)));
    let mut actions = Vec::new();
    let function = FunctionFingerprint(42);
    for _ in 0..16 {
        burst(&mut outbox, &mut actions, function);
    }
    let ((), seen) = counted(|| burst(&mut outbox, &mut actions, function));
    assert_eq!(seen.allocations, 0);
}
