//! Ops, as the driver gets them.

use std::collections::BTreeMap;

use bus_schemas::{
    Code, Failure, FunctionFingerprint, Launch, ModuleHash, Op, OpNumber, OpRef, TENSOR_MAP_BYTES,
};

use super::flight::Given;
use super::flight::{Flight, Timed};
use super::{Loaded, Session, Surroundings, tensor_maps};
use crate::driver::{Event, Module};

impl Session {
    /// Hands the driver one op.
    pub(super) fn run(
        &mut self,
        surroundings: &Surroundings<'_>,
        number: OpNumber,
        op: &OpRef<'_>,
        flight: &mut Flight,
    ) -> Result<(), Failure> {
        match op.op {
            Op::Alloc { address, bytes } => self.alloc(surroundings, address, bytes),
            Op::Free { address } => {
                self.stream.wait()?;
                self.memory.free(address)
            }
            Op::CopyIn {
                address,
                bytes,
                transfer,
            } => {
                self.check(address, bytes)?;
                self.copy_in(flight, (address, bytes), transfer, op.payload)
            }
            Op::CopyOut { address, bytes } => {
                self.check(address, bytes)?;
                let pieces = self.copy_out(address, bytes)?;
                self.answer(number, Given::Copied(pieces), flight)
            }
            Op::Copy { to, from, bytes } => {
                self.check(to, bytes)?;
                self.check(from, bytes)?;
                self.stream.copy(to, from, bytes)
            }
            Op::Set {
                address,
                count,
                value,
                width,
            } => self.set(address, count, value, width),
            Op::LoadModule { slot, hash } => self.load(surroundings, slot, hash),
            Op::UnloadModule { slot } => {
                self.stream.wait()?;
                self.slots.remove(&slot);
                Ok(())
            }
            Op::Launch(launch) => self.launch(surroundings.sms, &launch, op.payload, flight),
            Op::Event { timed: false, .. } => Ok(()),
            Op::Event { event, timed: true } => {
                let reached = Event::new()?;
                self.stream.record(&reached)?;
                flight.events.push((number, event, reached));
                Ok(())
            }
            Op::Sync => self.answer(number, Given::Nothing, flight),
            Op::TensorMap { address } => {
                self.check(address, TENSOR_MAP_BYTES as u64)?;
                let map = tensor_maps::encoded(self.window, op.payload)?;
                self.stream.copy_in(address, &map)
            }
            Op::Symbols { slot } => {
                let rows = self.symbols(slot)?;
                self.answer(number, Given::Symbols(rows), flight)
            }
        }
    }

    /// Allocates, and clears: what another session left there is nobody's to read, behind the end of
    /// the allocation neither.
    fn alloc(
        &mut self,
        around: &Surroundings<'_>,
        address: u64,
        bytes: u64,
    ) -> Result<(), Failure> {
        if bytes > around.spare {
            let left = around.spare;
            let detail = format!("{bytes} bytes asked for, {left} are left on the device");
            return Err(Failure::new(Code::OutOfMemory, detail));
        }
        for (fresh, size) in self.memory.alloc(around.context, address, bytes)? {
            self.stream.set(fresh, size, 0, 1)?;
        }
        self.stream.set(address, bytes, 0, 1)
    }

    /// Sets `count` elements of `width` bytes each.
    fn set(&self, address: u64, count: u64, value: u32, width: u8) -> Result<(), Failure> {
        self.check(address, count.saturating_mul(u64::from(width)))?;
        if !address.is_multiple_of(u64::from(width)) {
            let detail = format!("{address:#x} is not a multiple of {width}");
            return Err(Failure::new(Code::Misaligned, detail));
        }
        self.stream.set(address, count, value, width)
    }

    /// The session is answered once the device has come here.
    fn answer(
        &mut self,
        number: OpNumber,
        given: Given,
        flight: &mut Flight,
    ) -> Result<(), Failure> {
        let event = Event::new().and_then(|event| self.stream.record(&event).map(|()| event));
        if event.is_err() {
            // The buffers of a copy go to others, and are being written to.
            let _ = self.stream.wait();
        }
        flight.results.push((number, given, event?));
        Ok(())
    }

    fn load(
        &mut self,
        surroundings: &Surroundings<'_>,
        slot: u32,
        hash: ModuleHash,
    ) -> Result<(), Failure> {
        let Some(linked) = surroundings.modules.get(&hash) else {
            let detail = format!("no image {hash} was staged");
            return Err(Failure::new(Code::UnknownFunction, detail));
        };
        let module = Module::load(&linked.code)?;
        let loaded = Loaded {
            linked: linked.clone(),
            module,
            functions: BTreeMap::new(),
            variables: Vec::new(),
        };
        if self.slots.contains_key(&slot) {
            self.stream.wait()?;
        }
        self.slots.insert(slot, loaded);
        Ok(())
    }

    fn launch(
        &mut self,
        sms: u32,
        launch: &Launch,
        params: &[u8],
        flight: &mut Flight,
    ) -> Result<(), Failure> {
        let unknown = |what: String| Failure::new(Code::UnknownFunction, what);
        let loaded = self.slots.get_mut(&launch.module);
        let loaded = loaded.ok_or_else(|| unknown(format!("slot {} is empty", launch.module)))?;
        let info = loaded.linked.info.functions.get(launch.function as usize);
        let info = info.ok_or_else(|| unknown(format!("no function {}", launch.function)))?;
        if params.len() != info.param_bytes as usize {
            let (name, have, need) = (&info.name, params.len(), info.param_bytes);
            let detail = format!("{name} takes {need} bytes of parameters, not {have}");
            return Err(Failure::new(Code::BadLaunch, detail));
        }
        let (function, allowed) = match loaded.functions.get(&launch.function) {
            Some(known) => *known,
            None => (loaded.module.function(&info.name)?, 0),
        };
        if launch.shared > allowed {
            // Beside its static bytes fewer than 48 KiB may be more than it has without asking.
            function.allow_shared(launch.shared)?;
        }
        if launch.attributes.non_portable {
            function.allow_large_clusters()?;
        }
        let allowed = allowed.max(launch.shared);
        loaded
            .functions
            .insert(launch.function, (function, allowed));
        if launch.attributes.tensor_maps {
            let params = tensor_maps::in_place(self.window, params)?;
            self.stream.launch(function, launch, &params)?;
        } else {
            self.stream.launch(function, launch, params)?;
        }
        let end = Event::new()?;
        self.stream.record(&end)?;
        let fingerprint = FunctionFingerprint::new(&loaded.linked.hash, &info.name);
        let blocks = launch.grid.iter().map(|n| u64::from(*n)).product::<u64>();
        flight.launches.push(Timed {
            key: fingerprint.launch_key(launch),
            sms: blocks.min(u64::from(sms)),
            end,
        });
        Ok(())
    }
}
