//! Messages between leaders and workers.

use super::*;

pub(crate) fn seal() -> Seal {
    Seal {
        v: V,
        epoch: 3,
        leader: LEADER,
        after: None,
        times: false,
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

pub(crate) fn order(rows: &mut Vec<u8>) -> GrantBatch<'_> {
    let grants = [grant(GrantKind::Open, 0, 0), grant(GrantKind::Run, 1, 10)];
    let open = OpenGrant {
        session: SESSION,
        tenant: tenant(),
        ordinal: 1,
        window: WINDOW,
        quota: 8 << 30,
        nonce: 0x0102_0304_0506_0708,
        priority: 2,
        modules: Allowance::NONE,
        staged: Allowance::NONE,
    };
    GrantBatch {
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
        declared: 0,
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
        times: &[],
    }
}

/// The same message with the times of its report.
pub(crate) fn timed_done<'a>(
    rows: &'a mut [Vec<u8>; 3],
    details: &'a mut String,
    times: &'a [u8],
) -> Done<'a> {
    Done {
        times,
        ..done(rows, details)
    }
}

pub(crate) fn done_times() -> Vec<u8> {
    times().encode()
}

/// The same times with a compilation.
pub(crate) fn compiled_times() -> Vec<u8> {
    let compiled = Compilation {
        began: 930_000,
        ended: 1_240_000,
    };
    DoneTimes {
        compiled: vec![(0, compiled)],
        ..times()
    }
    .encode()
}

fn times() -> DoneTimes {
    let row = ReportTimes {
        accepted: 1_000_000,
        begun: 1_250_000,
        lacked: 50_000,
        started: 1_260_000,
        ended: 1_281_000,
    };
    DoneTimes {
        clock: 1_300_000,
        rows: vec![row],
        compiled: Vec::new(),
    }
}

pub(crate) fn timed_seal() -> Seal {
    Seal {
        times: true,
        ..seal()
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
        named: vec![SealedName {
            tenant: tenant(),
            session: SessionId(SESSION.0 + 1),
            ordinal: 2,
        }],
        forgotten: None,
    };
    SealReply {
        v: V,
        sealed: Some(answer),
        refused: None,
        page: None,
    }
}

/// A part of a tail, sent before the answer.
pub(crate) fn seal_page() -> SealReply {
    let page = SealPage {
        epoch: 3,
        leader: LEADER,
        after: 6,
        tail: vec![SealedGrant {
            position: 7,
            grant: grant(GrantKind::Run, 5, 10),
        }],
        named: vec![SealedName {
            tenant: tenant(),
            session: SESSION,
            ordinal: 1,
        }],
    };
    SealReply {
        v: V,
        sealed: None,
        refused: None,
        page: Some(page),
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
        saved: 0,
        sessions: vec![row],
    }
}

pub(crate) fn usage_block() -> UsageBlock {
    let key = function().key([8, 1, 1], [128, 1, 1], 0);
    let used = KernelUse {
        tenant: tenant(),
        key,
        launches: 3,
        device_ns: 60_000,
        sm_ns: 120_000,
        least_ns: 10_000,
        most_ns: 30_000,
    };
    let name = KernelName {
        kernel: key,
        function: "saxpy".into(),
        grid_dim: [8, 1, 1],
        block_dim: [128, 1, 1],
        shared_bytes: 0,
        module: Some(ModuleId(0xa1b2_c3d4_e5f6_0718)),
    };
    UsageBlock {
        v: V,
        incarnation: WORKER,
        gpu: 1,
        sms: 2,
        number: 7,
        first: None,
        at_ms: 1_795_304_402_000,
        elapsed_ns: 1_000_000_000,
        active_ns: 60_000,
        starved_ns: 0,
        last: false,
        totals: UseTotals {
            launches: 5,
            device_ns: 90_000,
            sm_ns: 180_000,
            byte_ms: 4_096_000,
            moves: MoveTotals::default(),
        },
        reports: Some(12),
        kernels: vec![used],
        memory: vec![MemoryUse {
            tenant: tenant(),
            byte_ms: 4_096,
        }],
        moves: Vec::new(),
        names: vec![name],
    }
}

/// A block of a worker that swaps and shares.
pub(crate) fn moved_usage_block() -> UsageBlock {
    let moves = MoveTotals {
        outs: 2,
        out_bytes: 80 << 20,
        ins: 1,
        in_bytes: 40 << 20,
        waited_ns: 35_000_000,
        swapped_byte_ms: 41_943_040_000,
        saved_byte_ms: 20_971_520_000,
        unsent_bytes: 3 << 20,
    };
    let mut block = usage_block();
    block.totals.moves = moves;
    let tenant = tenant();
    block.moves.push(TenantMoves { tenant, moves });
    block
}
