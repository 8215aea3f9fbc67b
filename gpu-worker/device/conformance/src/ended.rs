//! A device that a kernel's fault ends, as it ends the context of a GPU: every session learns of it, and none
//! waits for ever.

use bus_schemas::{Code, ModuleHash, Op};
use device::Device;

use crate::kernels::{PTX, alloc, copy_out, launch, load};
use crate::program::{TestProgram, completed};

/// A session's kernel writes to an unmapped address. Its slice has that fault and no answers. Another
/// session's slices fail as well, both those behind it and later ones, and the device reports why it is lost.
/// A device that keeps its sessions apart is not ended by this. This test is for other devices, and is the
/// last that is done with one.
///
/// # Panics
/// When the device hangs, or serves a session afterwards.
pub fn ends_by_a_fault(device: &mut dyn Device) {
    let hash = ModuleHash::of(PTX.as_bytes());
    device.prepare(hash, PTX.as_bytes()).expect("it builds");
    let mut programs = [TestProgram::new(1), TestProgram::new(2)];
    for program in &mut programs {
        let opened = device.open(program.session(), program.window(), None);
        opened.expect("a free window");
        let address = program.window().base;
        device.submit(program.slice(&[load(hash), alloc(address, 4_096), (Op::Sync, &[])]));
        assert_eq!(completed(device, 1)[0].fault, None);
    }
    assert_eq!(device.lost(), None);
    let [one, two] = &mut programs;
    let (mine, its) = (one.window().base, two.window().base);
    let stray = (mine + (1 << 32)).to_le_bytes();
    device.submit(one.slice(&[
        (launch(1, 1), &stray),
        copy_out(mine, 4_096),
        (Op::Sync, &[]),
    ]));
    let done = completed(device, 1);
    let (fault, results) = (done[0].fault.as_ref(), done[0].results.len());
    assert_eq!(fault.map(|(_, why)| why.code), Some(Code::IllegalAddress));
    assert_eq!(results, 0, "what ran before the fault nobody knows");
    let why = device.lost().expect("it is lost");
    assert_eq!(why.code, Code::DeviceLost, "{why}");
    for program in [two, one] {
        device.submit(program.slice(&[copy_out(its, 16)]));
        let fault = completed(device, 1).remove(0).fault;
        assert!(fault.is_some(), "a lost device serves nobody");
    }
    let third = TestProgram::new(3);
    let opened = device.open(third.session(), third.window(), None);
    assert!(opened.is_err(), "a lost device takes nobody");
    assert!(!device.is_busy());
    for program in &programs {
        device.close(program.session());
    }
}
