//! Messages of the control plane.

use super::*;

pub(crate) fn open_request() -> OpenRequest {
    OpenRequest {
        v: V,
        nonce: 0x0102_0304_0506_0708,
        connection: "client-00000000000000aa".into(),
        devices: 1,
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
        traced: false,
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
        answers_memory: false,
        answers_offers: false,
        answers_ipc: false,
        machine_code: false,
        launch_attributes: false,
        maps_memory: false,
        sm_shared: 164 << 10,
        block_registers: 65_536,
        sm_registers: 65_536,
        resident_blocks: 64,
        active_clusters: Vec::new(),
    }
}

pub(crate) fn open_answer() -> OpenAnswer {
    OpenAnswer::of(&[opened()])
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
        workers: Vec::new(),
        gpus: Vec::new(),
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
        alone: false,
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
        group: None,
        exclusive: false,
        held: 0,
        images: None,
        weights: None,
        quotas: None,
        residency: None,
    }
}

pub(crate) fn hold() -> Hold {
    Hold { v: V, held: true }
}

pub(crate) fn drain() -> Drain {
    Drain {
        v: V,
        incarnation: WORKER,
        draining: true,
    }
}

pub(crate) fn leave() -> Leave {
    Leave {
        v: V,
        epoch: 3,
        leader: LEADER,
        noted: false,
        taken: false,
    }
}

pub(crate) fn quotas() -> Quotas {
    Quotas {
        v: V,
        epoch: 3,
        leader: LEADER,
        number: 2,
        quotas: vec![TenantQuota {
            tenant: tenant(),
            quota: 8 << 30,
        }],
        pinned: Vec::new(),
        tenants: Vec::new(),
    }
}

pub(crate) fn admission_request() -> AdmissionRequest {
    AdmissionRequest {
        v: V,
        tenant: tenant(),
        settings: settings(),
    }
}

pub(crate) fn admission_answer() -> AdmissionAnswer {
    let judged = Admission {
        tenant: tenant(),
        target_ns: 20_000_000,
        verdict: Feasibility::Crowded,
        gpu: Some(1),
        request_ns: 12_000_000,
        before_ns: 5_000_000,
        ahead_ns: 4_000_000,
        load_permille: 310,
    };
    AdmissionAnswer {
        v: V,
        targets: vec![judged],
    }
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
        slo_ns: 20_000_000,
        groups: Groups::default(),
        addresses: 0,
        modules: Allowance::NONE,
        staged: Allowance::NONE,
        swap: true,
        suspended: false,
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
        draining: false,
    };
    let tenant = TenantStatus {
        tenant: tenant(),
        settings: settings(),
        sessions: 1,
        queued: 2,
        granted: 10,
        attainment: Some(Box::new(Attainment {
            counted_ns: 90_000_000_000,
            total_requests: 400,
            total_within: 398,
            requests: 300,
            within: 299,
            p99_ns: 18_500_000,
        })),
    };
    Status {
        v: V,
        epoch: 3,
        leader: LEADER,
        input: 40,
        recorded: 38,
        global: 9,
        held: false,
        partial: false,
        workers: vec![worker],
        places: vec![PlaceStatus {
            group: "batch".parse().unwrap(),
            exclusive: true,
            capacity: 6 << 30,
            free: 5 << 30,
            busy: 40,
        }],
        tenants: vec![tenant],
        settings: None,
        profile: None,
        stores: Vec::new(),
        lost: Vec::new(),
    }
}

pub(crate) fn process() -> ClientProcess {
    ClientProcess {
        host: ShortText::new("node-7"),
        pid: 4_711,
        name: ShortText::new("train"),
    }
}

pub(crate) fn memory_status_request() -> MemoryStatusRequest {
    MemoryStatusRequest {
        v: V,
        after: Some("batch".parse().unwrap()),
    }
}

pub(crate) fn memory_status() -> MemoryStatus {
    let session = SessionMemoryStatus {
        tenant: tenant(),
        session: SESSION,
        held: 4_096,
        busy_ppm: 250_000,
        process: Some(process()),
    };
    MemoryStatus {
        v: V,
        incarnation: WORKER,
        gpu: 0,
        capacity: 6 << 30,
        held: 1 << 30,
        free: 5 << 30,
        tenants: vec![TenantMemoryStatus {
            tenant: tenant(),
            total: 8 << 30,
            held: 4_096,
            free: 5 << 30,
            committed: 2 << 20,
            resident: 3_584,
            busy_ppm: 250_000,
            sessions: 2,
        }],
        sessions: vec![
            session.clone(),
            SessionMemoryStatus {
                session: SessionId(SESSION.0 + 1),
                process: None,
                ..session
            },
        ],
        more: true,
        swap: None,
        moves: Vec::new(),
    }
}

pub(crate) fn sessions_request() -> SessionsRequest {
    SessionsRequest {
        v: V,
        after: Some(SESSION),
        session: None,
        tenant: Some(tenant()),
        gpu: Some(1),
    }
}

pub(crate) fn sessions() -> Sessions {
    Sessions {
        v: V,
        sessions: vec![SessionStatus {
            tenant: tenant(),
            session: SESSION,
            ordinal: 5,
            incarnation: WORKER,
            gpu: 1,
            queued: 12,
            outstanding_ns: 20_000,
            waits: SessionWait::Order,
        }],
        more: true,
        partial: true,
    }
}

pub(crate) fn devices_request() -> DevicesRequest {
    DevicesRequest { v: V }
}

pub(crate) fn devices() -> Devices {
    Devices {
        v: V,
        devices: vec![TenantDevice {
            incarnation: WORKER,
            gpu: 0,
            quota: 8 << 30,
            properties: properties(),
        }],
        failure: None,
    }
}

pub(crate) fn request_reports() -> RequestReports {
    let row = RequestReport {
        thread: 1,
        launches: 3,
        began: 1_764_500_000_000_000_000,
        waited: 1_764_500_000_001_000_000,
        ended: 1_764_500_000_002_500_000,
        first: 9,
        last: 12,
        parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
            .parse()
            .ok(),
        error: None,
    };
    let other = RequestReport {
        thread: 2,
        launches: 0,
        first: 13,
        last: 16,
        parent: None,
        error: Some(Code::BadAddress),
        ..row
    };
    RequestReports {
        v: V,
        session: SESSION,
        process: Some(process()),
        dropped: 0,
        rows: vec![row, other],
        runs: vec![
            RequestRun {
                report: 1,
                first: 13,
                last: 13,
            },
            RequestRun {
                report: 1,
                first: 16,
                last: 16,
            },
        ],
        loads: Vec::new(),
        failure: String::new(),
        errors: Vec::new(),
        words: String::new(),
    }
}
