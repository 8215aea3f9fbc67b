//! Chat and train in one process: two sessions on one device, served by a thread like a worker's. There is
//! no bus, no leader and no order. The measurement shows how well the device itself isolates the two.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use bus_schemas::{Code, Failure, ModuleHash, SessionId, Window};
use device::{Completion, Device, DeviceInfo, Interrupt, PreparedModule, SharingDomain, Slice};
use device_cpu::{CpuConfig, CpuDevice};
use workloads::SplitMix64;
use workloads::local::Local;

use super::sides::{BLOCK, BLOCKS, CHAT, SETTLE, Sides, TRAIN, WARM_UP, block};

/// Longest stretch of device work between two looks at the requests.
const STRETCH: Duration = Duration::from_micros(100);
/// Time for which an idle device polls for a request before it sleeps.
const AWAKE: Duration = Duration::from_micros(200);
/// Time between two looks of a waiting train.
const IDLE: Duration = Duration::from_millis(1);

type Ask = Box<dyn FnOnce(&mut Hall) + Send>;

/// The device's thread.
struct Hall {
    device: CpuDevice,
    sessions: Vec<(SessionId, Sender<Completion>)>,
}

impl Hall {
    fn serve(mut self, asked: &Receiver<Ask>, interrupt: &Interrupt) {
        let mut completions = Vec::new();
        loop {
            interrupt.lower();
            loop {
                match asked.try_recv() {
                    Ok(ask) => ask(&mut self),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            if self.device.is_busy() {
                self.device.poll(STRETCH, &mut completions);
            } else {
                match next(asked) {
                    Some(ask) => ask(&mut self),
                    None => return,
                }
            }
            for completion in completions.drain(..) {
                let session = completion.session;
                if let Some((_, tell)) = self.sessions.iter().find(|(id, _)| *id == session) {
                    // A program that is gone has no pending wait.
                    let _ = tell.send(completion);
                }
            }
        }
    }
}

fn next(asked: &Receiver<Ask>) -> Option<Ask> {
    let until = Instant::now() + AWAKE;
    while Instant::now() < until {
        match asked.try_recv() {
            Ok(ask) => return Some(ask),
            Err(TryRecvError::Empty) => std::thread::yield_now(),
            Err(TryRecvError::Disconnected) => return None,
        }
    }
    asked.recv().ok()
}

/// A program's side of the shared device.
struct Seat {
    ask: Sender<Ask>,
    interrupt: Arc<Interrupt>,
    info: DeviceInfo,
    priority: u8,
    done: Option<Receiver<Completion>>,
    outstanding: usize,
}

impl Seat {
    /// Runs a closure on the device's thread and waits for its answer.
    fn call<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Hall) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let gone = |_| Failure::new(Code::Device, "the device's thread has ended");
        let (answer, answered) = channel();
        let ask: Ask = Box::new(move |hall| drop(answer.send(act(hall))));
        self.ask.send(ask).map_err(|_| gone(()))?;
        self.interrupt.raise();
        answered.recv().map_err(|_| gone(()))?
    }
}

impl Device for Seat {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(
        &mut self,
        session: SessionId,
        window: Window,
        domain: Option<SharingDomain>,
    ) -> Result<(), Failure> {
        let (tell, done) = channel();
        self.done = Some(done);
        self.call(move |hall| {
            hall.sessions.push((session, tell));
            hall.device.open(session, window, domain)
        })
    }

    fn close(&mut self, session: SessionId) {
        // Without the thread there is nothing to close.
        let _ = self.call(move |hall| {
            hall.device.close(session);
            Ok(())
        });
    }

    fn prepare(&mut self, hash: ModuleHash, image: &[u8]) -> Result<PreparedModule, Failure> {
        let image = image.to_vec();
        self.call(move |hall| hall.device.prepare(hash, &image))
    }

    fn forget(&mut self, hash: ModuleHash) {
        // As in `close`.
        let _ = self.call(move |hall| {
            hall.device.forget(hash);
            Ok(())
        });
    }

    fn submit(&mut self, slice: Slice) {
        let priority = self.priority;
        let slice = Slice { priority, ..slice };
        let ask: Ask = Box::new(move |hall| hall.device.submit(slice));
        if self.ask.send(ask).is_ok() {
            self.outstanding += 1;
            self.interrupt.raise_for(priority);
        }
    }

    fn poll(&mut self, budget: Duration, completions: &mut Vec<Completion>) {
        let done = self.done.as_ref();
        if let Some(Ok(completion)) = done.map(|done| done.recv_timeout(budget)) {
            self.outstanding -= 1;
            completions.push(completion);
        }
    }

    fn is_busy(&self) -> bool {
        self.outstanding > 0
    }
}

/// Start parameters of both programs.
#[derive(Clone)]
struct Entrance {
    ask: Sender<Ask>,
    interrupt: Arc<Interrupt>,
    info: DeviceInfo,
}

impl Entrance {
    fn seat(&self, session: u64, priority: u8) -> Result<Local<Seat>> {
        let seat = Seat {
            ask: self.ask.clone(),
            interrupt: self.interrupt.clone(),
            info: self.info.clone(),
            priority,
            done: None,
            outstanding: 0,
        };
        Ok(Local::open(seat, session)?)
    }
}

/// Trains while `works` is set, until `over` is set.
fn train(entrance: &Entrance, works: &AtomicBool, over: &AtomicBool) -> Result<()> {
    let mut gpu = entrance.seat(2, 4)?;
    let mut workload = workloads::by_name(TRAIN, 1)?;
    let prepared = workload.prepare(&mut gpu);
    prepared.map_err(|error| anyhow!("preparing train: {error}"))?;
    while !over.load(Ordering::SeqCst) {
        match works.load(Ordering::SeqCst) {
            true => drop(workload.run(&mut gpu).map_err(|error| anyhow!("{error}"))?),
            false => std::thread::sleep(IDLE),
        }
    }
    Ok(())
}

fn chat(entrance: &Entrance, works: &AtomicBool, reps: usize) -> Result<Vec<Sides>> {
    let mut gpu = entrance.seat(1, 0)?;
    let mut workload = workloads::by_name(CHAT, 1)?;
    let prepared = workload.prepare(&mut gpu);
    prepared.map_err(|error| anyhow!("preparing chat: {error}"))?;
    let mut pauses = SplitMix64::new(1);
    let mut serve = |count| block(workload.as_mut(), &mut gpu, &mut pauses, count);
    serve(WARM_UP)?;
    let mut repetitions = Vec::new();
    for rep in 1..=reps {
        eprintln!("chat beside train in process: repetition {rep} of {reps}");
        let mut sides = Sides::default();
        for beside in [false, true].repeat(BLOCKS) {
            works.store(beside, Ordering::SeqCst);
            std::thread::sleep(SETTLE);
            sides.add(beside, serve(BLOCK)?);
        }
        repetitions.push(sides);
    }
    Ok(repetitions)
}

/// Runs both on one device.
pub(super) fn in_process(reps: usize) -> Result<Vec<Sides>> {
    let device = CpuDevice::new(CpuConfig::default());
    let (ask, asked) = channel();
    let entrance = Entrance {
        ask,
        interrupt: device.interrupt().unwrap_or_default(),
        info: device.info().clone(),
    };
    let (works, over) = (AtomicBool::new(true), AtomicBool::new(false));
    let hall = Hall {
        device,
        sessions: Vec::new(),
    };
    std::thread::scope(|scope| {
        let interrupt = entrance.interrupt.clone();
        scope.spawn(move || hall.serve(&asked, &interrupt));
        let (trains, works, over) = (entrance.clone(), &works, &over);
        let training = scope.spawn(move || train(&trains, works, over));
        let measured = chat(&entrance, works, reps);
        over.store(true, Ordering::SeqCst);
        let trained = training.join();
        trained.map_err(|_| anyhow!("train panicked"))??;
        // The device's thread ends once all senders of requests are gone.
        drop(entrance);
        measured
    })
}
