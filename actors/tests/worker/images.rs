//! Images of modules: the device's verdict on them, and their lifetime.

use crate::device;
use crate::driven::{DrivenWorker, Program, grant, window};
use crate::tour::{IMAGE, result, stage_image};
use bus_schemas::{
    Code, Done, DoneReport, DoneTimes, Failure, GrantKind, ModuleHash, Op, ResultKind, WorkerAck,
    decode,
};
use std::time::{Duration, Instant};

/// Its hash is checked on another thread, and the client goes on once all bytes are received.
#[tokio::test]
async fn a_large_image_may_be_used_as_soon_as_it_is_acknowledged() {
    let mut driven = DrivenWorker::start(false).await;
    driven.begin().await;
    driven.open(1).await;
    let mut image = IMAGE.to_vec();
    image.resize(1 << 20, b' ');
    let hash = ModuleHash::of(&image);
    driven.stage(1, 1, &image, Some(hash)).await;
    let load = Op::LoadModule { slot: 0, hash };
    let program = Program::default().plain(load).launch(&image, 0, "run");
    driven.run(1, 1, &program).await;
    let ran = |done: &Done<'_>| done.reports.iter().any(|report| report.position == 2);
    let done = driven.done(ran).await;
    let done: Done<'_> = decode(&done.payload).unwrap();
    assert!(done.faults.is_empty());
}

/// Waits for the worker's verdict on the image of a transfer: `None` if the device can run it, else
/// the reason.
async fn refusal(driven: &mut DrivenWorker, transfer: u64) -> Option<Failure> {
    let refused = |ack: &WorkerAck<'_>| {
        let of_it = ack.refused.iter().find(|it| it.transfer == transfer);
        of_it.map(|it| it.failure.clone())
    };
    let ready = |ack: &WorkerAck<'_>| ack.prepared.iter().any(|row| row.0 == transfer);
    let heard = driven.ack(|ack| ready(ack) || refused(ack).is_some()).await;
    refused(&decode(&heard.payload).expect("an acknowledgement"))
}

#[tokio::test]
async fn a_client_is_told_what_the_device_makes_of_an_image() {
    const BROKEN: &[u8] = b"no functions";
    let mut driven = DrivenWorker::start(false).await;
    driven.begin().await;
    driven.open(1).await;
    driven.open(2).await;
    let mut transfer = 0;
    for session in [1, 2] {
        for image in [IMAGE, BROKEN] {
            transfer += 1;
            let hash = ModuleHash::of(image);
            driven.stage(session, transfer, image, Some(hash)).await;
            let code = refusal(&mut driven, transfer).await.map(|why| why.code);
            assert_eq!(code, (image == BROKEN).then_some(Code::BadModule));
        }
    }
    // Asked again, as after a lost answer.
    driven.offer(2, 4, BROKEN).await;
    let why = refusal(&mut driven, 4).await.expect("it is refused");
    assert_eq!(why.detail, "line 1, column 1: no module");
    driven.offer(1, 1, IMAGE).await;
    assert_eq!(refusal(&mut driven, 1).await, None);
    // The session goes on.
    let load = Op::LoadModule {
        slot: 0,
        hash: ModuleHash::of(IMAGE),
    };
    let program = Program::default().plain(load).plain(Op::Sync);
    driven.run(1, 1, &program).await;
    let (op, kind, ..) = result(&mut driven).await;
    assert_eq!((op, kind), (2, ResultKind::Sync));
}

#[tokio::test]
async fn a_module_that_compiles_holds_back_its_own_session_only() {
    const SLOW_IMAGE: &[u8] = b"functions: slow";
    let mut driven = DrivenWorker::start(false).await;
    driven.begin().await;
    driven.open(1).await;
    driven.open(2).await;
    stage_image(&mut driven, 1, 1, SLOW_IMAGE).await;
    let [slow, quick] = [1, 2].map(|session| window(session).base);
    let bytes = 64;
    let program = Program::default()
        .plain(Op::LoadModule {
            slot: 0,
            hash: ModuleHash::of(SLOW_IMAGE),
        })
        .plain(Op::Alloc {
            address: slow,
            bytes,
        })
        .launch(SLOW_IMAGE, 0, "slow")
        .plain(Op::Sync);
    driven.run(1, 1, &program).await;
    let program = Program::default()
        .plain(Op::Alloc {
            address: quick,
            bytes,
        })
        .plain(Op::CopyOut {
            address: quick,
            bytes,
        });
    driven.run(2, 1, &program).await;
    // It started after the other one, and needs as much memory.
    let (op, kind, _, got) = result(&mut driven).await;
    assert_eq!((op, kind, got), (2, ResultKind::CopyOut, vec![0; 64]));
    device::SLOW.store(true, std::sync::atomic::Ordering::SeqCst);
    let (op, kind, ..) = result(&mut driven).await;
    assert_eq!((op, kind), (4, ResultKind::Sync));
}

#[tokio::test]
async fn the_compilation_of_a_module_is_told_with_its_first_load() {
    let mut driven = DrivenWorker::start(false).await;
    driven.begin().await;
    for (session, position) in [(1, 2), (2, 4)] {
        driven.open(session).await;
        driven
            .stage(session, 1, IMAGE, Some(ModuleHash::of(IMAGE)))
            .await;
        assert_eq!(refusal(&mut driven, 1).await, None);
        let load = Op::LoadModule {
            slot: 0,
            hash: ModuleHash::of(IMAGE),
        };
        driven
            .run(session, 1, &Program::default().plain(load))
            .await;
        let of_load = |report: &DoneReport| report.position == position;
        let ran = |done: &Done<'_>| done.reports.iter().any(|report| of_load(&report));
        let heard = driven.done(ran).await;
        let done: Done<'_> = decode(&heard.payload).unwrap();
        let times = DoneTimes::decode(done.times).expect("times");
        let of_load = done.reports.iter().position(|report| of_load(&report));
        let row = times.rows[of_load.unwrap()];
        match &times.compiled[..] {
            [(report, compiled)] if session == 1 => {
                assert_eq!(Some(*report), of_load);
                assert!(0 < compiled.began && compiled.began <= compiled.ended);
                assert!(compiled.ended <= row.begun, "{compiled:?} of {row:?}");
            }
            compiled => assert_eq!((session, compiled.len()), (2, 0)),
        }
    }
}

/// Two images that the test device declares too large to be kept together without a user.
#[tokio::test]
async fn an_image_that_was_forgotten_can_be_sent_again() {
    const IMAGES: [&[u8]; 2] = [b"functions: huge one", b"functions: huge two"];
    let mut driven = DrivenWorker::start(true).await;
    driven.begin().await;
    driven.open(1).await;
    driven.open(2).await;
    for (transfer, image) in (1..).zip(IMAGES) {
        let hash = ModuleHash::of(image);
        driven.stage(1, transfer, image, Some(hash)).await;
        // An image that is still being prepared when its session closes is given up instead.
        assert_eq!(refusal(&mut driven, transfer).await, None);
    }
    let forgotten = || device::FORGOTTEN.lock().expect("nobody panics").clone();
    driven.order(&[grant(GrantKind::Close, 1, 0, 0, 0)]).await;
    let patience = Instant::now() + Duration::from_secs(60);
    while forgotten().is_empty() && Instant::now() < patience {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let gone = forgotten();
    let [gone] = gone[..] else {
        panic!("one must go and one may stay: {gone:?}")
    };
    let known = IMAGES
        .into_iter()
        .find(|image| ModuleHash::of(image) == gone);
    let image = known.expect("it is one of them");
    stage_image(&mut driven, 2, 1, image).await;
    let program = Program::default()
        .plain(Op::LoadModule {
            slot: 0,
            hash: gone,
        })
        .launch(image, 0, "huge")
        .plain(Op::Sync);
    driven.run(2, 1, &program).await;
    let (op, kind, ..) = result(&mut driven).await;
    assert_eq!((op, kind), (3, ResultKind::Sync));
}
