//! A minimal device: memory is a map, and every launch takes a microsecond. A module's image is
//! `functions:` and their names. An image with a function `slow` is compiled only once [`SLOW`]
//! allows it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bus_schemas::{
    Code, DeviceProperties, EventTime, Failure, KernelKey, ModuleHash, Op, ResultKind, Row,
    SessionId, Symbol, Window,
};
use device::{
    Compiler, Completion, Device, DeviceInfo, FunctionInfo, OpResult, PreparedModule,
    SharingDomain, Slice,
};

/// True if images with a function `slow` may be compiled.
pub(crate) static SLOW: AtomicBool = AtomicBool::new(false);

/// Modules that the compiler was told to forget.
pub(crate) static FORGOTTEN: Mutex<Vec<ModuleHash>> = Mutex::new(Vec::new());

pub(crate) const LAUNCH_NS: u64 = 1_000;

#[derive(Default)]
struct Memory(BTreeMap<u64, Vec<u8>>);

impl Memory {
    fn range(&mut self, address: u64, bytes: u64) -> Option<&mut [u8]> {
        let (first, data) = self.0.range_mut(..=address).next_back()?;
        let from = (address - first) as usize;
        data.get_mut(from..from.checked_add(bytes as usize)?)
    }

    fn resident(&self) -> u64 {
        self.0.values().map(|data| data.len() as u64).sum()
    }
}

pub(crate) struct TestDevice {
    info: DeviceInfo,
    sessions: BTreeMap<SessionId, Memory>,
    queue: VecDeque<Slice>,
    /// Set once a kernel called `end` has run.
    lost: Option<Failure>,
}

impl TestDevice {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            info: DeviceInfo {
                units: 2,
                properties: DeviceProperties {
                    kind: "test".into(),
                    name: "test device".into(),
                    sms: 2,
                    ..DeviceProperties::default()
                },
                capacity,
                preemptive: false,
                overlaps: true,
                blocks: 0,
            },
            sessions: BTreeMap::new(),
            queue: VecDeque::new(),
            lost: None,
        }
    }

    fn run(&mut self, slice: &Slice) -> Completion {
        let mut done = Completion {
            position: slice.position,
            session: slice.session,
            ..Completion::default()
        };
        let memory = self.sessions.entry(slice.session).or_default();
        let ops = slice.spans.iter().flat_map(|span| span.ops().iter());
        for (number, op) in (slice.first..).zip(ops) {
            let planned = slice.fail_at.as_ref().filter(|(at, _)| *at == number);
            let ran = match planned {
                Some((_, failure)) => Err(failure.clone()),
                None => step(memory, slice, &op, &mut done, number),
            };
            if let Err(failure) = ran {
                if failure.code == Code::IllegalInstruction {
                    let why = "its context has ended";
                    self.lost = Some(Failure::new(Code::DeviceLost, why));
                }
                done.fault = Some((number, failure));
                break;
            }
        }
        done.resident = memory.resident();
        done
    }
}

fn answer(done: &mut Completion, op: u64, kind: ResultKind, bytes: Option<&[u8]>) {
    done.results.push(OpResult {
        op,
        kind,
        bytes: bytes.map(Into::into),
        printed: Vec::new(),
        device_ns: done.device_ns,
    });
}

fn step(
    memory: &mut Memory,
    slice: &Slice,
    op: &bus_schemas::OpRef<'_>,
    done: &mut Completion,
    number: u64,
) -> Result<(), Failure> {
    let outside = || Failure::new(Code::IllegalAddress, "outside of any allocation");
    match op.op {
        Op::Alloc { address, bytes } => {
            memory.0.insert(address, vec![0; bytes as usize]);
        }
        Op::Free { address } => {
            memory.0.remove(&address);
        }
        Op::CopyIn {
            address,
            bytes,
            transfer,
        } => {
            let staged = slice.transfers.iter().find(|(id, _)| *id == transfer);
            let from = staged.map(|(_, bytes)| {
                let pieces = bytes.slices(0, bytes.len());
                pieces.flatten().copied().collect::<Vec<_>>()
            });
            let to = memory.range(address, bytes).ok_or_else(outside)?;
            to.copy_from_slice(from.as_deref().unwrap_or(op.payload));
        }
        Op::CopyOut { address, bytes } => {
            let from = memory.range(address, bytes).ok_or_else(outside)?;
            answer(done, number, ResultKind::CopyOut, Some(from));
        }
        Op::Launch(launch) => {
            if launch.function == 1 {
                return Err(Failure::new(Code::Trap, "the kernel trapped"));
            }
            if launch.function == 2 {
                let why = "the kernel ends the device";
                return Err(Failure::new(Code::IllegalInstruction, why));
            }
            done.device_ns += LAUNCH_NS;
            done.count(KernelKey(u64::from(launch.grid[0])), LAUNCH_NS, 2);
        }
        Op::Sync => answer(done, number, ResultKind::Sync, None),
        Op::Symbols { slot } => {
            let symbol = Symbol {
                address: u64::from(slot),
                bytes: 4,
                writable: true,
            };
            let mut rows = Vec::new();
            symbol.write(&mut rows);
            answer(done, number, ResultKind::Symbols, Some(&rows));
        }
        Op::Event { event, timed: true } => {
            done.events.push((number, EventTime { event, ns: number }));
        }
        _ => {}
    }
    Ok(())
}

struct TestCompiler;

impl Compiler for TestCompiler {
    fn compile(
        &self,
        _: ModuleHash,
        image: &[u8],
        _: &dyn device::Watch,
    ) -> Result<PreparedModule, Failure> {
        let began = Instant::now();
        let text = String::from_utf8_lossy(image);
        let Some(names) = text.strip_prefix("functions:") else {
            return Err(Failure::new(Code::BadModule, "line 1, column 1: no module"));
        };
        while names.contains("slow") && !SLOW.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let functions = names.split_whitespace().map(|name| FunctionInfo {
            name: name.into(),
            param_bytes: 0,
            block: device::BlockBytes::default(),
        });
        Ok(PreparedModule {
            functions: functions.collect(),
            // The image declares its pretended size.
            bytes: if names.contains("huge") { 200 << 20 } else { 0 },
            variables: 0,
            heap: 0,
            compiled: Some((began, Instant::now())),
        })
    }

    fn forget(&self, hash: ModuleHash) {
        FORGOTTEN.lock().unwrap().push(hash);
    }
}

impl Device for TestDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(
        &mut self,
        session: SessionId,
        _: Window,
        _: Option<SharingDomain>,
    ) -> Result<(), Failure> {
        self.sessions.insert(session, Memory::default());
        Ok(())
    }

    fn close(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    fn prepare(&mut self, hash: ModuleHash, image: &[u8]) -> Result<PreparedModule, Failure> {
        TestCompiler.compile(hash, image, &device::Unwatched)
    }

    fn forget(&mut self, hash: ModuleHash) {
        TestCompiler.forget(hash);
    }

    fn compiler(&self) -> Option<Arc<dyn Compiler>> {
        Some(Arc::new(TestCompiler))
    }

    fn submit(&mut self, slice: Slice) {
        self.queue.push_back(slice);
    }

    fn poll(&mut self, _: Duration, completions: &mut Vec<Completion>) {
        if let Some(slice) = self.queue.pop_front() {
            let done = self.run(&slice);
            completions.push(done);
        }
    }

    fn is_busy(&self) -> bool {
        !self.queue.is_empty()
    }

    fn lost(&self) -> Option<Failure> {
        self.lost.clone()
    }
}
