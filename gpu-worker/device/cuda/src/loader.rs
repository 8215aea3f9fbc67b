//! The loader: a thread that loads and unloads modules of sessions. Both wait for all work of the GPU, and
//! the device's thread makes launches meanwhile.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use bus_schemas::{Code, Failure};

use crate::clock::Clock;
use crate::driver::{Context, Module};
use crate::linked::Linked;

/// A request to the thread.
#[derive(Debug)]
enum Request {
    Load(Wanted),
    Unload(Module),
    /// Ends the thread.
    End,
}

/// A module to load.
#[derive(Debug)]
struct Wanted {
    linked: Arc<Linked>,
    /// Time at which it was asked for.
    asked: Instant,
    /// The way by which the module goes back.
    requests: Requests,
    answers: Sender<Answer>,
}

/// The answer to a request for a module.
#[derive(Debug)]
struct Answer {
    module: Result<OwnedModule, Failure>,
    /// Time at which it was given.
    at: Instant,
}

/// The way to the thread, for sessions.
#[derive(Debug, Clone)]
struct Requests(Sender<Request>);

/// A module that a session has. Dropped, it goes back to the loader.
#[derive(Debug)]
pub(crate) struct OwnedModule {
    module: Module,
    requests: Requests,
}

impl Deref for OwnedModule {
    type Target = Module;

    fn deref(&self) -> &Module {
        &self.module
    }
}

impl Drop for OwnedModule {
    fn drop(&mut self) {
        let module = std::mem::replace(&mut self.module, Module::none());
        // If the thread has ended, it is unloaded here.
        drop(self.requests.0.send(Request::Unload(module)));
    }
}

/// A module on its way to a session. If this is dropped, the module goes back when it is there.
#[derive(Debug)]
pub(crate) struct Loading {
    linked: Arc<Linked>,
    answers: Receiver<Answer>,
    answer: Option<Answer>,
    clock: Clock,
}

impl Loading {
    /// True if there is an answer.
    pub(crate) fn is_over(&mut self) -> bool {
        if self.answer.is_none() {
            self.answer = match self.answers.try_recv() {
                Ok(answer) => Some(answer),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Answer {
                    module: Err(ended()),
                    at: self.clock.now(),
                }),
            };
        }
        let answer = self.answer.as_ref();
        answer.is_some_and(|answer| answer.at <= self.clock.now())
    }

    /// Returns the module, with its image. There is an answer.
    pub(crate) fn take(self) -> Result<(Arc<Linked>, OwnedModule), Failure> {
        let answer = self.answer.map_or_else(|| Err(ended()), |it| it.module);
        answer.map(|module| (self.linked, module))
    }
}

fn ended() -> Failure {
    Failure::new(Code::Device, "the thread that loads modules has ended")
}

/// The thread. Dropped, it unloads what came back before, and ends.
#[derive(Debug)]
pub(crate) struct Loader {
    requests: Requests,
    clock: Clock,
    thread: Option<JoinHandle<()>>,
}

impl Loader {
    /// Starts the thread for modules of a context.
    pub(crate) fn new(context: Context, clock: Clock) -> Result<Self, Failure> {
        let (sender, receiver) = channel();
        let thread = Builder::new().name("warploom-loader".into());
        let its = clock.clone();
        let started = thread.spawn(move || serve(context, &its, &receiver));
        let thread = started.map_err(|error| {
            let detail = format!("the host gives no thread that loads modules: {error}");
            Failure::new(Code::OutOfMemory, detail)
        })?;
        Ok(Self {
            requests: Requests(sender),
            clock,
            thread: Some(thread),
        })
    }

    /// Asks for a module of an image.
    pub(crate) fn load(&self, linked: Arc<Linked>) -> Loading {
        let (to, answers) = channel();
        let wanted = Wanted {
            linked: Arc::clone(&linked),
            asked: self.clock.now(),
            requests: self.requests.clone(),
            answers: to,
        };
        // If the thread has ended, there will be no answer.
        drop(self.requests.0.send(Request::Load(wanted)));
        let answer = match &self.clock {
            Clock::Host => None,
            // No virtual time passes until the answer and its time are known, so that all runs are alike.
            Clock::Given(_) => answers.recv().ok(),
        };
        Loading {
            linked,
            answers,
            answer,
            clock: self.clock.clone(),
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        drop(self.requests.0.send(Request::End));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Serves requests in order, until the end.
fn serve(context: Context, clock: &Clock, requests: &Receiver<Request>) {
    for request in requests {
        match request {
            Request::Load(wanted) => load(context, clock, wanted),
            Request::Unload(module) => {
                // An error has no reader: its session has ended, or does not use the module any more.
                drop(context.enter());
                drop(module);
            }
            Request::End => return,
        }
    }
}

fn load(context: Context, clock: &Clock, wanted: Wanted) {
    clock.reach(wanted.asked);
    let entered = context.enter();
    let module = entered.and_then(|()| Module::load(&wanted.linked.code));
    let requests = wanted.requests;
    let module = module.map(|module| OwnedModule { module, requests });
    let at = clock.now();
    // A session that has ended takes no answer, and its module comes back.
    drop(wanted.answers.send(Answer { module, at }));
}
