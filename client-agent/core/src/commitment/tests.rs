use bus_schemas::{Code, ShortText, decode};

use super::*;

const MIB: u64 = 1 << 20;

fn sent(commitment: &mut Commitment, now: Nanos) -> MemoryRequest {
    let bytes = commitment.message(now).expect("a message");
    decode(&bytes).expect("a request")
}

fn answer(request: &MemoryRequest, committed: u64) -> MemoryAnswer {
    MemoryAnswer {
        v: WIRE_VERSION,
        number: request.number,
        recall: 0,
        committed,
        total: 64 * MIB,
        held: request.held,
        free: 64 * MIB - request.held,
        failure: None,
    }
}

#[test]
fn what_is_promised_is_there_whatever_else_is_asked_for_and_recalled() {
    let mut commitment = Commitment::default();
    commitment.ask(0, 0, 0, 4 * MIB);
    let request = sent(&mut commitment, 0);
    assert_eq!(request.least, 4 * MIB);
    commitment.answered(0, 0, 0, &answer(&request, 4 * MIB));
    assert!(commitment.has_room(0, 4 * MIB));
    commitment.promise(3 * MIB);
    assert!(commitment.has_room(0, MIB) && !commitment.has_room(0, 2 * MIB));
    // Others need the unused memory; the promised memory stays.
    let recall = MemoryAnswer {
        number: 0,
        recall: 1,
        ..answer(&request, 4 * MIB)
    };
    commitment.answered(0, 0, 0, &recall);
    let request = sent(&mut commitment, 0);
    assert_eq!((request.wanted, request.recall), (3 * MIB, 1));
    commitment.answered(0, 0, 0, &answer(&request, 3 * MIB));
    // A request for more adds to it.
    commitment.ask(0, 0, 0, MIB);
    let request = sent(&mut commitment, 0);
    assert_eq!(request.least, 4 * MIB);
    commitment.answered(0, 0, 0, &answer(&request, 3 * MIB));
    commitment.redeem(3 * MIB);
    assert!(commitment.has_room(0, 3 * MIB));
}

#[test]
fn somewhat_more_is_asked_for_than_is_needed_and_again_until_it_is_answered() {
    let mut commitment = Commitment::default();
    assert!(!commitment.has_room(0, 1));
    let asked = commitment.ask(0, 0, 7, 100);
    assert!(asked.is_own);
    let request = sent(&mut commitment, 0);
    let as_asked = (request.held, request.after, request.least, request.wanted);
    assert_eq!(as_asked, (0, 7, 256, 256 + 2 * MIB));
    assert_eq!(commitment.message(1), None);
    // A call meanwhile waits for that answer first.
    let other = commitment.ask(2, 0, 8, MIB);
    assert_eq!((other.number, other.is_own), (asked.number, false));
    assert_eq!(commitment.next_wakeup(), Some(RESEND.0));
    assert_eq!(sent(&mut commitment, RESEND.0), request);
    let mut stale = answer(&request, MIB);
    stale.number = 9;
    commitment.answered(9, 0, 8, &stale);
    assert!(!commitment.is_answered(asked.number));
    commitment.answered(9, 0, 8, &answer(&request, request.wanted));
    assert!(commitment.is_answered(asked.number));
    assert!(commitment.has_room(0, 2 * MIB + 256));
    assert!(!commitment.has_room(1, 2 * MIB + 256));
    assert_eq!(
        (commitment.next_wakeup(), commitment.message(99)),
        (None, None)
    );
    assert_eq!(commitment.known().free, 64 * MIB);
}

#[test]
fn a_session_says_who_it_is_and_has_room_before_its_first_allocation() {
    let process = ClientProcess {
        host: ShortText::new("node-7"),
        pid: 4_711,
        name: ShortText::new("train"),
    };
    let mut commitment = Commitment::begin(0, process, false);
    let request = sent(&mut commitment, 0);
    let asked = (request.number, request.held, request.wanted, request.least);
    assert_eq!(asked, (1, 0, 2 * MIB, 0));
    assert_eq!(request.process, Some(process));
    assert_eq!(sent(&mut commitment, RESEND.0), request);
    // An allocation meanwhile waits for that answer.
    let other = commitment.ask(RESEND.0, 0, 0, 100);
    assert_eq!((other.number, other.is_own), (1, false));
    commitment.answered(RESEND.0, 0, 0, &answer(&request, 2 * MIB));
    assert!(commitment.has_room(0, 2 * MIB) && !commitment.has_room(0, 3 * MIB));
    // The process is reported once, and with none to spare the program asks as ever.
    commitment.look(RESEND.0, 0, 0);
    assert_eq!(sent(&mut commitment, RESEND.0).process, None);
    let mut full = Commitment::begin(0, process, false);
    let request = sent(&mut full, 0);
    full.answered(1, 0, 0, &answer(&request, 0));
    assert!(full.ask(1, 0, 0, 100).is_own);
}

#[test]
fn a_look_behind_several_frees_tells_of_all_of_them() {
    let mut commitment = Commitment::default();
    commitment.ask(0, 0, 0, 64 * MIB);
    let request = sent(&mut commitment, 0);
    commitment.answered(1, 0, 0, &answer(&request, 72 * MIB));
    // The first free is reported at once, the second one while that is on its way.
    commitment.freed(2, 32 * MIB, 5);
    let first = sent(&mut commitment, 2);
    assert_eq!(first.held, 32 * MIB);
    commitment.freed(3, 0, 6);
    let looked = commitment.look(4, 0, 6);
    assert!(looked.is_own && commitment.tells(looked.number, 0));
    let second = sent(&mut commitment, 4);
    assert_eq!((second.held, second.after), (0, 6));
    // Another look at the same time reuses the request.
    let other = commitment.look(4, 0, 6);
    assert_eq!((other.number, other.is_own), (looked.number, false));
    commitment.answered(5, 0, 6, &answer(&first, 36 * MIB));
    assert!(!commitment.is_answered(looked.number), "that was the first");
    commitment.answered(6, 0, 6, &answer(&second, 36 * MIB));
    assert!(commitment.is_answered(looked.number));
    assert_eq!(commitment.known().free, 64 * MIB);
    // Memory freed meanwhile is given back after the answer.
    assert_eq!(sent(&mut commitment, 6).wanted, spare(0));
}

#[test]
fn a_look_beside_an_allocation_waits_for_it_and_asks_again() {
    let mut commitment = Commitment::default();
    commitment.needs(64 * MIB);
    let asked = commitment.ask(0, 32 * MIB, 0, 64 * MIB);
    let request = sent(&mut commitment, 0);
    let looked = commitment.look(1, 0, 1);
    assert_eq!((looked.number, looked.is_own), (asked.number, false));
    assert!(!commitment.tells(looked.number, 0), "32 MiB were held then");
    commitment.freed(1, 0, 1);
    commitment.answered(2, 0, 1, &answer(&request, 108 * MIB));
    // The memory that the allocation waits for stays, the rest is given back.
    let lowered = sent(&mut commitment, 2);
    assert_eq!(lowered.wanted, 64 * MIB + spare(0));
    let looked = commitment.look(3, 0, 1);
    assert!(commitment.tells(looked.number, 0));
}

#[test]
fn a_refusal_is_the_answer_to_its_request_alone() {
    let mut commitment = Commitment::default();
    let asked = commitment.ask(0, 0, 0, MIB);
    let request = sent(&mut commitment, 0);
    let refused = MemoryAnswer {
        failure: Some(Failure::new(Code::Quota, "no")),
        ..answer(&request, 0)
    };
    commitment.answered(1, 0, 0, &refused);
    let code = commitment.refusal(asked.number).map(|it| it.code);
    assert_eq!(code, Some(Code::Quota));
    let again = commitment.ask(2, 0, 0, 256);
    assert_eq!(commitment.refusal(again.number), None);
}

#[test]
fn what_is_not_used_is_given_back_when_it_is_much_or_recalled() {
    let mut commitment = Commitment::default();
    commitment.ask(0, 0, 0, 32 * MIB);
    let request = sent(&mut commitment, 0);
    commitment.answered(1, 0, 1, &answer(&request, 36 * MIB));
    commitment.freed(2, 32 * MIB, 2);
    assert_eq!(commitment.message(2), None, "an eighth may stay");
    commitment.freed(3, MIB, 3);
    let request = sent(&mut commitment, 3);
    assert_eq!((request.wanted, request.least), (3 * MIB, MIB));
    // The session goes on within that while the worker is told.
    assert!(commitment.has_room(MIB, 2 * MIB) && !commitment.has_room(MIB, 3 * MIB));
    commitment.answered(4, MIB, 3, &answer(&request, 3 * MIB));
    let recall = |recall| MemoryAnswer {
        number: 0,
        recall,
        ..answer(&request, 0)
    };
    commitment.needs(512);
    commitment.answered(5, MIB, 3, &recall(1));
    let obeyed = sent(&mut commitment, 5);
    let asked = (obeyed.wanted, obeyed.least, obeyed.recall);
    assert_eq!(asked, (MIB + 512, MIB, 1));
    // The same recall again is not a new one.
    commitment.answered(5, MIB, 3, &recall(1));
    // A recall while a request is on its way is obeyed after the answer.
    commitment.needs_no_more(512);
    commitment.answered(6, MIB, 3, &recall(2));
    assert_eq!(commitment.message(6), None);
    commitment.answered(7, MIB, 3, &answer(&obeyed, MIB + 512));
    let obeyed = sent(&mut commitment, 7);
    let asked = (obeyed.number, obeyed.wanted, obeyed.recall);
    assert_eq!(asked, (4, MIB, 2));
    commitment.answered(8, MIB, 3, &answer(&obeyed, MIB));
    commitment.answered(8, MIB, 3, &recall(2));
    assert_eq!(commitment.message(8), None);
}

#[test]
fn a_program_that_runs_low_asks_ahead_and_goes_on() {
    let mut commitment = Commitment::default();
    commitment.ask(0, 0, 0, 2 * MIB);
    let request = sent(&mut commitment, 0);
    commitment.answered(1, 0, 0, &answer(&request, 4 * MIB));
    assert!(!commitment.runs_low(3 * MIB));
    assert!(commitment.runs_low(3 * MIB + 256));
    commitment.ask_ahead(2, 9);
    let ahead = sent(&mut commitment, 2);
    // The worker is told the bytes that it may hold before the answer.
    let asked = (ahead.held, ahead.after, ahead.least, ahead.wanted);
    assert_eq!(asked, (4 * MIB, 9, 4 * MIB, 6 * MIB));
    assert!(commitment.has_room(3 * MIB, MIB) && !commitment.runs_low(4 * MIB));
    // A call that needs more waits for that answer first, and a look reports the bytes held.
    let other = commitment.ask(3, 4 * MIB, 9, 256);
    assert_eq!((other.number, other.is_own), (ahead.number, false));
    assert!(!commitment.tells(ahead.number, 3 * MIB));
    // There is no more: it is not asked for again until another event has changed that.
    commitment.answered(4, 4 * MIB, 9, &answer(&ahead, 4 * MIB));
    assert!(commitment.has_room(3 * MIB, MIB) && !commitment.runs_low(4 * MIB));
    let own = commitment.ask(5, 4 * MIB, 9, 256);
    let request = sent(&mut commitment, 5);
    assert!(own.is_own && request.least == 4 * MIB + 256);
    commitment.answered(6, 4 * MIB, 9, &answer(&request, request.least));
    assert!(commitment.runs_low(4 * MIB + 256));
    // Memory that was granted and given back is asked for ahead again.
    commitment.ask_ahead(7, 10);
    let ahead = sent(&mut commitment, 7);
    commitment.answered(7, 0, 10, &answer(&ahead, 16 * MIB));
    commitment.freed(7, 2 * MIB + 256, 10);
    let lowered = sent(&mut commitment, 7);
    assert_eq!(lowered.wanted, 4 * MIB + 256);
    commitment.answered(7, 2 * MIB + 256, 10, &answer(&lowered, lowered.wanted));
    assert!(commitment.runs_low(4 * MIB + 256));
    // A recall comes first.
    let recall = MemoryAnswer {
        number: 0,
        recall: 1,
        ..answer(&request, 0)
    };
    commitment.ask_ahead(7, 10);
    let ahead = sent(&mut commitment, 7);
    commitment.answered(8, 4 * MIB, 10, &recall);
    commitment.answered(9, 4 * MIB, 10, &answer(&ahead, 0));
    assert!(!commitment.runs_low(4 * MIB + 256));
}

#[test]
fn a_program_that_frees_and_allocates_by_turns_asks_once() {
    let mut commitment = Commitment::default();
    let mut now = 0;
    let mut asks = Vec::new();
    for turn in 0..4 {
        now += 1;
        if !commitment.has_room(0, 5 * MIB) {
            commitment.ask(now, 0, turn, 5 * MIB);
            let request = sent(&mut commitment, now);
            commitment.answered(now, 0, turn, &answer(&request, request.wanted));
            asks.push(turn);
        }
        assert_eq!(commitment.gives_back(0), turn == 0);
        commitment.freed(now, 0, turn);
        if let Some(bytes) = commitment.message(now) {
            let request: MemoryRequest = decode(&bytes).expect("a request");
            commitment.answered(now, 0, turn, &answer(&request, request.wanted));
        }
    }
    assert_eq!(asks, [0, 1]);
    // Kept until others need it.
    commitment.look(now, 0, 9);
    let looked = sent(&mut commitment, now);
    let recall = MemoryAnswer {
        number: 0,
        recall: 1,
        ..answer(&looked, 0)
    };
    commitment.answered(now, 0, 9, &recall);
    commitment.answered(now, 0, 9, &answer(&looked, looked.wanted));
    let obeyed = sent(&mut commitment, now);
    assert_eq!(obeyed.wanted, 0);
    commitment.answered(now, 0, 9, &answer(&obeyed, 0));
    now += SOON;
    commitment.ask(now, 0, 9, 5 * MIB);
    let request = sent(&mut commitment, now);
    commitment.answered(now, 0, 9, &answer(&request, request.wanted));
    assert!(commitment.gives_back(0));
}
