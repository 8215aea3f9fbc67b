//! The loop of the device's thread: commands, the device's work, and events about it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use bus_schemas::{Code, ExportPlace, Failure, SessionId};
use device::{Completion, Device, Interrupt, SwapUse};
use gpu_worker_core::exports::DeviceAction;

use super::device_command::Command;
use super::device_event::{DeviceEvent, EventSender};

/// Maximum time of device work between two checks for commands.
const BUDGET: Duration = Duration::from_micros(100);
/// Time that an idle thread polls for the next command before it sleeps, because a wake-up takes
/// longer than an empty launch. Meanwhile it yields its core to other threads.
const AWAKE: Duration = Duration::from_micros(200);
/// Idle time before the device does a little background work, and the interval of that work. It
/// takes one or two hundredths of a core, and only while there is such work.
const TEND: Duration = Duration::from_millis(5);
/// Interval of checks of memory moves while nothing runs, and interval of reports about them.
const MOVES: Duration = Duration::from_millis(1);
const PROGRESS: Duration = Duration::from_millis(50);

/// State of the loop of the device's thread.
pub(super) struct DeviceLoop<'a> {
    device: &'a mut dyn Device,
    interrupt: Option<Arc<Interrupt>>,
    commands: &'a Receiver<Command>,
    sender: EventSender,
    events: Vec<DeviceEvent>,
    completions: Vec<Completion>,
    /// Sessions with a failed slice: nothing of them runs any more.
    broken: BTreeSet<SessionId>,
    /// True while memory is being moved.
    moves: bool,
    /// Time of the last report on the progress of moves.
    told_at: Instant,
    /// Use of the swap space as last reported.
    told: SwapUse,
}

impl<'a> DeviceLoop<'a> {
    pub(super) fn new(
        device: &'a mut dyn Device,
        commands: &'a Receiver<Command>,
        sender: EventSender,
    ) -> Self {
        Self {
            interrupt: device.interrupt(),
            device,
            commands,
            sender,
            events: Vec::new(),
            completions: Vec::new(),
            broken: BTreeSet::new(),
            moves: false,
            told_at: Instant::now(),
            told: SwapUse::default(),
        }
    }

    /// Runs until the other end of the commands is dropped.
    pub(super) fn run(mut self) {
        loop {
            if let Some(interrupt) = &self.interrupt {
                // Cleared before the commands are taken: a command sent from here on sets it again.
                interrupt.lower();
            }
            loop {
                match self.commands.try_recv() {
                    Ok(command) => self.execute(command),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            if self.device.is_busy() {
                self.device.poll(BUDGET, &mut self.completions);
            }
            for completion in self.completions.drain(..) {
                if completion.fault.is_some() {
                    self.broken.insert(completion.session);
                }
                self.events.push(DeviceEvent::Completed(completion));
            }
            let lost = self.device.lost();
            if let Some(why) = lost.clone() {
                self.events.push(DeviceEvent::Lost(why));
            }
            self.send_events();
            if lost.is_some() {
                return;
            }
            if !self.device.is_busy() && self.completions.is_empty() {
                match self.next() {
                    Some(command) => self.execute(command),
                    None => return,
                }
            }
        }
    }

    /// Sends events, and then the charges of sessions that changed because of them.
    fn send_events(&mut self) {
        self.look_at_moves();
        let mut gone = Vec::new();
        if let Some(exports) = self.device.exports() {
            exports.take_gone(&mut gone);
        }
        if !gone.is_empty() {
            self.events.push(DeviceEvent::ExportsGone(gone));
        }
        let mut changed = Vec::new();
        self.device.recharged(&mut changed);
        if !changed.is_empty() {
            let saved = self.device.saved();
            self.events.push(DeviceEvent::Recharged(changed, saved));
        }
        if !self.events.is_empty() {
            self.sender.send(&mut self.events);
        }
    }

    /// Reports moves that have ended, and periodically the progress of the others.
    fn look_at_moves(&mut self) {
        if !self.moves {
            return;
        }
        let mut ended = Vec::new();
        self.moves = self.device.moved(&mut ended);
        let now = Instant::now();
        let used = self.device.swap_use().unwrap_or_default();
        if ended.is_empty() && now < self.told_at + PROGRESS {
            return;
        }
        (self.told_at, self.told) = (now, used);
        self.events.push(DeviceEvent::Moved(ended, used));
    }

    /// Reports the use of the swap space if it changed without a move, for example at the end of a
    /// session with memory there.
    fn look_at_swap_space(&mut self) {
        let Some(used) = self.device.swap_use().filter(|_| !self.moves) else {
            return;
        };
        if (used.memory, used.file) != (self.told.memory, self.told.file) {
            self.told = used;
            self.events.push(DeviceEvent::Moved(Vec::new(), used));
        }
    }

    /// Returns the next command: polls for a short time, then waits. Meanwhile the device does
    /// background work.
    fn next(&mut self) -> Option<Command> {
        self.look_at_swap_space();
        if !self.events.is_empty() {
            self.send_events();
        }
        let until = Instant::now() + AWAKE;
        while Instant::now() < until {
            match self.commands.try_recv() {
                Ok(command) => return Some(command),
                Err(TryRecvError::Empty) => std::thread::yield_now(),
                Err(TryRecvError::Disconnected) => return None,
            }
        }
        loop {
            let wait = if self.moves { MOVES } else { TEND };
            match self.commands.recv_timeout(wait) {
                Ok(command) => return Some(command),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.moves {
                self.send_events();
                continue;
            }
            let more = self.device.tend();
            self.look_at_swap_space();
            self.send_events();
            if !more {
                return self.commands.recv().ok();
            }
        }
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Open(session, window, owner) => {
                let failure = self.device.open(session, window, owner.domain).err();
                match failure {
                    Some(_) => drop(self.broken.insert(session)),
                    None => self.device.belongs(session, owner.tenant),
                }
                self.events.push(DeviceEvent::Opened(session, failure));
            }
            Command::Close(session) => {
                self.device.close(session);
                self.broken.remove(&session);
                self.events.push(DeviceEvent::Closed(session));
            }
            Command::Stop(session, why) => self.device.stop(session, why),
            Command::Prepare(_, hash, image) => {
                let prepared = self.device.prepare(hash, &image);
                self.events.push(DeviceEvent::Prepared(hash, prepared));
            }
            Command::Forget(hash) => self.device.forget(hash),
            Command::Submit(slice) if self.broken.contains(&slice.session) => {
                let why = "an earlier slice of the session failed";
                self.completions.push(Completion {
                    position: slice.position,
                    session: slice.session,
                    fault: Some((slice.first, Failure::new(Code::Device, why))),
                    ..Completion::default()
                });
            }
            Command::Submit(slice) => self.device.submit(slice),
            Command::SwapOut(session) => {
                self.device.swap_out(session);
                self.moves = true;
            }
            Command::SwapIn(session) => {
                self.device.swap_in(session);
                self.moves = true;
            }
            Command::Exchange(session, action) => {
                let came = self.exchange(session, action);
                self.events.push(DeviceEvent::Exchanged(session, came));
            }
            // A device that prepares images itself has already done so.
            Command::Cancel(_) | Command::Wake => {}
        }
    }

    fn exchange(
        &mut self,
        session: SessionId,
        action: DeviceAction,
    ) -> Result<Option<ExportPlace>, Failure> {
        let none = || Failure::new(Code::NotPinned, "the device's sessions share no memory");
        let exports = self.device.exports().ok_or_else(none)?;
        match action {
            DeviceAction::Export { export, address } => {
                exports.export(session, address, export).map(Some)
            }
            DeviceAction::Import { export, address } => {
                exports.import(session, address, export).map(|()| None)
            }
            DeviceAction::Drop { address } => exports.drop_import(session, address).map(|()| None),
        }
    }
}
