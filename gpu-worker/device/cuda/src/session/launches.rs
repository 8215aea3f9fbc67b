//! Launches and the marks that measure them, as handed to the driver.
//!
//! A timed mark costs the device 2 us, as much as a small kernel. So most launches have none: those of a run
//! share the time of the run. A kernel is measured by itself while little is known of it, and every kernel in
//! some slices.

use bus_schemas::{Code, Failure, FunctionFingerprint, Launch};

use super::flight::Flight;
use super::{Entry, Session, tensor_maps};
use crate::driver::EventKind;
use crate::pools::Mark;

/// Bytes of a copy that takes about as long as a mark: it counts as a part of the launches around it.
const LIGHT: u64 = 64 << 10;

fn unknown(what: String) -> Failure {
    Failure::new(Code::UnknownFunction, what)
}

impl Session {
    pub(super) fn launch(
        &mut self,
        sms: u32,
        launch: &Launch,
        params: &[u8],
        flight: &mut Flight,
    ) -> Result<(), Failure> {
        let entry = self.entry(launch, params)?;
        let key = entry.fingerprint.launch_key(launch);
        let alone = flight.sampled || self.pools.times().is_due(key);
        if alone || flight.alone {
            self.close(flight)?;
        }
        if flight.runs.wants_begin() {
            let from = self.mark(EventKind::Timed)?;
            flight.runs.begin(Some(from));
        }
        if launch.attributes.non_portable {
            entry.function.allow_large_clusters()?;
        }
        if launch.attributes.tensor_maps {
            let params = tensor_maps::in_place(self.window, params)?;
            self.stream.launch(entry.function, launch, &params)?;
        } else {
            self.stream.launch(entry.function, launch, params)?;
        }
        let blocks = launch.grid.iter().map(|n| u64::from(*n)).product::<u64>();
        flight.runs.add(key, blocks.min(u64::from(sms)));
        flight.alone = alone;
        Ok(())
    }

    /// Returns the function that a launch names, if it takes these parameters and this much shared memory.
    fn entry(&mut self, launch: &Launch, params: &[u8]) -> Result<Entry, Failure> {
        let loaded = self.slots.get_mut(launch.module);
        let loaded = loaded.ok_or_else(|| unknown(format!("slot {} is empty", launch.module)))?;
        let index = launch.function as usize;
        let known = loaded.functions.get(index).copied().flatten();
        if let Some(entry) = known
            && entry.params == params.len()
            && entry.allowed >= launch.shared
        {
            return Ok(entry);
        }
        let info = loaded.linked.info.functions.get(index);
        let info = info.ok_or_else(|| unknown(format!("no function {index}")))?;
        if params.len() != info.param_bytes as usize {
            let (name, have, need) = (&info.name, params.len(), info.param_bytes);
            let detail = format!("{name} takes {need} bytes of parameters, not {have}");
            return Err(Failure::new(Code::BadLaunch, detail));
        }
        let mut entry = match known {
            Some(entry) => entry,
            None => Entry {
                function: loaded.module.function(&info.name)?,
                fingerprint: FunctionFingerprint::new(&loaded.linked.hash, &info.name),
                params: params.len(),
                allowed: 0,
            },
        };
        if launch.shared > entry.allowed {
            // With its static bytes, fewer than 48 KiB may exceed its default limit.
            entry.function.allow_shared(launch.shared)?;
            entry.allowed = launch.shared;
        }
        if index >= loaded.functions.len() {
            loaded.functions.resize(index + 1, None);
        }
        if let Some(place) = loaded.functions.get_mut(index) {
            *place = Some(entry);
        }
        Ok(entry)
    }

    /// Records an event at this point of the stream.
    pub(super) fn mark(&self, kind: EventKind) -> Result<Mark, Failure> {
        let mark = self.pools.events.take(kind)?;
        self.stream.record(&mark)?;
        Ok(mark)
    }

    /// Ends the open run of launches, if there is one.
    pub(super) fn close(&self, flight: &mut Flight) -> Result<(), Failure> {
        if flight.runs.is_open() {
            let end = self.mark(EventKind::Timed)?;
            flight.runs.close(end);
        }
        Ok(())
    }

    /// Excludes the following work from the time of launches.
    pub(super) fn part(&self, flight: &mut Flight) -> Result<(), Failure> {
        self.close(flight)?;
        flight.runs.part();
        Ok(())
    }

    /// Excludes a following copy or fill of many bytes from the time of launches.
    pub(super) fn part_by(&self, bytes: u64, flight: &mut Flight) -> Result<(), Failure> {
        match bytes > LIGHT {
            true => self.part(flight),
            false if flight.alone => self.close(flight),
            false => Ok(()),
        }
    }
}
