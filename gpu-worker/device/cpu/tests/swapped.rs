//! The host's memory for sessions that leave and return. The test is alone in its process.
#![cfg(target_os = "linux")]

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use bus_schemas::Op;
use device::{Device, Moved};
use device_conformance::{TestProgram, complete};
use device_cpu::{CpuConfig, CpuDevice};
use device_swap::{SwapConfig, SwapFile, SwapSpace};

const MIB: u64 = 1 << 20;
/// Less than both programs need.
const CAPACITY: u64 = 48 * MIB;
const BYTES: u64 = 32 * MIB;
const MEMORY: u64 = 12 * MIB;
/// The files of a device's memory, and of the in-memory part of its swap space.
const DEVICE: &str = "memfd:warploom-device";
const SWAP: &str = "memfd:warploom-swap";

/// Bytes in memory of a file.
fn stored(name: &str) -> u64 {
    let fds = std::fs::read_dir("/proc/self/fd").expect("fd");
    let files = fds.filter_map(|fd| {
        let path = fd.ok()?.path();
        let link = std::fs::read_link(&path).ok()?;
        link.to_str()?.contains(name).then_some(path)
    });
    files
        .map(|path| std::fs::metadata(path).expect("of a file").blocks() * 512)
        .sum()
}

fn bounded() {
    let (device, swap) = (stored(DEVICE), stored(SWAP));
    assert!(device <= CAPACITY, "{device} bytes of the device");
    assert!(swap <= MEMORY, "{swap} bytes swapped to memory");
}

struct Stage {
    device: CpuDevice,
    programs: [TestProgram; 2],
}

impl Stage {
    fn new() -> Self {
        let space = SwapSpace::new(&SwapConfig {
            memory: MEMORY,
            file: Some(SwapFile {
                dir: std::env::temp_dir(),
                bytes: 40 * MIB,
            }),
        });
        let device = CpuDevice::new(CpuConfig {
            threads: 1,
            capacity: CAPACITY,
            ..CpuConfig::default()
        });
        let mut device = device.swapping(space.expect("the host has it"));
        let programs = [1, 2].map(TestProgram::new);
        for program in &programs {
            let opened = device.open(program.session(), program.window(), None);
            opened.expect("a free window");
        }
        Self { device, programs }
    }

    fn run(&mut self, n: usize, ops: &[Op]) -> Vec<u8> {
        let ops: Vec<(Op, &[u8])> = ops.iter().map(|op| (*op, &[][..])).collect();
        let slice = self.programs[n].slice(&ops);
        let done = complete(&mut self.device, slice);
        assert_eq!(done.fault, None);
        bounded();
        let result = done.results.first();
        result.and_then(|it| it.copied()).unwrap_or_default()
    }

    /// Allocates all of a program's memory and writes to all of it except every other page of its
    /// second half.
    fn fill(&mut self, n: usize) {
        let address = self.programs[n].window().base;
        let bytes = BYTES;
        let set = |address, count| Op::Set {
            address,
            count,
            value: n as u32 + 1,
            width: 1,
        };
        self.run(n, &[Op::Alloc { address, bytes }, set(address, BYTES / 2)]);
        for page in (0..BYTES / 2 / 4_096).step_by(2) {
            self.run(n, &[set(address + BYTES / 2 + page * 4_096, 4_096)]);
        }
    }

    fn has(&mut self, n: usize) {
        let address = self.programs[n].window().base;
        let first = self.run(
            n,
            &[Op::CopyOut {
                address,
                bytes: BYTES / 2,
            }],
        );
        assert!(first.iter().all(|byte| *byte == n as u8 + 1));
        let address = address + BYTES / 2;
        let page = Op::CopyOut {
            address,
            bytes: 4_096,
        };
        assert!(self.run(n, &[page]).iter().all(|byte| *byte == n as u8 + 1));
    }

    fn moved(&mut self) -> Moved {
        let mut ended = Vec::new();
        let until = Instant::now() + Duration::from_secs(60);
        while ended.is_empty() {
            assert!(Instant::now() < until, "no move ends");
            bounded();
            self.device.moved(&mut ended);
        }
        assert_eq!(ended[0].failure, None);
        ended.remove(0)
    }

    fn out(&mut self, n: usize) -> u64 {
        self.device.swap_out(self.programs[n].session());
        self.moved().bytes
    }

    fn back(&mut self, n: usize) {
        self.device.swap_in(self.programs[n].session());
        self.moved();
    }
}

#[test]
fn two_that_do_not_fit_take_turns_and_never_more_than_there_is() {
    let mut stage = Stage::new();
    stage.fill(0);
    assert_eq!(stored(DEVICE), BYTES / 4 * 3);
    assert_eq!(
        stage.out(0),
        BYTES / 4 * 3,
        "what was not touched does not move"
    );
    assert_eq!((stored(DEVICE), stored(SWAP)), (0, MEMORY));
    stage.fill(1);
    // The device has no room for both.
    stage.device.swap_in(stage.programs[0].session());
    let mut refused = Vec::new();
    stage.device.moved(&mut refused);
    assert!(refused[0].failure.is_some());
    for _ in 0..3 {
        for (goes, comes) in [(1, 0), (0, 1)] {
            // Both are out for a moment; the swap space has room for that.
            stage.out(goes);
            assert_eq!(stored(DEVICE), 0);
            stage.back(comes);
            assert_eq!(stored(DEVICE), BYTES / 4 * 3);
            stage.has(comes);
        }
    }
    // One session is closed in the middle of its move, the other while it is out. Nothing of either
    // is on the device then, because others may get the room at once.
    stage.device.swap_out(stage.programs[1].session());
    let until = Instant::now() + Duration::from_secs(60);
    while stored(DEVICE) == BYTES / 4 * 3 {
        assert!(Instant::now() < until, "it does not begin to move");
        std::thread::yield_now();
    }
    stage.device.close(stage.programs[1].session());
    assert_eq!(stored(DEVICE), 0);
    stage.device.close(stage.programs[0].session());
    let until = Instant::now() + Duration::from_secs(60);
    while stored(SWAP) > 0 {
        assert!(Instant::now() < until, "{} bytes stay", stored(SWAP));
        std::thread::yield_now();
    }
    assert_eq!(stored(DEVICE), 0);
}
