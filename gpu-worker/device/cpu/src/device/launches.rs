//! Launches of a session: started, timed, parked and resumed.
//!
//! Programs launch the same kernel repeatedly. So a launch passes its buffers on to the next equal
//! one, and the clock is read once for all of them.

use super::failure::{fault_failure, hopper, launch_failure};
use super::launched::{Launched, Streak};
use super::session::{Progressing, Run, Session, Step, nanos};
use crate::engine::{Grid, Progress};
use crate::error::FaultKind;
use bus_schemas::{Code, Failure, Launch};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Warp instructions per thread between two reads of the clock: about half a millisecond.
const STRIDE: u64 = 50_000;

/// The watchdog counts processor time, so that a busy machine does not hurt a kernel. Elapsed time
/// ends a kernel only if it exceeds this many times the watchdog's limit.
const WAITING: u32 = 20;

/// The message for a program after the watchdog ended its kernel. A kernel that waits for a later
/// operation works on a GPU but never here, so the message names that case too.
fn exceeded_words(limit: Duration) -> String {
    format!(
        "it ran longer than worker.watchdog ({limit:?}). If it waited for a kernel of another stream, \
         or for what the program writes to memory meanwhile: a session's calls run one after another, \
         in the order in which they were made, whatever their stream"
    )
}

impl Progressing {
    /// Counts the launches of the current streak. Returns the time of its end, if there was a
    /// streak.
    pub(super) fn end_streak(&mut self) -> Option<Instant> {
        let streak = self.streak.take()?;
        let now = Instant::now();
        let time = nanos(streak.spent + now.duration_since(streak.began));
        if streak.count > 0 {
            self.completion
                .count_all(streak.key, streak.count, time, streak.sms);
        }
        Some(now)
    }

    /// The streak that a launch continues or begins.
    fn streak(&mut self, launched: &Launched) -> &mut Streak {
        if self.streak.as_ref().is_none_or(|it| it.key != launched.key) {
            let began = self.end_streak().unwrap_or_else(Instant::now);
            self.begin_streak(launched, began);
        }
        self.streak.as_mut().expect("just begun")
    }

    fn begin_streak(&mut self, launched: &Launched, began: Instant) {
        self.streak = Some(Streak {
            key: launched.key,
            sms: launched.sms,
            began,
            count: 0,
            spent: Duration::ZERO,
        });
    }

    /// The run time of a launch that did not end within a stride. From here on it is alone in its
    /// streak: the stride counts for the equal launches before it, which share its key.
    fn own_time(&mut self, launched: &Launched) -> Duration {
        let streak = self.streak(launched);
        if streak.count > 0 {
            let began = self.end_streak().unwrap_or_else(Instant::now);
            self.begin_streak(launched, began);
        }
        launched.spent + self.streak(launched).began.elapsed()
    }

    /// Maximum bytes for the blocks of the next launch.
    fn launch_bytes(&self) -> u64 {
        let granted = self.slice.launch_bytes.iter().rev();
        let granted = granted.copied().find(|(op, _)| *op <= self.next);
        granted.map_or(device::SMALL_LAUNCH, |(_, bytes)| bytes)
    }

    /// Gives the scratch of the previous launch back to the engine.
    pub(super) fn forget(&mut self, run: &Run<'_>) {
        if let Some(launched) = self.ended.take() {
            run.engine.recycle(launched.running);
        }
    }
}

impl Session {
    /// Starts a launch, or resumes the parked one.
    pub(super) fn launch(
        &mut self,
        run: &Run<'_>,
        progress: &mut Progressing,
        launch: &Launch,
        params: &[u8],
    ) -> Result<Step, Failure> {
        let mut launched = match self.launched.take() {
            Some(parked) => parked,
            None => self.start(run, progress, launch, params)?,
        };
        progress.streak(&launched);
        let kill = AtomicBool::new(false);
        let stride = STRIDE * run.threads as u64;
        loop {
            let stop = run.interrupt.flag();
            let memory = &mut self.memory;
            let latest = Some(run.latest);
            match launched
                .running
                .step_unless(memory, stride, &kill, stop, latest)
            {
                Err(mut fault) => {
                    launched.running.take_printed(&mut self.printed);
                    run.engine.recycle(launched.running);
                    if kill.load(Ordering::Relaxed) && fault.kind == FaultKind::Timeout {
                        fault.detail = exceeded_words(run.watchdog);
                    }
                    return Err(fault_failure(&fault));
                }
                Ok(Progress::Done(_)) => break,
                Ok(Progress::Running) => {}
            }
            let own = progress.own_time(&launched);
            let exceeded = launched.running.busy() > run.watchdog;
            if exceeded || own > run.watchdog.saturating_mul(WAITING) {
                // The next check sees the flag and reports the thread that was running.
                kill.store(true, Ordering::Relaxed);
            } else if run.is_over() {
                launched.spent = own;
                progress.streak = None;
                self.launched = Some(launched);
                return Ok(Step::Parked);
            }
        }
        launched.running.take_printed(&mut self.printed);
        let streak = progress.streak(&launched);
        streak.count += 1;
        streak.spent += std::mem::take(&mut launched.spent);
        progress.ended = Some(launched);
        Ok(Step::Done)
    }

    fn start(
        &mut self,
        run: &Run<'_>,
        progress: &mut Progressing,
        launch: &Launch,
        params: &[u8],
    ) -> Result<Box<Launched>, Failure> {
        if let Some(mut ended) = progress.ended.take_if(|ended| ended.of == *launch) {
            let room = progress.launch_bytes();
            ended.running.again(params, room).map_err(launch_failure)?;
            return Ok(ended);
        }
        progress.forget(run);
        let room = progress.launch_bytes();
        let Some((instance, prepared)) = self.slots.get(&launch.module) else {
            let detail = format!("no module in slot {}", launch.module);
            return Err(Failure::new(Code::UnknownFunction, detail));
        };
        let function = launch.function as usize;
        let Some(fingerprint) = prepared.fingerprints.get(function) else {
            let detail = format!("the module has no function number {function}");
            return Err(Failure::new(Code::UnknownFunction, detail));
        };
        let key = match self.last {
            Some((last, key)) if last == *launch => key,
            _ => fingerprint.launch_key(launch),
        };
        self.last = Some((*launch, key));
        if launch.attributes.cluster != [0; 3] || launch.attributes.tensor_maps {
            return Err(hopper());
        }
        let grid = Grid {
            grid: launch.grid,
            block: launch.block,
            shared: launch.shared,
        };
        let running = run
            .engine
            .start_within(instance, function, grid, params, room)
            .map_err(launch_failure)?;
        let blocks: u64 = launch.grid.iter().map(|n| u64::from(*n)).product();
        Ok(Box::new(Launched {
            running,
            of: *launch,
            key,
            sms: blocks.min(run.threads as u64).max(1),
            spent: Duration::ZERO,
        }))
    }
}
