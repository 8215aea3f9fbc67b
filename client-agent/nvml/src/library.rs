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

use client_session::{ProgramSettings, memory_changes};

use crate::snapshot::{DeviceState, Viewer, arranged};
use crate::status::{Reasons, Result, Status};
use crate::watcher::{WatchError, Watcher};

/// Time limit of initialisation, and of the first request of a forked child.
const BEGINNING: Duration = Duration::from_secs(2);
/// Time limit of any other request.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time for which an answer is reused: tools query about twenty properties of each device in a row.
const FRESH: Duration = Duration::from_millis(20);
/// Minimum time between two questions: a worker answers a tenant as often, and no more often.
const APART: Duration = Duration::from_millis(5);

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

/// The part of a view that a function reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Names and other fixed properties.
    Properties,
    /// Memory, activity, processes, and the order of the devices, which depends on processes.
    Figures,
}

/// The last answer of the cluster, or its refusal.
struct Known {
    view: Result<Arc<View>>,
    /// The time before the question was sent. Figures are of a later moment.
    asked: Instant,
    /// The time at which the answer came.
    came: Instant,
    /// [`memory_changes`] before the question was sent.
    changes: u64,
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
    known: Option<Known>,
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

    /// True if each device's worker has answered.
    fn is_complete(&self) -> bool {
        self.devices.iter().all(|device| device.share.is_some())
    }
}

impl Known {
    /// True if the answer is as new as a function may expect.
    ///
    /// Figures age from the question on: an answer may come late, and then tells of an earlier moment. What
    /// this process has done since makes them older still. A refusal, or silence of a worker, ages from its
    /// end on, so that functions in a row do not wait for it one after another.
    fn serves(&self, wanted: Wanted) -> bool {
        let is_complete = self.view.as_ref().is_ok_and(|view| view.is_complete());
        match wanted {
            Wanted::Figures if is_complete => {
                self.asked.elapsed() < FRESH && self.changes == memory_changes()
            }
            _ => self.came.elapsed() < FRESH,
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
        let begun = state.look(Wanted::Properties, BEGINNING, &library.reasons);
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

/// The state of the cluster, as new as [`Known::serves`] says.
///
/// # Errors
/// [`Status::TIMEOUT`] if it does not answer within [`PATIENCE`].
pub(crate) fn view(wanted: Wanted) -> Result<Arc<View>> {
    let library = library();
    let mut state = library.lock();
    if state.users == 0 {
        return Err(Status::UNINITIALIZED);
    }
    let patience = match state.watcher {
        Some(_) => PATIENCE,
        None => BEGINNING,
    };
    state.look(wanted, patience, &library.reasons)
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
    fn look(&mut self, wanted: Wanted, patience: Duration, reasons: &Reasons) -> Result<Arc<View>> {
        if let Some(known) = &self.known {
            if known.serves(wanted) {
                return known.view.clone();
            }
            std::thread::sleep(APART.saturating_sub(known.asked.elapsed()));
        }
        let (asked, changes) = (Instant::now(), memory_changes());
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
        self.known = Some(Known {
            view: view.clone(),
            asked,
            came: Instant::now(),
            changes,
        });
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
            let seen = state.look(Wanted::Figures, SHORT, &Reasons::default());
            let seen = seen.expect("the device is known");
            assert_eq!((seen.devices[0].gpu, seen.devices[0].share), (3, None));
            state.known = None;
        }
    }

    #[test]
    fn figures_age_from_their_question_on_and_properties_from_their_answer_on() {
        let asked = Instant::now();
        std::thread::sleep(FRESH);
        // An answer that has just come, however long the rest of the test takes.
        let came = Instant::now() + Duration::from_secs(60);
        let known = |view, asked, changes| Known {
            view,
            asked,
            came,
            changes,
        };
        let serves = |it: Known| [it.serves(Wanted::Figures), it.serves(Wanted::Properties)];
        let (now, whole) = (memory_changes(), Arc::new(view()));
        let part = Arc::new(view().unheard());
        assert_eq!(serves(known(Ok(whole.clone()), came, now)), [true, true]);
        let late = known(Ok(whole.clone()), asked, now);
        assert_eq!(serves(late), [false, true], "it tells of long ago");
        let before = known(Ok(whole), came, now.wrapping_add(1));
        assert_eq!(serves(before), [false, true], "this process went on");
        for waited in [Ok(part), Err(Status::TIMEOUT)] {
            let waited = known(waited, asked, now);
            assert_eq!(serves(waited), [true, true], "it is not waited for again");
        }
    }

    #[test]
    fn a_late_answer_is_not_told_to_the_question_after_it() {
        let (mut state, _asked) = silent(None);
        let mut held = 0;
        state.watcher = Some(Watcher::answering(move || {
            std::thread::sleep(FRESH);
            held += 1;
            let mut devices = view().devices;
            devices[0].share = devices[0].share.map(|share| DeviceShare { held, ..share });
            devices
        }));
        for round in 1..=3 {
            let seen = state.look(Wanted::Figures, PATIENCE, &Reasons::default());
            let share = seen.expect("it answers").devices[0].share;
            assert_eq!(share.map(|it| it.held), Some(round));
        }
    }

    #[test]
    fn a_thread_that_is_late_twice_is_followed_by_another() {
        let (mut state, _asked) = silent(None);
        for stays in [true, false] {
            let seen = state.look(Wanted::Figures, SHORT, &Reasons::default());
            assert_eq!(seen.err(), Some(Status::TIMEOUT), "nothing was known");
            assert_eq!(state.watcher.is_some(), stays, "once it may only be late");
            state.known = None;
        }
    }
}
