//! The device's thread: it owns the device, and serves only that.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::compiler::{CompileLimits, CompilerThreads};
use super::device_command::Command;
use super::device_event::{DeviceEvent, EventSender, EventsReady, Polling};
use super::device_loop::DeviceLoop;
use actix::Recipient;
use bus_schemas::{Code, Failure, Spares};
use device::{Compiler, Device, DeviceInfo, Interrupt, Keeper, SwapUse};

/// Capacity of the command channel to the thread.
const COMMANDS: usize = 1_024;

/// Creates the device on the thread that will own it.
pub type MakeDevice = Box<dyn FnOnce() -> Result<Box<dyn Device>, Failure> + Send>;

/// Lets the calling thread sleep precisely: Linux adds 50 us otherwise, more than many kernels
/// take.
fn sleep_precisely() {
    #[cfg(target_os = "linux")]
    // If this is refused, sleeps take longer.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1_000));
}

/// The handle of the thread. Dropping it ends the thread.
pub(super) struct DeviceThread {
    commands: Option<SyncSender<Command>>,
    backlog: VecDeque<Command>,
    events: Receiver<DeviceEvent>,
    polling: Polling,
    interrupt: Option<Arc<Interrupt>>,
    compiler: Option<CompilerThreads>,
    thread: Option<JoinHandle<()>>,
}

/// The thread with its device, before an actor receives its events.
pub(super) struct DeviceStart {
    commands: SyncSender<Command>,
    events: Receiver<DeviceEvent>,
    polling: Polling,
    sender: SyncSender<EventSender>,
    event_sender: Sender<DeviceEvent>,
    interrupt: Option<Arc<Interrupt>>,
    spares: Arc<Mutex<Spares>>,
    pub(super) keeper: Arc<dyn Keeper>,
    compiler: Option<Arc<dyn Compiler>>,
    thread: JoinHandle<()>,
    pub(super) info: DeviceInfo,
    /// Size and use of its swap space.
    pub(super) swap: Option<SwapUse>,
}

impl DeviceStart {
    /// Starts the thread and creates the device on it.
    pub(super) fn start(make: MakeDevice) -> Result<Self, Failure> {
        let (commands, received) = sync_channel(COMMANDS);
        let (sender, attached) = sync_channel::<EventSender>(1);
        let (answer, made) = sync_channel(1);
        let (event_sender, events) = channel();
        let body = move || {
            sleep_precisely();
            let mut device = match make() {
                Ok(device) => device,
                Err(failure) => return drop(answer.send(Err(failure))),
            };
            let info = device.info().clone();
            let spares = device.spares().unwrap_or_default();
            let keeper = device.keeper();
            let swap = device.swap_use();
            let parts = (
                info,
                device.interrupt(),
                (spares, keeper),
                device.compiler(),
                swap,
            );
            let waits = answer.send(Ok(parts)).is_ok();
            if waits && let Ok(sender) = attached.recv() {
                DeviceLoop::new(device.as_mut(), &received, sender).run();
            }
        };
        let failed = |detail: String| Failure::new(Code::Device, detail);
        let thread = std::thread::Builder::new()
            .name("device".into())
            .spawn(body)
            .map_err(|error| failed(format!("the device's thread does not start: {error}")))?;
        let (info, interrupt, (spares, keeper), compiler, swap) = made
            .recv()
            .map_err(|_| failed("the device's thread died while it made the device".into()))??;
        Ok(Self {
            commands,
            events,
            polling: Polling::default(),
            sender,
            event_sender,
            interrupt,
            spares,
            keeper,
            compiler,
            thread,
            info,
            swap,
        })
    }

    /// The buffers for transfers and answers.
    pub(super) fn spares(&self) -> Arc<Mutex<Spares>> {
        Arc::clone(&self.spares)
    }

    /// Sets the actor that is woken for events; from now on the thread serves commands.
    pub(super) fn serve(
        self,
        actor: Recipient<EventsReady>,
        limits: CompileLimits,
    ) -> DeviceThread {
        let sender = EventSender {
            events: self.event_sender,
            polling: self.polling.clone(),
            actor,
        };
        let compiler = self.compiler.map(|compiler| {
            let sender = sender.clone();
            let send = Box::new(move |events: &mut Vec<DeviceEvent>| sender.send(events));
            CompilerThreads::new(compiler, send, limits)
        });
        // The thread waits for this message.
        let _ = self.sender.send(sender);
        DeviceThread {
            commands: Some(self.commands),
            backlog: VecDeque::new(),
            events: self.events,
            polling: self.polling,
            interrupt: self.interrupt,
            compiler,
            thread: Some(self.thread),
        }
    }
}

impl DeviceThread {
    /// Sends a command, in order and without waiting.
    pub(super) fn command(&mut self, command: Command) {
        let command = match (command, &self.compiler) {
            (Command::Prepare(tenant, hash, image), Some(compiler)) => {
                return compiler.compile(tenant, hash, image);
            }
            (Command::Cancel(hash), Some(compiler)) => return compiler.cancel(hash),
            (Command::Forget(hash), Some(compiler)) => return compiler.forget(hash),
            (command, _) => command,
        };
        let urgency = command.urgency();
        self.backlog.push_back(command);
        self.catch_up();
        // After the command, or the device could check before the command is there.
        if let Some(interrupt) = &self.interrupt {
            match urgency {
                Some(priority) => interrupt.raise_for(priority),
                None => interrupt.raise(),
            }
        }
    }

    /// Sends the commands that found no room.
    pub(super) fn catch_up(&mut self) {
        let Some(commands) = &self.commands else {
            return;
        };
        while let Some(command) = self.backlog.pop_front() {
            match commands.try_send(command) {
                Ok(()) => {}
                Err(TrySendError::Full(command)) => return self.backlog.push_front(command),
                Err(TrySendError::Disconnected(_)) => return,
            }
        }
    }

    /// Takes the events since the last call, in order.
    pub(super) fn events(&mut self) -> Vec<DeviceEvent> {
        self.events.try_iter().collect()
    }

    /// Polls for events for at most `wait`.
    pub(super) fn poll(&mut self, wait: Duration) -> Vec<DeviceEvent> {
        let until = Instant::now() + wait;
        self.polling.store(true, Ordering::SeqCst);
        let mut events = self.events();
        while events.is_empty() && Instant::now() < until {
            std::thread::yield_now();
            events = self.events();
        }
        // Events from here on wake the actor; earlier ones are seen here.
        self.polling.store(false, Ordering::SeqCst);
        events.append(&mut self.events());
        events
    }

    /// True if the thread has died.
    pub(super) fn is_dead(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for DeviceThread {
    fn drop(&mut self) {
        // The thread ends once it sees this; a long kernel is not waited for.
        self.commands = None;
    }
}
