//! The worker's shell on a real broker, driven by hand as leader and client.

mod answers;
mod device;
mod driven;
mod images;
mod memory;
mod tour;

use actors::worker::{ExitReason, WorkerError};
use bus_schemas::subject::{ToClient, ToWorker};
use bus_schemas::{
    Code, DataChunk, DeviceProperties, Done, GrantKind, LeaderId, Measured, ModuleHash, Op,
    Outcome, Refusal, ResultKind, SessionId, Usage, WIRE_VERSION, WorkerAck, WorkerBeat, decode,
    encode,
};
use driven::{DrivenWorker, Program, WORKER, grant, tenant, window};
use tour::{IMAGE, result, stage_module, tour};

#[tokio::test]
async fn a_session_runs_from_open_to_close() {
    let mut driven = DrivenWorker::start(true).await;
    driven.begin().await;
    driven.open(1).await;
    stage_module(&mut driven, 1, 1).await;
    let program = tour(1);
    driven.run(1, 1, &program).await;
    let (op, kind, device_ns, bytes) = result(&mut driven).await;
    assert_eq!(
        (op, kind, &bytes[..]),
        (6, ResultKind::CopyOut, &b"hello"[..])
    );
    assert_eq!(device_ns, 2 * device::LAUNCH_NS);
    let heard = driven.ack(|ack| ack.done == 6).await;
    let ack: WorkerAck<'_> = decode(&heard.payload).unwrap();
    assert_eq!((ack.received, ack.results, ack.epoch), (6, 1, 1));
    let heard = driven
        .done(|done| done.reports.iter().any(|report| report.position == 2))
        .await;
    let done: Done<'_> = decode(&heard.payload).unwrap();
    let report = done.reports.iter().last().unwrap();
    assert_eq!((done.accepted, report.position), (2, 2));
    assert_eq!(report.outcome, Outcome::Ran);
    assert_eq!(report.measured, 2 * device::LAUNCH_NS);
    let usage = driven.leader_heard(".usage.").await;
    let usage: Usage = decode(&usage.payload).unwrap();
    // The preparation of the module is a row without a session.
    let row = usage.sessions.iter().find(|row| row.launches > 0);
    let row = row.expect("a row of the session");
    assert_eq!(
        (row.launches, row.resident, usage.sm_ns),
        (2, 4_096, 4 * device::LAUNCH_NS)
    );
    driven.order(&[grant(GrantKind::Close, 1, 0, 0, 0)]).await;
    driven
        .done(|done| done.reports.iter().any(|report| report.position == 3))
        .await;
    driven.state(1, 1).await;
    loop {
        let usage = driven.leader_heard(".usage.").await;
        let usage: Usage = decode(&usage.payload).unwrap();
        if usage.sessions.iter().all(|row| row.resident == 0) {
            let launches = usage.sessions.iter().map(|row| row.launches).sum::<u64>();
            assert_eq!(launches, 2, "the closed session still counts");
            break;
        }
    }
    driven.state(1, 1).await;
    assert_eq!(driven.rejected().await.code, Code::SessionGone);
    driven.order(&[]).await;
    assert_eq!(driven.leave().await.unwrap(), ExitReason::Drained);
    let lines = std::fs::read_to_string(driven.evidence()).unwrap();
    let lines: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1]["incarnation"], WORKER.to_string());
    assert_eq!(lines[1]["kind"], "run");
    assert_eq!(
        (&lines[1]["first"], &lines[1]["last"]),
        (&1.into(), &6.into())
    );
    assert_eq!(
        (&lines[2]["kind"], &lines[2]["outcome"]),
        (&"close".into(), &"ran".into())
    );
}

#[tokio::test]
async fn measured_times_are_told_by_kernel() {
    let mut driven = DrivenWorker::start(false).await;
    driven.begin().await;
    driven.open(1).await;
    stage_module(&mut driven, 1, 1).await;
    driven.run(1, 1, &tour(1)).await;
    let measured = driven.leader_heard(".measured.").await;
    let measured: Measured = decode(&measured.payload).unwrap();
    let kernel = measured.kernels[0];
    assert_eq!((kernel.count, kernel.total_ns), (2, 2 * device::LAUNCH_NS));
}

#[tokio::test]
async fn large_copies_travel_in_parts_and_results_are_kept_until_acknowledged() {
    let mut driven = DrivenWorker::start(false).await;
    driven.begin().await;
    driven.open(1).await;
    let data: Vec<u8> = (0..1_500_000_u32).map(|i| (i % 251) as u8).collect();
    driven.stage(1, 1, &data, None).await;
    driven
        .ack(|ack| {
            ack.staged
                .iter()
                .any(|row| row.received == data.len() as u64)
        })
        .await;
    let (address, bytes) = (window(1).base, data.len() as u64);
    let program = Program::default()
        .plain(Op::Alloc { address, bytes })
        .plain(Op::CopyIn {
            address,
            bytes,
            transfer: 1,
        })
        .plain(Op::CopyOut { address, bytes });
    driven.run(1, 1, &program).await;
    assert_eq!(result(&mut driven).await.3, data);
    driven.ack(|ack| ack.results == 1).await;
    // As if every part had been lost.
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    driven.state(1, 0).await;
    assert_eq!(result(&mut driven).await.3, data);
}

#[tokio::test]
async fn a_batch_that_comes_late_or_twice_or_in_pieces_runs_once() {
    let mut driven = DrivenWorker::start(false).await;
    driven.begin().await;
    driven.open(1).await;
    let set = |count: u64| {
        let zeroes = Op::Set {
            address: window(1).base,
            count: 0,
            value: 0,
            width: 1,
        };
        (0..count).fold(Program::default(), |program, _| program.plain(zeroes))
    };
    driven.batch(1, 4, &set(3)).await;
    driven.batch(1, 1, &set(3)).await;
    driven.batch(1, 2, &set(4)).await;
    driven.batch(1, 2, &set(4)).await;
    driven.ack(|ack| ack.received == 5).await;
    let cut = |first, last| {
        grant(
            GrantKind::Run,
            1,
            first,
            last,
            set(last - first + 1).declared,
        )
    };
    driven.order(&[cut(1, 2), cut(3, 4), cut(5, 7)]).await;
    driven.batch(1, 6, &set(2).plain(Op::Sync)).await;
    driven.ack(|ack| ack.done == 7).await;
    let slice = grant(
        GrantKind::Run,
        1,
        8,
        8,
        Program::default().plain(Op::Sync).declared,
    );
    driven.order(&[slice]).await;
    assert_eq!(result(&mut driven).await.0, 8);
}

#[tokio::test]
async fn mistakes_are_their_sessions_own() {
    let mut driven = DrivenWorker::start(false).await;
    driven.begin().await;
    for session in 1..=6 {
        driven.open(session).await;
    }
    stage_module(&mut driven, 1, 1).await;
    let failure = async |driven: &mut DrivenWorker, session: u64| {
        loop {
            let heard = driven.ack(|ack| ack.failure.is_some()).await;
            if heard.subject.contains(&SessionId(session).to_string()) {
                let ack: WorkerAck<'_> = decode(&heard.payload).unwrap();
                return (ack.failed_op, ack.failure.unwrap().code);
            }
        }
    };
    // A client that announces other kernels than it sends.
    let mut lie = tour(1);
    lie.declared ^= 1;
    driven.run(1, 1, &lie).await;
    assert_eq!(failure(&mut driven, 1).await, (1, Code::Protocol));
    // Above the quota; the ops before it run.
    let address = window(2).base;
    let greedy = Program::default()
        .plain(Op::Alloc {
            address,
            bytes: 200 << 20,
        })
        .plain(Op::Alloc {
            address: address + (1 << 30),
            bytes: 57 << 20,
        });
    driven.run(2, 1, &greedy).await;
    assert_eq!(failure(&mut driven, 2).await, (2, Code::Quota));
    // A function that does not exist, and a module that was never sent.
    let load = Op::LoadModule {
        slot: 0,
        hash: ModuleHash::of(IMAGE),
    };
    let missing = Program::default().plain(load).launch(IMAGE, 9, "nine");
    driven.run(3, 1, &missing).await;
    assert_eq!(failure(&mut driven, 3).await, (2, Code::UnknownFunction));
    let unsent = Program::default().plain(Op::LoadModule {
        slot: 0,
        hash: ModuleHash::of(b"another"),
    });
    driven.run(4, 1, &unsent).await;
    assert_eq!(failure(&mut driven, 4).await, (1, Code::BadModule));
    // An image that does not match its hash, and a kernel that traps.
    driven
        .stage(5, 1, b"something else", Some(ModuleHash::of(b"another")))
        .await;
    assert_eq!(failure(&mut driven, 5).await, (0, Code::Protocol));
    let trap = Program::default().plain(load).launch(IMAGE, 1, "trap");
    driven.run(6, 1, &trap).await;
    assert_eq!(failure(&mut driven, 6).await, (2, Code::Trap));
    let heard = driven.done(|done| done.faults.len() == 6).await;
    assert!(heard.subject.ends_with(&WORKER.to_string()));
    // The other sessions go on.
    driven.open(7).await;
    driven.run(7, 1, &tour(7)).await;
    assert_eq!(result(&mut driven).await.3, b"hello");
}

#[tokio::test]
async fn a_worker_whose_device_is_lost_says_whose_kernel_failed_and_leaves() {
    let mut driven = DrivenWorker::start(false).await;
    driven.begin().await;
    driven.open(1).await;
    stage_module(&mut driven, 1, 1).await;
    let load = Op::LoadModule {
        slot: 0,
        hash: ModuleHash::of(IMAGE),
    };
    let end = Program::default().plain(load).launch(IMAGE, 2, "end");
    driven.run(1, 1, &end).await;
    let heard = driven.ack(|ack| ack.failure.is_some()).await;
    let ack: WorkerAck<'_> = decode(&heard.payload).unwrap();
    let code = ack.failure.unwrap().code;
    assert_eq!((ack.failed_op, code), (2, Code::IllegalInstruction));
    let left = driven.left().await.unwrap_err();
    assert!(matches!(left, WorkerError::DeviceLost(_)), "{left}");
    assert_eq!(left.to_string(), "E-DEVICE-LOST: its context has ended");
}

#[tokio::test]
async fn garbage_on_every_subject_disturbs_nobody() {
    let mut driven = DrivenWorker::start(false).await;
    driven.begin().await;
    driven.open(1).await;
    let newer = [0x96, WIRE_VERSION as u8 + 1, 1, 1, 0, 0xc4, 0, 0xc4, 0];
    let pieces: [&[u8]; 4] = [b"", b"\xff\xff\xff", b"\x91\x01", &newer];
    for what in [ToWorker::Batch, ToWorker::Data, ToWorker::State] {
        for piece in pieces {
            driven.say(1, what, piece.to_vec()).await;
        }
    }
    let code = driven.rejected().await.code;
    assert!(matches!(code, Code::Malformed | Code::Version), "{code}");
    // A batch with ops that do not add up, and a chunk outside its transfer.
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let mut short = tour(1).batch(1);
    short[3] = 0x7f;
    driven.say(1, ToWorker::Batch, short).await;
    let failure = driven.rejected().await;
    assert_eq!(failure.code, Code::Malformed);
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let chunk = DataChunk {
        v: WIRE_VERSION,
        transfer: 9,
        total: 1,
        offset: 1,
        hash: &[],
        bytes: &[1],
    };
    driven.say(1, ToWorker::Data, encode(&chunk)).await;
    assert_eq!(driven.rejected().await.code, Code::Malformed);
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    driven.say(1, ToWorker::Batch, newer.to_vec()).await;
    assert_eq!(driven.rejected().await.code, Code::Version);
    let subjects = driven.subjects.clone();
    for subject in [
        subjects.grants(WORKER),
        subjects.seal(WORKER),
        subjects.lost(),
        format!("{}.x", subjects.grants(WORKER)),
    ] {
        for piece in pieces {
            driven
                .leader
                .publish(subject.clone(), piece.to_vec().into())
                .await
                .unwrap();
        }
    }
    let wrong = subjects.to_client(&tenant(), SessionId(1), ToClient::Error);
    let wrong = wrong.replace(".dn.", ".up.w.");
    driven.client.publish(wrong, "?".into()).await.unwrap();
    stage_module(&mut driven, 1, 1).await;
    driven.run(1, 1, &tour(1)).await;
    assert_eq!(result(&mut driven).await.3, b"hello");
}

#[tokio::test]
async fn a_worker_obeys_one_leader_and_leaves_when_it_is_lost() {
    let mut driven = DrivenWorker::start(false).await;
    driven.begin().await;
    driven.open(1).await;
    let answer = driven.seal(2, 22).await.sealed.unwrap();
    assert_eq!((answer.position, answer.sessions.len()), (1, 1));
    let refused = driven.seal(2, 23).await.refused.unwrap();
    assert_eq!((refused.epoch, refused.leader), (2, LeaderId(22)));
    driven
        .order_as(1, 1, 2, &[grant(GrantKind::Close, 1, 0, 0, 0)])
        .await;
    let refusal = driven.leader_heard(".refusal.").await;
    let refusal: Refusal = decode(&refusal.payload).unwrap();
    assert_eq!((refusal.epoch, refusal.leader), (2, LeaderId(22)));
    let beat = loop {
        let beat = driven.leader_heard(".worker.").await;
        let beat: WorkerBeat = decode(&beat.payload).unwrap();
        if beat.epoch == 2 {
            break beat;
        }
    };
    assert_eq!(
        (beat.gpu, beat.draining, &beat.device[..]),
        (5, false, "test device")
    );
    let properties = beat.properties.unwrap();
    assert_eq!((&properties.name[..], properties.sms), ("test device", 2));
    let uuid = DeviceProperties::uuid_of(driven.subjects.cluster(), 5);
    assert_eq!(properties.uuid, uuid, "it has none of its own");
    assert_eq!(driven.seal(3, 33).await.sealed.unwrap().position, 1);
    let lost = bus_schemas::Lost {
        v: WIRE_VERSION,
        epoch: 3,
        leader: LeaderId(33),
        incarnation: WORKER,
    };
    let subject = driven.subjects.lost();
    driven
        .leader
        .publish(subject, encode(&lost).into())
        .await
        .unwrap();
    assert_eq!(driven.left().await.unwrap(), ExitReason::Lost);
}

#[tokio::test]
async fn a_missing_batch_stops_nobody_else() {
    let mut driven = DrivenWorker::start(false).await;
    driven.begin().await;
    driven.open(1).await;
    driven.open(2).await;
    let sync = Program::default().plain(Op::Sync);
    driven.batch(2, 1, &sync).await;
    driven.ack(|ack| ack.received == 1).await;
    let grants = [1, 2].map(|session| grant(GrantKind::Run, session, 1, 1, sync.declared));
    driven.order(&grants).await;
    assert_eq!(result(&mut driven).await.0, 1);
    let heard = driven.done(|done| !done.received.is_empty()).await;
    let done: Done<'_> = decode(&heard.payload).unwrap();
    let outcomes: Vec<_> = done.reports.iter().map(|report| report.outcome).collect();
    assert!(outcomes.contains(&Outcome::Void), "{outcomes:?}");
    driven.batch(1, 1, &sync).await;
    driven.order(&grants[..1]).await;
    assert_eq!(result(&mut driven).await.0, 1);
}
