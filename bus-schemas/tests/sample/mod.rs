//! One message of each kind, with every field set.

use bus_schemas::*;

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
        $call!(hold, Hold, $crate::sample::hold());
        $call!(intent, Intent<'_>, $crate::sample::intent(&mut Vec::new()));
        $call!(leader_beat, LeaderBeat, $crate::sample::leader_beat());
        $call!(leader_notice, LeaderNotice, $crate::sample::leader_notice());
        $call!(lost, Lost, $crate::sample::lost());
        $call!(measured, Measured, $crate::sample::measured());
        $call!(open_answer, OpenAnswer, $crate::sample::open_answer());
        $call!(open_request, OpenRequest, $crate::sample::open_request());
        $call!(order, Order<'_>, $crate::sample::order(&mut Vec::new()));
        $call!(refusal, Refusal, $crate::sample::refusal());
        $call!(rejected, Rejected, $crate::sample::rejected());
        $call!(seal, Seal, $crate::sample::seal());
        $call!(seal_reply, SealReply, $crate::sample::seal_reply());
        $call!(status, Status, $crate::sample::status());
        $call!(
            status_request,
            StatusRequest,
            $crate::sample::status_request()
        );
        $call!(usage, Usage, $crate::sample::usage());
        $call!(
            image_ack,
            WorkerAck<'_>,
            $crate::sample::image_ack(&mut Vec::new())
        );
        $call!(
            worker_ack,
            WorkerAck<'_>,
            $crate::sample::worker_ack(&mut Vec::new())
        );
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

/// One op of every kind.
pub(crate) fn ops() -> Vec<(Op, u16, Vec<u8>)> {
    let at = WINDOW.base;
    vec![
        (
            Op::Alloc {
                address: at,
                bytes: 4096,
            },
            0,
            vec![],
        ),
        (
            Op::CopyIn {
                address: at,
                bytes: 4,
                transfer: 0,
            },
            0,
            vec![1, 2, 3, 4],
        ),
        (
            Op::CopyIn {
                address: at,
                bytes: 1 << 20,
                transfer: 1,
            },
            0,
            vec![],
        ),
        (
            Op::Copy {
                to: at + 512,
                from: at,
                bytes: 256,
            },
            0,
            vec![],
        ),
        (
            Op::Set {
                address: at,
                count: 16,
                value: 0x3f80_0000,
                width: 4,
            },
            0,
            vec![],
        ),
        (
            Op::LoadModule {
                slot: 0,
                hash: ModuleHash::of(b".version 8.0"),
            },
            0,
            vec![],
        ),
        (
            Op::Launch(Launch {
                module: 0,
                function: 0,
                grid: [8, 1, 1],
                block: [128, 1, 1],
                shared: 0,
            }),
            2,
            vec![0xe8, 3, 0, 0, 0, 0, 0, 0x40],
        ),
        (
            Op::Event {
                event: 9,
                timed: false,
            },
            2,
            vec![],
        ),
        (
            Op::CopyOut {
                address: at,
                bytes: 4,
            },
            0,
            vec![],
        ),
        (Op::Sync, 0, vec![]),
        (Op::UnloadModule { slot: 0 }, 0, vec![]),
        (Op::Free { address: at }, 0, vec![]),
    ]
}

/// Ops of kinds and with fields that were added later.
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
        ..worker_ack(&mut Vec::new())
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

/// The answer to symbols: two variables, of which kernels may write one.
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

pub(crate) fn open_request() -> OpenRequest {
    OpenRequest {
        v: V,
        nonce: 0x0102_0304_0506_0708,
        connection: "client-00000000000000aa".into(),
    }
}

fn opened() -> Opened {
    Opened {
        session: SESSION,
        ordinal: 1,
        incarnation: WORKER,
        gpu: 0,
        window: WINDOW,
        quota: 8 << 30,
        epoch: 3,
        leader: LEADER,
        properties: Some(properties()),
    }
}

fn properties() -> DeviceProperties {
    DeviceProperties {
        kind: "cpu".into(),
        name: "cpu, 2 threads".into(),
        uuid: DeviceProperties::uuid_of(&"lab".parse().unwrap(), 0),
        compute: (8, 0),
        driver: 13_000,
        ptx: (9, 0),
        target: 90,
        sms: 2,
        memory: 8 << 30,
        clock_khz: 2_400_000,
        memory_clock_khz: 1_600_000,
        memory_bus_bits: 128,
        l2_bytes: 32 << 20,
        warp_size: 32,
        block_threads: 1024,
        sm_threads: 2048,
        sm_blocks: 32,
        block_dim: [1024, 1024, 64],
        grid_dim: [0x7fff_ffff, 65_535, 65_535],
        block_shared: 48 << 10,
        block_shared_optin: 100 << 10,
        block_shared_reserved: 1 << 10,
        sm_shared: 164 << 10,
        block_registers: 65_536,
        sm_registers: 65_536,
    }
}

pub(crate) fn open_answer() -> OpenAnswer {
    OpenAnswer {
        v: V,
        opened: Some(opened()),
        failure: None,
    }
}

pub(crate) fn close_request() -> CloseRequest {
    CloseRequest {
        v: V,
        session: SESSION,
        after: 12,
        reason: CloseReason::Asked,
    }
}

pub(crate) fn alive() -> Alive {
    Alive {
        v: V,
        connection: "client-00000000000000aa".into(),
        sessions: vec![SESSION],
    }
}

pub(crate) fn leader_beat() -> LeaderBeat {
    LeaderBeat {
        v: V,
        epoch: 3,
        leader: LEADER,
        leaving: false,
    }
}

pub(crate) fn leader_notice() -> LeaderNotice {
    LeaderNotice {
        v: V,
        epoch: 3,
        leader: LEADER,
        queued: 12,
        granted: 10,
        queue_through: 4096,
        ended: Some(Failure::new(Code::SessionGone, "closed by its client")),
    }
}

pub(crate) fn rejected() -> Rejected {
    Rejected {
        v: V,
        failure: Failure::new(Code::Malformed, "no wire version"),
    }
}

pub(crate) fn lost() -> Lost {
    Lost {
        v: V,
        epoch: 3,
        leader: LEADER,
        incarnation: WORKER,
    }
}

pub(crate) fn worker_beat() -> WorkerBeat {
    WorkerBeat {
        v: V,
        incarnation: WORKER,
        gpu: 0,
        epoch: 3,
        leader: LEADER,
        device: "cpu, 2 threads".into(),
        capacity: 6 << 30,
        draining: false,
        properties: Some(properties()),
    }
}

pub(crate) fn hold() -> Hold {
    Hold { v: V, held: true }
}

pub(crate) fn status_request() -> StatusRequest {
    StatusRequest { v: V }
}

fn settings() -> TenantSettings {
    TenantSettings {
        priority: 0,
        weight: 2,
        quota: 8 << 30,
        sessions: 4,
        outstanding_ns: 1_000_000,
        cap: 30,
    }
}

pub(crate) fn status() -> Status {
    let worker = WorkerStatus {
        incarnation: WORKER,
        gpu: 0,
        device: "cpu, 2 threads".into(),
        sessions: 1,
        granted: 7,
        accepted: 6,
        chain: Chain([7; 32]),
        outstanding_ns: 20_000,
        lost: false,
    };
    let tenant = TenantStatus {
        tenant: tenant(),
        settings: settings(),
        sessions: 1,
        queued: 2,
        granted: 10,
    };
    Status {
        v: V,
        epoch: 3,
        leader: LEADER,
        input: 40,
        recorded: 38,
        global: 9,
        held: false,
        workers: vec![worker],
        tenants: vec![tenant],
    }
}

pub(crate) fn seal() -> Seal {
    Seal {
        v: V,
        epoch: 3,
        leader: LEADER,
    }
}

pub(crate) fn refusal() -> Refusal {
    Refusal {
        v: V,
        epoch: 4,
        leader: LEADER,
    }
}

fn grant(kind: GrantKind, first: u64, last: u64) -> Grant {
    Grant {
        kind,
        priority: 2,
        global: 9,
        session: SESSION,
        first,
        last,
        cost: 20_000,
        declared: 0x0123_4567_89ab_cdef,
        input: 38,
        epoch: 3,
    }
}

fn fault() -> SessionFault {
    SessionFault {
        session: SESSION,
        op: 5,
        failure: failure(),
    }
}

pub(crate) fn order(rows: &mut Vec<u8>) -> Order<'_> {
    let grants = [grant(GrantKind::Open, 0, 0), grant(GrantKind::Run, 1, 10)];
    let open = OpenGrant {
        session: SESSION,
        tenant: tenant(),
        ordinal: 1,
        window: WINDOW,
        quota: 8 << 30,
        nonce: 0x0102_0304_0506_0708,
        priority: 2,
    };
    Order {
        v: V,
        epoch: 3,
        leader: LEADER,
        first: 6,
        recorded: 30,
        reports: 5,
        grants: Column::pack(&grants, rows),
        opens: vec![open],
    }
}

pub(crate) fn done<'a>(rows: &'a mut [Vec<u8>; 3], details: &'a mut String) -> Done<'a> {
    let [reports, received, faults] = rows;
    let report = DoneReport {
        position: 6,
        session: SESSION,
        measured: 21_000,
        received: 12,
        outcome: Outcome::Ran,
    };
    let have = Received {
        session: SESSION,
        received: 12,
    };
    Done {
        v: V,
        epoch: 3,
        accepted: 7,
        chain: Chain([7; 32]),
        first: 6,
        reports: Column::pack(&[report], reports),
        received: Column::pack(&[have], received),
        faults: Column::pack(&[FaultRow::of(&fault(), details)], faults),
        details,
    }
}

pub(crate) fn seal_reply() -> SealReply {
    let session = SealedSession {
        session: SESSION,
        tenant: tenant(),
        ordinal: 1,
        window: WINDOW,
        quota: 8 << 30,
        nonce: 0x0102_0304_0506_0708,
        accepted: 10,
        done: 4,
        received: 12,
        closing: false,
    };
    let outstanding = SealedGrant {
        position: 7,
        grant: grant(GrantKind::Run, 5, 10),
    };
    let answer = SealAnswer {
        v: V,
        epoch: 3,
        leader: LEADER,
        gpu: 0,
        capacity: 6 << 30,
        position: 7,
        chain: Chain([7; 32]),
        global: 9,
        reports: 6,
        sessions: vec![session],
        outstanding: vec![outstanding],
        tail_epoch: 2,
        tail_recorded: 30,
        tail: vec![outstanding],
        ordinals: vec![(tenant(), 1)],
        faults: vec![fault()],
    };
    SealReply {
        v: V,
        sealed: Some(answer),
        refused: None,
    }
}

pub(crate) fn measured() -> Measured {
    let key = function().key([8, 1, 1], [128, 1, 1], 0);
    Measured {
        v: V,
        kernels: vec![MeasuredKernel {
            key,
            count: 3,
            total_ns: 60_000,
        }],
    }
}

pub(crate) fn usage() -> Usage {
    let row = UsageRow {
        tenant: tenant(),
        session: SESSION,
        launches: 3,
        sm_ns: 120_000,
        device_ns: 60_000,
        byte_ms: 4_096_000,
        resident: 4096,
    };
    Usage {
        v: V,
        incarnation: WORKER,
        sms: 2,
        elapsed_ns: 1_000_000_000,
        active_ns: 60_000,
        starved_ns: 0,
        sm_ns: 120_000,
        sessions: vec![row],
    }
}
