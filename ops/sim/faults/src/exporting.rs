//! Memory that the sessions of a tenant share, asked for with the real exchange of a client.

use bus_schemas::{ExportKey, ExportPlace, Failure, IpcAction, IpcAnswer, Op, limits};
use client_agent_core::{Addresses, Exchange};
use sim_cluster::{Nanos, SECOND};

/// Maximum number of requests for one step while the session's memory is being moved.
const TRIES: u32 = 3;
/// Time after which a program waits for no answer.
const PATIENCE: Nanos = 5 * SECOND;
/// Place in a session's first allocation to which an import is copied. The model reads only the first cell of
/// that allocation.
const PEEKED: u64 = 4096;
/// Maximum bytes of such a copy.
const PEEKED_BYTES: u64 = 512;
/// Bytes of the first allocation that such a copy needs.
pub(crate) const PEEK_NEEDS: u64 = PEEKED + PEEKED_BYTES;

/// Memory that another session has exported.
#[derive(Debug, Clone, Copy)]
struct Import {
    address: u64,
    bytes: u64,
    /// The reserved range around it.
    room: u64,
}

/// The step that waits for an answer.
#[derive(Debug, Clone, Copy)]
enum Asked {
    Export,
    Find(ExportKey),
    Import(Import),
    Drop(Import),
}

/// Progress of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exported {
    /// The step is over.
    Done,
    /// The answer comes by this time, or is not waited for.
    Waits(Nanos),
    /// The session's memory is elsewhere: an op brings it back, then the step begins anew.
    Again,
}

/// The requests of a session, and its import.
#[derive(Debug, Default)]
pub(crate) struct Exporting {
    exchange: Exchange,
    asked: Option<Asked>,
    tries: u32,
    import: Option<Import>,
}

impl Exporting {
    /// Continues to export an allocation.
    pub(crate) fn export(
        &mut self,
        now: Nanos,
        addresses: &mut Addresses,
        (key, address): (ExportKey, u64),
    ) -> Exported {
        if self.asked.is_none() {
            return self.ask(now, Asked::Export, IpcAction::Export { key, address });
        }
        self.go_on(now, addresses)
    }

    /// Continues to import the memory of a key, unless the session has imported some.
    pub(crate) fn import(
        &mut self,
        now: Nanos,
        addresses: &mut Addresses,
        key: ExportKey,
    ) -> Exported {
        if self.asked.is_some() {
            return self.go_on(now, addresses);
        }
        match self.import {
            Some(_) => Exported::Done,
            None => self.ask(now, Asked::Find(key), IpcAction::Find { key }),
        }
    }

    /// Continues to give the import back.
    pub(crate) fn give_back(&mut self, now: Nanos, addresses: &mut Addresses) -> Exported {
        if self.asked.is_some() {
            return self.go_on(now, addresses);
        }
        let Some(import) = self.import.take() else {
            return Exported::Done;
        };
        let address = import.address;
        self.ask(now, Asked::Drop(import), IpcAction::Drop { address })
    }

    /// The op that copies bytes of the import to the first allocation, if there is an import.
    pub(crate) fn peek(&self, base: u64) -> Option<Op> {
        let import = self.import?;
        Some(Op::Copy {
            to: base + PEEKED,
            from: import.address,
            bytes: import.bytes.min(PEEKED_BYTES),
        })
    }

    fn ask(&mut self, now: Nanos, asked: Asked, action: IpcAction) -> Exported {
        self.exchange.ask(now, action);
        self.asked = Some(asked);
        Exported::Waits(now + PATIENCE)
    }

    fn go_on(&mut self, now: Nanos, addresses: &mut Addresses) -> Exported {
        let Some(answer) = self.exchange.take() else {
            let waited = self.exchange.waits(now);
            if waited < PATIENCE {
                return Exported::Waits(now + PATIENCE - waited);
            }
            self.exchange.give_up(now);
            self.asked = None;
            return self.end();
        };
        match (self.asked.take(), answer) {
            (Some(Asked::Find(key)), Ok(Some(place))) => self.reserve(now, addresses, key, place),
            (Some(Asked::Import(import)), Ok(_)) => {
                self.import = Some(import);
                self.end()
            }
            (Some(Asked::Import(import)), Err(failure)) => {
                free(addresses, import);
                self.refused(&failure)
            }
            (Some(Asked::Drop(import)), _) => {
                free(addresses, import);
                self.end()
            }
            (_, Err(failure)) => self.refused(&failure),
            _ => self.end(),
        }
    }

    fn reserve(
        &mut self,
        now: Nanos,
        addresses: &mut Addresses,
        key: ExportKey,
        place: ExportPlace,
    ) -> Exported {
        let span = place.span.next_multiple_of(limits::IPC_ALIGN);
        let Ok(room) = addresses.reserve(span, limits::IPC_ALIGN) else {
            return self.end();
        };
        let import = Import {
            address: room + place.before,
            bytes: place.bytes,
            room,
        };
        let address = import.address;
        if addresses.import(address, import.bytes).is_err() {
            return self.end();
        }
        let action = IpcAction::Import { key, address };
        self.ask(now, Asked::Import(import), action)
    }

    fn refused(&mut self, failure: &Failure) -> Exported {
        if failure.retryable && self.tries < TRIES {
            self.tries += 1;
            return Exported::Again;
        }
        self.end()
    }

    fn end(&mut self) -> Exported {
        self.tries = 0;
        Exported::Done
    }

    /// Takes the worker's answer.
    pub(crate) fn answered(&mut self, now: Nanos, answer: IpcAnswer) {
        self.exchange.answered(now, answer);
    }

    /// Takes the request that is due.
    pub(crate) fn request(&mut self, now: Nanos) -> Option<Vec<u8>> {
        self.exchange.message(now)
    }

    /// Time at which a request is due.
    pub(crate) fn next_request(&self) -> Option<Nanos> {
        self.exchange.next_wakeup()
    }
}

/// Frees the addresses of an import.
fn free(addresses: &mut Addresses, import: Import) {
    // Both were taken for it.
    let _ = addresses.unmap(import.address);
    let _ = addresses.unreserve(import.room);
}

/// The key by which programs of all tenants export.
pub(crate) fn key(number: u32) -> ExportKey {
    ExportKey([u64::from(number), 0])
}
