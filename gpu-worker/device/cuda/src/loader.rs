//! The loader: a thread that unloads modules of sessions. That waits for all work of the GPU, and the
//! device's thread makes launches meanwhile.

use std::ops::Deref;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use bus_schemas::{Code, Failure};

use crate::driver::{Context, Module};

/// A request to the thread.
#[derive(Debug)]
enum Request {
    Unload(Module),
    /// Ends the thread.
    End,
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

/// The thread. Dropped, it unloads what came back before, and ends.
#[derive(Debug)]
pub(crate) struct Loader {
    requests: Requests,
    thread: Option<JoinHandle<()>>,
}

impl Loader {
    /// Starts the thread for modules of a context.
    pub(crate) fn new(context: Context) -> Result<Self, Failure> {
        let (sender, receiver) = channel();
        let thread = Builder::new().name("warploom-loader".into());
        let started = thread.spawn(move || serve(context, &requests));
        let thread = started.map_err(|error| {
            let detail = format!("the host gives no thread that unloads modules: {error}");
            Failure::new(Code::OutOfMemory, detail)
        })?;
        Ok(Self {
            requests: Requests(sender),
            thread: Some(thread),
        })
    }

    /// Lends a module to a session.
    pub(crate) fn lend(&self, module: Module) -> OwnedModule {
        OwnedModule {
            module,
            requests: self.requests.clone(),
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
fn serve(context: Context, requests: &Receiver<Request>) {
    for request in requests {
        match request {
            Request::Unload(module) => {
                // An error has no reader: its session has ended, or does not use the module any more.
                drop(context.enter());
                drop(module);
            }
            Request::End => return,
        }
    }
}
