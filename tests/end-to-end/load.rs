//! Tenants' programs that check every result, on one device or several.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use bus_schemas::{Code, Incarnation};
use client_agent::{Client, Error, Function, Session, Settings};

use crate::loaded::{LoadedCluster, SOON};

const SAXPY: &str = include_str!("../kernels/saxpy.ptx");
/// Launches per round on each device.
pub(crate) const LAUNCHES: u64 = 5;
const ELEMENTS: usize = 256;
/// Pause between two rounds, as other tests use the same cores.
const THINK: Duration = Duration::from_millis(1);

/// One device of a program.
pub(crate) struct Device {
    pub(crate) gpu: u32,
    pub(crate) worker: Incarnation,
    launches: AtomicU64,
    /// The reason that it is lost, once a call has reported it.
    pub(crate) lost: OnceLock<Code>,
}

impl Device {
    /// Number of launches with a correct result.
    pub(crate) fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }
}

/// A tenant's program. It continues on its remaining devices.
pub(crate) struct Load {
    pub(crate) tenant: String,
    pub(crate) devices: Arc<Vec<Device>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Load {
    /// Begins work on this many devices; returns the error if it does not get them within
    /// `patience`.
    pub(crate) async fn start(
        loaded: &LoadedCluster,
        tenant: &str,
        devices: u32,
        patience: Duration,
    ) -> Result<Self, Code> {
        let settings = Settings {
            patience,
            ..loaded.login(tenant)
        };
        let opened = tokio::task::spawn_blocking(move || {
            let client = Client::connect(settings)?;
            let sessions = client.open_devices(devices)?;
            Ok::<_, Error>((client, sessions))
        });
        let opened = opened.await.expect("no panic");
        let (client, sessions) = opened.map_err(|error| error.code())?;
        let device = |session: &Session| Device {
            gpu: session.opened().gpu,
            worker: session.opened().incarnation,
            launches: AtomicU64::new(0),
            lost: OnceLock::new(),
        };
        let devices: Arc<Vec<_>> = Arc::new(sessions.iter().map(device).collect());
        let stop = Arc::<AtomicBool>::default();
        let (own, told) = (Arc::clone(&devices), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            work(sessions, &own, &told);
            drop(client);
        });
        let tenant = tenant.to_owned();
        Ok(Self {
            tenant,
            devices,
            stop,
            thread,
        })
    }

    /// Numbers of its devices, in order.
    pub(crate) fn gpus(&self) -> Vec<u32> {
        self.devices.iter().map(|device| device.gpu).collect()
    }

    /// Waits until each of its remaining devices has done this many more rounds.
    pub(crate) async fn goes_on(&self, loaded: &LoadedCluster, rounds: u64) {
        let devices = self.devices.iter();
        let goals = devices.map(|device| device.launches() + rounds * LAUNCHES);
        let goals: Vec<_> = goals.collect();
        let what = format!("rounds of {} on {:?}", self.tenant, self.gpus());
        loaded
            .wait(&what, SOON, |_| {
                let mut each = self.devices.iter().zip(&goals);
                each.all(|(device, goal)| device.lost.get().is_some() || device.launches() >= *goal)
                    .then_some(())
            })
            .await;
    }

    /// Waits until it has heard that its device on a GPU is lost; returns the reason.
    pub(crate) async fn loses(&self, loaded: &LoadedCluster, gpu: u32) -> Code {
        let mut devices = self.devices.iter();
        let device = devices.find(|device| device.gpu == gpu).expect("its own");
        loaded
            .wait("word of a lost device", SOON, |_| {
                device.lost.get().copied()
            })
            .await
    }

    /// Ends it, and checks that every result was correct.
    pub(crate) async fn stop(self) -> Arc<Vec<Device>> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = tokio::task::spawn_blocking(move || self.thread.join());
        let ended = thread.await.expect("it is waited for");
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.devices
    }
}

fn work(sessions: Vec<Session>, devices: &[Device], stop: &AtomicBool) {
    let lost = |device: &Device, error: &Error| {
        let code = error.code();
        device.lost.set(code).expect("it is lost once");
    };
    let mut active = Vec::new();
    for (session, device) in sessions.into_iter().zip(devices) {
        match Program::new(session) {
            Ok(program) => active.push((program, device)),
            Err(error) => lost(device, &error),
        }
    }
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        active.retain(|(program, device)| match program.round(round) {
            Ok(()) => {
                device.launches.fetch_add(LAUNCHES, Ordering::Relaxed);
                true
            }
            Err(error) => {
                lost(device, &error);
                false
            }
        });
        round += 1;
        std::thread::sleep(THINK);
    }
    for (program, device) in active {
        if let Err(error) = program.session.close() {
            lost(device, &error);
        }
    }
}

/// The program on one device: sums with known results.
struct Program {
    session: Session,
    saxpy: Function,
    y: u64,
    params: Vec<u8>,
}

impl Program {
    fn new(session: Session) -> Result<Self, Error> {
        let saxpy = session.load(SAXPY.as_bytes())?.function("saxpy")?;
        let bytes = 4 * ELEMENTS as u64;
        let (x, y) = (session.alloc(bytes)?, session.alloc(bytes)?);
        let values = (0..ELEMENTS).flat_map(|index| (index as f32).to_le_bytes());
        session.copy_in(x, &values.collect::<Vec<_>>())?;
        let mut params = (ELEMENTS as u32).to_le_bytes().to_vec();
        params.extend(2.0_f32.to_le_bytes());
        params.extend(x.to_le_bytes());
        params.extend(y.to_le_bytes());
        Ok(Self {
            session,
            saxpy,
            y,
            params,
        })
    }

    /// Adds twice the index to each element, several times, with another start value in each round.
    fn round(&self, round: u32) -> Result<(), Error> {
        let from = (round % 1_000) as f32;
        let mut bytes = from.to_le_bytes().repeat(ELEMENTS);
        self.session.copy_in(self.y, &bytes)?;
        for _ in 0..LAUNCHES {
            let (grid, block) = ([ELEMENTS as u32 / 64, 1, 1], [64, 1, 1]);
            self.session
                .launch(&self.saxpy, grid, block, 0, &self.params)?;
        }
        self.session.copy_out(self.y, &mut bytes)?;
        for (index, value) in bytes.chunks(4).enumerate() {
            let wanted = from + (2 * LAUNCHES) as f32 * index as f32;
            let value = f32::from_le_bytes(value.try_into().expect("four bytes"));
            assert!(value == wanted, "element {index} of round {round}: {value}");
        }
        Ok(())
    }
}
