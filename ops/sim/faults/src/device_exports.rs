//! Memory that sessions of a model device share.

use std::collections::BTreeMap;

use bus_schemas::{Code, ExportPlace, Failure, SessionId};
use gpu_worker_core::exports::DeviceAction;

/// An exported allocation.
#[derive(Debug, Clone, Copy)]
struct Export {
    session: SessionId,
    address: u64,
    bytes: u64,
}

/// The exports and imports of a device's sessions.
#[derive(Debug, Default)]
pub(crate) struct DeviceExports {
    exports: BTreeMap<u64, Export>,
    /// Imports of each session: address, number of the export and bytes.
    imports: BTreeMap<SessionId, BTreeMap<u64, (u64, u64)>>,
    gone: Vec<u64>,
}

impl DeviceExports {
    /// Acts for a session. `allocation` has the bytes of its allocation at an address.
    ///
    /// # Errors
    /// Those of [`device::ExportMemory`].
    pub(crate) fn exchange(
        &mut self,
        session: SessionId,
        action: DeviceAction,
        allocation: impl Fn(u64) -> Option<u64>,
    ) -> Result<Option<ExportPlace>, Failure> {
        let imports = self.imports.entry(session).or_default();
        match action {
            DeviceAction::Export { export, address } => {
                let none = || Failure::new(Code::BadAddress, "nothing was allocated there");
                let bytes = allocation(address).ok_or_else(none)?;
                let exported = Export {
                    session,
                    address,
                    bytes,
                };
                self.exports.insert(export, exported);
                Ok(Some(ExportPlace {
                    bytes,
                    before: 0,
                    span: bytes,
                }))
            }
            DeviceAction::Import { export, address } => {
                let gone = || Failure::new(Code::NotExported, "the export is gone");
                let exported = self.exports.get(&export).ok_or_else(gone)?;
                imports.insert(address, (export, exported.bytes));
                Ok(None)
            }
            DeviceAction::Drop { address } => {
                let none = || Failure::new(Code::BadAddress, "nothing was imported there");
                imports.remove(&address).map(|_| None).ok_or_else(none)
            }
        }
    }

    /// True if a session has exports or imports.
    pub(crate) fn shares(&self, session: SessionId) -> bool {
        let imports = self.imports.get(&session);
        let exports = || self.exports.values().any(|it| it.session == session);
        imports.is_some_and(|it| !it.is_empty()) || exports()
    }

    /// Returns what a session has imported: address and bytes.
    pub(crate) fn visible(&self, session: SessionId) -> Vec<(u64, u64)> {
        let imports = self.imports.get(&session).into_iter().flatten();
        imports
            .map(|(address, (_, bytes))| (*address, *bytes))
            .collect()
    }

    /// Ends the exports of a session's freed allocation, or all of a session that is closed. Returns them. A
    /// mutant `keeps` the imports.
    pub(crate) fn end(
        &mut self,
        session: SessionId,
        address: Option<u64>,
        keeps: bool,
    ) -> Vec<u64> {
        if address.is_none() {
            self.imports.remove(&session);
        }
        let is_it = |_: &u64, it: &mut Export| {
            it.session == session && address.is_none_or(|address| it.address == address)
        };
        let ended = self.exports.extract_if(.., is_it);
        let ended: Vec<u64> = ended.map(|(export, _)| export).collect();
        if !keeps {
            for imports in self.imports.values_mut() {
                imports.retain(|_, (export, _)| !ended.contains(export));
            }
        }
        self.gone.extend(&ended);
        ended
    }

    /// Takes the exports that have ended since the last call.
    pub(crate) fn take_gone(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.gone)
    }
}
