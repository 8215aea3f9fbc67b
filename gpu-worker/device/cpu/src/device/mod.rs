//! The CPU as a worker's device: module cache, sessions, slices in turn.
//!
//! One session at a time runs, for a quantum; then the next that has work. A kernel that does not
//! end within the quantum is parked as plain data and goes on where it was.

mod session;

use crate::engine::{Engine, EngineConfig, Program};
use bus_schemas::{Code, Failure, FunctionFingerprint, ModuleHash, SessionId, Window};
use device::{Completion, Device, DeviceInfo, FunctionInfo, ModuleInfo, Slice};
use session::{Advance, Session};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a CPU device is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuConfig {
    /// Threads that run the blocks of one launch.
    pub threads: usize,
    /// Bytes that all sessions can allocate together.
    pub capacity: u64,
    /// Time of its own after which a launch is ended.
    pub watchdog: Duration,
}

impl Default for CpuConfig {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            threads,
            capacity: 4 << 30,
            watchdog: Duration::from_secs(10),
        }
    }
}

/// How long a session runs while others wait.
const QUANTUM: Duration = Duration::from_millis(2);

/// A module as it is cached.
#[derive(Debug, Clone)]
struct Prepared {
    program: Arc<Program>,
    fingerprints: Arc<[FunctionFingerprint]>,
}

/// PTX on the CPU, as a device.
#[derive(Debug)]
pub struct CpuDevice {
    info: DeviceInfo,
    config: CpuConfig,
    engine: Engine,
    modules: HashMap<ModuleHash, Prepared>,
    sessions: BTreeMap<SessionId, Session>,
    /// Sessions that have slices, in turn.
    turn: VecDeque<SessionId>,
}

/// What the machine calls its processor.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split(':').nth(1)).map(str::trim);
    name.unwrap_or(std::env::consts::ARCH).to_owned()
}

impl CpuDevice {
    /// A device with no sessions.
    #[must_use]
    pub fn new(config: CpuConfig) -> Self {
        let threads = config.threads.max(1);
        let engine = EngineConfig {
            threads,
            ..EngineConfig::default()
        };
        let info = DeviceInfo {
            name: format!("{} (cpu, {threads} threads)", processor()),
            kind: "cpu",
            sms: u32::try_from(threads).unwrap_or(u32::MAX),
            capacity: config.capacity,
            compute: (8, 0),
        };
        Self {
            info,
            config,
            engine: Engine::new(engine),
            modules: HashMap::new(),
            sessions: BTreeMap::new(),
            turn: VecDeque::new(),
        }
    }

    fn module_info(prepared: &Prepared) -> ModuleInfo {
        let entries = prepared.program.entries();
        let functions = entries
            .map(|(name, param_bytes)| FunctionInfo {
                name: name.to_owned(),
                param_bytes,
            })
            .collect();
        ModuleInfo { functions }
    }
}

/// Whether an image is machine code for a GPU: an ELF file, or NVIDIA's container of several.
fn is_machine_code(image: &[u8]) -> bool {
    image.starts_with(b"\x7fELF") || image.starts_with(&0xba55_ed50_u32.to_le_bytes())
}

impl Device for CpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&mut self, session: SessionId, window: Window) -> Result<(), Failure> {
        let overlaps =
            |other: &Session| window.base < other.window.end() && other.window.base < window.end();
        if self.sessions.contains_key(&session) || self.sessions.values().any(overlaps) {
            let detail = format!("the window at {:#x} is taken", window.base);
            return Err(Failure::new(Code::BadAddress, detail));
        }
        let opened = Session::open(window, self.info.capacity)?;
        self.sessions.insert(session, opened);
        Ok(())
    }

    fn close(&mut self, session: SessionId) {
        self.sessions.remove(&session);
        self.turn.retain(|waiting| *waiting != session);
    }

    fn prepare(&mut self, hash: ModuleHash, image: &[u8]) -> Result<ModuleInfo, Failure> {
        if let Some(prepared) = self.modules.get(&hash) {
            return Ok(Self::module_info(prepared));
        }
        if is_machine_code(image) {
            let detail = "this worker has no GPU: it runs PTX, and the image has machine code only";
            return Err(Failure::new(Code::NoBinary, detail));
        }
        let program = Program::build_image(image)
            .map_err(|error| Failure::new(Code::BadModule, error.to_string()))?;
        let names = program
            .entries()
            .map(|(name, _)| FunctionFingerprint::new(&hash, name));
        let fingerprints = names.collect();
        let prepared = Prepared {
            program,
            fingerprints,
        };
        let info = Self::module_info(&prepared);
        self.modules.insert(hash, prepared);
        Ok(info)
    }

    fn submit(&mut self, slice: Slice) {
        // A session that was closed meanwhile is told nothing: its close was its answer.
        if let Some(session) = self.sessions.get_mut(&slice.session) {
            if session.is_idle() {
                self.turn.push_back(slice.session);
            }
            session.submit(slice);
        }
    }

    fn poll(&mut self, budget: Duration, completions: &mut Vec<Completion>) {
        let started = Instant::now();
        let end = started + budget;
        while let Some(id) = self.turn.pop_front() {
            let others: u64 = {
                let other = self.sessions.iter().filter(|(other, _)| **other != id);
                other.map(|(_, session)| session.resident()).sum()
            };
            let Some(session) = self.sessions.get_mut(&id) else {
                continue;
            };
            let now = Instant::now();
            let quantum = if self.turn.is_empty() {
                end
            } else {
                end.min(now + QUANTUM)
            };
            let run = session::Run {
                engine: &self.engine,
                modules: &self.modules,
                watchdog: self.config.watchdog,
                threads: self.config.threads.max(1),
                room: self.info.capacity.saturating_sub(others),
                until: quantum,
            };
            match session.advance(&run) {
                Advance::Completed(completion) => {
                    completions.push(completion);
                    if !session.is_idle() {
                        self.turn.push_back(id);
                    }
                }
                Advance::Parked => self.turn.push_back(id),
            }
            if Instant::now() >= end {
                return;
            }
        }
    }

    fn is_busy(&self) -> bool {
        !self.turn.is_empty()
    }
}
