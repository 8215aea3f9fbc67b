//! A program: a host thread that launches a request's kernels one call after the other, then waits for
//! them. Requests that come meanwhile wait in it.

use crate::outcome::Tenancy;
use crate::scenario::Scenario;
use crate::workload::Clockwork;
use sim_cluster::Nanos;
use sim_cluster::Random;

/// The next step of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The launch of this kernel of a request is called.
    Launch { request: u64, kernel: u32 },
    /// The program waits for all its launches.
    Wait,
    /// The program does nothing before this time.
    At(Nanos),
    /// The program does nothing before it is answered.
    Answer,
}

/// One tenant's program.
#[derive(Debug)]
pub(crate) struct Program {
    arrivals: Clockwork,
    kernels: u32,
    call: Nanos,
    /// Arrival time of the next request, or of the current one.
    arrival: Nanos,
    request: u64,
    /// Number of calls made for the current request; `None` between requests.
    called: Option<u32>,
    waiting: bool,
    /// Time at which the thread has finished its current call.
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

    /// Returns its step at `now`. A returned launch or wait counts as made.
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

    /// Time of its next step, unless an answer comes before.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        match (self.waiting, self.called) {
            (true, _) => None,
            (false, None) => Some(self.arrival),
            (false, Some(_)) => Some(self.free_at),
        }
    }

    /// Notes that all its launches are done.
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

    /// Ends the program: requests without an answer count with their age.
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
