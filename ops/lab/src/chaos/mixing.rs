//! Numbers that a program mixes on a device. The kernel's result shows the order of its launches.

use client_agent::{Error, Function, Session};
use workloads::SplitMix64;

use super::calls::Calls;

/// A kernel with a result that depends on the order of its launches: x = 1664525 x + add + index.
pub(super) const MIX: &[u8] = include_bytes!("mix.ptx");
/// Numbers that a session mixes.
const COUNT: u32 = 256;
/// Threads of a block.
const BLOCK: u32 = 64;
/// Maximum number of launches in a round of a long session.
const LAUNCHES: u32 = 48;

/// Numbers on the device, and their expected values.
pub(super) struct Mixing<'a> {
    session: &'a Session,
    mix: Function,
    address: u64,
    expected: Vec<u32>,
}

impl<'a> Mixing<'a> {
    /// Starts with random numbers.
    pub(super) fn begin(
        session: &'a Session,
        random: &mut SplitMix64,
        calls: &Calls,
    ) -> Result<Self, Error> {
        let module = calls.watch("load", || session.load(MIX))?;
        let mix = calls.watch("function", || module.function("mix"))?;
        let address = calls.watch("alloc", || session.alloc(4 * u64::from(COUNT)))?;
        let expected: Vec<u32> = (0..COUNT).map(|_| random.bits() as u32).collect();
        let bytes: Vec<u8> = expected.iter().flat_map(|x| x.to_le_bytes()).collect();
        calls.watch("copy in", || session.copy_in(address, &bytes))?;
        Ok(Self {
            session,
            mix,
            address,
            expected,
        })
    }

    /// Launches the kernel, and compares the results.
    pub(super) fn round(
        &mut self,
        random: &mut SplitMix64,
        calls: &Calls,
        long: bool,
    ) -> Result<bool, Error> {
        let launches = match long {
            true => 1 + random.below(LAUNCHES),
            false => 1 + random.below(4),
        };
        self.launch(launches, random, calls)?;
        if random.below(4) == 0 {
            calls.watch("sync", || self.session.sync())?;
        }
        self.is_right(calls)
    }

    /// Launches the kernel `times` times.
    pub(super) fn launch(
        &mut self,
        launches: u32,
        random: &mut SplitMix64,
        calls: &Calls,
    ) -> Result<(), Error> {
        calls.watch("launch", || {
            for _ in 0..launches {
                let add = random.bits() as u32;
                let mut params = self.address.to_le_bytes().to_vec();
                params.extend(COUNT.to_le_bytes());
                params.extend(add.to_le_bytes());
                let grid = [COUNT.div_ceil(BLOCK), 1, 1];
                self.session
                    .launch(&self.mix, grid, [BLOCK, 1, 1], 0, &params)?;
                for (index, x) in (0..).zip(&mut self.expected) {
                    *x = x
                        .wrapping_mul(1_664_525)
                        .wrapping_add(add)
                        .wrapping_add(index);
                }
            }
            Ok::<(), Error>(())
        })
    }

    /// Compares the results.
    pub(super) fn is_right(&self, calls: &Calls) -> Result<bool, Error> {
        let mut bytes = vec![0; 4 * COUNT as usize];
        calls.watch("copy out", || {
            self.session.copy_out(self.address, &mut bytes)
        })?;
        let found = bytes.chunks_exact(4);
        let found = found.map(|it| u32::from_le_bytes(it.try_into().expect("four bytes")));
        Ok(found.eq(self.expected.iter().copied()))
    }
}
