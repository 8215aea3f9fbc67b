//! The library's state in one process: its users, its watcher, the newest snapshot.
//!
//! The child of a fork has none of the parent's threads, and locks that they held stay taken there.
//! So it gets a state of its own, which is initialised as often as the parent's was. It asks the
//! cluster on a connection of its own.

#![expect(unsafe_code, reason = "a fork handler of the C library")]

use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use client_session::ProgramSettings;

use crate::snapshot::{DeviceState, Viewer, arranged};
use crate::status::{Reasons, Result, Status};
use crate::watcher::{WatchError, Watcher};

/// Time limit of initialisation, and of the first request of a forked child.
const BEGINNING: Duration = Duration::from_secs(2);
/// Time limit of any other request.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time for which an answer is reused: tools query about twenty properties of each device in a row.
const FRESH: Duration = Duration::from_millis(20);

/// Number of forks between this process and the one that loaded the library.
static GENERATION: AtomicU64 = AtomicU64::new(0);
/// Number of times that the library is initialised, kept for a child.
static USERS: AtomicUsize = AtomicUsize::new(0);
static LIBRARY: AtomicPtr<Library> = AtomicPtr::new(std::ptr::null_mut());

/// An answer of the cluster, with its time.
#[derive(Debug)]
pub(crate) struct View {
    /// The devices in this process's order.
    pub(crate) devices: Vec<DeviceState>,
    /// The process that looks at the devices.
    pub(crate) viewer: Viewer,
    /// Microseconds since 1970.
    pub(crate) taken: u64,
}

struct Library {
    generation: u64,
    state: Mutex<State>,
    reasons: Reasons,
}

struct State {
    users: usize,
    settings: Option<ProgramSettings>,
    watcher: Option<Watcher>,
    known: Option<(Instant, Result<Arc<View>>)>,
    /// The last answer of the cluster.
    said: Option<Arc<View>>,
    /// True if the watcher was late with its last answer.
    late: bool,
}

impl View {
    /// The part of the view that stays valid during silence: all but the workers' reports.
    fn unheard(&self) -> Self {
        let devices = self.devices.iter().map(DeviceState::unheard);
        Self {
            devices: devices.collect(),
            viewer: self.viewer.clone(),
            taken: self.taken,
        }
    }
}

/// Runs in the child of a fork: no lock, no allocation.
extern "C" fn forked() {
    GENERATION.fetch_add(1, Ordering::SeqCst);
}

/// This process's state.
fn library() -> &'static Library {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.swap(true, Ordering::SeqCst) {
        // SAFETY: the handler adds to one number and takes no lock, which a forked child may do.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    }
    let generation = GENERATION.load(Ordering::SeqCst);
    let before = LIBRARY.load(Ordering::Acquire);
    // SAFETY: the pointer stored there is to a box that is never freed.
    if let Some(library) = unsafe { before.as_ref() }
        && library.generation == generation
    {
        return library;
    }
    let state = State {
        users: USERS.load(Ordering::SeqCst),
        settings: None,
        watcher: None,
        known: None,
        said: None,
        late: false,
    };
    let library = Library {
        generation,
        state: Mutex::new(state),
        reasons: Reasons::default(),
    };
    let made = Box::into_raw(Box::new(library));
    let order = Ordering::AcqRel;
    match LIBRARY.compare_exchange(before, made, order, Ordering::Acquire) {
        // SAFETY: it was just made from a box, and is never freed.
        Ok(_) => unsafe { &*made },
        Err(theirs) => {
            // SAFETY: it was just made from a box, and has no other user.
            drop(unsafe { Box::from_raw(made) });
            // SAFETY: the pointer stored there is to a box that is never freed.
            unsafe { &*theirs }
        }
    }
}

/// True if any part of the process has initialised the library.
pub(crate) fn is_initialised() -> bool {
    USERS.load(Ordering::SeqCst) > 0
}

/// Initialises the library, or counts one more user of it.
///
/// # Errors
/// [`Status::DRIVER_NOT_LOADED`], with its reason noted, within [`BEGINNING`].
pub(crate) fn init() -> Result {
    let library = library();
    let mut state = library.lock();
    if state.users == 0 {
        let begun = state.look(BEGINNING, &library.reasons);
        if begun.is_err() {
            state.end();
            return Err(Status::DRIVER_NOT_LOADED);
        }
    }
    state.users += 1;
    USERS.store(state.users, Ordering::SeqCst);
    Ok(())
}

/// Removes one user; without users, the connection ends.
///
/// # Errors
/// [`Status::UNINITIALIZED`] if there is none.
pub(crate) fn shutdown() -> Result {
    let mut state = library().lock();
    state.users = state.users.checked_sub(1).ok_or(Status::UNINITIALIZED)?;
    USERS.store(state.users, Ordering::SeqCst);
    if state.users == 0 {
        state.end();
    }
    Ok(())
}

/// The state of the cluster, not older than [`FRESH`].
///
/// # Errors
/// [`Status::TIMEOUT`] if it does not answer within [`PATIENCE`].
pub(crate) fn view() -> Result<Arc<View>> {
    let library = library();
    let mut state = library.lock();
    if state.users == 0 {
        return Err(Status::UNINITIALIZED);
    }
    let patience = match state.watcher {
        Some(_) => PATIENCE,
        None => BEGINNING,
    };
    state.look(patience, &library.reasons)
}

/// The text of a code, with the reason of a failed initialisation.
pub(crate) fn explain(code: i32) -> *const c_char {
    library().reasons.explain(code)
}

impl Library {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn look(&mut self, patience: Duration, reasons: &Reasons) -> Result<Arc<View>> {
        // A refusal is reused too, so that several threads in the queue do not wait one after
        // another.
        if let Some((when, known)) = &self.known
            && when.elapsed() < FRESH
        {
            return known.clone();
        }
        let view = match (self.ask(patience), &self.said) {
            // On a busy machine, the thread's report that a worker is silent may come too late.
            (Err(WatchError::Silent), Some(said)) => Ok(Arc::new(said.unheard())),
            (answer, _) => answer.map(Arc::new).map_err(|why| {
                reasons.note(&why.to_string());
                match why {
                    WatchError::Ask(_) | WatchError::Silent => Status::TIMEOUT,
                    WatchError::Connect(_) | WatchError::Settings(_) | WatchError::Thread(_) => {
                        Status::GPU_IS_LOST
                    }
                }
            }),
        };
        if let Ok(view) = &view {
            self.said = Some(view.clone());
        }
        self.known = Some((Instant::now(), view.clone()));
        view
    }

    fn ask(&mut self, patience: Duration) -> std::result::Result<View, WatchError> {
        let settings = match &self.settings {
            Some(settings) => settings.clone(),
            None => {
                let read = ProgramSettings::read(|name| std::env::var_os(name));
                self.settings
                    .insert(read.map_err(WatchError::Settings)?)
                    .clone()
            }
        };
        let most = settings.devices;
        let watcher = match &self.watcher {
            Some(watcher) => watcher,
            None => self.watcher.insert(Watcher::start(settings, patience)?),
        };
        let answer = watcher.ask(patience);
        let ended = matches!(answer, Err(WatchError::Connect(_)));
        let late = matches!(answer, Err(WatchError::Silent));
        if ended || late && self.late {
            // Its thread has ended or is stuck: the next request gets a new one.
            self.watcher = None;
        }
        self.late = late && self.watcher.is_some();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let viewer = Viewer::here();
        Ok(View {
            devices: arranged(answer?, &viewer, most),
            viewer,
            taken: now.map_or(0, |now| now.as_micros() as u64),
        })
    }

    fn end(&mut self) {
        self.settings = None;
        self.watcher = None;
        self.known = None;
        self.said = None;
        self.late = false;
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::{DeviceProperties, Incarnation};

    use super::*;
    use crate::snapshot::DeviceShare;

    const SHORT: Duration = Duration::from_millis(30);

    /// A state with a watcher that answers nothing while the returned guard lives.
    fn silent(said: Option<View>) -> (State, impl Sized) {
        let (watcher, asked) = Watcher::silent();
        let settings = ProgramSettings::read(|name| {
            let value = match name {
                "WARPLOOM_BROKER_URL" => "nats://127.0.0.1:9",
                "WARPLOOM_TENANT" | "WARPLOOM_USER" | "WARPLOOM_PASSWORD" => "a",
                _ => return None,
            };
            Some(value.into())
        });
        let state = State {
            users: 1,
            settings: Some(settings.expect("settings")),
            watcher: Some(watcher),
            known: None,
            said: said.map(Arc::new),
            late: false,
        };
        (state, asked)
    }

    fn view() -> View {
        let share = DeviceShare {
            total: 8,
            held: 1,
            free: 7,
            busy_ppm: 0,
        };
        let device = DeviceState {
            gpu: 3,
            worker: Incarnation(1),
            properties: DeviceProperties::default(),
            allowed: 8,
            share: Some(share),
            processes: Vec::new(),
        };
        View {
            devices: vec![device],
            viewer: Viewer::here(),
            taken: 5,
        }
    }

    #[test]
    fn a_device_stays_known_while_the_thread_is_late_and_what_its_worker_said_does_not() {
        let (mut state, _asked) = silent(Some(view()));
        for _ in 0..2 {
            let seen = state.look(SHORT, &Reasons::default());
            let seen = seen.expect("the device is known");
            assert_eq!((seen.devices[0].gpu, seen.devices[0].share), (3, None));
            state.known = None;
        }
    }

    #[test]
    fn a_thread_that_is_late_twice_is_followed_by_another() {
        let (mut state, _asked) = silent(None);
        for stays in [true, false] {
            let seen = state.look(SHORT, &Reasons::default());
            assert_eq!(seen.err(), Some(Status::TIMEOUT), "nothing was known");
            assert_eq!(state.watcher.is_some(), stays, "once it may only be late");
            state.known = None;
        }
    }
}
