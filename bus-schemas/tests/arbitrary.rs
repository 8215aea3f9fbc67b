//! Decoding bytes from anywhere: it never panics, and never allocates much more than there is.
#![expect(unsafe_code, reason = "a global allocator that counts")]

mod sample;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bus_schemas::*;
use proptest::prelude::*;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.set(LIVE.get() + layout.size());
        PEAK.set(PEAK.get().max(LIVE.get()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get().saturating_sub(layout.size()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes live at most while `decode` ran and its result lived.
fn peak<T>(decode: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = decode();
    (result, PEAK.get() - before)
}

/// Decodes as every message; the most that any took, and its name.
fn take_all(bytes: &[u8]) -> (usize, &'static str) {
    let mut most = (0, "");
    macro_rules! take {
        ($name:ident, $type:ty, $value:expr) => {{
            let (_, bytes) = peak(|| {
                let decoded = decode::<$type>(bytes);
                if let Ok(decoded) = &decoded {
                    take_apart(decoded);
                }
                decoded
            });
            most = most.max((bytes, stringify!($name)));
        }};
    }
    for_every_message!(take);
    most
}

/// What can be asked of a decoded message.
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
    Alive,
    ClientState,
    CloseRequest,
    DataChunk<'_>,
    DeviceResult<'_>,
    Hold,
    LeaderBeat,
    LeaderNotice,
    Lost,
    Measured,
    OpenAnswer,
    OpenRequest,
    Refusal,
    Rejected,
    Seal,
    SealReply,
    Status,
    StatusRequest,
    Usage,
    WorkerBeat
);

impl TakeApart for Batch<'_> {
    fn take_apart(&self) {
        if let Ok(ops) = self.ops() {
            ops.iter().for_each(drop);
        }
    }
}

impl TakeApart for Intent<'_> {
    fn take_apart(&self) {
        self.runs.iter().for_each(drop);
    }
}

impl TakeApart for Order<'_> {
    fn take_apart(&self) {
        self.grants.iter().for_each(drop);
    }
}

impl TakeApart for Done<'_> {
    fn take_apart(&self) {
        self.reports.iter().for_each(drop);
        self.received.iter().for_each(drop);
    }
}

impl TakeApart for WorkerAck<'_> {
    fn take_apart(&self) {
        self.staged.iter().for_each(drop);
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

/// Lists take 8 bytes for each of the message at most, names and details a little beside.
fn bound(bytes: &[u8]) -> usize {
    16 * bytes.len() + 1024
}

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let (most, name) = take_all(bytes);
    prop_assert!(
        most <= bound(bytes),
        "{} bytes took {most} as {name}: {bytes:02x?}",
        bytes.len()
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check(&bytes)?;
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
    let order = Order {
        opens: Vec::new(),
        ..sample::order(&mut rows)
    };
    let bytes = encode(&order);
    let (order, took) = peak(|| decode::<Order<'_>>(&bytes));
    assert!(order.is_ok());
    assert_eq!(took, 0);
}

#[test]
fn the_densest_lists_stay_within_the_bound() {
    // Ids of one byte each, the smallest there are.
    let alive = Alive {
        v: WIRE_VERSION,
        connection: String::new(),
        sessions: vec![SessionId(1); 100_000],
    };
    let bytes = encode(&alive);
    let (most, name) = take_all(&bytes);
    assert!(most <= bound(&bytes), "{most} of {} as {name}", bytes.len());
    assert_eq!(decode::<Alive>(&bytes), Ok(alive));
}
