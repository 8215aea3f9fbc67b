//! Sessions that share memory with others, where memory is overcommitted.

use bus_schemas::subject::{ToClient, ToWorker, WorkerSubject};
use bus_schemas::{
    Code, ExportKey, Failure, IpcAction, IpcAnswer, IpcRequest, MemoryAnswer, SessionId,
    WIRE_VERSION, decode, encode,
};

use crate::bench::{Bench, MIB, submitted, swapped_out, tenant};
use crate::{A, B, alloc, heard, moved};

const C: SessionId = SessionId(3);

/// Three sessions that hold 10, 15 and 30 MiB of a device of 100.
fn three() -> Bench {
    let mut bench = Bench::new(100 * MIB, 300 * MIB);
    for (session, bytes) in [(A, 10), (B, 15), (C, 30)] {
        bench.open(session);
        let actions = bench.run(session, 1, alloc(bytes * MIB));
        let (_, position) = submitted(&actions).unwrap();
        bench.complete(session, position, bytes * MIB);
    }
    bench
}

/// Asks to export the allocation of a session. Returns the refusal, if there is one at once, and the answers
/// to A about memory.
fn export(
    bench: &mut Bench,
    session: SessionId,
    number: u64,
) -> (Option<Failure>, Vec<MemoryAnswer>) {
    let request = IpcRequest {
        v: WIRE_VERSION,
        number,
        action: IpcAction::Export {
            key: ExportKey([session.0, 0]),
            address: 1 << 40,
        },
    };
    let subject = WorkerSubject::Tenant(tenant(), session, ToWorker::Ipc);
    let actions = bench.hear(&subject, encode(&request));
    let answer = heard(&actions, session, ToClient::Ipc);
    let answer = answer.first().map(|it| decode::<IpcAnswer>(it).unwrap());
    let recalls = heard(&actions, A, ToClient::Memory);
    let recalls = recalls.iter().map(|it| decode(it).unwrap());
    (answer.and_then(|it| it.failure), recalls.collect())
}

#[test]
fn sessions_that_stay_leave_room_for_what_others_were_promised() {
    let mut bench = three();
    let answers = bench.request(A, (1, 0), (10 * MIB, 60 * MIB));
    let answers = heard(&answers, A, ToClient::Memory);
    let answer: MemoryAnswer = decode(answers[0]).unwrap();
    assert_eq!(answer.committed, 60 * MIB);
    assert_eq!(export(&mut bench, B, 1), (None, Vec::new()));

    // Both fit beside the memory that A holds, and only one beside the memory that A was promised.
    let (refused, recalls) = export(&mut bench, C, 1);
    let refused = refused.expect("a refusal");
    assert_eq!((refused.code, refused.retryable), (Code::NotPinned, true));
    let recall = recalls.first().expect("A is asked for its memory").recall;

    bench.request(A, (2, recall), (10 * MIB, 10 * MIB));
    assert_eq!(export(&mut bench, C, 2), (None, Vec::new()));
    // Memory that others were promised before is beside those that stay.
    let answers = bench.request(A, (3, recall), (10 * MIB, 60 * MIB));
    let answers = heard(&answers, A, ToClient::Memory);
    let answer: MemoryAnswer = decode(answers[0]).unwrap();
    let refused = answer.failure.expect("no room beside B and C");
    assert_eq!(refused.code, Code::OutOfMemory);
}

#[test]
fn sessions_that_do_not_fit_beside_what_others_hold_never_stay() {
    let mut bench = Bench::new(100 * MIB, 300 * MIB);
    bench.open(A);
    bench.open(B);
    let actions = bench.run(A, 1, alloc(80 * MIB));
    let (_, position) = submitted(&actions).unwrap();
    bench.complete(A, position, 80 * MIB);
    let actions = bench.run(B, 1, alloc(30 * MIB));
    assert_eq!(swapped_out(&actions), Some(A));
    let actions = bench.tell(moved(A, true));
    let (_, position) = submitted(&actions).unwrap();
    bench.complete(B, position, 30 * MIB);

    let (refused, recalls) = export(&mut bench, A, 1);
    let refused = refused.expect("a refusal");
    assert_eq!((refused.code, refused.retryable), (Code::NotPinned, false));
    assert_eq!(recalls, Vec::new());
}
