//! The same launches produce the same bits, whatever the number of threads. Tested with every
//! kernel under tests/kernels, in all launch shapes of its checks. The corpus test does the same
//! for its kernels, and with other orders of blocks.

use device_cpu::{CpuConfig, CpuDevice};
use workloads::local::{Local, LocalError};
use workloads::{FunctionId, Gpu, ModuleId, checks};

/// A device that records everything copied out of it.
struct Recorder {
    device: Local<CpuDevice>,
    seen: Vec<Vec<u8>>,
}

impl Gpu for Recorder {
    type Error = LocalError;

    fn load(&mut self, ptx: &[u8]) -> Result<ModuleId, LocalError> {
        self.device.load(ptx)
    }

    fn function(&mut self, module: ModuleId, entry: &str) -> Result<FunctionId, LocalError> {
        self.device.function(module, entry)
    }

    fn alloc(&mut self, bytes: u64) -> Result<u64, LocalError> {
        self.device.alloc(bytes)
    }

    fn free(&mut self, address: u64) -> Result<(), LocalError> {
        self.device.free(address)
    }

    fn copy_in(&mut self, to: u64, bytes: &[u8]) -> Result<(), LocalError> {
        self.device.copy_in(to, bytes)
    }

    fn copy_out(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), LocalError> {
        self.device.copy_out(from, bytes)?;
        self.seen.push(bytes.to_vec());
        Ok(())
    }

    fn launch(
        &mut self,
        function: FunctionId,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        params: &[u8],
    ) -> Result<(), LocalError> {
        self.device.launch(function, grid, block, shared, params)
    }

    fn sync(&mut self) -> Result<(), LocalError> {
        self.device.sync()
    }
}

/// Bytes that each check copied out, with this number of threads.
fn seen(threads: usize) -> Vec<(&'static [&'static str], Vec<Vec<u8>>)> {
    let device = CpuDevice::new(CpuConfig {
        threads,
        ..CpuConfig::default()
    });
    let mut recorder = Recorder {
        device: Local::open(device, 1).expect("opens"),
        seen: Vec::new(),
    };
    let checks = checks::all::<Recorder>();
    let run = |check: checks::Check<Recorder>| {
        (check.run)(&mut recorder).unwrap_or_else(|error| panic!("{:?}: {error}", check.entries));
        (check.entries, std::mem::take(&mut recorder.seen))
    };
    checks.into_iter().map(run).collect()
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let one = seen(1);
    assert!(one.iter().map(|(_, seen)| seen.len()).sum::<usize>() > one.len());
    for threads in [2, 5] {
        for ((entries, first), (_, other)) in one.iter().zip(seen(threads)) {
            assert!(*first == other, "{entries:?} with {threads} threads");
        }
    }
}
