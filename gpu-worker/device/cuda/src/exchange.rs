//! Memory of one session that another session uses.

use bus_schemas::{Code, ExportPlace, Failure, SessionId};
use device::ExportMemory;

use crate::CudaDevice;
use crate::session::Session;

fn gone() -> Failure {
    Failure::new(Code::NotExported, "what was exported has been freed")
}

impl CudaDevice {
    fn here(&mut self, session: SessionId) -> Result<&mut Session, Failure> {
        if let Some(why) = &self.lost {
            return Err(why.clone());
        }
        let away = self.away.has(session);
        match self.sessions.get_mut(&session) {
            Some(here) => Ok(here),
            None if away => Err(Failure {
                retryable: true,
                ..Failure::new(Code::NotPinned, "the session's memory is being moved")
            }),
            None => Err(Failure::new(Code::SessionGone, "the session has ended")),
        }
    }
}

impl CudaDevice {
    /// Ends the exports of a session, of one allocation or of all. Importers finish the work on them that
    /// they have begun, and reach nothing there any more.
    pub(crate) fn end_exports(&mut self, session: SessionId, address: Option<u64>) {
        for (id, at) in self.exports.end(session, address) {
            if let Some(importer) = self.sessions.get_mut(&id) {
                // An importer with an ended context reaches nothing either.
                let _ = importer.drop_import(at);
            }
        }
    }
}

impl ExportMemory for CudaDevice {
    fn export(
        &mut self,
        session: SessionId,
        address: u64,
        export: u64,
    ) -> Result<ExportPlace, Failure> {
        let extents = self.here(session)?.export(address)?;
        let place = extents.place;
        self.exports.add(export, session, address, extents);
        Ok(place)
    }

    fn import(&mut self, session: SessionId, address: u64, export: u64) -> Result<(), Failure> {
        let context = self.context;
        let extents = self.exports.extents(export).ok_or_else(gone)?;
        let here = self.here(session)?;
        let entered = context.enter();
        let imported = entered.and_then(|()| here.import(&context, address, &extents));
        self.noted(imported)?;
        self.exports.imported(export, (session, address));
        Ok(())
    }

    fn drop_import(&mut self, session: SessionId, address: u64) -> Result<(), Failure> {
        let dropped = self.here(session)?.drop_import(address);
        self.noted(dropped)?;
        self.exports.dropped((session, address));
        Ok(())
    }

    fn take_gone(&mut self, gone: &mut Vec<u64>) {
        self.exports.take_gone(gone);
    }
}
