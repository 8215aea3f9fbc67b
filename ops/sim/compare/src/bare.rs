//! Programs and a policy on a device in one machine, without a bus and without Warploom.

use crate::device::{Device, Launch};
use crate::outcome::{ComparedRun, KernelRow};
use crate::program::{Program, Step};
use crate::rival::Rival;
use crate::scenario::Scenario;
use sim_cluster::Nanos;

struct Bare<'a> {
    scenario: &'a Scenario,
    rival: Box<dyn Rival>,
    device: Device,
    programs: Vec<Thread>,
    outcome: ComparedRun,
}

/// A program and its work under way.
struct Thread {
    program: Program,
    outstanding: usize,
    waits: bool,
    /// True if it made no further call, because too much is under way.
    full: bool,
    /// Time at which it will have noticed that its wait is over.
    noticed: Option<Nanos>,
}

/// Runs a scenario under a rival.
pub(crate) fn run(scenario: &Scenario, rival: Box<dyn Rival>) -> ComparedRun {
    let programs = (0..scenario.tenants.len()).map(|tenant| Thread {
        program: Program::new(scenario, tenant),
        outstanding: 0,
        waits: false,
        full: false,
        noticed: None,
    });
    let (from, to) = (scenario.warm_up, scenario.end());
    let mut bare = Bare {
        scenario,
        rival,
        device: Device::new(scenario.device, scenario.gap, from, to),
        programs: programs.collect(),
        outcome: ComparedRun::new(scenario),
    };
    while let Some(now) = bare.next_at().filter(|now| *now <= to) {
        bare.turn(now);
    }
    bare.finish()
}

impl Bare<'_> {
    fn next_at(&self) -> Option<Nanos> {
        let threads = self.programs.iter().filter_map(Thread::next_at);
        let wake = self.rival.wake().filter(|_| self.device.has_room());
        let other = [self.device.next_at(), wake];
        threads.chain(other.into_iter().flatten()).min()
    }

    fn turn(&mut self, now: Nanos) {
        self.device.advance(now);
        while let Some((launch, began)) = self.device.finished() {
            self.ended(now, launch, began);
        }
        for tenant in 0..self.programs.len() {
            self.drive(now, tenant);
        }
        while self.device.has_room() {
            let Some(launch) = self.rival.next(now, &self.device) else {
                break;
            };
            self.device.start(now, launch);
        }
    }

    fn ended(&mut self, now: Nanos, launch: Launch, began: Nanos) {
        self.rival.ended(now, &launch, began);
        let row = KernelRow {
            tenant: launch.tenant,
            request: launch.request,
            kernel: launch.index,
            ready: launch.ready,
            start: began + self.scenario.gap,
            end: now,
        };
        self.outcome.ended(self.scenario, row, launch.kernel.ns);
        let thread = &mut self.programs[launch.tenant as usize];
        thread.outstanding -= 1;
        thread.full = false;
        thread.notice(now + self.scenario.notice);
    }

    fn drive(&mut self, now: Nanos, tenant: usize) {
        let thread = &mut self.programs[tenant];
        if thread.noticed.is_some_and(|at| at <= now) {
            thread.noticed = None;
            thread.waits = false;
            let tenancy = &mut self.outcome.tenants[tenant];
            thread.program.answered(now, self.scenario, tenancy);
        }
        while thread.program.next_at().is_some_and(|at| at <= now) {
            thread.full = thread.outstanding >= self.scenario.depth;
            if thread.full {
                return;
            }
            match thread.program.step(now) {
                Step::Launch { request, kernel } => {
                    thread.outstanding += 1;
                    let model = &self.scenario.tenants[tenant].model;
                    let launch = Launch {
                        tenant: tenant as u32,
                        request,
                        index: kernel,
                        kernel: model.kernels[kernel as usize],
                        ready: now,
                    };
                    self.rival.launched(now, launch);
                }
                Step::Wait => {
                    thread.waits = true;
                    thread.notice(now + self.scenario.notice);
                }
                Step::At(_) | Step::Answer => {}
            }
        }
    }

    fn finish(mut self) -> ComparedRun {
        for (tenant, thread) in self.programs.iter_mut().enumerate() {
            let tenancy = &mut self.outcome.tenants[tenant];
            thread.program.finish(self.scenario, tenancy);
        }
        self.device.advance(self.scenario.end());
        self.outcome.active_ns = self.device.active();
        self.outcome.finish();
        self.outcome
    }
}

impl Thread {
    fn next_at(&self) -> Option<Nanos> {
        let next = self.program.next_at().filter(|_| !self.full);
        [next, self.noticed].into_iter().flatten().min()
    }

    /// Sets the time at which it notices, if none of its work is under way any more.
    fn notice(&mut self, at: Nanos) {
        if self.waits && self.outstanding == 0 {
            self.noticed = Some(at);
        }
    }
}
