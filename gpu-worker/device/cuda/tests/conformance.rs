//! The conformance suite on the first GPU, where there is one.

use device_swap::{SwapConfig, SwapFile, SwapSpace};

#[test]
fn conforms() {
    if !device_cuda::is_present() {
        eprintln!("SKIPPED: no CUDA driver on this host; the CUDA device is not exercised");
        return;
    }
    let open = || device_cuda::CudaDevice::open(0, Some(1 << 30), 0).expect("a GPU");
    device_conformance::run(&mut open());
    let space = SwapSpace::new(&SwapConfig {
        memory: 5 << 20,
        file: Some(SwapFile {
            dir: std::env::temp_dir(),
            bytes: 11 << 20,
        }),
    });
    let mut swapping = open().swapping(space.expect("the host has it"));
    device_conformance::run(&mut swapping);
}
