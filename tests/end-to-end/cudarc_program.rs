//! A Rust program on cudarc, which finds the driver by name at run time.

#![expect(unsafe_code, reason = "cudarc's launches are")]

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use test_cluster::TempDir;

use crate::run::{text, warploom};

const COUNT: u32 = 10_000;

/// The program itself; it needs a driver.
#[test]
#[ignore = "the test below runs it, under warploom run"]
fn program() {
    let context = CudaContext::new(0).expect("a device");
    assert_eq!(CudaContext::device_count().expect("a count"), 1);
    assert_eq!(context.compute_capability().expect("it is told"), (8, 0));
    let (first, second) = (context.default_stream(), context.new_stream());
    let second = second.expect("a stream");
    let source = include_str!("../kernels/vector_add.ptx");
    let module = context.load_module(Ptx::from_src(source)).expect("PTX");
    let add = module.load_function("vector_add").expect("its kernel");
    let numbers: Vec<f32> = (0..COUNT).map(|at| at as f32).collect();
    let a = first.clone_htod(&numbers).expect("a copy");
    let mut b = second.alloc_zeros::<f32>(COUNT as usize).expect("memory");
    second.memcpy_dtod(&a, &mut b).expect("a copy");
    let mut sums = first.alloc_zeros::<f32>(COUNT as usize).expect("memory");
    let flags = Some(cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT);
    let begun = first.record_event(flags).expect("an event");
    let mut launch = first.launch_builder(&add);
    launch.arg(&a).arg(&b).arg(&mut sums).arg(&COUNT);
    let shape = LaunchConfig::for_num_elems(COUNT);
    // SAFETY: the arguments are those of the kernel, and all have as many elements as it is told.
    unsafe { launch.launch(shape) }.expect("a launch");
    let ended = first.record_event(flags).expect("an event");
    let sums = first.clone_dtoh(&sums).expect("a copy");
    assert!(sums.iter().zip(&numbers).all(|(sum, it)| *sum == it + it));
    assert!(begun.elapsed_ms(&ended).expect("their times") > 0.0);
    let error = context.load_module(Ptx::from_src("not PTX")).err();
    let status = cudarc::driver::sys::CUresult::CUDA_ERROR_INVALID_IMAGE;
    assert_eq!(error.expect("refused").0, status);
    context.synchronize().expect("the device is well");
}

#[test]
fn a_rust_program_on_cudarc_runs() {
    let dir = TempDir::new().expect("a directory");
    let own = std::env::current_exe().expect("this test's path");
    let output = warploom(dir.path())
        .args(["run", "--"])
        .arg(own)
        .args(["--ignored", "--exact", "cudarc_program::program"])
        .output()
        .expect("it runs");
    let (out, err) = text(&output);
    assert!(output.status.success(), "{out}{err}");
    assert!(out.contains("1 passed"), "{out}{err}");
}
