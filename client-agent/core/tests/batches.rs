//! Thousands of small ops at once, as a client makes them for a set or copy of rows.

use bus_schemas::{
    Batch, Column, Intent, KernelKey, LeaderId, Op, SessionId, WIRE_VERSION, WorkerAck, decode,
    limits,
};
use client_agent_core::{Action, Event, Outbox, OutboxSettings};

const OPS: u64 = 20_000;

#[test]
fn thousands_of_small_ops_travel_within_the_limits() {
    let mut outbox = Outbox::new(OutboxSettings::new(SessionId(7), 1, LeaderId(9)));
    for row in 0..OPS {
        let set = Op::Set {
            address: row << 12,
            count: 1 + row % 1_000,
            value: 0,
            width: 1,
        };
        assert_eq!(outbox.push(&set, 0, &[], KernelKey(0)), Ok(row + 1));
    }
    let mut actions = Vec::new();
    outbox.handle(1, Event::Flush, &mut actions);
    let credit = WorkerAck {
        v: WIRE_VERSION,
        epoch: 1,
        leader: LeaderId(9),
        received: 0,
        done: 0,
        send_through: OPS,
        staging: 0,
        results: 0,
        staged: Column::default(),
        failure: None,
        failed_op: 0,
        prepared: Column::default(),
        refused: Vec::new(),
        held: Column::default(),
    };
    outbox.handle(2, Event::WorkerAck(&credit), &mut actions);
    outbox.handle(3, Event::Flush, &mut actions);
    let (mut sent, mut announced) = (0, 0);
    for action in &actions {
        match action {
            Action::PublishBatch { bytes, .. } => {
                let batch: Batch<'_> = decode(bytes).expect("a batch");
                let size = batch.descriptors.len() + batch.blob.len();
                assert!(batch.count <= limits::BATCH_OPS && size <= limits::BATCH_BYTES);
                assert_eq!(batch.first, sent + 1);
                assert_eq!(batch.ops().expect("ops").len() as u32, batch.count);
                sent += u64::from(batch.count);
            }
            Action::PublishIntent { bytes } => {
                let intent: Intent<'_> = decode(bytes).expect("an intent");
                assert!(bytes.len() <= limits::BATCH_BYTES);
                assert_eq!(intent.first, announced + 1);
                announced += u64::from(intent.count);
            }
            other => panic!("{other:?}"),
        }
    }
    // The leader has given no credit beyond the first.
    assert_eq!((sent, announced), (OPS, limits::FIRST_OPS));
}
