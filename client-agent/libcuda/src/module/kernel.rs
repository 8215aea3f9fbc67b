//! Kernels of libraries.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use client_session::{ClientError, Function};

use super::part::{Part, is_refused};
use crate::device::Device;
use crate::handle::table;
use crate::lock::lock;
use crate::old_launch::OldLaunch;
use crate::status::{Result, Status};

/// Dynamic and static shared bytes that a kernel may use without asking for more.
const SHARED: i32 = 48 << 10;

/// Maximum number of kernels reported on stderr.
const SAID_MOST: usize = 64;

/// Registers of a multiprocessor.
const REGISTERS: u32 = 65_536;

/// Maximum registers of a thread for a block of `threads` threads to fit a multiprocessor, as
/// computed by the assembler. Registers are allocated to whole warps, and a thread gets a multiple
/// of eight.
fn fitting(threads: u32) -> u32 {
    let each = REGISTERS / threads.max(1).next_multiple_of(32);
    each / 8 * 8
}

/// Threads of the largest block with `registers` registers a thread. A multiprocessor allocates
/// registers in units of 256 to a warp, and to four warps at a time.
fn affordable(registers: u32) -> u32 {
    let warp = (32 * registers.max(1)).next_multiple_of(256);
    (REGISTERS / warp / 4 * 4 * 32).min(1024)
}

table!(Kernel, INVALID_HANDLE);

/// An entry of a library: a `CUfunction` or a `CUkernel`.
pub(crate) struct Kernel {
    /// Its library, while that is loaded.
    pub(super) library: Weak<dyn Any + Send + Sync>,
    pub(super) part: Arc<Part>,
    /// Index of the entry in the part.
    index: usize,
    /// Its name as a C string.
    pub(crate) name: CString,
    /// The functions by device, set at the first use there.
    functions: Box<[OnceLock<Function>]>,
    /// Maximum dynamic shared bytes, as set by the program.
    pub(crate) dynamic: AtomicI32,
    /// True if the program allows clusters of more blocks than every device of the architecture
    /// supports.
    pub(crate) non_portable: AtomicBool,
    /// Attributes that are stored without effect, by number.
    hints: Mutex<BTreeMap<i32, i32>>,
    /// Shape and parameters, as set by programs in the style of CUDA 3.
    old: Mutex<OldLaunch>,
    registers: u32,
}

/// Maximum dynamic shared bytes until the program allows more; static and dynamic ones count
/// together.
fn dynamic_at_first(entry: &ptx::EntryInfo) -> i32 {
    SHARED.saturating_sub_unsigned(entry.static_shared).max(0)
}

/// Reports on stderr, once for each kernel, why it is not launched: runtimes pass on only a code.
fn cannot_run(name: &str, error: ClientError) -> Status {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if is_refused(&error) {
        let mut said = lock(&SAID);
        if said.len() < SAID_MOST && said.insert(name.to_owned()) {
            // stderr may be closed.
            let _ = writeln!(
                std::io::stderr(),
                "warploom: kernel `{name}` cannot run: {error}"
            );
        }
    }
    error.into()
}

impl Kernel {
    /// Makes an entry of a part of a library.
    pub(super) fn new(
        library: Weak<dyn Any + Send + Sync>,
        part: Arc<Part>,
        index: usize,
        name: CString,
        registers: u32,
        devices: usize,
    ) -> Self {
        let dynamic = AtomicI32::new(dynamic_at_first(&part.info.entries[index]));
        Self {
            library,
            part,
            index,
            name,
            functions: (0..devices).map(|_| OnceLock::new()).collect(),
            dynamic,
            non_portable: AtomicBool::new(false),
            hints: Mutex::default(),
            old: Mutex::default(),
            registers,
        }
    }

    /// Shape and parameters, as set by programs in the style of CUDA 3.
    pub(crate) fn old(&self) -> MutexGuard<'_, OldLaunch> {
        lock(&self.old)
    }

    pub(crate) fn entry(&self) -> &ptx::EntryInfo {
        &self.part.info.entries[self.index]
    }

    /// True if the kernel is machine code.
    pub(crate) fn is_machine_code(&self) -> bool {
        self.part.is_machine_code()
    }

    /// The kernel on a device.
    #[inline]
    pub(crate) fn on(&self, device: &Device) -> Result<&Function> {
        let slot = self
            .functions
            .get(device.ordinal)
            .ok_or(Status::INVALID_DEVICE)?;
        match slot.get() {
            Some(function) => Ok(function),
            None => self.find(device, slot),
        }
    }

    /// The same kernel, as not yet used on a device.
    pub(super) fn forget(&self, device: &Device) -> Self {
        let functions = self.functions.iter().enumerate();
        let functions = functions.map(|(at, function)| match at == device.ordinal {
            true => OnceLock::new(),
            false => function.clone(),
        });
        Self {
            library: Weak::clone(&self.library),
            part: Arc::clone(&self.part),
            index: self.index,
            name: self.name.clone(),
            functions: functions.collect(),
            dynamic: AtomicI32::new(dynamic_at_first(self.entry())),
            non_portable: AtomicBool::new(false),
            hints: Mutex::default(),
            old: Mutex::default(),
            registers: self.registers,
        }
    }

    /// Maximum blocks of a cluster: 8 on any device with clusters, 16 if the program allows sizes
    /// that only some devices support.
    pub(crate) fn cluster_limit(&self) -> i32 {
        match self.non_portable.load(Ordering::Relaxed) {
            true => 16,
            false => 8,
        }
    }

    /// True if the kernel is on a device.
    pub(crate) fn is_on(&self, device: &Device) -> bool {
        let slot = self.functions.get(device.ordinal);
        slot.is_some_and(|slot| slot.get().is_some())
    }

    #[cold]
    fn find<'a>(&self, device: &Device, slot: &'a OnceLock<Function>) -> Result<&'a Function> {
        // Nothing of an unloaded library is loaded again.
        self.library.upgrade().ok_or(Status::INVALID_HANDLE)?;
        let name = &self.entry().name;
        let placed = self.place(device);
        let module = placed.map_err(|error| {
            device.note_error(&error);
            cannot_run(name, error)
        })?;
        let function = module.function(name)?;
        crate::stats::used(&self.entry().name);
        Ok(slot.get_or_init(|| function))
    }

    /// The value of a `CUfunction_attribute` by number.
    pub(crate) fn attribute(&self, number: i32, compute: (i32, i32)) -> Result<i32> {
        let entry = self.entry();
        // Saturating: an image may claim any numbers.
        let threads = |dim: [u32; 3]| {
            let sides = dim.iter().map(|side| u64::from(*side));
            sides.fold(1, u64::saturating_mul)
        };
        let largest = match self.is_machine_code() {
            true => affordable(entry.registers),
            false => 1024,
        };
        let most = entry.reqntid.or(entry.maxntid).map_or(1024, threads);
        let most = most.min(largest.into());
        Ok(match number {
            0 => most as i32,
            1 => entry.static_shared as i32,
            2 => {
                let constant = self
                    .part
                    .info
                    .globals
                    .iter()
                    .filter(|global| global.constant);
                constant.map(|global| global.size).sum::<u64>() as i32
            }
            3 => entry.local_bytes as i32,
            4 => entry
                .registers
                .min(fitting(most as u32))
                .clamp(1, self.registers) as i32,
            9..=13 | 15 => {
                let set = lock(&self.hints).get(&number).copied();
                set.unwrap_or(if number == 9 { -1 } else { 0 })
            }
            7 => 0,
            // The virtual architecture, by which libraries choose among their kernels; not the
            // version of the language.
            5 => self.part.info.architecture() as i32,
            6 if self.is_machine_code() => self.part.info.architecture() as i32,
            6 => compute.0 * 10 + compute.1,
            8 => self.dynamic.load(Ordering::Relaxed),
            14 => i32::from(self.non_portable.load(Ordering::Relaxed)),
            _ => return Err(Status::INVALID_VALUE),
        })
    }

    /// Sets the attributes that can be set.
    pub(crate) fn set_attribute(&self, number: i32, value: i32, optin: i32) -> Result {
        match number {
            8 if value < 0 || value > optin - self.entry().static_shared as i32 => {
                Err(Status::INVALID_VALUE)
            }
            8 => {
                self.dynamic.store(value, Ordering::Relaxed);
                Ok(())
            }
            14 => {
                self.non_portable.store(value != 0, Ordering::Relaxed);
                Ok(())
            }
            9 if !(-1..=100).contains(&value) => Err(Status::INVALID_VALUE),
            9..=13 | 15 => {
                lock(&self.hints).insert(number, value);
                Ok(())
            }
            _ => Err(Status::INVALID_VALUE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_the_most_threads_fits_a_multiprocessor() {
        for threads in 1..=1024_u32 {
            let warps = threads.div_ceil(32);
            let taken = warps * 32 * fitting(threads);
            assert!(taken <= REGISTERS, "{threads} threads take {taken}");
            assert!(
                taken + warps * 32 * 8 > REGISTERS,
                "{threads} could have more"
            );
        }
    }

    #[test]
    fn a_block_is_as_large_as_its_registers_allow() {
        // Out of 65,536 registers: warps, rounded down to a multiple of four.
        let known = [
            (255, 256),
            (168, 384),
            (128, 512),
            (96, 640),
            (72, 896),
            (64, 1024),
        ];
        for (registers, threads) in known {
            assert_eq!(affordable(registers), threads, "{registers}");
            assert!(fitting(threads) >= registers, "{registers}");
        }
        assert_eq!((affordable(0), affordable(8)), (1024, 1024));
    }

    #[test]
    fn machine_code_says_what_it_was_assembled_for_and_takes() {
        let image = include_bytes!("../../../../gpu-worker/ptx/tests/cubins/shapes-sm_80.cubin");
        let part = Part::new(image[..].into()).map_err(|wrong| wrong.1);
        let part = Arc::new(part.expect("machine code"));
        let named = |name| part.info.entries.iter().position(|it| it.name == name);
        let index = named("bounded").expect("an entry");
        let library: Weak<()> = Weak::new();
        let name = CString::new("bounded").expect("a name");
        let kernel = Kernel::new(library, Arc::clone(&part), index, name, u32::MAX, 1);
        assert!(kernel.is_machine_code());
        let attribute = |number| kernel.attribute(number, (8, 9));
        // Threads, shared bytes, constants, local bytes, registers, both architectures.
        let read: Vec<_> = (0..=6).map(attribute).collect();
        assert_eq!(read, [256, 192, 52, 96, 10, 80, 80].map(Ok));
    }
}
