//! The parts of a result beside the requested bytes, such as event times.

use std::time::Duration;

use bus_schemas::{Column, DeviceResult, Op, ResultKind, Symbol, decode};

use crate::driven::{DrivenWorker, Program};

fn event(event: u32, timed: bool) -> Op {
    Op::Event { event, timed }
}

/// Number, kind, and event times of a result.
type Told = (u64, ResultKind, Vec<(u32, u64)>);

async fn next(driven: &mut DrivenWorker) -> Told {
    let heard = driven.client_heard(".result").await;
    let result: DeviceResult<'_> = decode(&heard.payload).unwrap();
    let times = result.events.iter().map(|time| (time.event, time.ns));
    (result.number, result.kind, times.collect())
}

#[tokio::test]
async fn a_result_brings_the_times_of_the_events_before_it() {
    let mut driven = DrivenWorker::start(true).await;
    driven.begin().await;
    driven.open(1).await;
    // The test device's clock returns the op's number.
    let first = Program::default()
        .plain(event(7, true))
        .plain(event(8, false))
        .plain(event(7, true));
    driven.run(1, 1, &first).await;
    let second = Program::default()
        .plain(event(9, true))
        .plain(Op::Sync)
        .plain(event(10, true));
    driven.run(1, 4, &second).await;
    driven.run(1, 7, &Program::default().plain(Op::Sync)).await;
    driven.run(1, 8, &Program::default().plain(Op::Sync)).await;
    let told = [
        (1, ResultKind::Sync, vec![(7, 3), (9, 4)]),
        (2, ResultKind::Sync, vec![(10, 6)]),
        (3, ResultKind::Sync, vec![]),
    ];
    for wanted in &told {
        assert_eq!(next(&mut driven).await, *wanted);
    }
    // They come again with the results, which the worker resends after a while at the earliest.
    tokio::time::sleep(Duration::from_millis(200)).await;
    driven.state(1, 0).await;
    for wanted in &told {
        assert_eq!(next(&mut driven).await, *wanted);
    }
    driven.leave().await.unwrap();
}

#[tokio::test]
async fn symbols_are_answered_and_count_as_a_sync() {
    let mut driven = DrivenWorker::start(true).await;
    driven.begin().await;
    driven.open(1).await;
    let program = Program::default()
        .plain(event(7, true))
        .plain(Op::Symbols { slot: 9 });
    driven.run(1, 1, &program).await;
    let heard = driven.client_heard(".result").await;
    let result: DeviceResult<'_> = decode(&heard.payload).unwrap();
    assert_eq!((result.op, result.kind), (2, ResultKind::Symbols));
    assert_eq!(result.events.len(), 1);
    let rows: Column<'_, Symbol> = Column::new(result.bytes).unwrap();
    let symbol = Symbol {
        address: 9,
        bytes: 4,
        writable: true,
    };
    assert_eq!(rows.iter().collect::<Vec<_>>(), [symbol]);
    driven.leave().await.unwrap();
}
