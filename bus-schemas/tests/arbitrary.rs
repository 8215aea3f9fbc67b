//! Decoding of arbitrary bytes: it never panics, and never allocates more than there is.

mod sample;

use bus_schemas::*;
use counting_allocator::{CountingAllocator, counted};
use proptest::prelude::*;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Maximum of live bytes while `decode` ran and its result lived.
fn peak<T>(decode: impl FnOnce() -> T) -> (T, usize) {
    let (result, seen) = counted(decode);
    (result, seen.peak)
}

/// Decodes the bytes as every message. Returns the maximum memory and the name of its message: of
/// those that decoded, and of those that did not.
fn take_all(bytes: &[u8]) -> [(usize, &'static str); 2] {
    let mut most = [(0, ""); 2];
    macro_rules! take {
        ($name:ident, $type:ty, $value:expr) => {{
            let (decoded, took) = peak(|| decode::<$type>(bytes));
            if let Ok(decoded) = &decoded {
                take_apart(decoded);
            }
            let most = &mut most[usize::from(decoded.is_err())];
            *most = (*most).max((took, stringify!($name)));
        }};
    }
    for_every_message!(take);
    most
}

/// The accessors of a decoded message.
trait TakeApart {
    fn take_apart(&self) {}
}

fn take_apart(message: &impl TakeApart) {
    message.take_apart();
}

macro_rules! plain {
    ($($type:ty),*) => { $(impl TakeApart for $type {})* };
}

plain!(
    AdmissionAnswer,
    AdmissionRequest,
    Alive,
    ClientState,
    CloseRequest,
    DataChunk<'_>,
    DeviceResult<'_>,
    Devices,
    DevicesRequest,
    Drain,
    Hold,
    IpcAnswer,
    IpcRequest,
    LeaderBeat,
    LeaderNotice,
    Leave,
    Lost,
    Measured,
    MemoryAnswer,
    MemoryRequest,
    MemoryStatus,
    MemoryStatusRequest,
    OpenAnswer,
    OpenRequest,
    Quotas,
    Refusal,
    Rejected,
    RequestReports,
    Seal,
    SealReply,
    Sessions,
    SessionsRequest,
    Status,
    StatusRequest,
    UnstoredCopy<'_>,
    Usage,
    UsageBlock,
    WorkerBeat
);

impl TakeApart for Batch<'_> {
    fn take_apart(&self) {
        if let Ok(ops) = self.ops() {
            ops.iter().for_each(drop);
        }
    }
}

impl TakeApart for CopyOffer<'_> {
    fn take_apart(&self) {
        if let Some(chunks) = self.chunks() {
            chunks.for_each(drop);
        }
    }
}

impl TakeApart for Intent<'_> {
    fn take_apart(&self) {
        self.runs.iter().for_each(drop);
    }
}

impl TakeApart for GrantBatch<'_> {
    fn take_apart(&self) {
        self.grants.iter().for_each(drop);
    }
}

impl TakeApart for Done<'_> {
    fn take_apart(&self) {
        self.reports.iter().for_each(drop);
        self.received.iter().for_each(drop);
        self.session_faults().for_each(drop);
    }
}

impl TakeApart for WorkerAck<'_> {
    fn take_apart(&self) {
        self.staged.iter().for_each(drop);
        self.prepared.iter().for_each(drop);
        self.held.iter().for_each(drop);
    }
}

fn samples() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    macro_rules! add {
        ($name:ident, $type:ty, $value:expr) => {{
            all.push(encode(&$value));
        }};
    }
    for_every_message!(add);
    all
}

/// Additional memory of an error: its text, which may quote the message, and a copy of at most 200
/// bytes.
const ERROR: usize = 1024;

/// Checks that a message takes no more memory than it has bytes, and that a refused one does not
/// either, its error aside.
fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let [decoded, refused] = take_all(bytes);
    for ((most, name), bound) in [(decoded, bytes.len()), (refused, bytes.len() + ERROR)] {
        prop_assert!(
            most <= bound,
            "{} bytes took {most} as {name}: {bytes:02x?}",
            bytes.len()
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check(&bytes)?;
    }

    #[test]
    fn arbitrary_times_do_no_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..90),
        behind in any::<bool>(),
    ) {
        let whole = match behind {
            true => [&sample::done_times()[..], &bytes].concat(),
            false => bytes,
        };
        if let Some(times) = DoneTimes::decode(&whole) {
            prop_assert!(times.compiled.len() <= COMPILATIONS);
            prop_assert!(times.compiled.iter().all(|(report, _)| *report < times.rows.len()));
            prop_assert_eq!(DoneTimes::decode(&times.encode()), Some(times));
        }
    }

    #[test]
    fn damaged_messages_do_no_harm(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let all = samples();
        let mut bytes = all[which.index(all.len())].clone();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        check(&bytes)?;
    }

    #[test]
    fn headers_that_claim_too_much_take_nothing(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        claim in prop::sample::select(vec![0xdd_u8, 0xdf, 0xdb, 0xc6, 0xdc, 0xde, 0xc9]),
        size in any::<u32>(),
    ) {
        let all = samples();
        let mut bytes = all[which.index(all.len())].clone();
        let at = at.index(bytes.len());
        let mut header = vec![claim];
        header.extend(size.to_be_bytes());
        bytes.splice(at..(at + 1), header);
        check(&bytes)?;
    }
}

#[test]
fn hot_messages_allocate_nothing() {
    let columns = sample::columns();
    let bytes = encode(&sample::batch(&columns));
    let (batch, took) = peak(|| decode::<Batch<'_>>(&bytes));
    assert!(batch.is_ok());
    assert_eq!(took, 0);
    let mut rows = Vec::new();
    let bytes = encode(&sample::intent(&mut rows));
    let (intent, took) = peak(|| decode::<Intent<'_>>(&bytes));
    assert!(intent.is_ok());
    assert_eq!(took, 0);
    let mut rows = Vec::new();
    let order = GrantBatch {
        opens: Vec::new(),
        ..sample::order(&mut rows)
    };
    let bytes = encode(&order);
    let (order, took) = peak(|| decode::<GrantBatch<'_>>(&bytes));
    assert!(order.is_ok());
    assert_eq!(took, 0);
}

/// Checks a message with many items of the minimum size.
fn full(message: impl FnOnce() -> Vec<u8>) {
    let bytes = message();
    check(&bytes).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn messages_full_of_small_items_are_decoded_within_their_size() {
    const MANY: usize = 1_000;
    full(|| {
        encode(&Alive {
            sessions: vec![SessionId(1); MANY],
            ..sample::alive()
        })
    });
    full(|| {
        let mut status = sample::status();
        status.workers = vec![status.workers[0].clone(); MANY];
        status.tenants = vec![status.tenants[0].clone(); MANY];
        let bytes = encode(&status);
        assert_eq!(decode::<Status>(&bytes), Ok(status));
        bytes
    });
    full(|| {
        let mut reply = sample::seal_reply();
        let answer = reply.sealed.as_mut().unwrap();
        answer.sessions = vec![answer.sessions[0].clone(); MANY];
        answer.ordinals = vec![answer.ordinals[0].clone(); MANY];
        answer.named = vec![answer.named[0].clone(); MANY];
        let fault = SessionFault {
            session: SessionId(0),
            op: 0,
            failure: Failure::new(Code::Unknown, ""),
        };
        answer.faults = vec![fault; MANY];
        let bytes = encode(&reply);
        assert_eq!(decode::<SealReply>(&bytes), Ok(reply));
        bytes
    });
    full(|| {
        let mut reply = sample::seal_page();
        let page = reply.page.as_mut().unwrap();
        page.tail = vec![page.tail[0]; MANY];
        page.named = vec![page.named[0].clone(); MANY];
        let bytes = encode(&reply);
        assert_eq!(decode::<SealReply>(&bytes), Ok(reply));
        bytes
    });
    full(|| {
        let mut usage = sample::usage();
        let tenant = "a".parse().unwrap();
        usage.sessions = vec![
            UsageRow {
                tenant,
                session: SessionId(0),
                launches: 0,
                sm_ns: 0,
                device_ns: 0,
                byte_ms: 0,
                resident: 0,
            };
            MANY
        ];
        let bytes = encode(&usage);
        assert_eq!(decode::<Usage>(&bytes), Ok(usage));
        bytes
    });
}

#[test]
fn what_a_worker_and_a_leader_list_is_decoded_within_its_size() {
    full(|| {
        let mut status = sample::memory_status();
        status.tenants = vec![status.tenants[0].clone(); limits::STATUS_TENANTS];
        status.sessions = vec![status.sessions[0].clone(); limits::STATUS_SESSIONS];
        status.moves = sample::moved_usage_block().moves;
        status.moves = vec![status.moves[0].clone(); limits::STATUS_TENANTS];
        let place = SessionResidency {
            session: SessionId(0),
            bytes: 0,
            place: Place::Out,
            pinned: false,
        };
        status.swap = Some(SwapStatus {
            sessions: vec![place; limits::STATUS_SESSIONS],
            ..SwapStatus::default()
        });
        let bytes = encode(&status);
        assert!(
            bytes.len() < limits::MESSAGE_BYTES / 4 * 3,
            "{}",
            bytes.len()
        );
        assert_eq!(decode::<MemoryStatus>(&bytes), Ok(status));
        bytes
    });
    full(|| {
        let mut answer = sample::sessions();
        answer.sessions = vec![answer.sessions[0].clone(); limits::SESSION_ROWS];
        let bytes = encode(&answer);
        assert_eq!(decode::<Sessions>(&bytes), Ok(answer));
        bytes
    });
    full(|| {
        let mut devices = sample::devices();
        devices.devices[0].properties = DeviceProperties::default();
        devices.devices = vec![devices.devices[0].clone(); limits::DEVICES_NAMED];
        let bytes = encode(&devices);
        assert_eq!(decode::<Devices>(&bytes), Ok(devices));
        bytes
    });
}

#[test]
fn lists_in_a_form_that_nobody_writes_are_refused_before_they_take_memory() {
    // {v: 1, ..., tenants: [..]} of 100,000 empty arrays.
    let mut bytes = b"\x82\xa1v\x01\xa7tenants\xdd\x00\x01\x86\xa0".to_vec();
    bytes.extend([0x90; 100_000]);
    let (status, took) = peak(|| decode::<Status>(&bytes));
    assert!(
        matches!(status, Err(MessageError::Malformed(_))),
        "{status:?}"
    );
    assert!(took <= ERROR, "{took}");
}
