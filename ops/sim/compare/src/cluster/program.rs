//! A program as a client runs it: its thread's calls are pushed, and an answer lets it continue.

use std::rc::Rc;

use bus_schemas::{KernelKey, Launch, Op, OpNumber, Opened};
use client_agent_core::{Outbox, OutboxSettings};
use sim_cluster::{ClientProgram, Habits, Io, MICRO, MILLI, Nanos, NodeFact, ProgramProgress};

use super::books::{Called, Shared};
use super::place::Place;
use crate::program::Step;
use crate::scenario::Scenario;

/// Bytes of a launch's parameters.
const PARAMS: [u8; 64] = [0; 64];

/// One client's program.
pub(super) struct ClockedProgram {
    index: usize,
    scenario: Rc<Scenario>,
    place: Rc<Place>,
    books: Shared,
}

impl ClockedProgram {
    pub(super) fn new(
        index: usize,
        scenario: Rc<Scenario>,
        place: Rc<Place>,
        books: Shared,
    ) -> Self {
        Self {
            index,
            scenario,
            place,
            books,
        }
    }
}

impl ClientProgram for ClockedProgram {
    const HABITS: Habits = Habits {
        ask_again: 50 * MILLI,
        // Time until the session's task, woken for lingering ops, has run.
        linger: Some(20 * MICRO),
        settling: None,
    };

    fn nonce(&self) -> u64 {
        self.index as u64 + 1
    }

    fn start(&self) -> Nanos {
        MILLI
    }

    fn on_another(&mut self, _: u64) -> Self {
        Self::new(
            self.index,
            self.scenario.clone(),
            self.place.clone(),
            self.books.clone(),
        )
    }

    fn opened(&mut self, opened: &Opened) -> OutboxSettings {
        self.books.borrow_mut().customers[self.index].is_open = true;
        OutboxSettings::new(opened.session, opened.epoch, opened.leader)
    }

    fn step(&mut self, io: &mut Io, outbox: &mut Outbox) -> ProgramProgress {
        let customer = &mut self.books.borrow_mut().customers[self.index];
        let pushed = loop {
            let next = customer.program.next_at();
            if next.is_none_or(|at| at > io.now) {
                return ProgramProgress::Rest(next);
            }
            if !outbox.has_room() {
                return ProgramProgress::Full;
            }
            match customer.program.step(io.now) {
                Step::Launch { request, kernel } => {
                    customer.called.push_back(Called {
                        request,
                        kernel,
                        at: io.now,
                    });
                    let key = self.place.keys[self.index][kernel as usize];
                    break outbox.push(&launch(kernel), 0, &PARAMS, key);
                }
                Step::Wait => break outbox.push(&Op::Sync, 0, &[], KernelKey(0)),
                Step::At(_) | Step::Answer => {}
            }
        };
        match pushed {
            Ok(_) => ProgramProgress::On,
            Err(error) => {
                let why = error.to_string();
                io.fact(NodeFact::Broken { why });
                ProgramProgress::Rest(None)
            }
        }
    }

    fn is_done(&self) -> bool {
        false
    }

    fn is_waiting(&self) -> bool {
        self.books.borrow().customers[self.index]
            .program
            .next_at()
            .is_none()
    }

    fn answered(&mut self, now: Nanos, _: OpNumber, _: &[u8]) -> bool {
        let books = &mut *self.books.borrow_mut();
        let tenancy = &mut books.outcome.tenants[self.index];
        let program = &mut books.customers[self.index].program;
        program.answered(now, &self.scenario, tenancy);
        true
    }
}

/// The launch of a model's kernel, which the worker identifies by its index.
fn launch(kernel: u32) -> Op {
    Op::Launch(Launch {
        module: 0,
        function: kernel,
        grid: [1; 3],
        block: [32, 1, 1],
        shared: 0,
        attributes: bus_schemas::LaunchAttributes::default(),
    })
}
