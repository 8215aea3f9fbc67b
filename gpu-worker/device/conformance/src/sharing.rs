//! Sessions that may share equal memory must not see one another's writes.

use std::sync::Arc;

use bus_schemas::{ModuleHash, limits};
use device::{CopyBytes, Device, SharingDomain};

use crate::kernels::{alloc, copy, copy_in, copy_out, free, increment_params, launch, load, set};
use crate::program::{TestProgram, complete};

/// Three mebibytes and a bit: no whole number of pages.
const BYTES: u64 = (3 << 20) + 70_000;

/// Bytes that both sessions hold: no two pages are alike.
fn weights() -> Vec<u8> {
    let words = 0..(BYTES / 4) as u32;
    words
        .flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes())
        .collect()
}

fn read(device: &mut dyn Device, program: &mut TestProgram) -> Vec<u8> {
    let address = program.window().base;
    let slice = program.slice(&[copy_out(address, BYTES)]);
    let done = complete(device, slice);
    assert_eq!(done.fault, None);
    done.results[0].copied().expect("a copy to the host")
}

/// Staged bytes that both copy, as their clients sent them or as chunks that the device keeps.
fn staged(device: &mut dyn Device, weights: &[u8], kept: bool) -> Arc<CopyBytes> {
    if !kept {
        return Arc::new(CopyBytes::from(weights));
    }
    let (keeper, domain) = (device.keeper(), Some(SharingDomain(1)));
    let chunks = weights.chunks(limits::CONTENT_BYTES);
    let keep = |chunk: &[u8]| keeper.keep(domain, &mut chunk.chunks(300_000));
    Arc::new(CopyBytes::Kept(chunks.map(keep).collect()))
}

fn fill(
    device: &mut dyn Device,
    program: &mut TestProgram,
    hash: ModuleHash,
    staged: &Arc<CopyBytes>,
) {
    let address = program.window().base;
    let copy = (copy_in(address, BYTES, 7), &[][..]);
    let mut slice = program.slice(&[load(hash), alloc(address, BYTES), copy]);
    slice.transfers.push((7, Arc::clone(staged)));
    assert_eq!(complete(device, slice).fault, None);
}

/// Changes some of a session's bytes by a kernel, two copies and a fill. Returns the resulting bytes.
fn write(device: &mut dyn Device, program: &mut TestProgram, weights: &[u8]) -> Vec<u8> {
    let address = program.window().base;
    let params = increment_params(address + (1 << 20), 1_000);
    let slice = program.slice(&[
        (launch(0, 1_000), &params),
        (copy_in(address + 5_000, 40, 0), &[9; 40]),
        set(address + (2 << 20), 600_000, 5, 1),
        copy(address + 100_000, address + (1 << 20), 4_000),
    ]);
    assert_eq!(complete(device, slice).fault, None);
    let mut changed = weights.to_vec();
    for word in changed[1 << 20..][..4_000].as_chunks_mut::<4>().0 {
        *word = (u32::from_le_bytes(*word).wrapping_add(1)).to_le_bytes();
    }
    changed[5_000..5_040].fill(9);
    changed[2 << 20..][..600_000].fill(5);
    changed.copy_within(1 << 20..(1 << 20) + 4_000, 100_000);
    changed
}

/// Two sessions of a sharing domain copy equal bytes. A kernel, a copy and a fill change those of one
/// session, and the other still sees its own. Whichever session leaves first, the other keeps its bytes.
pub(super) fn keeps_writes_apart(device: &mut dyn Device, hash: ModuleHash) {
    let weights = weights();
    for (first_goes, kept) in [(true, false), (false, false), (true, true), (false, true)] {
        let staged = staged(device, &weights, kept);
        let mut programs = [TestProgram::new(1), TestProgram::new(2)];
        for program in &mut programs {
            let domain = Some(SharingDomain(1));
            let opened = device.open(program.session(), program.window(), domain);
            opened.expect("a free window");
            fill(device, program, hash, &staged);
        }
        let [one, two] = &mut programs;
        // From here on only the sessions have the chunks.
        drop(staged);
        let changed = write(device, one, &weights);
        while device.tend() {}
        assert!(read(device, two) == weights, "the other's writes are seen");
        assert!(read(device, one) == changed, "its own writes are not");
        let (gone, stays, left) = match first_goes {
            true => (one, two, &weights),
            false => (two, one, &changed),
        };
        let address = gone.window().base;
        let slice = gone.slice(&[free(address), alloc(address, BYTES)]);
        assert_eq!(complete(device, slice).fault, None);
        let fresh = read(device, gone);
        assert!(fresh.iter().all(|byte| *byte == 0), "freed bytes are seen");
        device.close(gone.session());
        while device.tend() {}
        assert!(read(device, stays) == *left, "the other's end is seen");
        device.close(stays.session());
    }
}
