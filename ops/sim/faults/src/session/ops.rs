//! The ops of single steps.

use bus_schemas::{Launch, LaunchAttributes, Op};

use super::ModelProgram;
use crate::program::{COPIED_FROM, Step};

impl ModelProgram {
    /// The op of a step, with its stream and its payload.
    pub(super) fn op(&self, step: Step) -> (Op, u16, Vec<u8>) {
        let address = self.base();
        match step {
            Step::Launch {
                function,
                grid,
                stream,
                fill,
            } => {
                let (grid, block) = ([grid, 1, 1], [32, 1, 1]);
                let launch = Launch {
                    module: 0,
                    function,
                    grid,
                    block,
                    shared: 0,
                    attributes: LaunchAttributes::default(),
                };
                (Op::Launch(launch), stream, vec![fill; 16])
            }
            Step::CopyIn {
                bytes,
                fill,
                stream,
            } => {
                let op = Op::CopyIn {
                    address,
                    bytes: u64::from(bytes),
                    transfer: 0,
                };
                (op, stream, vec![fill; usize::from(bytes)])
            }
            Step::Set {
                count,
                value,
                stream,
            } => {
                let op = Op::Set {
                    address,
                    count,
                    value,
                    width: 1,
                };
                (op, stream, vec![])
            }
            Step::Event { event, stream } => {
                let timed = false;
                (Op::Event { event, timed }, stream, vec![])
            }
            Step::Copy { bytes, stream } => {
                let op = Op::Copy {
                    to: address,
                    from: address + COPIED_FROM,
                    bytes,
                };
                (op, stream, vec![])
            }
            Step::Read(bytes) => (Op::CopyOut { address, bytes }, 0, vec![]),
            Step::Trespass { write, next } => self.trespass(write, next),
            // The other steps are no single op, and are handled elsewhere.
            _ => (Op::Sync, 0, vec![]),
        }
    }

    /// Writes or reads at the address where another session's memory would begin.
    fn trespass(&self, write: bool, next: bool) -> (Op, u16, Vec<u8>) {
        let (base, (_, size), bytes) = (self.base(), self.window, 8);
        let address = match next {
            true => base.wrapping_add(size),
            false => base.wrapping_sub(size),
        };
        let transfer = 0;
        match write {
            true => {
                let op = Op::CopyIn {
                    address,
                    bytes,
                    transfer,
                };
                (op, 0, vec![0xee; 8])
            }
            false => (Op::CopyOut { address, bytes }, 0, vec![]),
        }
    }
}
