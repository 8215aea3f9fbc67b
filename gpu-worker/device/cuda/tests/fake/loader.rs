//! Modules come and go on a thread of their own: the device's thread makes launches meanwhile.

use std::sync::Arc;
use std::time::Duration;

use bus_schemas::{Code, ModuleHash, Op};
use device::Device;
use device_conformance::TestProgram;
use device_cuda::CudaDevice;
use fake_cuda::{FakeCuda, Planned};

use crate::setup::{
    CAPACITY, HELD, KERNELS, NOTHING, OpBytes, SPIN, bare, completes, enter, launch, open, opened,
    submit,
};

/// Virtual time for which no kernel of a second was waited, and of that kernel.
const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(1);

/// Three sessions, the last of which has a kernel of a second.
struct Scene {
    fake: Arc<FakeCuda>,
    device: CudaDevice,
    one: TestProgram,
    two: TestProgram,
    other: TestProgram,
    began: u64,
}

impl Scene {
    fn new(fake: &Arc<FakeCuda>) -> Self {
        let mut device = open(fake, CAPACITY);
        let [one, two, mut other] = [1, 2, 3].map(|n| opened(&mut device, n));
        fake.clear();
        let began = fake.now();
        submit(&mut device, &mut other, &[launch(HELD)]);
        Self {
            fake: Arc::clone(fake),
            device,
            one,
            two,
            other,
            began,
        }
    }

    fn passed(&self) -> Duration {
        Duration::from_nanos(self.fake.now() - self.began)
    }

    /// The second session runs a small slice at once.
    fn two_works(&mut self) {
        let ops = [launch(NOTHING), bare(Op::Sync)];
        submit(&mut self.device, &mut self.two, &ops);
        assert_eq!(completes(&mut self.device, &self.two).fault, None);
        assert!(self.passed() < SHORT, "{:?}", self.passed());
    }

    /// Ends the device; returns the number of loads and of unloads.
    fn modules(self) -> [u64; 2] {
        drop(self.device);
        ["cuModuleLoadData", "cuModuleUnload"].map(|call| self.fake.count(call))
    }
}

/// A load of the kernels.
fn load(slot: u32) -> OpBytes {
    let hash = ModuleHash::of(KERNELS.as_bytes());
    bare(Op::LoadModule { slot, hash })
}

#[test]
fn an_unload_and_a_close_wait_for_no_kernel_of_another_session() {
    let Some(fake) = enter(
        module_path!(),
        "an_unload_and_a_close_wait_for_no_kernel_of_another_session",
    ) else {
        return;
    };
    let mut scene = Scene::new(&fake);
    let unload = bare(Op::UnloadModule { slot: 0 });
    submit(&mut scene.device, &mut scene.one, &[unload]);
    assert_eq!(completes(&mut scene.device, &scene.one).fault, None);
    scene.two_works();
    scene.device.close(scene.one.session());
    scene.device.close(scene.two.session());
    assert!(scene.passed() < SHORT, "{:?}", scene.passed());
    assert_eq!(fake.busy(), 1, "the kernel runs");
    assert_eq!(completes(&mut scene.device, &scene.other).fault, None);
    assert_eq!(scene.modules(), [0, 3]);
}

#[test]
fn a_load_keeps_only_its_own_session() {
    let Some(fake) = enter(module_path!(), "a_load_keeps_only_its_own_session") else {
        return;
    };
    let mut scene = Scene::new(&fake);
    let ops = [launch(SPIN), load(0), launch(SPIN), bare(Op::Sync)];
    submit(&mut scene.device, &mut scene.one, &ops);
    scene.two_works();
    assert!(scene.device.is_busy());
    let done = completes(&mut scene.device, &scene.one);
    assert_eq!((done.fault, done.launches), (None, 2));
    assert!(scene.passed() >= LONG, "{:?}", scene.passed());
    let times = done.kernels.iter().map(|it| it.total_ns);
    let launches = Duration::from_nanos(times.sum());
    assert!(launches < SHORT, "{launches:?} with the wait");
    // The module that was in the slot is unloaded, and three are left.
    assert_eq!(scene.modules(), [1, 4]);
}

#[test]
fn a_load_that_fails_is_a_fault_of_its_op() {
    let Some(fake) = enter(module_path!(), "a_load_that_fails_is_a_fault_of_its_op") else {
        return;
    };
    for function in ["cuModuleLoadData", "cuCtxSetCurrent"] {
        let mut scene = Scene::new(&fake);
        let (nth, code, sticky) = (1, 999, false);
        fake.fail(function, Planned { nth, code, sticky });
        let ops = [launch(NOTHING), load(1), launch(NOTHING)];
        submit(&mut scene.device, &mut scene.one, &ops);
        scene.two_works();
        let done = completes(&mut scene.device, &scene.one);
        // Number 1 has loaded its first module.
        let fault = done.fault.map(|(op, why)| (op, why.code));
        assert_eq!((fault, done.launches), (Some((3, Code::Device)), 1));
        assert_eq!(scene.device.lost(), None);
        scene.device.close(scene.one.session());
        scene.device.close(scene.two.session());
        assert_eq!(scene.modules()[1], 3, "{function}");
        fake.reset();
    }
}

#[test]
fn a_load_for_a_closed_session_leaves_nothing() {
    let Some(fake) = enter(module_path!(), "a_load_for_a_closed_session_leaves_nothing") else {
        return;
    };
    let mut scene = Scene::new(&fake);
    submit(&mut scene.device, &mut scene.one, &[load(1)]);
    scene.two_works();
    scene.device.close(scene.one.session());
    scene.two_works();
    assert_eq!(completes(&mut scene.device, &scene.other).fault, None);
    assert!(!scene.device.tend() && !scene.device.is_busy());
    assert_eq!(scene.modules(), [1, 4]);
}

#[test]
fn loads_of_two_sessions_come_in_order() {
    let Some(fake) = enter(module_path!(), "loads_of_two_sessions_come_in_order") else {
        return;
    };
    let mut scene = Scene::new(&fake);
    submit(&mut scene.device, &mut scene.two, &[load(1), load(2)]);
    submit(&mut scene.device, &mut scene.one, &[load(1)]);
    assert_eq!(completes(&mut scene.device, &scene.one).fault, None);
    assert!(scene.passed() >= LONG && scene.device.is_busy());
    assert_eq!(completes(&mut scene.device, &scene.two).fault, None);
    assert_eq!(scene.modules(), [3, 6]);
}
