//! What the device's thread does: commands, the device's work, and events of what it has done.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use bus_schemas::{Code, ExportPlace, Failure, SessionId};
use device::{Completion, Device, Interrupt, SwapUse};
use gpu_worker_core::exports::DeviceAction;

use super::device_command::Command;
use super::device_event::{DeviceEvent, EventSender};

/// Longest stretch of device work between two looks at the commands.
const BUDGET: Duration = Duration::from_micros(100);
/// How long an idle thread looks for the next command before it sleeps: waking it takes longer
/// than an empty launch does. Others that want its core get it meanwhile.
const AWAKE: Duration = Duration::from_micros(200);
/// How long there is nothing to do before the device does a little of what nobody waits for, and
/// between two times: it takes a hundredth of a core or two, and only while there is some.
const TEND: Duration = Duration::from_millis(5);
/// Between two looks at moves of memory while there is nothing to run, and between two reports of them.
const MOVES: Duration = Duration::from_millis(1);
const PROGRESS: Duration = Duration::from_millis(50);

/// What the device's thread does.
pub(super) struct DeviceLoop<'a> {
    device: &'a mut dyn Device,
    interrupt: Option<Arc<Interrupt>>,
    commands: &'a Receiver<Command>,
    sender: EventSender,
    events: Vec<DeviceEvent>,
    completions: Vec<Completion>,
    /// Sessions of which a slice has failed: nothing of them runs any more.
    broken: BTreeSet<SessionId>,
    /// Memory is being moved.
    moves: bool,
    /// When it was told last how far that is.
    told_at: Instant,
    /// Use of the swap space as it was told last.
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

    /// Until the other end of the commands is dropped.
    pub(super) fn run(mut self) {
        loop {
            if let Some(interrupt) = &self.interrupt {
                // Before the commands are taken: whoever hands over one from here on raises it.
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

    /// Sends what was done; behind it what sessions are charged now, because of it.
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

    /// Tells of moves that have ended, and now and then how far the others are.
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

    /// Tells how full the swap space is where that has changed without a move, as when a session ends whose
    /// memory was there.
    fn look_at_swap_space(&mut self) {
        let Some(used) = self.device.swap_use().filter(|_| !self.moves) else {
            return;
        };
        if (used.memory, used.file) != (self.told.memory, self.told.file) {
            self.told = used;
            self.events.push(DeviceEvent::Moved(Vec::new(), used));
        }
    }

    /// The next command: looked for a little while, then waited for. Meanwhile the device does what
    /// nobody waits for.
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
            // A device that prepares images itself has done so when this is read.
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
