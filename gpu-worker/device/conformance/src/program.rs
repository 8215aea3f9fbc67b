//! The program side of a session: a client's ops, as slices.

use std::time::{Duration, Instant};

use bus_schemas::{
    Batch, Launch, ModuleHash, Op, SessionId, WIRE_VERSION, Window, encode, limits,
    write_descriptor,
};
use bytes::Bytes;
use device::{Completion, Device, OpSpan, Slice};

/// The program side of one session, for tests: packs ops as a client does.
pub struct TestProgram {
    session: SessionId,
    window: Window,
    priority: u8,
    next: u64,
    position: u64,
}

impl TestProgram {
    /// A program in session number `n` with a window of its own.
    #[must_use]
    pub fn new(n: u64) -> Self {
        // There are more addresses than memory, so that memory runs out first.
        let size = 8 * limits::WINDOW_MIN_BYTES;
        let window = Window {
            base: limits::ADDRESS_FIRST + n * size,
            size,
        };
        Self {
            session: SessionId(n),
            window,
            priority: 2,
            next: 1,
            position: n * 1_000,
        }
    }

    /// Creates a program in session number `n`, opened on a device that has prepared a module of this text.
    /// Also returns the op that loads the module as number 0.
    ///
    /// # Panics
    /// If the device refuses the module or the session.
    pub fn opened(device: &mut dyn Device, n: u64, module: &str) -> (Self, Op) {
        let hash = ModuleHash::of(module.as_bytes());
        device.prepare(hash, module.as_bytes()).expect("builds");
        (opened(device, n), Op::LoadModule { slot: 0, hash })
    }

    /// Sets the priority of slices from now on.
    #[must_use]
    pub fn at(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The session's address window.
    #[must_use]
    pub fn window(&self) -> Window {
        self.window
    }

    /// Returns the next slice: these ops with their payloads.
    ///
    /// # Panics
    /// When a batch cannot hold the ops.
    pub fn slice(&mut self, ops: &[(Op, &[u8])]) -> Slice {
        let (mut descriptors, mut blob) = (Vec::new(), Vec::new());
        for (op, payload) in ops {
            write_descriptor(op, 0, payload.len() as u32, &mut descriptors);
            blob.extend_from_slice(payload);
        }
        let count = ops.len() as u32;
        let batch = Batch {
            v: WIRE_VERSION,
            first: self.next,
            count,
            results: 0,
            descriptors: &descriptors,
            blob: &blob,
        };
        let split = descriptors.len();
        debug_assert!(!encode(&batch).is_empty());
        descriptors.extend_from_slice(&blob);
        let end = descriptors.len();
        let span = OpSpan::new(Bytes::from(descriptors), 0..split, split..end, count);
        let first = self.next;
        self.next += u64::from(count);
        self.position += 1;
        Slice {
            position: self.position,
            session: self.session,
            priority: self.priority,
            first,
            spans: vec![span.expect("ops a batch can hold")],
            transfers: Vec::new(),
            fail_at: None,
            launch_bytes: vec![(0, u64::MAX)],
        }
    }
}

/// A launch of a function of module 0: blocks and threads of one dimension.
#[must_use]
pub fn flat_launch(function: u32, blocks: u32, threads: u32) -> Op {
    Op::Launch(Launch {
        module: 0,
        function,
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        shared: 0,
        attributes: bus_schemas::LaunchAttributes::default(),
    })
}

/// A program in session number `n`, opened on a device.
pub(crate) fn opened(device: &mut dyn Device, n: u64) -> TestProgram {
    let program = TestProgram::new(n);
    let opened = device.open(program.session(), program.window(), None);
    opened.expect("a free window");
    program
}

/// Runs ops of a program, none of which fails.
pub(crate) fn run(
    device: &mut dyn Device,
    program: &mut TestProgram,
    ops: &[(Op, &[u8])],
) -> Completion {
    let slice = program.slice(ops);
    let done = complete(device, slice);
    assert_eq!(done.fault, None);
    done
}

/// Polls until this many slices have completed.
pub(crate) fn completed(device: &mut dyn Device, slices: usize) -> Vec<Completion> {
    let until = Instant::now() + Duration::from_secs(60);
    let mut done = Vec::new();
    while done.len() < slices {
        assert!(Instant::now() < until, "a slice hangs");
        device.poll(Duration::from_millis(10), &mut done);
    }
    done
}

/// Submits one slice and polls until it has completed.
///
/// # Panics
/// When it has not completed after a minute.
pub fn complete(device: &mut dyn Device, slice: Slice) -> Completion {
    let (position, started) = (slice.position, Instant::now());
    device.submit(slice);
    let mut completions = Vec::new();
    while completions.is_empty() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "position {position} hangs"
        );
        device.poll(Duration::from_millis(10), &mut completions);
    }
    assert_eq!((completions.len(), completions[0].position), (1, position));
    completions.remove(0)
}
