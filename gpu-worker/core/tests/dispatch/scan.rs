//! The scan of a slice's ops, and its results.

use bus_schemas::{Code, Op, SessionId};
use gpu_worker_core::dispatch::{Action, Event, ImageState, TransferState};
use gpu_worker_core::pager::Need;
use gpu_worker_core::weights::Touch;

use crate::shell::{
    MIB, Shell, WIDE, declared, fails, failure, image, launch, load, slice, staged, submitted,
};

#[test]
fn ops_other_than_announced_fail_the_slice_from_its_start() {
    let mut shell = Shell::new([1]);
    let ops = vec![Op::Sync];
    for (first, lie, code) in [(1, 0, None), (2, 1, Some((2, Code::Protocol)))] {
        let mut start = slice(1, first, &ops);
        start.declared = Some(declared(&ops) ^ lie);
        let submission = submitted(shell.tell(Event::Started(start, ops.clone())));
        assert_eq!(fails(&submission), code);
    }
}

#[test]
fn a_failing_op_is_named_before_a_lie() {
    let mut shell = Shell::new([1]);
    let ops = vec![Op::Sync, launch(0, 0), Op::Sync];
    let mut start = slice(1, 1, &ops);
    start.declared = Some(0);
    let submission = submitted(shell.tell(Event::Started(start, ops)));
    assert_eq!(fails(&submission), Some((2, Code::UnknownFunction)));
    assert_eq!(submission.declared, declared(&[Op::Sync]));
}

#[test]
fn slots_are_as_of_the_ops_before() {
    let mut shell = Shell::new([1, 2]);
    shell.ready(1, 1);
    shell.ready(1, 2);
    let unload = Op::UnloadModule { slot: 0 };
    let submission = submitted(shell.start(1, &[load(0, 1), launch(0, 0), unload, launch(0, 0)]));
    assert_eq!(fails(&submission), Some((4, Code::UnknownFunction)));
    assert_eq!(submission.loaded, [image(1)]);
    assert_eq!(submission.left, [image(1)]);
    assert!(!shell.dispatch.has_loaded(SessionId(1), image(1)));

    // One slice loads the images, the next launches them, and other sessions' slices cannot.
    let submission = submitted(shell.start(1, &[load(0, 1), load(1, 1), load(0, 2)]));
    assert_eq!(submission.loaded, [image(1), image(1), image(2)]);
    assert_eq!(submission.left, [], "slot 1 still holds it");
    assert!(shell.dispatch.has_loaded(SessionId(1), image(1)));
    let known = submitted(shell.start(1, &[launch(1, 0)]));
    assert_eq!(fails(&known), None);
    let unknown = submitted(shell.start(2, &[launch(1, 0)]));
    assert_eq!(fails(&unknown), Some((1, Code::UnknownFunction)));
    let no_function = submitted(shell.start(1, &[launch(1, 99)]));
    let first = no_function.start.first;
    assert_eq!(fails(&no_function), Some((first, Code::UnknownFunction)));
}

#[test]
fn an_image_that_cannot_be_had_fails_its_load() {
    let mut shell = Shell::new([1]);
    shell.image(1, 1, ImageState::Refused(failure(Code::NoBinary)));
    shell.session(1).spare_images = Some(2);
    for name in [2, 3] {
        let have = shell.session(1);
        have.images
            .insert(image(name), ImageState::Ready(image(name)));
    }
    let code = |shell: &mut Shell, ops: &[Op]| {
        let submission = submitted(shell.start(1, ops));
        fails(&submission).map(|(op, code)| (op - submission.start.first, code))
    };
    assert_eq!(code(&mut shell, &[load(0, 1)]), Some((0, Code::NoBinary)));
    assert_eq!(code(&mut shell, &[load(0, 9)]), Some((0, Code::BadModule)));
    // The first image is charged for and refused; there is room for one more, loaded twice, and not for two.
    let ops = [load(0, 2), load(1, 2), load(2, 3)];
    assert_eq!(code(&mut shell, &ops), Some((2, Code::ModuleShare)));
}

#[test]
fn a_launch_like_the_one_before_is_not_looked_at_again() {
    let mut shell = Shell::new([1]);
    shell.ready(1, 1);
    let mut ops = vec![load(0, 1)];
    ops.extend([launch(0, 0); 100]);
    let one = submitted(shell.start(1, &ops[..2])).declared;
    shell.session(1).looked.set(0);
    let all = submitted(shell.start(1, &ops)).declared;
    let load = declared(&ops[..1]);
    assert_eq!(
        all,
        load.wrapping_add(one.wrapping_sub(load).wrapping_mul(100))
    );
    assert_eq!(shell.session(1).looked.get(), 1);
}

#[test]
fn wide_launches_ask_for_memory_and_so_does_the_next_other_one() {
    let mut shell = Shell::new([1]);
    shell.ready(1, 1);
    let wide = |blocks| match launch(0, WIDE) {
        Op::Launch(launch) => Op::Launch(bus_schemas::Launch {
            grid: [blocks, 1, 1],
            ..launch
        }),
        other => other,
    };
    let ops = [
        load(0, 1),
        launch(0, 0),
        wide(2),
        wide(100),
        launch(0, 0),
        launch(0, 1),
    ];
    let actions = shell.start(1, &ops);
    let [Action::Ask(question)] = &actions[..] else {
        panic!("{actions:?}");
    };
    let need = |op, least, most| Need::Launch { op, least, most };
    let needs = [need(3, MIB, 2 * MIB), need(4, MIB, 4 * MIB), need(5, 0, 0)];
    assert_eq!(question.needs, needs);
}

#[test]
fn staged_copies_use_their_transfers_up() {
    let mut shell = Shell::new([1]);
    let have = shell.session(1);
    have.transfers.insert(1, TransferState::Whole(8));
    have.transfers.insert(2, TransferState::Whole(8));
    let submission = submitted(shell.start(1, &[staged(1, 8), staged(0, 8), staged(2, 9)]));
    assert_eq!(fails(&submission), Some((3, Code::Protocol)));
    let copies = submission
        .copies
        .iter()
        .map(|copy| (copy.op, copy.transfer));
    assert_eq!(copies.collect::<Vec<_>>(), [(1, 1)]);
    let submission = submitted(shell.start(1, &[staged(1, 8)]));
    assert_eq!(fails(&submission), Some((4, Code::SessionGone)));
}

#[test]
fn what_runs_and_touches_large_allocations_is_told_in_order() {
    let mut shell = Shell::new([1]);
    let have = shell.session(1);
    for (transfer, bytes) in [(1, MIB), (2, MIB - 1), (3, MIB)] {
        have.transfers.insert(transfer, TransferState::Whole(bytes));
    }
    let alloc = |address, bytes| Op::Alloc { address, bytes };
    let free = |address| Op::Free { address };
    let ops = [
        alloc(0, MIB),
        staged(1, MIB),
        alloc(4 * MIB, 1),
        staged(2, MIB - 1),
        free(0),
        staged(3, MIB),
        free(4 * MIB),
    ];
    shell.start(1, &ops);
    let submission = submitted(shell.tell(Event::Admitted(
        gpu_worker_core::dispatch::ClaimAnswer {
            session: SessionId(1),
            first: 1,
            refused: Some((6, failure(Code::Quota))),
            launch_bytes: Vec::new(),
            later: false,
        },
    )));
    let copied = Touch::Copied {
        address: 0,
        bytes: MIB,
        fingerprint: 1,
    };
    let (address, bytes) = (0, MIB);
    let touched = [
        (1, Touch::Alloc { address, bytes }),
        (2, copied),
        (5, Touch::Free { address }),
    ];
    assert_eq!(submission.touched, touched);
    assert_eq!(
        submission.copies.len(),
        3,
        "the device drops what is not run"
    );
}
