//! A tenant that maps its memory as often as it may leaves maps for others.
#![cfg(target_os = "linux")]

use bus_schemas::{Code, Failure, Op, SessionId, Window, limits};
use device::{Device, TenantNumber};
use device_conformance::{TestProgram, complete};
use device_cpu::{CpuConfig, CpuDevice};

const UNIT: u64 = limits::MAP_ALIGN;
/// Maps that one slice makes.
const AT_ONCE: u64 = 64;

/// A tenant's session, with one allocation that it maps repeatedly.
struct Session {
    program: TestProgram,
    base: u64,
    maps: u64,
}

impl Session {
    fn open(device: &mut CpuDevice, number: u64, tenant: u64) -> Self {
        let size = 2 * limits::MAPS as u64 * UNIT;
        let base = (limits::ADDRESS_FIRST + number * (size + UNIT)).next_multiple_of(UNIT);
        let opened = device.open(SessionId(number), Window { base, size }, None);
        opened.expect("a free window");
        device.belongs(SessionId(number), TenantNumber(tenant));
        let mut program = TestProgram::new(number);
        let alloc = Op::Alloc {
            address: base,
            bytes: UNIT,
        };
        let done = complete(device, program.slice(&[(alloc, &[])]));
        assert_eq!(done.fault, None);
        Self {
            program,
            base,
            maps: 0,
        }
    }

    fn map(&mut self, device: &mut CpuDevice, maps: u64) -> Option<Failure> {
        let map = |map| Op::Map {
            to: self.base + (1 + map) * UNIT,
            from: self.base,
            bytes: UNIT,
        };
        let ops = (self.maps..self.maps + maps).map(|n| (map(n), &[][..]));
        let slice = self.program.slice(&ops.collect::<Vec<_>>());
        self.maps += maps;
        complete(device, slice).fault.map(|(_, why)| why)
    }

    /// Maps as often as a session may, or until its tenant's share is used up.
    fn map_all(&mut self, device: &mut CpuDevice) -> Option<Failure> {
        let times = limits::MAPS as u64 / AT_ONCE;
        (0..times).find_map(|_| self.map(device, AT_ONCE))
    }
}

#[test]
fn a_tenant_that_maps_all_it_can_ends_no_neighbour() {
    let mut device = CpuDevice::new(CpuConfig {
        threads: 1,
        ..CpuConfig::default()
    });
    let mut neighbour = Session::open(&mut device, 100, 2);
    let ended = (1..=16).find_map(|number| {
        let mut session = Session::open(&mut device, number, 1);
        session.map_all(&mut device)
    });
    let ended = ended.expect("its share has an end");
    assert_eq!(ended.code, Code::OutOfMemory, "{}", ended.detail);
    assert_eq!(neighbour.map_all(&mut device), None);
    let mut late = Session::open(&mut device, 101, 3);
    assert_eq!(late.map(&mut device, AT_ONCE), None);
}
