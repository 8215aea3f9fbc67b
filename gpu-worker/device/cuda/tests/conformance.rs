//! The conformance suite on the first GPU, where there is one.

#[test]
fn conforms() {
    if !device_cuda::is_present() {
        eprintln!("SKIPPED: no CUDA driver on this host; the CUDA device is not exercised");
        return;
    }
    let mut device = device_cuda::CudaDevice::open(0, Some(1 << 30), 0).expect("a GPU");
    device_conformance::run(&mut device);
}
