//! Modules come and go on a thread of their own: the device's thread makes launches meanwhile.

use std::time::Duration;

use bus_schemas::Op;
use device::Device;

use crate::setup::{CAPACITY, HELD, bare, completes, enter, launch, open, opened, submit};

/// Virtual time for which no kernel of a second was waited.
const SHORT: Duration = Duration::from_millis(10);

#[test]
fn an_unload_and_a_close_wait_for_no_kernel_of_another_session() {
    let Some(fake) = enter(
        module_path!(),
        "an_unload_and_a_close_wait_for_no_kernel_of_another_session",
    ) else {
        return;
    };
    let mut device = open(&fake, CAPACITY);
    let [mut one, two, mut other] = [1, 2, 3].map(|n| opened(&mut device, n));
    fake.clear();
    submit(&mut device, &mut other, &[launch(HELD)]);
    let began = fake.now();
    let unload = bare(Op::UnloadModule { slot: 0 });
    submit(&mut device, &mut one, &[unload]);
    assert_eq!(completes(&mut device, &one).fault, None);
    device.close(one.session());
    device.close(two.session());
    let took = Duration::from_nanos(fake.now() - began);
    assert!(took < SHORT, "{took:?}");
    assert_eq!(fake.busy(), 1, "the kernel runs");
    assert_eq!(completes(&mut device, &other).fault, None);
    drop(device);
    assert_eq!(fake.count("cuModuleUnload"), 3);
}
