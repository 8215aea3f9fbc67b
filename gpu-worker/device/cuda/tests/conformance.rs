//! The conformance suite on the first GPU, if there is one.

use device_swap::{SwapConfig, SwapFile, SwapSpace};

fn swap_space(memory: u64, bytes: u64) -> Option<SwapSpace> {
    let file = Some(SwapFile {
        dir: std::env::temp_dir(),
        bytes,
    });
    SwapSpace::new(&SwapConfig { memory, file }).expect("the host has it")
}

#[test]
fn conforms() {
    if !device_cuda::is_present() {
        eprintln!("SKIPPED: no CUDA driver on this host; the CUDA device is not exercised");
        return;
    }
    let open = || device_cuda::CudaDevice::open(0, Some(1 << 30), 0).expect("a GPU");
    device_conformance::run(&mut open());
    let mut swapping = open().swapping(swap_space(5 << 20, 11 << 20));
    device_conformance::run(&mut swapping);
    let small = device_cuda::CudaDevice::open(0, Some(64 << 20), 0).expect("a GPU");
    device_conformance::wiped(&mut small.swapping(swap_space(32 << 20, 33 << 20)), 50);
    device_conformance::mixed(&mut open(), 200);
    // The process's context is gone after this.
    device_conformance::ends_by_a_fault(&mut open());
}
