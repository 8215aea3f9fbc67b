//! Submitting a slice that waits for nothing allocates no memory.

use bus_schemas::{Failure, KernelKey, Launch, ModuleHash, Op, SessionId};
use counting_allocator::{CountingAllocator, counted};
use gpu_worker_core::Dispatch;
use gpu_worker_core::dispatch::{
    Action, Event, ImageState, LaunchNeeds, Limits, ModuleBytes, SessionReader, TransferState,
};
use gpu_worker_core::sequencer::StartAction;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// A session with one module; all its functions are alike.
struct Have;

impl SessionReader for Have {
    type Ops = Vec<Op>;
    type Module = ();

    fn ops(&self, ops: &Vec<Op>) -> impl Iterator<Item = Op> {
        ops.iter().copied()
    }

    fn transfer(&self, _: u64) -> TransferState {
        TransferState::Gone
    }

    fn fingerprint(&self, _: u64) -> Option<u64> {
        None
    }

    fn image(&self, _: ModuleHash) -> ImageState<()> {
        ImageState::Ready(())
    }

    fn has_image(&self, _: ModuleHash) -> bool {
        true
    }

    fn denied(&self, _: ModuleHash, _: &[ModuleHash]) -> Option<Failure> {
        None
    }

    fn module_bytes(&self, _: &()) -> ModuleBytes {
        ModuleBytes::default()
    }

    fn kernel(&self, _: &(), launch: &Launch) -> Option<LaunchNeeds> {
        Some(LaunchNeeds {
            key: KernelKey(u64::from(launch.function)),
            block: 0,
        })
    }
}

fn hand_on(dispatch: &mut Dispatch<Vec<Op>, ()>, first: u64, ops: Vec<Op>) {
    let start = StartAction {
        position: first,
        session: SessionId(1),
        priority: 1,
        first,
        last: first + ops.len() as u64 - 1,
        declared: None,
        cost: 1,
        epoch: 1,
    };
    dispatch.handle(Event::Started(start, ops));
    let action = dispatch.next_action(|_| Some(Have));
    let Some(Action::Submit(submission)) = action else {
        panic!("it waits for nothing");
    };
    assert_eq!((submission.start, submission.fail_at), (start, None));
    assert!(dispatch.next_action(|_| Some(Have)).is_none());
}

#[test]
fn handing_on_a_slice_of_launches_allocates_nothing() {
    let mut dispatch = Dispatch::new(Limits {
        blocks: 1,
        small_launch: 1,
        launch_bytes: 1,
    });
    let (slot, hash) = (0, ModuleHash([1; 32]));
    hand_on(&mut dispatch, 1, vec![Op::LoadModule { slot, hash }]);
    let launch = |function| {
        Op::Launch(Launch {
            module: 0,
            function,
            grid: [1; 3],
            block: [1; 3],
            shared: 0,
            attributes: bus_schemas::LaunchAttributes::default(),
        })
    };
    let slices: Vec<_> = (0..100)
        .map(|n| vec![launch(n), launch(0), Op::Sync])
        .collect();
    let ((), seen) = counted(|| {
        for (index, ops) in (0..).zip(slices) {
            hand_on(&mut dispatch, 2 + index * 3, ops);
        }
    });
    assert_eq!(seen.allocations, 0);
}
