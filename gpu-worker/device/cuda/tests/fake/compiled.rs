//! Images are prepared on threads of their own: the device's thread makes launches meanwhile, and sees if the
//! context has ended.

use std::time::Duration;

use bus_schemas::{Code, Failure, ModuleHash, Op};
use device::{Device, Halt, Unwatched, Watch};
use fake_cuda::Planned;

use crate::setup::{CAPACITY, NOTHING, bare, compile, enter, launch, open, opened, run};

/// Text of a module with one kernel.
const OTHER: &str = ".version 7.0\n.target sm_75\n.address_size 64\n\
    .visible .entry other()\n{\n\tret;\n}\n";

/// Error of a call that fails once, and of a kernel that ended the context.
const UNKNOWN: u32 = 999;
const LAUNCH_FAILED: u32 = 719;

#[test]
fn launches_go_on_while_an_image_is_prepared() {
    let Some(fake) = enter(module_path!(), "launches_go_on_while_an_image_is_prepared") else {
        return;
    };
    let mut device = open(&fake, CAPACITY);
    let mut program = opened(&mut device, 1);
    let long = Duration::from_secs(30);
    fake.slow("cuLinkAddData_v2", long);
    let began = fake.now();
    let prepared = compile(&device, OTHER.as_bytes()).expect("a text");
    let (from, to) = prepared.compiled.expect("it was compiled");
    assert!(to - from >= long);
    run(
        &mut device,
        &mut program,
        &[launch(NOTHING), bare(Op::Sync)],
    );
    let took = Duration::from_nanos(fake.now() - began);
    assert!(took < Duration::from_millis(1), "{took:?}");
    let hash = ModuleHash::of(OTHER.as_bytes());
    let load = bare(Op::LoadModule { slot: 1, hash });
    run(&mut device, &mut program, &[load]);
}

#[test]
fn an_image_that_two_threads_prepare_is_there_once() {
    let Some(fake) = enter(
        module_path!(),
        "an_image_that_two_threads_prepare_is_there_once",
    ) else {
        return;
    };
    let mut device = open(&fake, CAPACITY);
    let mut program = opened(&mut device, 1);
    let hash = ModuleHash::of(OTHER.as_bytes());
    let both = [(); 2].map(|()| {
        let compiler = device.compiler().expect("it has one");
        std::thread::spawn(move || compiler.compile(hash, OTHER.as_bytes(), &Unwatched))
    });
    for thread in both {
        thread.join().expect("no panic").expect("a text");
    }
    let load = Op::LoadModule { slot: 1, hash };
    run(&mut device, &mut program, &[bare(load), bare(load)]);
    device.forget(hash);
    let again = compile(&device, OTHER.as_bytes()).expect("a text");
    assert!(again.compiled.is_some(), "both were one");
}

/// Prepares an image with a failing call; returns an error if the device says that it is lost. `None` where
/// the test does not run.
fn lost(test: &str, function: &str, (code, sticky): (u32, bool)) -> Option<Result<(), Failure>> {
    let fake = enter(module_path!(), test)?;
    let device = open(&fake, CAPACITY);
    let nth = 1;
    fake.fail(function, Planned { nth, code, sticky });
    compile(&device, OTHER.as_bytes()).expect_err("it was planned");
    Some(device.lost().map_or(Ok(()), Err))
}

#[test]
fn a_failed_call_costs_the_image_only() {
    let Some(lost) = lost(
        "a_failed_call_costs_the_image_only",
        "cuModuleLoadData",
        (UNKNOWN, false),
    ) else {
        return;
    };
    assert_eq!(lost, Ok(()));
}

#[test]
fn a_thread_without_the_context_costs_the_image_only() {
    let Some(lost) = lost(
        "a_thread_without_the_context_costs_the_image_only",
        "cuCtxSetCurrent",
        (UNKNOWN, false),
    ) else {
        return;
    };
    assert_eq!(lost, Ok(()));
}

#[test]
fn the_device_knows_of_a_context_that_ended_meanwhile() {
    let Some(lost) = lost(
        "the_device_knows_of_a_context_that_ended_meanwhile",
        "cuModuleLoadData",
        (LAUNCH_FAILED, true),
    ) else {
        return;
    };
    assert_eq!(lost.map_err(|why| why.code), Err(Code::DeviceLost));
}

/// A watch that lets nothing begin.
struct Unwanted;

impl Watch for Unwanted {
    fn goes_on(&self, _: u64) -> Result<(), Halt> {
        Err(Halt::Unwanted)
    }
}

#[test]
fn an_image_that_no_session_wants_is_not_begun() {
    let Some(fake) = enter(
        module_path!(),
        "an_image_that_no_session_wants_is_not_begun",
    ) else {
        return;
    };
    let device = open(&fake, CAPACITY);
    let compiler = device.compiler().expect("it has one");
    let hash = ModuleHash::of(OTHER.as_bytes());
    let refused = compiler.compile(hash, OTHER.as_bytes(), &Unwanted);
    assert_eq!(refused.map_err(|it| it.code), Err(Code::ModuleLimit));
    assert_eq!(fake.count("cuLinkCreate_v2"), 0);
}
