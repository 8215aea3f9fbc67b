//! Cost of allocations for the host: memory from the first touch until they are freed, and no
//! mappings. The test is alone in its process, because it counts the mappings.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

use bus_schemas::Op;
use device::Device;
use device_conformance::{TestProgram, complete};
use device_cpu::{CpuConfig, CpuDevice, Memory};

const PAGE: u64 = 4_096;
const CAPACITY: u64 = 64 << 20;
const STEPS: u64 = 10_000;
/// The name of the file with a device's memory.
const NAME: &str = "memfd:warploom-device";

/// Number of mappings of the process, and of those of devices' memory.
fn mappings() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let of_devices = maps.lines().filter(|line| line.contains(NAME));
    (maps.lines().count(), of_devices.count())
}

/// Bytes in memory of all devices' files.
fn stored() -> u64 {
    let fds = std::fs::read_dir("/proc/self/fd").expect("fd");
    let files = fds.filter_map(|fd| {
        let path = fd.ok()?.path();
        let name = std::fs::read_link(&path).ok()?;
        name.to_str()?.contains(NAME).then_some(path)
    });
    files
        .map(|path| std::fs::metadata(path).expect("of a file").blocks() * 512)
        .sum()
}

/// Bytes of devices' memory in the process's page table.
fn mapped() -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
    let (mut inside, mut kib) = (false, 0);
    for line in smaps.lines() {
        if let Some(rest) = line.strip_prefix("Rss:") {
            let rest = rest.trim().trim_end_matches(" kB");
            kib += if inside {
                rest.parse().expect("KiB")
            } else {
                0
            };
        } else if line.contains('-') && line.contains(' ') && !line.contains("kB") {
            inside = line.contains(NAME);
        }
    }
    kib << 10
}

/// A program that allocates at the lowest free addresses.
struct Tenant {
    device: CpuDevice,
    program: TestProgram,
    live: BTreeMap<u64, u64>,
    seed: u64,
}

impl Tenant {
    fn below(&mut self, end: u64) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(1);
        (self.seed >> 33) % end
    }

    fn run(&mut self, ops: &[Op]) -> Vec<u8> {
        let ops: Vec<(Op, &[u8])> = ops.iter().map(|op| (*op, &[][..])).collect();
        let slice = self.program.slice(&ops);
        let done = complete(&mut self.device, slice);
        assert_eq!(done.fault, None);
        let result = done.results.first();
        result.and_then(|it| it.copied()).unwrap_or_default()
    }

    fn held(&self) -> u64 {
        self.live.values().sum()
    }

    /// Bytes of the pages with allocations.
    fn pages(&self) -> u64 {
        let (mut pages, mut from) = (0, 0);
        for (at, bytes) in &self.live {
            let to = (at + bytes).div_ceil(PAGE);
            from = from.max(at / PAGE);
            pages += to.saturating_sub(from);
            from = from.max(to);
        }
        pages * PAGE
    }

    fn room(&self, bytes: u64) -> u64 {
        let mut at = self.program.window().base;
        for (next, taken) in &self.live {
            if next - at >= bytes {
                break;
            }
            at = (next + taken).next_multiple_of(256);
        }
        at
    }

    /// Allocates, and touches all of it, the first byte or nothing. Checks that it reads as zero
    /// before.
    fn alloc(&mut self, bytes: u64) {
        let address = self.room(bytes);
        let mut ops = vec![Op::Alloc { address, bytes }];
        let kind = self.below(4);
        if kind == 0 {
            ops.push(Op::CopyOut { address, bytes });
        }
        if kind != 1 {
            ops.push(Op::Set {
                address,
                count: if kind == 2 { 1 } else { bytes },
                value: 0xee,
                width: 1,
            });
        }
        let read = self.run(&ops);
        assert!(read.iter().all(|byte| *byte == 0), "of {bytes} bytes");
        self.live.insert(address, bytes);
    }

    fn free(&mut self) {
        let place = self.below(self.live.len() as u64) as usize;
        let (address, _) = self.live.iter().nth(place).expect("live");
        let address = *address;
        self.live.remove(&address);
        self.run(&[Op::Free { address }]);
    }
}

#[test]
fn allocations_take_memory_while_they_are_touched_and_no_mappings() {
    let mut device = CpuDevice::new(CpuConfig {
        threads: 1,
        capacity: CAPACITY,
        ..CpuConfig::default()
    });
    let program = TestProgram::new(1);
    let opened = device.open(program.session(), program.window(), None);
    opened.expect("a free window");
    let mut tenant = Tenant {
        device,
        program,
        live: BTreeMap::new(),
        seed: 7,
    };
    tenant.alloc(100);
    tenant.free();
    let (all, _) = mappings();
    assert_eq!(stored(), 0);
    for step in 0..STEPS {
        let most = [300, 5_000, 100_000, 4 << 20][tenant.below(4) as usize];
        let bytes = 1 + tenant.below(most);
        if tenant.live.is_empty() || tenant.held() + bytes <= CAPACITY && tenant.below(5) < 3 {
            tenant.alloc(bytes);
        } else {
            tenant.free();
        }
        if step % 16 == 0 {
            let (stored, pages) = (stored(), tenant.pages());
            assert!(stored <= pages, "{stored} bytes in memory of {pages}");
        }
    }
    assert!(tenant.live.len() > 100, "{}", tenant.live.len());
    assert_eq!(mappings().1, 1, "the session's window is one mapping");
    let (now, in_table) = (mappings().0, mapped());
    assert!(now <= all + 16, "{all} mappings, then {now}");
    assert!(in_table <= stored(), "{in_table} {}", stored());
    // Nearly all of the free memory, which is untouched.
    let bytes = (CAPACITY - tenant.held()) / 20 * 19;
    let address = tenant.room(bytes);
    let read = tenant.run(&[
        Op::Alloc { address, bytes },
        Op::CopyOut { address, bytes },
        Op::Free { address },
    ]);
    assert_eq!(read.len() as u64, bytes);
    assert!(read.iter().all(|byte| *byte == 0));
    while !tenant.live.is_empty() {
        tenant.free();
    }
    assert_eq!((stored(), mapped()), (0, 0));
    many_small_ones();
    tenant.device.close(tenant.program.session());
    assert_eq!(mappings().1, 0);
}

/// Allocates more times than the host would allow mappings, if each needed one.
fn many_small_ones() {
    const BASE: u64 = 1 << 32;
    const MANY: u64 = 100_000;
    let mut memory = Memory::new(BASE, 2 << 30, 1 << 30).expect("a window");
    let (all, of_devices) = mappings();
    for n in 0..MANY {
        memory.alloc(BASE + n * 2 * PAGE, 256).expect("room");
        memory.write(BASE + n * 2 * PAGE, &[1]).expect("allocated");
    }
    assert_eq!(stored(), MANY * PAGE);
    // From the last to the first, because the table of allocations is a list.
    for n in (0..MANY).rev().filter(|n| n % 2 == 0) {
        memory.free(BASE + n * 2 * PAGE).expect("allocated");
    }
    assert_eq!(
        (stored(), memory.resident()),
        (MANY / 2 * PAGE, MANY / 2 * PAGE)
    );
    let now = mappings();
    assert!(now.0 <= all + 16 && now.1 == of_devices, "{now:?} of {all}");
    drop(memory);
    assert_eq!(stored(), 0);
}
