//! One message of each kind, with every field set.

mod control;
mod order;

use bus_schemas::*;

pub(crate) use control::*;
pub(crate) use order::*;

/// Calls a macro with (file name, type, value) of every message.
#[macro_export]
macro_rules! for_every_message {
    ($call:ident) => {
        $call!(alive, Alive, $crate::sample::alive());
        $call!(
            batch,
            Batch<'_>,
            $crate::sample::batch(&$crate::sample::columns())
        );
        $call!(client_state, ClientState, $crate::sample::client_state());
        $call!(close_request, CloseRequest, $crate::sample::close_request());
        $call!(data_chunk, DataChunk<'_>, $crate::sample::data_chunk());
        $call!(
            device_result,
            DeviceResult<'_>,
            $crate::sample::device_result()
        );
        $call!(
            later_batch,
            Batch<'_>,
            $crate::sample::later_batch(&$crate::sample::columns_of($crate::sample::later_ops()))
        );
        $call!(
            timed_result,
            DeviceResult<'_>,
            $crate::sample::timed_result(&mut Vec::new())
        );
        $call!(
            symbols_result,
            DeviceResult<'_>,
            $crate::sample::symbols_result(&$crate::sample::symbols())
        );
        $call!(
            done,
            Done<'_>,
            $crate::sample::done(
                &mut [Vec::new(), Vec::new(), Vec::new()],
                &mut String::new()
            )
        );
        $call!(
            timed_done,
            Done<'_>,
            $crate::sample::timed_done(
                &mut [Vec::new(), Vec::new(), Vec::new()],
                &mut String::new(),
                &$crate::sample::done_times()
            )
        );
        $call!(
            compiled_done,
            Done<'_>,
            $crate::sample::timed_done(
                &mut [Vec::new(), Vec::new(), Vec::new()],
                &mut String::new(),
                &$crate::sample::compiled_times()
            )
        );
        $call!(timed_seal, Seal, $crate::sample::timed_seal());
        $call!(
            admission_request,
            AdmissionRequest,
            $crate::sample::admission_request()
        );
        $call!(
            admission_answer,
            AdmissionAnswer,
            $crate::sample::admission_answer()
        );
        $call!(drain, Drain, $crate::sample::drain());
        $call!(hold, Hold, $crate::sample::hold());
        $call!(intent, Intent<'_>, $crate::sample::intent(&mut Vec::new()));
        $call!(leader_beat, LeaderBeat, $crate::sample::leader_beat());
        $call!(leader_notice, LeaderNotice, $crate::sample::leader_notice());
        $call!(leave, Leave, $crate::sample::leave());
        $call!(quotas, Quotas, $crate::sample::quotas());
        $call!(lost, Lost, $crate::sample::lost());
        $call!(measured, Measured, $crate::sample::measured());
        $call!(open_answer, OpenAnswer, $crate::sample::open_answer());
        $call!(open_request, OpenRequest, $crate::sample::open_request());
        $call!(
            order,
            GrantBatch<'_>,
            $crate::sample::order(&mut Vec::new())
        );
        $call!(refusal, Refusal, $crate::sample::refusal());
        $call!(rejected, Rejected, $crate::sample::rejected());
        $call!(seal, Seal, $crate::sample::seal());
        $call!(seal_page, SealReply, $crate::sample::seal_page());
        $call!(seal_reply, SealReply, $crate::sample::seal_reply());
        $call!(status, Status, $crate::sample::status());
        $call!(
            status_request,
            StatusRequest,
            $crate::sample::status_request()
        );
        $call!(
            request_reports,
            RequestReports,
            $crate::sample::request_reports()
        );
        $call!(unstored, UnstoredCopy<'_>, $crate::sample::unstored());
        $call!(usage, Usage, $crate::sample::usage());
        $call!(usage_block, UsageBlock, $crate::sample::usage_block());
        $call!(
            moved_usage_block,
            UsageBlock,
            $crate::sample::moved_usage_block()
        );
        $call!(
            image_ack,
            WorkerAck<'_>,
            $crate::sample::image_ack(&mut Vec::new())
        );
        $call!(
            held_ack,
            WorkerAck<'_>,
            $crate::sample::held_ack(&mut Vec::new())
        );
        $call!(copy_offer, CopyOffer<'_>, $crate::sample::copy_offer());
        $call!(
            worker_ack,
            WorkerAck<'_>,
            $crate::sample::worker_ack(&mut Vec::new())
        );
        $call!(
            memory_request,
            MemoryRequest,
            $crate::sample::memory_request()
        );
        $call!(
            memory_status_request,
            MemoryStatusRequest,
            $crate::sample::memory_status_request()
        );
        $call!(memory_status, MemoryStatus, $crate::sample::memory_status());
        $call!(
            sessions_request,
            SessionsRequest,
            $crate::sample::sessions_request()
        );
        $call!(sessions, Sessions, $crate::sample::sessions());
        $call!(
            devices_request,
            DevicesRequest,
            $crate::sample::devices_request()
        );
        $call!(devices, Devices, $crate::sample::devices());
        $call!(memory_answer, MemoryAnswer, $crate::sample::memory_answer());
        $call!(ipc_request, IpcRequest, $crate::sample::ipc_request());
        $call!(ipc_answer, IpcAnswer, $crate::sample::ipc_answer());
        $call!(worker_beat, WorkerBeat, $crate::sample::worker_beat());
    };
}

const V: u16 = WIRE_VERSION;
const SESSION: SessionId = SessionId(0x0300_0007);
const LEADER: LeaderId = LeaderId(0x1122_3344_5566_7788);
const WORKER: Incarnation = Incarnation(0x99aa_bbcc_ddee_ff00);
const WINDOW: Window = Window {
    base: 0x1000_0000_0000,
    size: 16 << 30,
};

fn tenant() -> Tenant {
    "chat".parse().unwrap()
}

fn failure() -> Failure {
    Failure::new(Code::IllegalAddress, "op 5: 4 bytes at 0x10")
}

fn function() -> FunctionFingerprint {
    FunctionFingerprint::new(&ModuleHash::of(b".version 8.0"), "saxpy")
}

/// One op of each kind.
pub(crate) fn ops() -> Vec<(Op, u16, Vec<u8>)> {
    let address = WINDOW.base;
    let copy = |bytes, transfer| Op::CopyIn {
        address,
        bytes,
        transfer,
    };
    let move_up = Op::Copy {
        to: address + 512,
        from: address,
        bytes: 256,
    };
    let set = Op::Set {
        address,
        count: 16,
        value: 0x3f80_0000,
        width: 4,
    };
    let hash = ModuleHash::of(b".version 8.0");
    let launch = Op::Launch(Launch {
        module: 0,
        function: 0,
        grid: [8, 1, 1],
        block: [128, 1, 1],
        shared: 0,
        attributes: bus_schemas::LaunchAttributes::default(),
    });
    let (event, timed) = (9, false);
    let bytes = 4096;
    vec![
        (Op::Alloc { address, bytes }, 0, vec![]),
        (copy(4, 0), 0, vec![1, 2, 3, 4]),
        (copy(1 << 20, 1), 0, vec![]),
        (move_up, 0, vec![]),
        (set, 0, vec![]),
        (Op::LoadModule { slot: 0, hash }, 0, vec![]),
        (launch, 2, vec![0xe8, 3, 0, 0, 0, 0, 0, 0x40]),
        (Op::Event { event, timed }, 2, vec![]),
        (Op::CopyOut { address, bytes: 4 }, 0, vec![]),
        (Op::Sync, 0, vec![]),
        (Op::UnloadModule { slot: 0 }, 0, vec![]),
        (Op::Free { address }, 0, vec![]),
    ]
}

/// Ops with kinds or fields that were added later.
pub(crate) fn later_ops() -> Vec<(Op, u16, Vec<u8>)> {
    let event = Op::Event {
        event: 9,
        timed: true,
    };
    vec![
        (event, 2, vec![]),
        (Op::Sync, 0, vec![]),
        (Op::Symbols { slot: 3 }, 0, vec![]),
    ]
}

/// Descriptors and payloads.
pub(crate) fn columns() -> (Vec<u8>, Vec<u8>) {
    columns_of(ops())
}

pub(crate) fn columns_of(ops: Vec<(Op, u16, Vec<u8>)>) -> (Vec<u8>, Vec<u8>) {
    let (mut descriptors, mut blob) = (Vec::new(), Vec::new());
    for (op, stream, payload) in ops {
        write_descriptor(&op, stream, payload.len() as u32, &mut descriptors);
        blob.extend(payload);
    }
    (descriptors, blob)
}

pub(crate) fn batch((descriptors, blob): &(Vec<u8>, Vec<u8>)) -> Batch<'_> {
    Batch {
        v: V,
        first: 1,
        count: 12,
        results: 3,
        descriptors,
        blob,
    }
}

pub(crate) fn later_batch((descriptors, blob): &(Vec<u8>, Vec<u8>)) -> Batch<'_> {
    Batch {
        v: V,
        first: 13,
        count: later_ops().len() as u32,
        results: 5,
        descriptors,
        blob,
    }
}

pub(crate) fn intent(rows: &mut Vec<u8>) -> Intent<'_> {
    let key = function().key([8, 1, 1], [128, 1, 1], 0);
    let runs: Vec<_> = ops()
        .iter()
        .map(|(op, _, _)| CostRun::of(op, key))
        .collect();
    Intent {
        v: V,
        first: 1,
        count: 12,
        runs: Column::pack(&runs, rows),
    }
}

pub(crate) fn unstored() -> UnstoredCopy<'static> {
    UnstoredCopy {
        v: V,
        epoch: 3,
        leader: LEADER,
        stored: 6,
        number: 8,
        bytes: b"block",
    }
}

pub(crate) fn data_chunk() -> DataChunk<'static> {
    DataChunk {
        v: V,
        transfer: 1,
        total: 1 << 20,
        offset: 0,
        hash: &[],
        bytes: b"first bytes",
    }
}

pub(crate) fn client_state() -> ClientState {
    ClientState {
        v: V,
        sent: 12,
        results: 2,
    }
}

pub(crate) fn worker_ack(rows: &mut Vec<u8>) -> WorkerAck<'_> {
    let staged = [Staged {
        transfer: 1,
        received: 262_144,
    }];
    WorkerAck {
        v: V,
        epoch: 3,
        leader: LEADER,
        received: 12,
        done: 4,
        send_through: 16_388,
        staging: 8 << 20,
        results: 2,
        staged: Column::pack(&staged, rows),
        failure: Some(failure()),
        failed_op: 5,
        prepared: Column::default(),
        refused: Vec::new(),
        held: Column::default(),
    }
}

pub(crate) fn image_ack(rows: &mut Vec<u8>) -> WorkerAck<'_> {
    WorkerAck {
        staged: Column::default(),
        failure: None,
        failed_op: 0,
        prepared: Column::pack(&[Prepared(3)], rows),
        refused: vec![RefusedImage {
            transfer: 4,
            failure: Failure::new(Code::BadModule, "5:3: unknown instruction `frobnicate`"),
        }],
        held: Column::default(),
        ..worker_ack(&mut Vec::new())
    }
}

pub(crate) fn held_ack(rows: &mut Vec<u8>) -> WorkerAck<'_> {
    let held = HeldChunks {
        transfer: 9,
        chunks: 0b10,
    };
    WorkerAck {
        staged: Column::default(),
        failure: None,
        failed_op: 0,
        held: Column::pack(&[held], rows),
        prepared: Column::default(),
        ..worker_ack(&mut Vec::new())
    }
}

pub(crate) fn copy_offer() -> CopyOffer<'static> {
    CopyOffer {
        v: V,
        transfer: 9,
        total: (1 << 20) + 8,
        hashes: &[0x5a; 64],
    }
}

pub(crate) fn device_result() -> DeviceResult<'static> {
    DeviceResult {
        v: V,
        number: 1,
        op: 9,
        kind: ResultKind::CopyOut,
        device_ns: 12_345,
        total: 4,
        offset: 0,
        bytes: &[1, 2, 3, 4],
        events: Column::default(),
    }
}

pub(crate) fn timed_result(rows: &mut Vec<u8>) -> DeviceResult<'_> {
    let times = [(9, 1_000_000_000), (7, 1_000_012_345)];
    let times = times.map(|(event, ns)| EventTime { event, ns });
    DeviceResult {
        v: V,
        number: 3,
        op: 14,
        kind: ResultKind::Sync,
        device_ns: 12_345,
        total: 0,
        offset: 0,
        bytes: &[],
        events: Column::pack(&times, rows),
    }
}

/// The answer to a request for symbols: two variables, of which kernels may write one.
pub(crate) fn symbols() -> Vec<u8> {
    let place = |address, writable| Symbol {
        address,
        bytes: 16,
        writable,
    };
    let mut rows = Vec::new();
    let address = WINDOW.base + (15 << 30);
    let symbols = [place(address, true), place(address + 256, false)];
    Column::pack(&symbols, &mut rows);
    rows
}

pub(crate) fn symbols_result(rows: &[u8]) -> DeviceResult<'_> {
    DeviceResult {
        v: V,
        number: 4,
        op: 15,
        kind: ResultKind::Symbols,
        device_ns: 0,
        total: rows.len() as u64,
        offset: 0,
        bytes: rows,
        events: Column::default(),
    }
}

pub(crate) fn memory_request() -> MemoryRequest {
    MemoryRequest {
        v: V,
        number: 3,
        held: 4_096,
        after: 12,
        wanted: 2 << 20,
        least: 8_192,
        recall: 2,
        process: None,
        pinned: false,
    }
}

pub(crate) fn memory_answer() -> MemoryAnswer {
    MemoryAnswer {
        v: V,
        number: 3,
        recall: 0,
        committed: 8_192,
        total: 8 << 30,
        held: 4_096,
        free: (8 << 30) - 4_096,
        failure: Some(failure()),
    }
}

pub(crate) fn ipc_request() -> IpcRequest {
    IpcRequest {
        v: V,
        number: 2,
        action: IpcAction::Export {
            key: ExportKey([0x1122_3344_5566_7788, 9]),
            address: 4 << 30,
        },
    }
}

pub(crate) fn ipc_answer() -> IpcAnswer {
    IpcAnswer {
        v: V,
        number: 2,
        place: Some(ExportPlace {
            bytes: 40,
            before: 256,
            span: 4_096,
        }),
        failure: Some(failure()),
    }
}
