//! Steps that need a worker's answer: offered copies, and memory that sessions share.

use bus_schemas::Op;
use client_agent_core::{Outbox, PushError};
use sim_cluster::{Io, Nanos, ProgramProgress};

use super::ModelProgram;
use crate::exporting::{Exported, key};
use crate::offering::{Offering, content};
use crate::program::Step;

impl ModelProgram {
    /// Continues a step that needs its worker's answer. Returns the program's progress unless the step is done.
    pub(super) fn with_worker(
        &mut self,
        io: &mut Io,
        outbox: &mut Outbox,
        step: Step,
    ) -> Result<Option<ProgramProgress>, PushError> {
        if let Step::Offered { content, bytes } = step {
            let is_done = self.offer(io, outbox, content, bytes)?;
            return Ok((!is_done).then_some(ProgramProgress::Rest(None)));
        }
        Ok(match self.share(io.now, step) {
            Exported::Done => None,
            Exported::Waits(until) => Some(ProgramProgress::Rest(Some(until))),
            // An op brings the session's memory back.
            Exported::Again => {
                self.steps.push_front(Step::Wait);
                self.steps.push_front(Step::Sync);
                Some(ProgramProgress::On)
            }
        })
    }

    /// Continues to offer and copy a content. Returns true if it is done.
    fn offer(
        &mut self,
        io: &mut Io,
        outbox: &mut Outbox,
        number: u32,
        bytes: u32,
    ) -> Result<bool, PushError> {
        let mut offering = match self.offering.take() {
            Some(offering) => offering,
            None => Offering::begin(outbox, content(number, bytes))?,
        };
        let result = self.continue_offer(io, outbox, &mut offering);
        self.offering = Some(offering).filter(|it| !it.is_done());
        result
    }

    fn continue_offer(
        &mut self,
        io: &mut Io,
        outbox: &mut Outbox,
        offering: &mut Offering,
    ) -> Result<bool, PushError> {
        while !offering.is_done() {
            let Some(piece) = offering.next(outbox)? else {
                return Ok(false);
            };
            if !outbox.has_room() {
                return Err(PushError::Full);
            }
            let op = Op::CopyIn {
                address: self.base() + piece.offset,
                bytes: piece.bytes.len() as u64,
                transfer: piece.transfer,
            };
            self.push(io, outbox, op, 0, (&[], Some(&piece.bytes)))?;
            offering.pushed();
        }
        Ok(true)
    }

    /// Continues a step about memory that sessions share.
    fn share(&mut self, now: Nanos, step: Step) -> Exported {
        let (Some(addresses), Some(newest)) = (&mut self.addresses, self.allocated.back()) else {
            return Exported::Done;
        };
        let exporting = &mut self.exporting;
        match step {
            Step::Export(number) => exporting.export(now, addresses, (key(number), *newest)),
            Step::Import(number) => exporting.import(now, addresses, key(number)),
            _ => exporting.give_back(now, addresses),
        }
    }

    /// Reads the import.
    pub(super) fn peek(&mut self, io: &mut Io, outbox: &mut Outbox) -> Result<(), PushError> {
        match self.exporting.peek(self.base()) {
            Some(op) => self.push(io, outbox, op, 0, (&[], None)),
            None => Ok(()),
        }
    }
}
