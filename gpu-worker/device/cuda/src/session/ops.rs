//! Ops, as handed to the driver.

use bus_schemas::{Code, Failure, Op, OpNumber, OpRef, TENSOR_MAP_BYTES};

use super::flight::{Flight, Given};
use super::{Session, Surroundings, tensor_maps};
use crate::driver::EventKind;

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
            Op::Alloc { address, bytes } => {
                self.part(flight)?;
                self.alloc(surroundings, address, bytes)
            }
            Op::Free { address } => self.free(address),
            Op::CopyIn {
                address,
                bytes,
                transfer,
            } => {
                self.check(address, bytes)?;
                self.part_by(bytes, flight)?;
                self.copy_in(flight, (address, bytes), transfer, op.payload)
            }
            Op::CopyOut { address, bytes } => {
                self.check(address, bytes)?;
                self.part_by(bytes, flight)?;
                self.close(flight)?;
                let pieces = self.copy_out(address, bytes)?;
                flight.results.push((number, Given::Copied(pieces)));
                Ok(())
            }
            Op::Copy { to, from, bytes } => {
                self.check(to, bytes)?;
                self.check(from, bytes)?;
                self.part_by(bytes, flight)?;
                self.stream.copy(to, from, bytes)
            }
            Op::Set {
                address,
                count,
                value,
                width,
            } => {
                self.part_by(count.saturating_mul(u64::from(width)), flight)?;
                self.set(address, count, value, width)
            }
            Op::LoadModule { slot, .. } => self.load(slot),
            Op::UnloadModule { slot } => self.empty(slot, flight),
            Op::Launch(launch) => self.launch(surroundings.sms, &launch, op.payload, flight),
            Op::Event { timed: false, .. } => Ok(()),
            Op::Event { event, timed: true } => {
                let reached = self.mark(EventKind::Timed)?;
                flight.events.push((number, event, reached));
                Ok(())
            }
            Op::Sync => {
                flight.results.push((number, Given::Nothing));
                Ok(())
            }
            Op::Move { .. } | Op::Map { .. } => {
                let detail = "the worker's properties do not say that it moves and maps memory";
                Err(Failure::new(Code::Protocol, detail))
            }
            Op::TensorMap { address } => {
                self.check(address, TENSOR_MAP_BYTES as u64)?;
                let map = tensor_maps::encoded(self.window, op.payload)?;
                self.stream.copy_in(address, &map)
            }
            Op::Symbols { slot } => {
                let rows = self.symbols(slot)?;
                flight.results.push((number, Given::Symbols(rows)));
                Ok(())
            }
        }
    }

    /// Allocates and clears memory, up to the end of its granules. The bytes that another session left there
    /// must not be readable.
    fn alloc(
        &mut self,
        around: &Surroundings<'_>,
        address: u64,
        bytes: u64,
    ) -> Result<(), Failure> {
        if bytes > around.room.saturating_sub(self.memory.held()) {
            // Freed memory becomes room once it is not used any more.
            self.drop_if_freed()?;
        }
        let left = around.room.saturating_sub(self.memory.held());
        if bytes > left {
            let detail = format!("{bytes} bytes asked for, {left} are left on the device");
            return Err(Failure::new(Code::OutOfMemory, detail));
        }
        let mut backed = self.memory.alloc(around.context, address, bytes);
        if matches!(&backed, Err(failure) if failure.code == Code::OutOfMemory) {
            // The driver counts whole granules.
            self.drop_if_freed()?;
            backed = self.memory.alloc(around.context, address, bytes);
        }
        for (fresh, size) in backed? {
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
}
