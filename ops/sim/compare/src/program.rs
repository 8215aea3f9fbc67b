//! A program: a host thread that launches a request's kernels one call after the other, then
//! waits for them. Requests that come meanwhile wait in it.

use crate::outcome::Tenancy;
use crate::scenario::Scenario;
use crate::workload::Clockwork;
use sim_cluster::Nanos;
use sim_cluster::Random;

/// What a program does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It has called for the launch of this kernel of a request.
    Launch { request: u64, kernel: u32 },
    /// It has asked to be told when all it launched is done.
    Wait,
    /// Nothing before this time.
    At(Nanos),
    /// Nothing before it is answered.
    Answer,
}

/// One tenant's program.
#[derive(Debug)]
pub(crate) struct Program {
    arrivals: Clockwork,
    kernels: u32,
    call: Nanos,
    /// When the next request comes, or the present one came.
    arrival: Nanos,
    request: u64,
    /// Calls made for the present request; `None` between requests.
    called: Option<u32>,
    waiting: bool,
    /// When the thread has made its present call.
    free_at: Nanos,
}

impl Program {
    pub(crate) fn new(scenario: &Scenario, tenant: usize) -> Self {
        let setup = &scenario.tenants[tenant];
        let random = Random::of(scenario.seed, 1_000 + tenant as u64);
        let mut arrivals = Clockwork::new(&setup.model, scenario.gap, setup.start, random);
        let arrival = arrivals.next(setup.start);
        Self {
            arrivals,
            kernels: setup.model.kernels.len() as u32,
            call: scenario.call,
            arrival,
            request: 0,
            called: None,
            waiting: false,
            free_at: 0,
        }
    }

    /// What it does at `now`. A launch or wait is taken as done by being told.
    pub(crate) fn step(&mut self, now: Nanos) -> Step {
        if self.waiting {
            return Step::Answer;
        }
        let Some(called) = self.called else {
            if self.arrival > now {
                return Step::At(self.arrival);
            }
            self.request += 1;
            self.called = Some(0);
            self.free_at = now + self.call;
            return Step::At(self.free_at);
        };
        if self.free_at > now {
            return Step::At(self.free_at);
        }
        if called == self.kernels {
            self.waiting = true;
            return Step::Wait;
        }
        self.called = Some(called + 1);
        self.free_at = now + self.call;
        Step::Launch {
            request: self.request,
            kernel: called,
        }
    }

    /// When it does something next, if nothing is told it before.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        match (self.waiting, self.called) {
            (true, _) => None,
            (false, None) => Some(self.arrival),
            (false, Some(_)) => Some(self.free_at),
        }
    }

    /// Everything it launched is done.
    pub(crate) fn answered(&mut self, now: Nanos, scenario: &Scenario, tenancy: &mut Tenancy) {
        let arrived = self.arrival;
        if arrived >= scenario.warm_up && arrived < scenario.end() {
            tenancy.latencies.push(now - arrived);
        }
        if now > scenario.warm_up && now <= scenario.end() {
            tenancy.answered += 1;
        }
        self.waiting = false;
        self.called = None;
        self.arrival = self.arrivals.next(now);
    }

    /// The end: what came and was not answered counts with its age.
    pub(crate) fn finish(&mut self, scenario: &Scenario, tenancy: &mut Tenancy) {
        let end = scenario.end();
        let closed = self.arrivals.is_closed();
        while self.arrival < end {
            if self.arrival >= scenario.warm_up {
                tenancy.latencies.push(end - self.arrival);
            }
            if closed {
                break;
            }
            self.arrival = self.arrivals.next(end);
        }
    }
}
