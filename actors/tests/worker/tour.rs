//! A program that uses all kinds of ops, its module, and its expected answers.

use crate::driven::{DrivenWorker, Program, window};
use bus_schemas::{DeviceResult, ModuleHash, Op, ResultKind, WorkerAck, decode};

/// Module and functions of most programs.
pub(crate) const IMAGE: &[u8] = b"functions: run trap end";

/// Returns the next complete answer: its op, kind, device time and bytes.
pub(crate) async fn result(driven: &mut DrivenWorker) -> (u64, ResultKind, u64, Vec<u8>) {
    let mut bytes = Vec::new();
    loop {
        let heard = driven.client_heard(".result").await;
        let part: DeviceResult<'_> = decode(&heard.payload).unwrap();
        assert_eq!(part.offset, bytes.len() as u64, "parts come in order");
        bytes.extend_from_slice(part.bytes);
        if bytes.len() as u64 == part.total {
            return (part.op, part.kind, part.device_ns, bytes);
        }
    }
}

/// A program that uses all kinds of ops: loads the module, computes, copies to the device and back.
pub(crate) fn tour(session: u64) -> Program {
    let address = window(session).base;
    let copy = Op::CopyIn {
        address,
        bytes: 5,
        transfer: 0,
    };
    Program::default()
        .plain(Op::LoadModule {
            slot: 0,
            hash: ModuleHash::of(IMAGE),
        })
        .plain(Op::Alloc {
            address,
            bytes: 4_096,
        })
        .op(copy, b"hello", bus_schemas::KernelKey(0))
        .launch(IMAGE, 0, "run")
        .launch(IMAGE, 0, "run")
        .plain(Op::CopyOut { address, bytes: 5 })
}

/// Sends that module, and waits until the worker has it.
pub(crate) async fn stage_module(driven: &mut DrivenWorker, session: u64, transfer: u64) {
    stage_image(driven, session, transfer, IMAGE).await;
}

/// The same with a given image.
pub(crate) async fn stage_image(
    driven: &mut DrivenWorker,
    session: u64,
    transfer: u64,
    image: &[u8],
) {
    let hash = ModuleHash::of(image);
    driven.stage(session, transfer, image, Some(hash)).await;
    let whole = |ack: &WorkerAck<'_>| {
        let mut rows = ack.staged.iter();
        rows.any(|row| row.transfer == transfer && row.received == image.len() as u64)
    };
    driven.ack(whole).await;
}
